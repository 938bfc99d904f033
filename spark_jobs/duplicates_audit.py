"""Messages that a stream holds more than once: by their Nats-Msg-Id, or by subject and payload.

python -m spark_jobs.duplicates_audit STORE STREAM
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbroker.store.offline.arrow import header_values
from jetbroker.store.offline.reader import StreamSnapshot
from spark_jobs import jobs

COLUMNS = ("key", "subject", "copies", "first_seq", "last_seq", "first_time", "last_time")
MSG_ID = "Nats-Msg-Id"
SMALL_BYTES = 512 * 1024 * 1024


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "duplicates_audit",
        "Finds messages that a stream holds more than once: by the header Nats-Msg-Id, or by subject and payload. "
        "A stream drops a repeated id within its duplicate window only; what comes later is stored again. "
        "Exit code 0: none, 1: there are some, 2: it could not be told.",
        "/var/lib/jetbroker ORDERS --by payload",
    )
    parser.add_argument(
        "--by", choices=("id", "payload"), default="id", help="what makes two the same (default: %(default)s)"
    )
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many to list (default: %(default)s)")
    jobs.add_engine(parser)
    return parser.parse_args(argv)


def batches(snapshot: StreamSnapshot, by: str, subject: str) -> Iterator[pa.RecordBatch]:
    """(key, subject, seq, time) of the messages that have a key."""
    wanted = "headers" if by == "id" else "data"
    for batch in snapshot.batches([wanted, "subject", "seq", "time"], subject=subject):
        key = header_values(batch.column(0), MSG_ID) if by == "id" else _digests(batch.column(0))
        columns = [key, *batch.columns[1:3], batch.column(3).cast(pa.int64())]
        keyed = pa.RecordBatch.from_arrays(columns, ["key", "subject", "seq", "time"])
        yield keyed.filter(pc.is_valid(key))


def _digests(data: pa.Array) -> pa.Array:
    return pa.array([hashlib.sha256(payload.as_buffer()).hexdigest() for payload in data], pa.string())


def found_here(snapshot: StreamSnapshot, by: str, subject: str) -> list[jobs.Row]:
    """The duplicates, most copies first, by this process."""
    schema = pa.schema([("key", pa.string()), ("subject", pa.string()), ("seq", pa.int64()), ("time", pa.int64())])
    table = pa.Table.from_batches(batches(snapshot, by, subject), schema)
    sums = [("seq", "count"), ("seq", "min"), ("seq", "max"), ("time", "min"), ("time", "max")]
    if by == "id":
        grouped = table.group_by("key").aggregate([*sums, ("subject", "min")])
    else:
        grouped = table.group_by(["subject", "key"]).aggregate(sums)
        grouped = grouped.rename_columns({"subject": "subject_min"})
    grouped = grouped.filter(pc.greater(grouped["seq_count"], 1))
    return [
        _row(row["key"], row["subject_min"], row["seq_count"], row["seq_min"], row["seq_max"], row["time_min"],
             row["time_max"])
        for row in grouped.to_pylist()
    ]  # fmt: skip


def found_by_spark(args: argparse.Namespace) -> list[jobs.Row]:
    """The same by Spark."""
    from pyspark.sql import functions as f

    options = {"stream": args.stream, "account": args.account, "domain": args.domain}
    options |= {"subject": args.subject} if args.subject else {}
    options["columns"] = "headers,subject,seq,time" if args.by == "id" else "data,subject,seq,time"
    frame = jobs.session_of(args, "duplicates audit").read.format("jetstream").options(**options).load(args.store)
    key: Any = f.col("headers")[MSG_ID][0] if args.by == "id" else f.sha2("data", 256)
    keyed = frame.select(key.alias("key"), "subject", "seq", f.unix_micros("time").alias("time")).where(
        "key IS NOT NULL"
    )
    groups = ["key"] if args.by == "id" else ["key", "subject"]
    counted = keyed.groupBy(*groups).agg(
        f.count("*").alias("copies"), f.min("seq").alias("first_seq"), f.max("seq").alias("last_seq"),
        f.min("time").alias("first"), f.max("time").alias("last"), f.min("subject").alias("least"),
    )  # fmt: skip
    return [
        _row(row["key"], row["least"], row["copies"], row["first_seq"], row["last_seq"], row["first"], row["last"])
        for row in counted.where("copies > 1").collect()
    ]


def _row(key: str, subject: str, copies: int, first_seq: int, last_seq: int, first_us: int, last_us: int) -> jobs.Row:
    times = jobs.utc(first_us * 1000), jobs.utc(last_us * 1000)
    return dict(zip(COLUMNS, (key, subject, copies, first_seq, last_seq, *times), strict=True))


def audit(args: argparse.Namespace) -> int:
    snapshot = jobs.streams_of(args).open()
    small = snapshot.messages <= jobs.SMALL_MESSAGES and snapshot.size <= SMALL_BYTES
    if jobs.without_spark(args, small, f"{snapshot.messages:,} messages of {snapshot.size:,} bytes"):
        rows = found_here(snapshot, args.by, args.subject)
    else:
        rows = found_by_spark(args)
    rows.sort(key=lambda row: (-row["copies"], row["first_seq"]))
    surplus = sum(row["copies"] - 1 for row in rows)
    title = f"{args.stream}: {len(rows):,} messages are there more than once, {surplus:,} copies too many"
    jobs.show(args, title, rows[: args.top], COLUMNS, {"duplicates": len(rows), "surplus": surplus})
    return jobs.FOUND if rows else jobs.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; see --help."""
    args = arguments(argv)
    return jobs.run("duplicates_audit", lambda: audit(args))


if __name__ == "__main__":
    sys.exit(main())
