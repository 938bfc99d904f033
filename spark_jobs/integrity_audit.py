"""Checks a tamper-evident stream with Spark: every stored message against the stream's hash chain, many at a time.

python -m spark_jobs.integrity_audit STORE STREAM
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from jetbroker.errors import StorageError
from jetbroker.store.offline.integrity import Chain, Found, Verdict, check_part, read_chain, verdict_of
from jetbroker.store.offline.reader import SegmentPart
from jetbroker.store.offline.stores import open_stream
from spark_jobs.session import SparkMissingError, local_session

INTACT, BROKEN, UNKNOWN = 0, 1, 2


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs.integrity_audit",
        description="Checks the hash chain of a stream. Reads the files of the store with Spark; the broker may be "
        "running or not, and is not asked. Exit code 0: intact, 1: not intact, 2: it could not be checked.",
        epilog="example: python -m spark_jobs.integrity_audit /var/lib/jetbroker ORDERS",
    )
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("stream", metavar="STREAM", help="the name of the stream")
    parser.add_argument("--account", default="$G", help="the account that owns the stream (default: %(default)s)")
    parser.add_argument("--head", default="", metavar="SEQ:HASH", help="what STREAM.INFO has shown at some time")
    return parser.parse_args(argv)


def part_of(chain: Chain, part: SegmentPart) -> Chain:
    """What a worker needs of the chain for one part."""
    digests = {
        seq: chain.digests[seq] for seq in range(part.first_seq, part.last_seq + 1) if seq in chain.digests
    }  # fmt: skip
    return Chain(chain.algorithm, digests, chain.at, chain.head)


def audit(args: argparse.Namespace) -> Verdict:
    """The chain's links are followed here, the messages are hashed by Spark's workers."""
    chain = read_chain(args.store, args.stream, args.account, args.head)
    if chain is None:
        raise StorageError(f"stream {args.stream!r} has no hash chain")
    snapshot = open_stream(args.store, args.stream, args.account)
    found = Found()
    if snapshot.parts:
        context = local_session("integrity audit").sparkContext
        work = [(part, part_of(chain, part)) for part in snapshot.parts]
        for one in context.parallelize(work, len(work)).map(lambda pair: check_part(*pair)).collect():
            found.add(one)
    return verdict_of(snapshot, chain, found, args.head)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; prints the verdict as JSON."""
    try:
        verdict = audit(arguments(argv))
    except (StorageError, SparkMissingError) as error:
        print(f"integrity_audit: {error}", file=sys.stderr)
        return UNKNOWN
    print(json.dumps(verdict.to_json(), indent=2))
    return INTACT if verdict.intact else BROKEN


if __name__ == "__main__":
    sys.exit(main())
