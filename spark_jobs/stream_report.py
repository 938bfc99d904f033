"""What is in a stream: messages, bytes, rate over time and the largest subjects, read from the store's files.

python -m spark_jobs.stream_report STORE STREAM
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.table import Table

from jetbroker.store.offline.reader import StreamSnapshot
from jetbroker.store.offline.stores import open_stream
from spark_jobs import jobs, plots

if TYPE_CHECKING:
    import pyarrow as pa

INTERVALS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 86_400, 7 * 86_400)  # seconds
RATE_ROWS = 20  # about as many lines as a terminal shows at once
BAR_CHARACTERS = 30
READ_COLUMNS = "time,subject,size"  # without payloads: sealed segments answer from their footers
BATCH_ROWS = 65_536  # what one round of counting takes


class Counted(NamedTuple):
    """What both tables show. `rates`: start, messages, bytes of each interval that has messages, by time; `subjects`:
    subject, messages, bytes, last of the largest; `subject_count`: of all. Times in seconds since 1970."""

    rates: list[jobs.Row]
    subjects: list[jobs.Row]
    subject_count: int

    @property
    def messages(self) -> int:
        return sum(row["messages"] for row in self.rates)

    @property
    def bytes(self) -> int:
        return sum(row["bytes"] for row in self.rates)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "stream_report",
        "Reports what is in a stream: messages, bytes, subjects, rate over time, largest subjects.",
        "/var/lib/jetbroker ORDERS --subject 'orders.eu.>'",
    )
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    interval = "what one line of the rate table covers: 30s, 5m, 1h, 1d (default: fits the stream)"
    parser.add_argument("--interval", type=jobs.seconds, metavar="TIME", help=interval)
    parser.add_argument("--top", type=int, default=10, metavar="N", help="subjects to list (default: %(default)s)")
    plots.add_plot(parser)
    jobs.add_engine(parser)
    return parser.parse_args(argv)


def fitting_interval(first_ns: int, last_ns: int) -> int:
    """Seconds per line, so that the whole span makes at most RATE_ROWS lines."""
    span = (last_ns - first_ns) / 1e9
    return next((interval for interval in INTERVALS if span / interval < RATE_ROWS), int(span / RATE_ROWS) + 1)


# --- two ways to count ---


def counted_here(args: argparse.Namespace, interval: int) -> Counted:
    """By this process, a batch at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from jetbroker.tables.scanning import scan

    reader = scan(args.store, args.stream, columns=READ_COLUMNS, subject=args.subject, account=args.account,
                  domain=args.domain, batch_rows=BATCH_ROWS)  # fmt: skip
    parts = []
    for batch in reader:
        seconds = pc.divide(batch.column("time").cast(pa.int64()), 1_000_000)
        columns = {
            "subject": batch.column("subject"),
            "start": pc.multiply(pc.divide(seconds, interval), interval),
            "messages": pa.repeat(1, batch.num_rows),
            "bytes": batch.column("size"),
            "last": seconds,
        }
        parts.append(_sums(pa.table(columns), ["subject", "start"]))
    if not parts:
        return Counted([], [], 0)
    totals = pa.concat_tables(parts)
    subjects = _sums(totals, ["subject"]).sort_by([("bytes", "descending"), ("subject", "ascending")])
    return Counted(
        _sums(totals, ["start"]).sort_by("start").to_pylist(),
        subjects.slice(0, max(args.top, 0)).to_pylist(),
        subjects.num_rows,
    )


def _sums(table: pa.Table, by: list[str]) -> pa.Table:
    grouped = table.group_by(by).aggregate([("messages", "sum"), ("bytes", "sum"), ("last", "max")])
    return grouped.select([*by, "messages_sum", "bytes_sum", "last_max"]).rename_columns(
        [*by, "messages", "bytes", "last"]
    )


def counted_by_spark(args: argparse.Namespace, interval: int) -> Counted:
    """In one pass over the stream."""
    from pyspark.sql import functions as f

    options = {"stream": args.stream, "account": args.account, "domain": args.domain, "columns": READ_COLUMNS}
    if args.subject:
        options["subject"] = args.subject
    frame = jobs.session_of(args, "stream report").read.format("jetstream").options(**options).load(args.store)
    start = (f.floor(f.unix_timestamp("time") / interval) * interval).alias("start")
    totals = frame.groupBy("subject", start).agg(
        f.count("*").alias("messages"), f.sum("size").alias("bytes"), f.max(f.unix_timestamp("time")).alias("last")
    )
    totals = totals.cache()
    sums = (f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"))
    subjects = totals.groupBy("subject").agg(*sums, f.max("last").alias("last"))
    largest = subjects.orderBy("bytes", "subject", ascending=[False, True]).limit(max(args.top, 0))
    return Counted(
        [row.asDict() for row in totals.groupBy("start").agg(*sums).orderBy("start").collect()],
        [row.asDict() for row in largest.collect()],
        subjects.count(),
    )


# --- what is shown ---


def charts(counted: Counted, interval: int) -> list[plots.Chart]:
    """The rate over time, and the largest subjects."""
    starts = [row["start"] for row in counted.rates]

    def per_second(name: str) -> dict[str, list[float]]:
        return {name: [row[name] / interval for row in counted.rates]}

    names, sizes = [row["subject"] for row in counted.subjects], [row["bytes"] for row in counted.subjects]
    return [
        plots.OverTime("Messages", "messages/s", starts, per_second("messages"), interval),
        plots.OverTime("Headers and payload", "bytes/s", starts, per_second("bytes"), interval),
        plots.ByName(f"Largest of {counted.subject_count:,} subjects", "bytes", names, {"bytes": sizes}),
    ]


def report(args: argparse.Namespace) -> int:
    plots.check(args.plot)
    snapshot = open_stream(args.store, args.stream, args.account, args.domain)
    interval, counted, started = args.interval or 1, Counted([], [], 0), time.perf_counter()
    if snapshot.messages:
        interval = args.interval or fitting_interval(snapshot.parts[0].first_ns, snapshot.parts[-1].last_ns)
        is_small = snapshot.messages <= jobs.SMALL_MESSAGES
        here = jobs.without_spark(args, is_small, f"{snapshot.messages:,} messages")
        counted = (counted_here if here else counted_by_spark)(args, interval)
    plots.save(args.plot, f"Stream {snapshot.stream} of account {snapshot.account}", charts(counted, interval))
    if args.json:
        print(json.dumps(document(snapshot, counted, interval)))
        return jobs.OK
    # names from clients are shown as they are
    console = Console(width=None if sys.stdout.isatty() else jobs.PLAIN_WIDTH, markup=False, emoji=False)
    summary(console, snapshot, args.subject, counted)
    if counted.rates:
        rate_table(console, counted.rates, interval)
        subject_table(console, counted)
        took = time.perf_counter() - started
        console.print(f"read in {took:.1f} s ({counted.messages / took:,.0f} messages/s)")
    return jobs.OK


def document(snapshot: StreamSnapshot, counted: Counted, interval: int) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "stream": snapshot.stream,
        "account": snapshot.account,
        "domain": snapshot.domain,
        "messages": counted.messages,
        "bytes": counted.bytes,
        "subjects": counted.subject_count,
        "first_seq": snapshot.first_seq,
        "last_seq": snapshot.last_seq,
        "lost": _lost(snapshot),
        "interval_seconds": interval,
        "rates": [{"start": _utc(row["start"]), **_sizes(row)} for row in counted.rates],
        "largest": [{"subject": row["subject"], **_sizes(row), "last": _utc(row["last"])} for row in counted.subjects],
    }


def _sizes(row: jobs.Row) -> dict[str, int]:
    return {"messages": row["messages"], "bytes": row["bytes"]}


def _utc(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _lost(snapshot: StreamSnapshot) -> int:
    return sum(last - first + 1 for first, last in snapshot.damaged)


def _table(console: Console, title: str, **options: Any) -> Table:
    """Lines around it on a terminal only."""
    return Table(title=title, title_justify="left", box=HEAVY_HEAD if console.is_terminal else None, **options)


def summary(console: Console, snapshot: StreamSnapshot, subject: str, counted: Counted) -> None:
    table = _table(console, f"Stream {snapshot.stream} of account {snapshot.account}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    if snapshot.domain is not None:
        table.add_row("domain", snapshot.domain)
    if subject:
        table.add_row("subject filter", subject)
    table.add_row("messages", f"{counted.messages:,}")
    table.add_row("headers and payload", f"{counted.bytes:,} bytes")
    table.add_row("subjects", f"{counted.subject_count:,}")
    table.add_row("sequences", f"{snapshot.first_seq:,} to {snapshot.last_seq:,}")
    table.add_row("segments with messages", f"{len(snapshot.parts):,}")
    if lost := _lost(snapshot):
        table.add_row("damaged, not counted", f"{lost:,}")
    console.print(table)


def rate_table(console: Console, rates: list[jobs.Row], interval: int) -> None:
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


def subject_table(console: Console, counted: Counted) -> None:
    table = _table(console, f"Largest subjects ({len(counted.subjects)} of {counted.subject_count:,})")
    for name in ("subject", "messages", "bytes", "last (UTC)"):
        table.add_column(name, justify="right" if name in ("messages", "bytes") else "left", overflow="fold")
    for row in counted.subjects:
        table.add_row(row["subject"], f"{row['messages']:,}", f"{row['bytes']:,}", _utc(row["last"]))
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 after saying on stderr why there is no report."""
    args = arguments(argv)
    return jobs.run("stream_report", lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
