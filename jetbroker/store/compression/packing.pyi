from dataclasses import dataclass

from jetbroker.store.disk import Disk
from jetbroker.store.format.frames import FrameIndex
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.segment_files import FileSegment

TEMPORARY_SUFFIX: str

@dataclass(frozen=True)
class Packed:
    fd: int
    temporary: str
    index: FrameIndex
    index_len: int
    footer_at: int
    footer_len: int
    footer_crc: int

def pack(disk: Disk, path: str, temporary: str, stream_id: int) -> Packed | None: ...
def repack(
    disk: Disk, path: str, temporary: str, stream_id: int, ranges: list[tuple[int, int]], footer: bytes
) -> Packed | None: ...
def discard(disk: Disk, fd: int, temporary: str) -> None: ...
def next_plain(log: FileLog) -> FileSegment | None: ...
def is_held(log: FileLog, segment: FileSegment) -> bool: ...
def footer_of(log: FileLog, segment: FileSegment) -> bytes: ...
def adopt(log: FileLog, segment: FileSegment, packed: Packed) -> None: ...
