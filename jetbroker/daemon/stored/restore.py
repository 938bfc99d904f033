"""`jetbroker store restore`: makes a broker's store out of one that was shipped."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any

from jetbroker.daemon.stored import showing
from jetbroker.daemon.stored.ship import rate_of
from jetbroker.errors import StoreReadError
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.pace import Pace
from jetbroker.store.shipping.restore import Until, restore
from jetbroker.tables.asked import since_ns

_DESCRIPTION = """\
Makes a store_dir out of a copy that jetbroker store ship made. A broker that is started on it serves the same messages
with the same sequences and times, and the same consumers. The folder appears when all of it is there, checked, and on
disk.

    jetbroker store restore s3://backups/eu-1 /var/lib/jetbroker
    jetbroker store restore s3://backups/eu-1 /tmp/before --until 2026-01-31T12:00:00Z --stream ORDERS
"""


def add(words: Any) -> None:
    """The command's own arguments."""
    parser = words.add_parser(
        "restore",
        help="make a broker's store out of a shipped one",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", metavar="URL", help="where a store was shipped to")
    parser.add_argument("target", metavar="DEST", help="the new store_dir: a folder that is absent or empty")
    when = "ISO 8601 (UTC unless it says otherwise), or a duration before now (90s, 2h, 7d)"
    parser.add_argument("--until", default="", metavar="TIME", help=f"only messages before this time: {when}")
    parser.add_argument("--sequence", type=int, metavar="SEQ", help="only messages up to this one (with --stream)")
    parser.add_argument("--stream", default="", help="only this stream (default: all)")
    parser.add_argument("--account", default="$G", help="the account that owns it (default: %(default)s)")
    parser.add_argument("--rate", default="", metavar="SIZE", help="at most so much a second (50MB)")
    parser.add_argument("--json", action="store_true", help="print an object for each stream")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    if asked.sequence is not None and (not asked.stream or asked.sequence < 1):
        raise StoreReadError("--sequence needs a number from 1 on, and --stream: sequences are a stream's own")
    until = Until(
        **({"seq": asked.sequence} if asked.sequence is not None else {}),
        **({"ns": since_ns(asked.until, "--until")} if asked.until else {}),
    )
    only = (asked.account, asked.stream) if asked.stream else None
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        found = restore(place_of(asked.url), Path(asked.target), until, Pace(rate_of(asked.rate)), only)
    finally:
        signal.signal(signal.SIGTERM, before)
    for done in found:
        if asked.json:
            print(json.dumps(vars(done)))
        else:
            name = f"{showing.safe(done.account)} > {showing.safe(done.stream)}"
            print(f"{name}: {done.messages} messages, up to sequence {done.last_seq}")
    return 0


def _interrupt(*_: object) -> None:
    """SIGTERM like Ctrl-C: nothing is left."""
    raise KeyboardInterrupt
