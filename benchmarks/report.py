"""From samples to a table, on the terminal and in RESULTS.md."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.cases import UNITS, Case, Row
from benchmarks.servers import SCRATCH, Variant
from jetbroker import __version__

HEADINGS = ("case", "jetbroker", "nats-server", "ratio", "must reach", "")
BEFORE_HEADINGS = ("before", "to before")  # behind the ratio, where another checkout was measured, too


@dataclass
class Results:
    """Samples of every round by (case, server in its mode, figure), and what went wrong instead."""

    samples: dict[tuple[str, Variant, str], list[float]] = field(default_factory=dict)
    failures: dict[tuple[str, Variant], str] = field(default_factory=dict)

    def add(self, case: Case, variant: Variant, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self.samples.setdefault((case.name, variant, name), []).append(value)

    def median(self, case: Case, variant: Variant, figure: str) -> float | None:
        values = self.samples.get((case.name, variant, figure))
        return statistics.median(values) if values else None


def _shown(value: float | None, figure: str) -> str:
    unit = UNITS[figure]
    return "-" if value is None else f"{value:,.{unit.digits}f} {unit.name}".rstrip()


def _ratio(row: Row, ours: float | None, theirs: float | None) -> float | None:
    if ours is None or theirs is None or min(ours, theirs) <= 0:
        return None
    return ours / theirs if UNITS[row.figure].more_is_better else theirs / ours


def _verdict(row: Row, ours: float | None, ratio: float | None) -> str:
    if row.at_most is not None and ours is not None:
        return "yes" if ours <= row.at_most else "NO"
    if row.at_least is not None and ours is not None:
        return "yes" if ours >= row.at_least else "NO"
    if row.must is not None and ratio is not None:
        return "yes" if ratio >= row.must else "NO"
    return ""


def _requirement(row: Row) -> str:
    if row.at_most is not None:
        return f"<= {_shown(row.at_most, row.figure)}"
    if row.at_least is not None:
        return f">= {_shown(row.at_least, row.figure)}"
    return "" if row.must is None else f"{row.must:g}"


def earlier(variant: Variant, before: Path | None) -> Variant | None:
    """The same mode of the jetbroker that stands in another checkout; None of another server."""
    return replace(variant, checkout=before) if before is not None and variant.server == "jetbroker" else None


def table_rows(cases: list[Case], results: Results, before: Path | None = None) -> list[tuple[str, ...]]:
    """The report's cells, one tuple for each row of each case; `before`: the other checkout, if one was measured."""
    lines: list[tuple[str, ...]] = []
    for case in cases:
        for row in case.rows:
            ours = results.median(case, row.ours, row.figure)
            theirs = results.median(case, row.theirs, row.figure)
            ratio = _ratio(row, ours, theirs)
            cells = [_shown(ours, row.figure), _shown(theirs, row.figure)]
            for index, variant in enumerate((row.ours, row.theirs)):
                if (case.name, variant) in results.failures:
                    cells[index] = "failed"
            shown = "-" if ratio is None else f"{ratio:.2f}"
            compared = _before_cells(case, row, results, ours, earlier(row.ours, before))
            lines.append((row.title, *cells, shown, *compared, _requirement(row), _verdict(row, ours, ratio)))
    return lines


def _before_cells(
    case: Case, row: Row, results: Results, ours: float | None, before: Variant | None
) -> tuple[str, ...]:
    if before is None:
        return ()
    if (case.name, before) in results.failures:
        return "failed", "-"
    then = results.median(case, before, row.figure)
    ratio = _ratio(row, ours, then)
    return _shown(then, row.figure), "-" if ratio is None else f"{ratio:.2f}"


def headings(lines: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Those of such lines."""
    compared = BEFORE_HEADINGS if any(len(line) > len(HEADINGS) for line in lines) else ()
    return (*HEADINGS[:-2], *compared, *HEADINGS[-2:])


def print_table(console: Console, lines: list[tuple[str, ...]], results: Results) -> None:
    table = Table(title="Medians; ratio above 1: jetbroker is better")
    for heading in headings(lines):
        table.add_column(heading, justify="left" if heading in ("case", "") else "right")
    for line in lines:
        style = "bold red" if line[-1] == "NO" else "green" if line[-1] == "yes" else ""
        table.add_row(*line, style=style)
    console.print(table)
    for (name, variant), reason in results.failures.items():
        console.print(f"{name} on {variant.label}: {reason}", style="red", markup=False, soft_wrap=True)


def _file_system(path: Path) -> str:
    """Type of the file system that holds `path`: the longest mount point that leads to it."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, found, *_ = line.split(" ")
        inside = point == "/" or path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def machine_facts(nats_server: str | None) -> list[tuple[str, str]]:
    """What a reader needs to judge the figures: machine, versions, date."""
    models = [
        line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory_kib = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
    version = "none"
    if nats_server is not None:
        done = subprocess.run([nats_server, "--version"], capture_output=True, text=True, check=True)
        version = done.stdout.strip().removeprefix("nats-server: ")
    return [
        ("CPU", models[0] if models else platform.machine()),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{memory_kib / 1024 / 1024:.1f} GiB"),
        ("kernel", platform.release()),
        ("file system", _file_system(SCRATCH)),
        ("jetbroker", f"{__version__} on Python {platform.python_version()}"),
        ("nats-server", version),
        ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
    ]


def write_markdown(
    path: Path, lines: list[tuple[str, ...]], results: Results, facts: list[tuple[str, str]], rounds: int
) -> None:
    text = [
        "# Results",
        "",
        f"This page holds the last run of `make bench`: medians of {rounds} round(s), both servers in turn on one "
        "machine.",
    ]
    text += ["A ratio above 1 means that jetbroker is better. Load generator and servers share the cores.", ""]
    text += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts), ""]
    named = (*headings(lines)[:-1], "reached")
    text += ["| " + " | ".join(named) + " |", "|---|" + "---:|" * (len(named) - 2) + "---|"]
    text += ["| " + " | ".join(line) + " |" for line in lines]
    if results.failures:
        text += ["", "Failed:", ""]
        text += [f"- {name} on {variant.label}: {reason}" for (name, variant), reason in results.failures.items()]
    path.write_text("\n".join(text) + "\n")
