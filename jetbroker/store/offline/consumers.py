"""A stream's consumers, read from their state logs without the broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetbroker.store.format.records import seed_of
from jetbroker.store.log.statelog import STATE_MAGIC, read_frames


@dataclass(frozen=True)
class StoredConsumer:
    """`head`: name, configuration and creation time; `entries`: its state, as its log has it."""

    head: dict[str, Any]
    entries: list[bytes]


def read_consumers(logs: Iterable[Path], stream_id: int) -> tuple[list[StoredConsumer], list[str]]:
    """The consumers of a stream by their names, out of these state logs, and what is damaged of them.

    A file that goes away meanwhile belonged to a consumer that was deleted.
    """
    found, damage = [], []
    for path in logs:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        head, entries, _, damaged = (
            read_frames(data, seed_of(stream_id)) if data.startswith(STATE_MAGIC) else (None, [], 0, True)
        )
        if head is None or damaged:
            damage.append(f"{path}: " + ("no sound head record" if head is None else "a part of its state is damaged"))
        if head is not None:
            found.append(StoredConsumer(head, entries))
    return sorted(found, key=lambda consumer: str(consumer.head["name"])), damage
