"""`jetbroker store ship`: copies a store to a folder or URL, once or for good."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from typing import Any

from jetbroker.daemon.stored import showing
from jetbroker.errors import StorageError, StoreReadError
from jetbroker.forms.sizes import parse_bytes
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.pace import Pace
from jetbroker.store.shipping.shipper import KEEP_DROPPED_SECONDS, Shipper

_DESCRIPTION = """\
Copies the sealed segments of a store, and its consumers' states, to a folder or to any URL that fsspec reaches
(pip install 'jetbroker[ship]'). The broker goes on meanwhile. Files that are there already are not sent again. Each
upload is read back and compared; a stream's manifest is written last. jetbroker.scan, Spark and the commands of
jetbroker store read the copy as a store; jetbroker store restore makes a broker's store of it.

    jetbroker store ship /var/lib/jetbroker s3://backups/eu-1 --every 60 --rate 50MB
    jetbroker store ship /var/lib/jetbroker file:///mnt/backups/eu-1 --unsealed
"""


def add(words: Any) -> None:
    """The command's own arguments."""
    parser = words.add_parser(
        "ship",
        help="copy a store to a folder or URL (s3://…), again and again",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("url", metavar="URL", help="where to; one for each store")
    parser.add_argument("--every", type=_seconds, metavar="SECONDS", help="go on: look again after this time")
    parser.add_argument("--rate", default="", metavar="SIZE", help="at most so much a second, both ways (50MB)")
    parser.add_argument(
        "--unsealed", action="store_true", help="ship the segment that is being written, too, as far as it is on disk"
    )
    parser.add_argument(
        "--keep-dropped", type=_seconds, default=KEEP_DROPPED_SECONDS, metavar="SECONDS",
        help="how long objects stay that no stream needs any more, for readers of before (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true", help="first read back all that is there, and send anew what is not whole"
    )
    parser.add_argument("--json", action="store_true", help="print an object for each stream")
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 10**9:
        raise ValueError(text)
    return value


def rate_of(text: str) -> int | None:
    """Bytes a second; None for all there is. Raises StoreReadError."""
    if not text:
        return None
    try:
        rate = parse_bytes(text)
    except ValueError as error:
        raise StoreReadError(f"--rate: {error}") from None
    if rate == 0:
        raise StoreReadError("--rate: nothing moves at 0 bytes a second")
    return rate


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    pace = Pace(rate_of(asked.rate))
    shipper = Shipper(
        asked.store,
        place_of(asked.url),
        pace,
        unsealed=asked.unsealed,
        check=asked.check,
        keep_dropped=asked.keep_dropped,
    )
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if asked.every is None:
            return _pass(shipper, asked, program)
        while True:
            try:
                _pass(shipper, asked, program)
            except StorageError as error:
                print(f"{program}: {error}; next try in {asked.every:g} s", file=sys.stderr, flush=True)
            time.sleep(asked.every)
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    """SIGTERM like Ctrl-C: an unfinished upload is given up."""
    raise KeyboardInterrupt


def _pass(shipper: Shipper, asked: argparse.Namespace, program: str) -> int:
    code = 0
    for done in shipper.ship():
        if done.damaged and (done.objects or asked.every is None):
            lost = showing.ranges(done.damaged)
            print(
                f"{program}: stream {done.stream!r}: these messages cannot be read: {lost}", file=sys.stderr, flush=True
            )
            code = 1
        if asked.every is not None and not done.objects:
            continue
        if asked.json:
            print(json.dumps(vars(done)), flush=True)
        else:
            print(
                f"{showing.safe(done.account)} > {showing.safe(done.stream)}: {done.objects} objects sent, "
                f"{showing.size(done.bytes)}; {done.segments} segments up to sequence {done.last_seq}",
                flush=True,
            )
    return code
