"""Messages per window of time and beginning of subject: by the time of storing, or by a time in the payload.

python -m spark_jobs.windowed_counts STORE STREAM
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jetbroker.store.offline.reader import StreamSnapshot
from spark_jobs import jobs, plots
from spark_jobs.events import event_us, field_of
from spark_jobs.subject_report import beginning

COLUMNS = ("start", "subject", "messages")
Counted = Counter[tuple[int | None, str]]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "windowed_counts",
        "Counts the messages of each window of time and each beginning of subjects. The time is that of storing, or an "
        "event's own: a field of a JSON payload, ISO 8601 or milliseconds since 1970.",
        "/var/lib/jetbroker ORDERS --window 5m --event-time created",
    )
    parser.add_argument("--window", type=jobs.seconds, default=60, metavar="TIME", help="30s, 5m, 1h, 1d (default: 1m)")
    parser.add_argument("--event-time", default="", metavar="FIELD", help="the field, as created or order.created")
    parser.add_argument(
        "--depth", type=int, default=1, metavar="N", help="tokens of a subject that tell apart (default: 1)"
    )
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    plots.add_plot(parser)
    jobs.add_engine(parser)
    return parser.parse_args(argv)


def counted_here(args: argparse.Namespace, snapshot: StreamSnapshot) -> Counted:
    """{(start of the window in s, beginning of the subject): messages} by this process."""
    found: Counted = Counter()
    width = args.window * 10**6
    for batch in snapshot.batches(["data" if args.event_time else "time", "subject"], subject=args.subject):
        if args.event_time:
            times = [event_us(field_of(payload, args.event_time)) for payload in batch.column(0).to_pylist()]
        else:
            times = batch.column(0).cast("int64").to_pylist()
        for time_us, subject in zip(times, batch.column(1).to_pylist(), strict=True):
            start = None if time_us is None else time_us // width * args.window
            found[start, beginning(subject, args.depth)] += 1
    return found


def prepared(args: argparse.Namespace, frame: Any) -> Any:
    """A frame of (at, beginning): the event's time and the beginning of its subject."""
    from pyspark.sql import functions as f

    at = f.col("time")
    if args.event_time:
        value = f.get_json_object(f.col("data").cast("string"), f"$.{args.event_time}")
        frame = frame.withColumn("_event", value)
        at = f.coalesce(f.expr("timestamp_millis(try_cast(_event AS bigint))"), f.expr("try_cast(_event AS timestamp)"))
    tokens = f.split("subject", r"\.")
    cut = f.concat_ws(".", f.slice(tokens, 1, args.depth), f.lit(">"))
    name = f.when(f.size(tokens) <= args.depth, f.col("subject")).otherwise(cut)
    return frame.select(at.alias("at"), name.alias("subject"))


def frame_of(args: argparse.Namespace, reader: Any) -> Any:
    options = {"stream": args.stream, "account": args.account, "domain": args.domain}
    options["columns"] = "data,subject" if args.event_time else "time,subject"
    options |= {"subject": args.subject} if args.subject else {}
    return prepared(args, reader.format("jetstream").options(**options).load(args.store))


def counted_by_spark(args: argparse.Namespace) -> Counted:
    """The same by Spark."""
    from pyspark.sql import functions as f

    frame = frame_of(args, jobs.session_of(args, "windowed counts").read)
    start = f.floor(f.unix_micros("at") / (args.window * 10**6)) * args.window
    grouped = frame.groupBy(start.alias("start"), "subject").count()
    return Counter({(row["start"], row["subject"]): row["count"] for row in grouped.collect()})


def chart(found: Counted, window: int) -> plots.Chart:
    """The windows with messages, of those that are of some time."""
    starts = sorted({start for start, _ in found if start is not None})
    subjects = {subject for start, subject in found if start is not None}
    series = {subject: [found[start, subject] for start in starts] for subject in subjects}
    return plots.OverTime("Messages per window", "messages", starts, plots.most(series), window)


def count(args: argparse.Namespace) -> int:
    plots.check(args.plot)
    snapshot = jobs.streams_of(args).open()
    small = snapshot.messages <= jobs.SMALL_MESSAGES
    local = jobs.without_spark(args, small, f"{snapshot.messages:,} messages")
    found = counted_here(args, snapshot) if local else counted_by_spark(args)
    ordered = sorted(found.items(), key=lambda item: (item[0][0] is None, item[0][0] or 0, item[0][1]))
    rows = [
        {"start": jobs.utc(start * 10**9) if start is not None else None, "subject": subject, "messages": messages}
        for (start, subject), messages in ordered
    ]
    plots.save(args.plot, args.stream, [chart(found, args.window)])
    jobs.show(args, f"{args.stream}: messages per {args.window:,} s", rows, COLUMNS, {"window_s": args.window})
    return jobs.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 after saying on stderr why nothing was counted."""
    args = arguments(argv)
    return jobs.run("windowed_counts", lambda: count(args))


if __name__ == "__main__":
    sys.exit(main())
