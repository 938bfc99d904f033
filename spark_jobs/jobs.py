"""What the jobs have in common: which stream they are about, and how they show what they found."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.table import Table

from jetbroker.errors import JetbrokerError
from spark_jobs.failures import sentence
from spark_jobs.session import SparkMissingError, local_session
from spark_jobs.streams import Streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN_WIDTH = 120  # where the output is no terminal
SMALL_MESSAGES = 2_000_000  # up to here this process is done before Spark has started
OK, FOUND, FAILED = 0, 1, 2
Row = dict[str, Any]


def parser_of(
    name: str, description: str, example: str, stream: str = "the name of the stream"
) -> argparse.ArgumentParser:
    """A parser of STORE, STREAM and what every job takes."""
    parser = argparse.ArgumentParser(
        prog=f"python -m spark_jobs.{name}",
        description=description + " Reads the files of the store; the broker may be running or not, and is not asked.",
        epilog=f"example: python -m spark_jobs.{name} {example}",
    )
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("stream", metavar="STREAM", help=stream)
    parser.add_argument("--account", default="$G", help="the account that owns the stream (default: %(default)s)")
    parser.add_argument("--domain", default="", help="read only if the store is that of this JetStream domain")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    return parser


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The flag of a job that starts Spark only for what is large."""
    text = "who counts: this process for what is small and Spark for what is large (auto), or always the same"
    parser.add_argument("--engine", choices=("auto", "local", "spark"), default="auto", help=text)
    add_master(parser)


def add_master(parser: argparse.ArgumentParser) -> None:
    """The flag of a job that may start Spark."""
    text = "where Spark runs: spark://host:7077, local[8], … (default: local[2], or what spark-submit was given)"
    parser.add_argument("--master", default="", metavar="URL", help=text)


def session_of(args: argparse.Namespace, name: str) -> SparkSession:
    """Spark, started where the job is told to."""
    return local_session(name, {"spark.master": args.master} if args.master else {})


def without_spark(args: argparse.Namespace, small: bool, size: str) -> bool:
    """Does this process count by itself? Says so."""
    local = bool(args.engine == "local" or (args.engine == "auto" and small))
    say(f"{size}: counted by this process, Spark is not started" if local else f"{size}: counted by Spark")
    return local


def seconds(text: str) -> int:
    """For argparse: 30s, 5m, 1h, 1d, or a number of seconds from 1 on."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, factor = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: use 30s, 5m, 1h or 1d")
    return int(number) * factor


def streams_of(args: argparse.Namespace) -> Streams:
    """The streams that a job is about."""
    return Streams({"path": args.store, "stream": args.stream, "account": args.account, "domain": args.domain})


def run(name: str, work: Callable[[], int]) -> int:
    """The exit code of a job: its own, or 2 after one sentence on stderr."""
    try:
        return work()
    except (JetbrokerError, SparkMissingError) as error:
        text = str(error)
    except Exception as error:
        text = sentence(error)
        if not text:
            raise
    print(f"{name}: {text}", file=sys.stderr)
    return FAILED


def say(text: str) -> None:
    """How a job works goes to stderr: stdout holds what it found."""
    print(text, file=sys.stderr)


def show(
    args: argparse.Namespace, title: str, rows: Sequence[Row], columns: Sequence[str], more: Row | None = None
) -> None:
    """One table of these columns, or everything as JSON."""
    if args.json:
        print(json.dumps({**(more or {}), "rows": rows}, default=_plain))
        return
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, markup=False, emoji=False, highlight=False)
    table = Table(title=title, title_justify="left", box=HEAVY_HEAD if console.is_terminal else None)
    for name in columns:
        number = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in columns))
    console.print(table)


def utc(time_ns: int | None) -> str | None:
    """ISO 8601, to the microsecond; None: none."""
    if time_ns is None:
        return None
    whole, rest = divmod(time_ns, 10**9)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest // 1000).isoformat().replace("+00:00", "Z")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _plain(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
