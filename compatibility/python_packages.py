"""Projects from PyPI: the tests of their source distributions, or scenarios of ours that use them."""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compatibility import commands, counting

SCENARIOS = "compatibility.scenarios"
# The fixtures that the source distribution of nats-micro leaves out.
FIXTURES = """
import os

import nats
import pytest
import pytest_asyncio


@pytest.fixture
def nats_server():
    return None


@pytest_asyncio.fixture
async def nats_client():
    client = await nats.connect(os.environ["NATS_URL"])
    yield client
    await client.close()
"""


def _environment(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of a virtual environment with these packages."""
    folder = commands.WORK / "python" / name
    python = folder / "bin" / "python"
    if not python.exists():
        commands.WORK.mkdir(parents=True, exist_ok=True)
        commands.fetch([sys.executable, "-m", "venv", str(folder)], commands.WORK)
    commands.fetch([str(python), "-m", "pip", "install", "--quiet", *requirements], commands.WORK)
    return python


@dataclass(frozen=True)
class Scenario:
    """A module of compatibility/scenarios, in an environment with the library that it uses."""

    name: str
    version: str
    requirements: Sequence[str]
    module: str
    kind: str = "scenario"

    def prepare(self) -> None:
        """Install the library. Raises CompatibilityError when that fails."""
        _environment(self.name, self.requirements)

    def run(self, target: commands.Target) -> counting.Outcome:
        """Play the scenario against a server. Raises CompatibilityError when it cannot be run."""
        python = commands.WORK / "python" / self.name / "bin" / "python"
        done = commands.run([str(python), "-m", f"{SCENARIOS}.{self.module}", target.url], commands.ROOT)
        return counting.from_scenario(done.stdout)


@dataclass(frozen=True)
class SourceTests:
    """The tests in a source distribution, with fixtures that lead to the server."""

    name: str
    version: str
    requirements: Sequence[str]
    kind: str = "its own tests"

    @property
    def _folder(self) -> Path:
        return commands.WORK / "python" / f"{self.name}-sources"

    def prepare(self) -> None:
        """Install the library and unpack its tests. Raises CompatibilityError when that fails."""
        python = _environment(self.name, self.requirements)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        wanted = f"{self.name}=={self.version}"
        fetched = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(self._folder), wanted]
        commands.fetch([str(python), "-m", "pip", *fetched], commands.WORK)
        with tarfile.open(next(self._folder.glob("*.tar.gz"))) as archive:
            archive.extractall(self._folder, filter="data")
        (self._tests / "conftest.py").write_text(FIXTURES)

    @property
    def _tests(self) -> Path:
        return next(self._folder.glob("*/tests"))

    def run(self, target: commands.Target) -> counting.Outcome:
        """Run the tests against a server. Raises CompatibilityError when they cannot be run."""
        python = commands.WORK / "python" / self.name / "bin" / "python"
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "results.xml"
            # the project's own options ask for plugins that its tests do not need
            options = ["-o", "addopts=", "-p", "no:cacheprovider", "--junitxml", str(told)]
            done = commands.run(
                [str(python), "-m", "pytest", *options, str(self._tests)], self._folder, {"NATS_URL": target.url}
            )
            if not told.exists():
                raise commands.CompatibilityError(f"pytest told nothing: {' '.join(done.stderr.split()[-30:])}")
            return counting.from_junit(told.read_text())
