"""`jetbroker store verify`: checks the hash chains of streams in the files of a store.

$ jetbroker store verify /var/lib/jetbroker ORDERS
$G > ORDERS: intact, 5012 messages match, 88 removed; sha256 5100:9f86d0…
"""

import argparse
import json
import sys
from typing import Any

from jetbroker.errors import StorageError
from jetbroker.store.offline.integrity import Verdict, verify
from jetbroker.store.offline.stores import list_streams

INTACT, BROKEN, UNKNOWN = 0, 1, 2

_DESCRIPTION = """\
Checks streams whose metadata asks for a hash chain (jetbroker.hash_chain). The broker may be running or not, and is
not asked. Exit code 0: every chain is intact. 1: one is not. 2: something could not be checked. To look for damage in
other streams, use store info with --check.
"""


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    if asked.head and not asked.stream:
        print(f"{program}: --head needs a STREAM", file=sys.stderr)
        return UNKNOWN
    verdicts: list[Verdict] = []
    code = INTACT
    try:
        streams = [(asked.account, asked.stream)] if asked.stream else list_streams(asked.store)
    except StorageError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return UNKNOWN
    for account, stream in streams:
        try:
            verdict = verify(asked.store, stream, account, asked.head)
        except StorageError as error:
            print(f"{program}: {error}", file=sys.stderr)
            code = max(code, UNKNOWN)
            continue
        if verdict is not None:
            verdicts.append(verdict)
        elif asked.stream:
            print(f"{program}: stream {stream!r} has no hash chain", file=sys.stderr)
            code = UNKNOWN
    if not verdicts and code == INTACT:
        print(
            f"{program}: no stream of this store has a hash chain; `jetbroker store info STORE STREAM --check` reads "
            "every message of a stream and looks for damage",
            file=sys.stderr,
        )
    if asked.json:
        print(json.dumps([verdict.to_json() for verdict in verdicts], indent=2))
    else:
        for verdict in verdicts:
            print(text_of(verdict))
    return BROKEN if any(not verdict.intact for verdict in verdicts) else code


def text_of(verdict: Verdict) -> str:
    """One line."""
    found = verdict.found
    faults = [
        *([f"its entries do not follow each other at sequence {verdict.broken_at}"] if verdict.broken_at else []),
        *(["it never ended as --head says"] if verdict.wrong_head else []),
        *(_counted(name, getattr(found, name)) for name in ("changed", "unknown", "damaged") if getattr(found, name)),
    ]
    counts = [f"{found.matching} messages match", f"{verdict.removed} removed"]
    for name, count in (
        ("gone before they were chained", verdict.gone),
        ("not chained yet", found.unchained),
        ("lost by a crash", verdict.rewound),
        ("not shipped yet", verdict.not_shipped),
    ):
        if count:
            counts.append(f"{count} {name}")
    state = "intact" if verdict.intact else "NOT INTACT: " + "; ".join(faults)
    head = f"{verdict.algorithm} {verdict.sequence}:{verdict.head}"
    return f"{verdict.account} > {verdict.stream}: {state}, {', '.join(counts)}; {head}"


def _counted(name: str, sequences: list[int]) -> str:
    shown = ", ".join(map(str, sequences[:10]))
    return f"{name}: {shown}{', …' if len(sequences) > 10 else ''}"


def add(words: Any) -> None:
    """The command's own arguments."""
    check = words.add_parser(
        "verify",
        help="check the hash chains of streams",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("store", metavar="STORE", help="the broker's store_dir, or where a store was shipped to")
    check.add_argument("stream", metavar="STREAM", nargs="?", default="", help="one stream (default: all)")
    check.add_argument("--account", default="$G", help="the account that owns STREAM (default: %(default)s)")
    check.add_argument("--head", default="", metavar="SEQ:HASH", help="what STREAM.INFO has shown at some time")
    check.add_argument("--json", action="store_true", help="print a list of objects")
    check.set_defaults(run=run)
