from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SEGMENT_MAGIC: bytes
TRAILER_MAGIC: bytes
FORMAT_VERSION: int
PLAIN_VERSION: int
PACKED_VERSION: int
NO_SUBJECT: int  # subject id of an empty or lost slot
LOST_OFFSET: int  # offset of a slot whose record was damaged before the segment was sealed; 0 is an empty slot
HEADERS_BIT: int  # bit 31 of the size column: the message has headers; the other bits are headers + payload
MESSAGE: int
DELETIONS: int
CONFIG: int
RECORD_HEADER_BYTES: int
TRAILER_LENGTH: int
PREVIOUS_WAS_SEALED: int

_Buffer = bytes | bytearray | memoryview

@dataclass(frozen=True)
class SegmentHeader:
    header_len: int
    stream_id: int
    first_seq: int
    created_ns: int
    previous_first_seq: int
    valid_before: int
    meta: dict[str, Any]
    packed: bool = False

@dataclass(frozen=True)
class Record:
    kind: int
    seq: int
    time_ns: int
    flags: int
    subject: bytes
    headers: bytes
    payload: bytes
    length: int

@dataclass(frozen=True)
class Footer:
    first_seq: int
    last_seq: int
    offsets: memoryview
    times: memoryview
    sizes: memoryview
    subject_ids: memoryview
    subjects: list[bytes]
    deletions: list[tuple[int, int]]
    msg_ids: int

def crc32c(data: _Buffer, seed: int = 0) -> int: ...
def crc32c_portable(data: _Buffer, seed: int = 0) -> int: ...
def seed_of(stream_id: int) -> int: ...
def encode_record(
    kind: int,
    stream_id: int,
    seq: int,
    time_ns: int,
    subject: bytes = b"",
    headers: bytes = b"",
    payload: bytes = b"",
    flags: int = 0,
) -> bytes: ...
def encode_deletions(stream_id: int, last_seq: int, time_ns: int, ranges: Iterable[tuple[int, int]]) -> bytes: ...
def decode_deletions(payload: bytes) -> list[tuple[int, int]]: ...
def decode_record(data: _Buffer, offset: int, stream_id: int) -> Record | None: ...
def find_next_record(data: _Buffer, start: int, stream_id: int) -> int: ...
def encode_header(
    stream_id: int,
    first_seq: int,
    created_ns: int,
    previous_first_seq: int,
    valid_before: int,
    meta: dict[str, Any],
) -> bytes: ...
def decode_header(data: _Buffer) -> SegmentHeader | None: ...
def encode_trailer(footer_at: int, footer: bytes, index_len: int) -> bytes: ...
def decode_trailer(data: _Buffer) -> tuple[int, int, int] | None: ...
def decode_footer(data: _Buffer, crc: int) -> Footer | None: ...
def encode_footer(
    file_offset: int,
    first_seq: int,
    offsets: list[int],
    times: list[int],
    sizes: list[int],
    subject_ids: list[int],
    subjects: list[bytes],
    deletions: list[tuple[int, int]],
    msg_ids: int = 0,
) -> bytes: ...
def decode_object(data: bytes) -> dict[str, Any] | None: ...
def encode_json(value: object) -> bytes: ...
