from collections.abc import Callable

from jetbroker.store.disk import Disk
from jetbroker.store.log.segment_files import FileSegment

class SyncRound:
    unsynced: list[FileSegment]
    running: bool
    active: FileSegment | None
    def __init__(self, disk: Disk) -> None: ...
    def seal(self, segment: FileSegment) -> None:
        """It was the active one, and waits for its fdatasync."""
    def changed_directory(self, path: str) -> None:
        """A file in it was made or got another name."""
    def changed_bytes(self, segment: FileSegment) -> None:
        """Something in the segment's file was overwritten."""
    def begin(self, active: FileSegment, change: int, seq: int, offset: int) -> list[int | str | Callable[[], object]]:
        """What a round must do that covers everything up to this change, sequence and place in the active file."""
    def end(self) -> int:
        """The round worked: what is sealed from its active segment on waits for the next one."""
    def fail(self) -> int:
        """The round did not work."""
    def leave(self) -> bool:
        """The files of the round that failed are never synced again; is the log's active one among them?"""
    def removable(self, change: int) -> list[FileSegment]:
        """The dropped segments whose files may go now that `change` is synced."""
    def held(self) -> set[FileSegment]:
        """Segments whose files are being synced, or wait for it."""
    def moved_to(self, directory: str) -> None: ...
