from typing import Any

from jetbroker.store.disk import Disk
from jetbroker.store.log.commit import GroupCommit
from jetbroker.store.log.stream_log import LogObserver
from jetbroker.tick import Tick, TickTask

STATE_MAGIC: bytes

def read_frames(data: bytes, seed: int) -> tuple[dict[str, Any] | None, list[bytes], int, bool]:
    """(head or None, [entries before any damage], end of the last frame taken, damaged)."""

class StateLog(TickTask):
    """One consumer's state on disk."""

    observer: LogObserver | None
    position: int
    committed: int
    size: int
    recovered: list[bytes]
    config: dict[str, Any]
    head: dict[str, Any]
    failed: Exception | None
    path: str
    memory: bool
    @staticmethod
    def in_memory(tick: Tick, head: dict[str, Any]) -> StateLog: ...
    @staticmethod
    def create(
        tick: Tick, disk: Disk, group: GroupCommit, path: str, stream_id: int, head: dict[str, Any], reserve: object
    ) -> StateLog: ...
    @staticmethod
    def recover(
        tick: Tick, disk: Disk, group: GroupCommit, path: str, stream_id: int, damage: list[str], reserve: object
    ) -> StateLog | None:
        """Open an existing file; None when no head record in it is sound (the file is then left untouched)."""
    def append_entry(self, entry: bytes) -> int: ...
    def request_sync(self) -> int: ...
    def should_rewrite(self, snapshot_size: int) -> bool: ...
    def rewrite(self, snapshot: bytes) -> int: ...
    def update_config(self, config: dict[str, Any]) -> int: ...
    def undo_config(self, config: dict[str, Any]) -> None: ...
    def moved_to(self, path: str) -> None:
        """The folder of the file, which has been committed, was renamed."""
    async def commit(self) -> None:
        """Wait until everything appended so far is committed. Raises StorageError when the log is closed."""
    async def close(self) -> None: ...
    def abandon(self) -> None:
        """Close without writing anything more: the consumer is being deleted."""
