"""What is in a stream: messages, bytes, rate over time and the largest subjects, read from the store's files.

python -m spark_jobs.stream_report STORE STREAM
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.table import Table

from jetbroker.errors import StorageError
from jetbroker.store.offline.reader import StreamSnapshot, open_stream
from spark_jobs.session import SparkMissingError, local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INTERVALS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 86_400, 7 * 86_400)  # seconds
RATE_ROWS = 20  # about as many lines as a terminal shows at once
BAR_CHARACTERS = 30
PLAIN_WIDTH = 120  # where the output is no terminal


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs.stream_report",
        description="Reports what is in a stream: messages, bytes, subjects, rate over time, largest subjects. "
        "Reads the files of the store with Spark; the broker may be running or not, and is not asked.",
        epilog="example: python -m spark_jobs.stream_report /var/lib/jetbroker ORDERS --subject 'orders.eu.>'",
    )
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("stream", metavar="STREAM", help="the name of the stream")
    parser.add_argument("--account", default="$G", help="the account that owns the stream (default: %(default)s)")
    parser.add_argument("--domain", default="", help="read only if the store is that of this JetStream domain")
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    interval = "what one line of the rate table covers: 30s, 5m, 1h, 1d (default: fits the stream)"
    parser.add_argument("--interval", type=_seconds, metavar="TIME", help=interval)
    parser.add_argument("--top", type=int, default=10, metavar="N", help="subjects to list (default: %(default)s)")
    return parser.parse_args(argv)


def _seconds(text: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, factor = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: use 30s, 5m, 1h or 1d")
    return int(number) * factor


def fitting_interval(first_ns: int, last_ns: int) -> int:
    """Seconds per line, so that the whole span makes at most RATE_ROWS lines."""
    span = (last_ns - first_ns) / 1e9
    return next((interval for interval in INTERVALS if span / interval < RATE_ROWS), int(span / RATE_ROWS) + 1)


def frame_of(args: argparse.Namespace) -> DataFrame:
    """The stream's messages without payloads: sealed segments then answer from their footers."""
    options = {"stream": args.stream, "account": args.account, "domain": args.domain, "columns": "time,subject,size"}
    if args.subject:
        options["subject"] = args.subject
    return local_session("stream report").read.format("jetstream").options(**options).load(args.store)


def totals_of(frame: DataFrame, interval: int) -> DataFrame:
    """One pass over the stream: what both tables are made of. Times in seconds since 1970."""
    from pyspark.sql import functions as f

    start = (f.floor(f.unix_timestamp("time") / interval) * interval).alias("start")
    return frame.groupBy("subject", start).agg(
        f.count("*").alias("messages"), f.sum("size").alias("bytes"), f.max(f.unix_timestamp("time")).alias("last")
    )


def rates_of(totals: DataFrame) -> list[Any]:
    """(start, messages, bytes) of every interval in which there are messages."""
    from pyspark.sql import functions as f

    sums = totals.groupBy("start").agg(f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"))
    return sums.orderBy("start").collect()


def subjects_of(totals: DataFrame, top: int) -> tuple[int, list[Any]]:
    """How many subjects there are, and the largest."""
    from pyspark.sql import functions as f

    subjects = totals.groupBy("subject").agg(
        f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"), f.max("last").alias("last")
    )
    return subjects.count(), subjects.orderBy("bytes", "subject", ascending=[False, True]).limit(top).collect()


def report(args: argparse.Namespace, console: Console) -> None:
    snapshot = open_stream(args.store, args.stream, args.account, args.domain)
    if snapshot.messages == 0:
        summary(console, snapshot, args, 0, 0, 0)
        return
    frame = frame_of(args)
    started = time.perf_counter()
    interval = args.interval or fitting_interval(snapshot.parts[0].first_ns, snapshot.parts[-1].last_ns)
    totals = totals_of(frame, interval).cache()
    rates = rates_of(totals)
    count, largest = subjects_of(totals, args.top)
    took = time.perf_counter() - started
    messages = sum(row["messages"] for row in rates)
    summary(console, snapshot, args, messages, sum(row["bytes"] for row in rates), count)
    if messages:
        rate_table(console, rates, interval)
        subject_table(console, largest, count)
    console.print(f"Spark read {messages:,} messages in {took:.1f} s ({messages / took:,.0f} messages/s)")


def _utc(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _table(console: Console, title: str, **options: Any) -> Table:
    """Lines around it on a terminal only."""
    return Table(title=title, title_justify="left", box=HEAVY_HEAD if console.is_terminal else None, **options)


def summary(console: Console, snapshot: StreamSnapshot, args: argparse.Namespace, messages: int, size: int,
            subjects: int) -> None:  # fmt: skip
    table = _table(console, f"Stream {snapshot.stream} of account {snapshot.account}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    if snapshot.domain is not None:
        table.add_row("domain", snapshot.domain)
    if args.subject:
        table.add_row("subject filter", args.subject)
    table.add_row("messages", f"{messages:,}")
    table.add_row("headers and payload", f"{size:,} bytes")
    table.add_row("subjects", f"{subjects:,}")
    table.add_row("sequences", f"{snapshot.first_seq:,} to {snapshot.last_seq:,}")
    table.add_row("segments with messages", f"{len(snapshot.parts):,}")
    lost = sum(last - first + 1 for first, last in snapshot.damaged)
    if lost:
        table.add_row("damaged, not counted", f"{lost:,}")
    console.print(table)


def rate_table(console: Console, rates: list[Any], interval: int) -> None:
    table = _table(console, f"Rate, per {interval:,} s")
    for name in ("from (UTC)", "messages", "messages/s", "bytes/s"):
        table.add_column(name, justify="left" if name.startswith("from") else "right")
    table.add_column("")
    shown = rates[-RATE_ROWS * 2 :]
    most = max(row["messages"] for row in shown)
    for row in shown:
        bar = "#" * round(BAR_CHARACTERS * row["messages"] / most)
        table.add_row(_utc(row["start"]), f"{row['messages']:,}",
                      f"{row['messages'] / interval:,.1f}", f"{row['bytes'] / interval:,.0f}", bar)  # fmt: skip
    if len(shown) < len(rates):
        table.caption = f"the last {len(shown)} of {len(rates)} lines; a longer --interval shows all"
    console.print(table)


def subject_table(console: Console, largest: list[Any], count: int) -> None:
    table = _table(console, f"Largest subjects ({len(largest)} of {count:,})")
    for name in ("subject", "messages", "bytes", "last (UTC)"):
        table.add_column(name, justify="right" if name in ("messages", "bytes") else "left", overflow="fold")
    for row in largest:
        last = _utc(row["last"])
        table.add_row(row["subject"], f"{row['messages']:,}", f"{row['bytes']:,}", last)
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 1 after saying on stderr why there is no report."""
    args = arguments(argv)
    try:
        plain = None if sys.stdout.isatty() else PLAIN_WIDTH
        report(args, Console(width=plain, markup=False, emoji=False))  # names from clients are shown as they are
    except (StorageError, SparkMissingError) as error:
        print(f"stream_report: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
