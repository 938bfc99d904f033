"""Stores written without a broker: for tests of whatever reads one, and for benchmarks.

The layout follows docs/ARCHITECTURE.md word by word and shares nothing with the broker's own writer but the record
and header encoders, so that a reader is held against the description and not against the writer's habits.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from jetbroker.store.format.records import (
    HEADERS_BIT,
    MESSAGE,
    NO_SUBJECT,
    PREVIOUS_WAS_SEALED,
    crc32c,
    encode_deletions,
    encode_header,
    encode_record,
)

Range = tuple[int, int]


def write_checked(path: Path, document: dict[str, Any]) -> None:
    """JSON with its CRC in a second line."""
    text = json.dumps(document).encode()
    path.write_bytes(text + b'\n{"crc":%d}\n' % crc32c(text))


def write_store_marker(store_dir: Path, format_version: int = 1, **more: object) -> Path:
    """Makes `<store_dir>/jetstream` with its jetbroker.json, which may hold `more`; returns that folder."""
    root = store_dir / "jetstream"
    root.mkdir(parents=True, exist_ok=True)
    write_checked(root / "jetbroker.json", {"format": format_version, **more})
    return root


def _file_name(name: str) -> str:
    return quote(name, safe="-_").replace(".", "%2E").replace("~", "%7E")


class StreamWriter:
    """Writes one stream's files: append, delete, seal, and so on. Closed when its segment is sealed or by close()."""

    def __init__(self, store_dir: Path, stream: str, account: str = "$G", stream_id: int = 0x1234_5678_9ABC_DEF1,
                 config: dict[str, Any] | None = None) -> None:  # fmt: skip
        root = write_store_marker(store_dir)
        self.directory = (
            root / quote(account, safe="-_").replace(".", "%2E") / quote(stream, safe="-_").replace(".", "%2E")
        )
        self.directory.mkdir(parents=True, exist_ok=True)
        self.stream_id = stream_id
        self.config = config or {"name": stream, "storage": "file"}
        self.meta = {"account": account, "stream": stream, "created": 0, "config": self.config}
        document = {"name": stream, "account": account, "created": 0, "stream_id": stream_id, "config": self.config}
        write_checked(self.directory / "stream.json", document)
        self.last_seq = 0
        self.filled_seq = 0  # up to here there are slots in older segments
        self.time_ns = 1_700_000_000_000_000_000
        self.file: BinaryIO | None = None
        self.path = self.directory
        self.previous_first_seq = 0
        self.previous_valid = 0
        self.first_seq = 1
        self._clear()

    def _clear(self) -> None:
        self.slots: list[tuple[int, int, int, int]] = []  # offset, time, size, subject id
        self.subjects: dict[bytes, int] = {}
        self.ranges: list[Range] = []
        self.position = 0

    def _open(self) -> BinaryIO:
        if self.file is None:
            self.first_seq = self.last_seq + 1
            self.path = self.directory / f"{self.first_seq:020d}.seg"
            self.file = self.path.open("wb", buffering=1 << 20)
            self._write(encode_header(self.stream_id, self.first_seq, self.time_ns, self.previous_first_seq,
                                      self.previous_valid, self.meta))  # fmt: skip
            if self.filled_seq + 1 < self.first_seq:
                self.delete([(self.filled_seq + 1, self.first_seq - 1)])  # skipped between two segments
        return self.file

    def _write(self, data: bytes) -> None:
        self._open().write(data)
        self.position += len(data)

    def append(self, subject: bytes, payload: bytes, headers: bytes = b"", time_ns: int | None = None) -> int:
        """One message; returns its sequence. Its time is 1 ms after the one before, unless given."""
        self._open()
        self.time_ns = self.time_ns + 1_000_000 if time_ns is None else time_ns
        self.last_seq += 1
        self._fill_slots()
        number = self.subjects.setdefault(subject, len(self.subjects))
        size = len(headers) + len(payload)
        self.slots.append((self.position, self.time_ns, size | (HEADERS_BIT if headers else 0), number))
        self._write(encode_record(MESSAGE, self.stream_id, self.last_seq, self.time_ns, subject, headers, payload))
        return self.last_seq

    def _fill_slots(self) -> None:
        while self.first_seq + len(self.slots) < self.last_seq:
            self.slots.append((0, 0, 0, NO_SUBJECT))

    def skip(self, count: int) -> None:
        """Leaves `count` sequences without a message."""
        self.last_seq += count

    def delete(self, ranges: Iterable[Range]) -> None:
        """Records deletions, in the segment that is open now."""
        ranges = list(ranges)
        self._open()
        self.ranges += ranges
        self._write(encode_deletions(self.stream_id, self.last_seq, self.time_ns, ranges))

    def flush(self) -> None:
        """Makes what was written visible to readers."""
        if self.file is not None:
            self.file.flush()

    def seal(self) -> Path:
        """Ends the segment with its footer; the next append starts another. Returns its path."""
        self._open()
        self.last_seq = max(self.last_seq, self.first_seq - 1)
        while self.first_seq + len(self.slots) <= self.last_seq:
            self.slots.append((0, 0, 0, NO_SUBJECT))
        self._write(bytes(-self.position % 8))
        footer = self._footer()
        trailer = struct.pack("<QQII8s", self.position, len(footer), crc32c(footer), 0, b"JBFOOTER")
        self._write(footer + trailer)
        return self._end(PREVIOUS_WAS_SEALED)

    def leave_unsealed(self) -> Path:
        """Goes on in a new segment without a footer, as after a failed fsync. Returns the old one's path."""
        self._open()
        return self._end(self.position)

    def _end(self, valid: int) -> Path:
        self.close()
        self.filled_seq = self.first_seq + len(self.slots) - 1
        self.previous_first_seq = self.first_seq
        self.previous_valid = valid
        self._clear()
        return self.path

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def _footer(self) -> bytes:
        def column(code: str, values: list[int]) -> bytes:
            packed = struct.pack(f"<{len(values)}{code}", *values)
            return packed + bytes(-len(packed) % 8)

        offsets, times, sizes, numbers = ([slot[i] for slot in self.slots] for i in range(4))
        text = b"".join(self.subjects)
        ends = [0]
        for subject in self.subjects:
            ends.append(ends[-1] + len(subject))
        return b"".join([
            struct.pack("<QQQ", len(self.slots), self.first_seq, self.first_seq + len(self.slots) - 1),
            column("I", offsets), column("q", times), column("I", sizes), column("I", numbers),
            struct.pack("<Q", len(self.subjects)), column("I", ends), text + bytes(-len(text) % 8),
            struct.pack("<Q", len(self.ranges)), *(struct.pack("<QQ", *pair) for pair in self.ranges),
            struct.pack("<Q", 0),
        ])  # fmt: skip
