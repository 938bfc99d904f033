"""The subjects of streams: messages, bytes, first and last of each, from the footers of their segments. Needs no Spark.

python -m spark_jobs.subject_report STORE STREAM
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence

from jetbroker.store.offline.reader import Query
from spark_jobs import jobs
from spark_jobs.view_rows import subject_rows

COLUMNS = ("subject", "messages", "bytes", "first_seq", "last_seq", "first_time", "last_time")
ORDERS = ("bytes", "messages", "subject", "last_time")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "subject_report",
        "Lists the subjects of a stream, with the messages and bytes of each, and its first and last message.",
        "/var/lib/jetbroker ORDERS --depth 2 --top 20",
        "the name of the stream, several with commas, or a pattern as 'ORDERS_*'",
    )
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    parser.add_argument(
        "--depth", type=_count, metavar="N", help="put subjects together that begin with the same N tokens"
    )
    parser.add_argument("--sort", choices=ORDERS, default="bytes", help="what comes first (default: most %(default)s)")
    parser.add_argument("--top", type=_count, default=20, metavar="N", help="how many to list (default: %(default)s)")
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def totals(args: argparse.Namespace) -> list[jobs.Row]:
    """One row for each subject, or for each beginning of subjects, over all streams."""
    found: dict[str, jobs.Row] = {}
    for snapshot in jobs.streams_of(args).open_all():
        for row in subject_rows(snapshot, Query(subject=args.subject)):
            subject = beginning(row[1], args.depth)
            one = dict(zip(COLUMNS, (subject, *row[2:]), strict=True))
            found[subject] = added(found[subject], one) if subject in found else one
    return list(found.values())


def beginning(subject: str, depth: int | None) -> str:
    """`orders.eu.>` for orders.eu.new at depth 2."""
    tokens = subject.split(".")
    return subject if depth is None or len(tokens) <= depth else ".".join([*tokens[:depth], ">"])


def added(left: jobs.Row, right: jobs.Row) -> jobs.Row:
    """Two rows of one name as one."""
    return {
        "subject": left["subject"],
        "messages": left["messages"] + right["messages"],
        "bytes": left["bytes"] + right["bytes"],
        "first_seq": min(left["first_seq"], right["first_seq"]),
        "last_seq": max(left["last_seq"], right["last_seq"]),
        "first_time": min(left["first_time"], right["first_time"]),
        "last_time": max(left["last_time"], right["last_time"]),
    }


def shown(rows: Iterable[jobs.Row], sort: str, top: int) -> list[jobs.Row]:
    """The first `top` rows, with readable times."""
    ordered = sorted(rows, key=lambda row: row["subject"])
    if sort != "subject":
        ordered.sort(key=lambda row: row[sort], reverse=True)
    return [{**row, **{key: jobs.utc(row[key]) for key in ("first_time", "last_time")}} for row in ordered[:top]]


def report(args: argparse.Namespace) -> int:
    started = time.perf_counter()
    rows = totals(args)
    messages = sum(row["messages"] for row in rows)
    listed = shown(rows, args.sort, args.top)
    took = time.perf_counter() - started
    counts = {"subjects": len(rows), "messages": messages, "bytes": sum(row["bytes"] for row in rows)}
    title = f"{args.stream}: {len(listed)} of {len(rows):,} subjects, {messages:,} messages"
    jobs.show(args, title, listed, COLUMNS, counts)
    jobs.say(f"read from footers in {took:.2f} s; this needs no Spark")
    return jobs.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 after saying on stderr why there is no report."""
    args = arguments(argv)
    return jobs.run("subject_report", lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
