import asyncio

from jetbroker.store.disk import Disk
from jetbroker.store.format.frames import FrameIndex

class FileSegment:
    first_seq: int
    slots: int
    live: int
    live_bytes: int
    msg_ids: int
    first_time: int
    last_time: int
    sealed: bool
    path: str
    fd: int
    end: int
    header_len: int
    footer_at: int
    footer_len: int
    footer_crc: int
    created_ns: int
    previous: int
    valid_before: int
    temporary: str | None
    summarized_live: int
    packed: bool
    index_len: int
    frames: FrameIndex | None
    stays_plain: bool
    def __init__(self, first_seq: int, path: str) -> None: ...

class SegmentFiles:
    disk: Disk
    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop, seed: int) -> None: ...
    def temporary_name(self, path: str) -> str:
        """A name that no file had before, for one that is to be called `path`."""
    def new_segment(self, directory: str, first_seq: int, valid_before: int, before: FileSegment | None) -> FileSegment:
        """A segment behind `before`, without a file yet."""
    def make(self, segment: FileSegment) -> None:
        """An empty file; another one with its name is set aside. Raises OSError."""
    def close(self, segment: FileSegment) -> None: ...
    def cut(self, segment: FileSegment, boundary: int) -> None:
        """Take back what a failed write left behind the last whole record."""
    def settle(self, segment: FileSegment, content: bytes) -> None:
        """A file that was made under another name has this content, on disk, and gets its own name. Raises OSError."""
    def discard(self, segment: FileSegment) -> None:
        """Close and remove a file that never got the segment's name."""
    def remove(self, segment: FileSegment, others: list[FileSegment]) -> None:
        """Close and remove the file of a segment that is dropped."""
    def overwrite(self, segment: FileSegment, start: int, end: int) -> None:
        """Zero bytes in place of those at [start, end). Raises StorageError."""
    def clear(self) -> None: ...
