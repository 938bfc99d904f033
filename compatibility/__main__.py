"""Runs the projects on both servers. `python -m compatibility --help` tells more."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from compatibility.commands import CompatibilityError, Target
from compatibility.counting import Outcome
from compatibility.projects import PROJECTS, Project
from compatibility.report import Comparison, table
from tests.support import process

HELP = """\
Runs software that other people wrote, which expects a NATS server, against nats-server and jetbroker,
and prints a table of what passed and failed. Projects come from PyPI and the Go module proxy, in pinned
versions, into .build/compatibility; this takes some minutes.

The projects: {names}.

Exit codes: 0 nothing fails with jetbroker alone, 1 something does, 2 something could not be run."""


def _run(project: Project, command: Sequence[str]) -> Outcome:
    """A project's outcome on a server of its own, with a store that is removed."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as store,
        process.ServerProcess(command, ["-js", "-sd", store]) as server,
    ):
        return project.run(Target(server.url, command))


def _compare(project: Project, nats_server: str) -> Comparison:
    print(f"{project.name} {project.version}: fetching", file=sys.stderr, flush=True)
    project.prepare()
    outcomes = []
    for label, command in (("nats-server", [nats_server]), ("jetbroker", [sys.executable, "-m", "jetbroker"])):
        print(f"{project.name} {project.version}: running on {label}", file=sys.stderr, flush=True)
        outcomes.append(_run(project, command))
    if not outcomes[0].passed:
        raise CompatibilityError(f"none of {len(outcomes[0].failed)} tests passed with nats-server: nothing to compare")
    return Comparison(project, *outcomes)


def _compare_all(projects: Sequence[Project], nats_server: str) -> tuple[list[Comparison], list[str]]:
    """What could be compared, and a sentence for each project that could not."""
    comparisons, problems = [], []
    for project in projects:
        try:
            comparisons.append(_compare(project, nats_server))
        except (CompatibilityError, RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
            problems.append(f"{project.name}: {error}")
    return comparisons, problems


def main(arguments: Sequence[str] | None = None) -> int:
    names = [project.name for project in PROJECTS]
    parser = argparse.ArgumentParser(
        prog="python -m compatibility",
        description=HELP.format(names=", ".join(names)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these projects")
    wanted = parser.parse_args(arguments).names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"no project is named {', '.join(unknown)}; there are {', '.join(names)}")
    nats_server = process.find_nats_server()
    if nats_server is None:
        parser.error("nats-server, to compare with, is neither on the PATH nor in ~/go/bin: install it first")
    projects = [project for project in PROJECTS if not wanted or project.name in wanted]
    comparisons, problems = _compare_all(projects, nats_server)
    print(table(comparisons), end="")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 2
    return 1 if any(comparison.only_ours for comparison in comparisons) else 0


if __name__ == "__main__":
    sys.exit(main())
