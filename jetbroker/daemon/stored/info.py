"""`jetbroker store info`: one stream, with its segments, subjects and consumers."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from jetbroker.daemon.stored import showing
from jetbroker.daemon.stored.listing import summary_of
from jetbroker.daemon.stored.rows import need_arrow
from jetbroker.jetstream.consumers.state import ConsumerState, replay
from jetbroker.store.offline.consumers import StoredConsumer, read_consumers
from jetbroker.store.offline.reader import SegmentPart, StreamSnapshot, file_bytes
from jetbroker.store.offline.stores import consumer_logs, open_stream


def add(words: Any) -> None:
    """The command's own arguments."""
    parser = words.add_parser(
        "info",
        help="show a stream: segments, subjects, consumers, damage",
        description="Shows a stream: segments, subjects, consumers, damage.",
    )
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("stream", metavar="STREAM")
    parser.add_argument("--account", default="$G", help="the account that owns STREAM (default: %(default)s)")
    parser.add_argument("--subjects", type=int, default=10, metavar="N", help="the N with the most messages (10)")
    parser.add_argument("--check", action="store_true", help="read every message, to find damage that no start found")
    parser.add_argument("--json", action="store_true", help="print an object")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    need_arrow()
    snapshot = open_stream(asked.store, asked.stream, asked.account)
    counted = _subjects(snapshot, asked.check)
    consumers, damage = read_consumers(consumer_logs(asked.store, asked.stream, asked.account), snapshot.stream_id)
    snapshot.damaged.sort()
    shown = {
        **summary_of(snapshot),
        "config": snapshot.config,
        "segments": [_segment(part) for part in snapshot.parts],
        "subjects": len(counted),
        "top_subjects": dict(counted.most_common(max(asked.subjects, 0))),
        "consumers": [_consumer(each, snapshot, damage) for each in consumers],
    }
    if asked.json:
        showing.show_json(shown)
    else:
        _show(shown)
    for line in damage:
        print(f"{program}: {line}", file=sys.stderr)
    if snapshot.damaged:
        print(f"{program}: these messages cannot be read: {showing.ranges(snapshot.damaged)}", file=sys.stderr)
    return int(bool(damage or snapshot.damaged or snapshot.missing_end))


def _subjects(snapshot: StreamSnapshot, check: bool) -> Counter[str]:
    counted: Counter[str] = Counter()
    for batch in snapshot.batches(["subject"], verify=check):
        for entry in batch.column(0).value_counts():
            counted[entry["values"].as_py()] += entry["counts"].as_py()
    return counted


def _segment(part: SegmentPart) -> dict[str, Any]:
    return {
        "file": Path(part.path).name,
        "sealed": part.limit is None,
        "first_seq": part.first_seq,
        "last_seq": part.last_seq,
        "messages": part.messages,
        "bytes": part.size,
        "file_bytes": file_bytes(part),
        "first_time": showing.moment(part.first_ns),
        "last_time": showing.moment(part.last_ns),
    }


def _consumer(consumer: StoredConsumer, snapshot: StreamSnapshot, damage: list[str]) -> dict[str, Any]:
    slots = max(snapshot.last_seq - snapshot.first_seq + 1, 0)
    try:
        state = replay(consumer.entries, snapshot.first_seq, slots=slots)
    except ValueError as error:
        damage.append(f"the state of consumer {consumer.head['name']!r} is damaged: {error}")
        state = ConsumerState()
    config = consumer.head["config"]
    several, one = config.get("filter_subjects"), config.get("filter_subject")
    filters = several if isinstance(several, list) and several else [one] if one else []
    return {
        "name": consumer.head["name"],
        "delivered_seq": state.delivered_seq,
        "ack_floor_seq": state.floor_seq,
        "ack_pending": len(state.pending),
        "filters": filters,
        "config": config,
    }


def _show(shown: dict[str, Any]) -> None:
    safe = showing.safe
    showing.show_table(
        f"Stream {safe(shown['stream'])} of account {safe(shown['account'])}"
        + (f", domain {safe(shown['domain'])}" if shown["domain"] else ""),
        ["Messages", "Size", "First", "Last", "First time", "Last time"],
        [
            [
                str(shown["messages"]),
                showing.size(shown["bytes"]),
                str(shown["first_seq"]),
                str(shown["last_seq"]),
                shown["first_time"] or "",
                shown["last_time"] or "",
            ]
        ],
    )
    showing.show_table(
        "\nSegments",
        ["File", "State", "First", "Last", "Messages", "Size", "First time", "Last time"],
        [
            [
                each["file"],
                "sealed" if each["sealed"] else "open",
                str(each["first_seq"]),
                str(each["last_seq"]),
                str(each["messages"]),
                showing.size(each["bytes"]),
                each["first_time"],
                each["last_time"],
            ]
            for each in shown["segments"]
        ],
    )
    showing.show_table(
        f"\nSubjects: {shown['subjects']}",
        ["Subject", "Messages"],
        [[safe(subject), str(count)] for subject, count in shown["top_subjects"].items()],
    )
    showing.show_table(
        f"\nConsumers: {len(shown['consumers'])}",
        ["Name", "Delivered to", "Acked to", "Pending", "Filters"],
        [
            [
                safe(each["name"]),
                str(each["delivered_seq"]),
                str(each["ack_floor_seq"]),
                str(each["ack_pending"]),
                safe(" ".join(map(str, each["filters"]))),
            ]
            for each in shown["consumers"]
        ],
    )
