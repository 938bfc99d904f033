import asyncio
from collections.abc import Callable
from typing import Any

from jetbroker.store.disk import Disk
from jetbroker.store.log.commit import GroupCommit
from jetbroker.store.log.health import Health
from jetbroker.store.log.segment_files import FileSegment
from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.tick import Tick

DEFAULT_SEGMENT_BYTES: int

class FileLog(SegmentedLog):
    group: GroupCommit
    directory: str
    meta: dict[str, Any]
    health: Health
    on_sealed: Callable[[FileSegment], None] | None
    on_removed: Callable[[FileSegment], None] | None
    packs: bool
    closed: bool
    packer: Any
    erasing: asyncio.Future[None] | None
    def __init__(
        self,
        tick: Tick,
        disk: Disk,
        group: GroupCommit,
        directory: str,
        stream_id: int,
        meta: dict[str, Any],
        segment_bytes: int = ...,
        reserve: object = None,
    ) -> None: ...
    def set_packing(self, on: bool, segment_bytes: int) -> None: ...
    def start(self, first_seq: int = 1, valid_before: int = ...) -> None: ...
    def write_config(self, meta: dict[str, Any]) -> None: ...
    def begin_sync(self) -> list[int | str | Callable[[], object]] | None:
        """What the next round must sync; None when there is nothing."""
    def end_sync(self, error: OSError | None) -> None:
        """The outcome of the round."""
    def abandon(self) -> None:
        """Close the files without writing anything more."""
    def rest(self) -> None:
        """Give the write buffer back when nothing was written since the last call. Called every few seconds."""
    def buffer_bytes(self) -> int:
        """Memory held for writing."""
    def changed_segments(self) -> list[FileSegment]:
        """Sealed segments of which the cache does not know what is alive."""
    def moved_to(self, directory: str) -> None: ...
