"""What a broker tells the process that ships its store, and what that process tells the broker: JSON, line by line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

LINE_BYTES = 64 * 1024
DAMAGE_RANGES = 10  # that a report names; their number it tells in any case


@dataclass(frozen=True)
class Task:
    """What to ship, where to and how: seconds between two passes, bytes a second (None: no bound).

    The other fields are `Shipper`'s arguments.
    """

    store: str
    url: str
    interval: float
    rate: int | None
    unsealed: bool
    check: bool
    keep_dropped: float


@dataclass
class Report:
    """One line of the shipping process. What does not happen is empty.

    `moved`: bytes that went either way since the process began. `streams`: that the pass which ended has looked at,
    and `segments`: that the copy has of them. `failed`: why a pass did not come to its end.
    """

    moved: int = 0
    objects: int = 0
    bytes: int = 0
    account: str = ""
    stream: str = ""
    damaged: list[tuple[int, int]] = field(default_factory=list)
    damaged_messages: int = 0
    passed: bool = False
    streams: int = 0
    segments: int = 0
    failed: str = ""


def encode(line: Task | Report) -> bytes:
    """A line, with its end."""
    return json.dumps(asdict(line)).encode() + b"\n"


def decode_task(line: bytes) -> Task:
    """What `encode` made of a task."""
    return Task(**json.loads(line))


def decode_report(line: bytes) -> Report | None:
    """None: this is something else, such as a library's warning."""
    try:
        found: Any = json.loads(line)
        return Report(**found)
    except (ValueError, TypeError):
        return None
