"""The results as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compatibility.counting import Outcome
from compatibility.projects import Project

HEAD = """\
| Project | Version | Run | nats-server: passed, failed | jetbroker: passed, failed | Fails with jetbroker only |
|---|---|---|---|---|---|
"""
NAMES_SHOWN = 10


@dataclass(frozen=True)
class Comparison:
    """How a project did with both servers."""

    project: Project
    nats_server: Outcome
    jetbroker: Outcome

    @property
    def only_ours(self) -> list[str]:
        """What fails, or does not run, with jetbroker and passes with nats-server."""
        return sorted(self.nats_server.passed - self.jetbroker.passed)


def row(comparison: Comparison) -> str:
    """A line of the table, which ends with a line break."""
    project, only_ours = comparison.project, comparison.only_ours
    names = only_ours[:NAMES_SHOWN]
    if len(only_ours) > len(names):
        names.append(f"{len(only_ours) - len(names)} more")
    counts = [
        f"{len(outcome.passed)}, {len(outcome.failed)}" for outcome in (comparison.nats_server, comparison.jetbroker)
    ]
    cells = [project.name, project.version, project.kind, *counts, "; ".join(names) or "nothing"]
    return f"| {' | '.join(cells)} |\n"


def table(comparisons: Iterable[Comparison]) -> str:
    return HEAD + "".join(row(comparison) for comparison in comparisons)
