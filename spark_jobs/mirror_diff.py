"""Compares a mirror with its origin, message by message, from the files of two stores. Needs no Spark.

python -m spark_jobs.mirror_diff STORE STREAM MIRROR_STORE MIRROR
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from jetbroker.store.offline.reader import StreamSnapshot
from spark_jobs import jobs

COMPARED = ("seq", "subject", "headers", "data")
COLUMNS = ("first_seq", "last_seq", "messages", "difference")
MISSING, EXTRA, OTHER = "missing in the mirror", "only in the mirror", "not the same"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "mirror_diff",
        "Compares a mirror with its origin: subject, headers and payload of each sequence. What the origin has behind "
        "the mirror's last sequence is lag and no difference. Takes little memory, whatever the size. Exit code 0: "
        "the same, 1: they differ, 2: it could not be told.",
        "/srv/hub ORDERS /srv/edge ORDERS_COPY",
        "the name of the origin",
    )
    parser.add_argument("mirror_store", metavar="MIRROR_STORE", help="the store of the mirror, may be the same")
    parser.add_argument("mirror", metavar="MIRROR", help="the name of the mirror")
    parser.add_argument(
        "--mirror-account", default="", metavar="A", help="the mirror's account (default: the origin's)"
    )
    parser.add_argument("--subject", default="", metavar="PATTERN", help="compare only subjects that match")
    parser.add_argument(
        "--start", type=int, default=1, metavar="SEQ", help="compare from this sequence on (default: 1)"
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many to list (default: %(default)s)")
    return parser.parse_args(argv)


def differences(origin: StreamSnapshot, mirror: StreamSnapshot, subject: str, start: int) -> Iterator[tuple[int, str]]:
    """(sequence, what is wrong) in order, up to the mirror's last sequence."""
    sides = [
        stream.batches(COMPARED, start_seq=start, end_seq=mirror.last_seq, subject=subject)
        for stream in (origin, mirror)
    ]
    for left, right in aligned(*sides):
        if left is None or right is None or not left.equals(right):
            yield from _differing(left, right)


def aligned(
    left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch | None]]:
    """The rows of both sides, cut at the same sequences; None: a side has no more."""
    mine, theirs = next(left, None), next(right, None)
    while mine is not None and theirs is not None:
        last = min(batch.column("seq")[-1].as_py() for batch in (mine, theirs))
        rows = [pc.sum(pc.less_equal(batch.column("seq"), last)).as_py() for batch in (mine, theirs)]
        yield mine.slice(0, rows[0]), theirs.slice(0, rows[1])
        mine = mine.slice(rows[0]) if rows[0] < mine.num_rows else next(left, None)
        theirs = theirs.slice(rows[1]) if rows[1] < theirs.num_rows else next(right, None)
    while mine is not None:
        yield mine, None
        mine = next(left, None)
    while theirs is not None:
        yield None, theirs
        theirs = next(right, None)


def _differing(left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> Iterator[tuple[int, str]]:
    mine, theirs = (
        {row["seq"]: row for row in batch.to_pylist()} if batch is not None else {} for batch in (left, right)
    )
    for seq in sorted(mine.keys() | theirs.keys()):
        if seq not in theirs:
            yield seq, MISSING
        elif seq not in mine:
            yield seq, EXTRA
        elif mine[seq] != theirs[seq]:
            yield seq, OTHER


def runs(found: Iterator[tuple[int, str]]) -> Iterator[jobs.Row]:
    """Neighbours with the same difference as one row."""
    run: jobs.Row | None = None
    for seq, what in found:
        if run is not None and run["difference"] == what and run["last_seq"] == seq - 1:
            run["last_seq"] = seq
            run["messages"] += 1
            continue
        if run is not None:
            yield run
        run = {"first_seq": seq, "last_seq": seq, "messages": 1, "difference": what}
    if run is not None:
        yield run


def compare(args: argparse.Namespace) -> int:
    started = time.perf_counter()
    origin = jobs.streams_of(args).open()
    there = {"store": args.mirror_store, "stream": args.mirror, "account": args.mirror_account or args.account}
    mirror = jobs.streams_of(argparse.Namespace(**there, domain="")).open()
    counts: dict[str, int] = dict.fromkeys((MISSING, EXTRA, OTHER), 0)
    listed: list[jobs.Row] = []
    for row in runs(differences(origin, mirror, args.subject, args.start)):
        counts[row["difference"]] += row["messages"]
        if len(listed) < args.top:
            listed.append(row)
    lag = max(origin.last_seq - mirror.last_seq, 0)
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    title = f"{args.mirror} against {args.stream}: {told}; {lag:,} sequences behind"
    more = {"missing": counts[MISSING], "extra": counts[EXTRA], "different": counts[OTHER], "lag": lag}
    jobs.show(args, title, listed, COLUMNS, more)
    jobs.say(
        f"compared up to sequence {mirror.last_seq:,} in {time.perf_counter() - started:.1f} s; this needs no Spark"
    )
    return jobs.FOUND if any(counts.values()) else jobs.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; see --help."""
    args = arguments(argv)
    return jobs.run("mirror_diff", lambda: compare(args))


if __name__ == "__main__":
    sys.exit(main())
