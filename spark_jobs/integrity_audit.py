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
from spark_jobs import jobs


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "integrity_audit",
        "Checks the hash chain of a stream with Spark. Exit code 0: intact, 1: not intact, 2: it could not be checked.",
        "/var/lib/jetbroker ORDERS",
    )
    parser.add_argument("--head", default="", metavar="SEQ:HASH", help="what STREAM.INFO has shown at some time")
    jobs.add_master(parser)
    return parser.parse_args(argv)


def part_of(chain: Chain, part: SegmentPart) -> Chain:
    """What a worker needs of the chain for one part."""
    digests = {
        seq: chain.digests[seq] for seq in range(part.first_seq, part.last_seq + 1) if seq in chain.digests
    }  # fmt: skip
    return Chain(chain.algorithm, digests, chain.at, chain.head)


def audit(args: argparse.Namespace) -> Verdict:
    """The chain's links are followed here, the messages are hashed by Spark's workers."""
    snapshot = jobs.streams_of(args).open()
    chain = read_chain(args.store, args.stream, args.account, args.head)
    if chain is None:
        raise StorageError(f"stream {args.stream!r} has no hash chain")
    found = Found()
    if snapshot.parts:
        context = jobs.session_of(args, "integrity audit").sparkContext
        work = [(part, part_of(chain, part)) for part in snapshot.parts]
        for one in context.parallelize(work, len(work)).map(lambda pair: check_part(*pair)).collect():
            found.add(one)
    return verdict_of(snapshot, chain, found, args.head)


def report(args: argparse.Namespace) -> int:
    verdict = audit(args)
    document = verdict.to_json()
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        rows = [{"": name.replace("_", " "), "value": _told(value)} for name, value in document.items()]
        jobs.show(args, f"Hash chain of {verdict.stream} of account {verdict.account}", rows, ("", "value"))
    return jobs.OK if verdict.intact else jobs.FOUND


def _told(value: object) -> object:
    return {True: "yes", False: "no", None: ""}[value] if value is None or isinstance(value, bool) else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; see --help."""
    args = arguments(argv)
    return jobs.run("integrity_audit", lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
