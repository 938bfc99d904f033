from collections.abc import Callable
from mmap import mmap

WANT_SUBJECT: int
WANT_HEADERS: int
WANT_DATA: int

def merge_ranges(ranges: bytes) -> bytes: ...
def clip_ranges(merged: bytes, first_seq: int, last_seq: int) -> bytes: ...
def ranges_cover(merged: bytes, first_seq: int, last_seq: int) -> bool: ...

class SegmentColumns:
    first_seq: int
    last_seq: int
    sealed: bool
    valid_end: int
    deletions: bytes
    damaged: list[tuple[int, int]]
    row_count: int
    size: int  # bytes of the plain form
    def __init__(
        self,
        data: bytes | mmap,
        stream_id: int,
        first_seq: int,
        start: int,
        limit: int | None = None,
        mark: tuple[int, int, int] | None = None,
    ) -> None: ...
    def mark_of(self, seq: int) -> tuple[int, int, int] | None: ...
    def grow(self, data: bytes | mmap, from_seq: int) -> bool: ...
    def select(
        self,
        deleted: bytes = b"",
        start_seq: int = 0,
        end_seq: int = ...,
        start_ns: int = ...,
        end_ns: int = ...,
        pattern: bytes = b"",
    ) -> int: ...
    def torn_batches(self, deleted: bytes) -> list[tuple[int, int]]: ...
    def summary(self) -> tuple[int, int, int, int]: ...
    def subject_totals(self) -> list[tuple[bytes, int, int, int, int, int, int]]: ...
    def seq_of(self, row: int) -> int: ...
    def digests(
        self, start: int, count: int, digest: Callable[[int, int, bytes, bytes, bytes], bytes]
    ) -> list[tuple[int, bytes]]: ...
    def batch(
        self, start: int, max_rows: int, want: int, check: bool
    ) -> tuple[int, int, bytes, bytes, bytes, tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, bytes]]: ...
