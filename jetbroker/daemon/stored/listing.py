"""`jetbroker store ls`: the streams of a store."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from jetbroker.daemon.stored import showing
from jetbroker.errors import StorageError
from jetbroker.store.offline.reader import StreamSnapshot
from jetbroker.store.offline.stores import list_streams, open_stream


def add(words: Any) -> None:
    """The command's own arguments."""
    parser = words.add_parser("ls", help="list the streams", description="Lists the streams of a store.")
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("--account", default="", help="only streams of this account")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    found: list[dict[str, Any]] = []
    code = 0
    for account, stream in list_streams(asked.store):
        if asked.account and account != asked.account:
            continue
        try:
            snapshot = open_stream(asked.store, stream, account)
        except StorageError as error:
            print(f"{program}: {error}", file=sys.stderr)
            code = 1
            continue
        found.append(summary_of(snapshot))
        code = max(code, int(bool(snapshot.damaged or snapshot.missing_end)))
    if asked.json:
        showing.show_json(found)
        return code
    showing.show_table(
        "",
        ["Account", "Stream", "Messages", "Size", "First", "Last", "First time", "Last time", "Damaged"],
        [
            [
                showing.safe(each["account"]),
                showing.safe(each["stream"]),
                str(each["messages"]),
                showing.size(each["bytes"]),
                str(each["first_seq"]),
                str(each["last_seq"]),
                each["first_time"] or "",
                each["last_time"] or "",
                showing.ranges(each["damaged"]),
            ]
            for each in found
        ],
    )
    return code


def summary_of(snapshot: StreamSnapshot) -> dict[str, Any]:
    """A stream in a few numbers; times are None where there is no message."""
    parts = snapshot.parts
    return {
        "account": snapshot.account,
        "stream": snapshot.stream,
        "domain": snapshot.domain,
        "messages": snapshot.messages,
        "bytes": snapshot.size,
        "first_seq": snapshot.first_seq,
        "last_seq": snapshot.last_seq,
        "first_time": showing.moment(min(part.first_ns for part in parts)) if parts else None,
        "last_time": showing.moment(max(part.last_ns for part in parts)) if parts else None,
        "damaged": snapshot.damaged,
    }
