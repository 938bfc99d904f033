"""`make bench`: every case on jetbroker and nats-server in turn, several rounds, medians and ratios."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.cases import BACKUP_GIB, QUICK_DIVISOR, Case, all_cases
from benchmarks.report import Results, earlier, machine_facts, print_table, table_rows, write_markdown
from benchmarks.servers import BenchmarkError, Server, Variant, allow_many_files, build_loadgen, find_nats_server

RESULTS_PATH = Path(__file__).resolve().parent / "RESULTS.md"


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", action="append", metavar="CASE", help="cases whose name contains CASE (repeatable)")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one round with a tenth of the messages")
    parser.add_argument(
        "--backup-gib",
        type=float,
        default=BACKUP_GIB,
        metavar="SIZE",
        help=f"size of the stream that js-backup backs up (default: {BACKUP_GIB:g})",
    )
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="another checkout, built: its jetbroker is measured, too"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--output", type=Path, help="write the results here (default: RESULTS.md after a full run)")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds: one at least")
    if not 0 < options.backup_gib <= 1000:
        parser.error("--backup-gib: more than 0, and 1000 at most")
    if options.before is not None and not (options.before / ".venv/bin/python").exists():
        parser.error(f"--before: {options.before} is no checkout that was built (make build)")
    return options


def select_cases(only: list[str] | None, backup_gib: float = BACKUP_GIB) -> list[Case]:
    """All cases, or those named exactly; a name that is none selects the cases that contain it."""
    cases = all_cases(backup_gib)
    names = {case.name for case in cases}
    if not only:
        return cases
    return [
        case for case in cases if any(part == case.name or (part not in names and part in case.name) for part in only)
    ]


def measure(
    case: Case, variant: Variant, nats_server: str | None, loadgen: Path, divisor: int, results: Results
) -> str:
    """One sample of one case; returns a short text for the log. A failure is recorded and the run goes on."""
    try:
        with Server(variant, nats_server) as server:
            figures = case.measure(server, loadgen, divisor)
    except BenchmarkError as error:
        results.failures[case.name, variant] = str(error)
        return f"failed: {error}"
    results.add(case, variant, figures)
    return ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())


def with_before(variants: list[Variant], before: Path | None) -> list[Variant]:
    """Each of ours in the other checkout, too, in front of it."""
    if before is None:
        return variants
    pairs = [(earlier(variant, before), variant) for variant in variants]
    return [each for pair in pairs for each in pair if each is not None]


def run(
    cases: list[Case],
    rounds: int,
    divisor: int,
    nats_server: str | None,
    console: Console,
    before: Path | None = None,
) -> Iterator[Results]:
    """The results so far, after each round."""
    results = Results()
    loadgen = build_loadgen()
    for number in range(1, rounds + 1):
        for case in cases:
            for variant in with_before(case.variants, before):
                if variant.server == "nats-server" and nats_server is None:
                    continue
                text = measure(case, variant, nats_server, loadgen, divisor, results)
                line = f"{number}/{rounds} {case.name:24} {variant.label}: {text}"
                console.print(line, style="dim", markup=False, soft_wrap=True)
        yield results


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    console = Console(width=None if sys.stdout.isatty() else 140)
    cases = select_cases(options.only, options.backup_gib)
    if options.list or not cases:
        console.print("\n".join(case.name for case in all_cases()))
        return 0 if options.list else 64
    nats_server = find_nats_server()
    if nats_server is None:
        console.print("No nats-server on the PATH or in ~/go/bin: jetbroker's figures stand alone.", style="yellow")
    allow_many_files()
    rounds = 1 if options.quick else options.rounds
    before = options.before.resolve() if options.before else None
    full = not (options.only or options.quick or before)
    output = options.output or (RESULTS_PATH if full else None)
    divisor = QUICK_DIVISOR if options.quick else 1
    for number, results in enumerate(run(cases, rounds, divisor, nats_server, console, before), 1):
        lines = table_rows(cases, results, before)
        if output is not None:
            write_markdown(output, lines, results, machine_facts(nats_server), number)
    print_table(console, lines, results)
    if output is None:
        console.print("Not a full run: RESULTS.md stays as it is (--output FILE writes one).")
    else:
        console.print(f"Written to {output}")
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
