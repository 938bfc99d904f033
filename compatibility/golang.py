"""Projects from the Go module proxy: their own tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compatibility import commands, counting

# Within the time that the whole command has: `go test` then names the test that hung.
GO_TEST_TIMEOUT_S = 480
# Their sources are not ours to vet; a replaced server changes go.mod.
OPTIONS = ("-mod=mod", "-vet=off")
# Stands in for the server that a project embeds in its tests.
EMBEDDED = Path(__file__).resolve().parent / "embedded"


@dataclass(frozen=True)
class GoTests:
    """The tests of some packages of a module.

    `url_variables` are the environment variables from which they take the server's address. A project without any
    embeds a server: a module of ours, which starts the program under test, takes its place.
    """

    name: str
    module: str
    version: str
    packages: Sequence[str]
    kind: str
    url_variables: Sequence[str] = ()

    @property
    def _folder(self) -> Path:
        return commands.WORK / "go" / self.name

    def prepare(self) -> None:
        """Fetch the module, and compile its tests. Raises CompatibilityError when that fails."""
        commands.WORK.mkdir(parents=True, exist_ok=True)
        told = commands.fetch(["go", "mod", "download", "-json", f"{self.module}@{self.version}"], commands.WORK)
        shutil.rmtree(self._folder, ignore_errors=True)
        # the module cache is read-only, and tests may write beside their sources
        shutil.copytree(json.loads(told)["Dir"], self._folder, copy_function=shutil.copyfile)
        for folder in [self._folder, *(path for path in self._folder.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        if not self.url_variables:
            replace = f"-replace=github.com/nats-io/nats-server/v2={EMBEDDED}"
            commands.fetch(["go", "mod", "edit", replace], self._folder)
        commands.fetch(["go", "test", *OPTIONS, "-run", "^$", *self.packages], self._folder)

    def run(self, target: commands.Target) -> counting.Outcome:
        """Run the tests against a server. Raises CompatibilityError when they cannot be run."""
        environment = dict.fromkeys(self.url_variables, target.url)
        environment["COMPATIBILITY_SERVER"] = json.dumps(list(target.command))
        limits = ["-count=1", "-p=1", "-short", f"-timeout={GO_TEST_TIMEOUT_S}s"]
        done = commands.run(["go", "test", *OPTIONS, "-json", *limits, *self.packages], self._folder, environment)
        return counting.from_go(done.stdout)
