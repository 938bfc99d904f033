from jetbroker.jetstream.backup.archive.s2 import S2Writer
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.stream_log import StreamLog

class ArchiveError(Exception):
    """The archive cannot be taken; the text says why."""

class BlockWriter:
    """Message blocks of one stream, one after the other."""

    size: int
    last_seq: int
    def __init__(self, log: FileLog, stream: str) -> None: ...
    def plan(self, start: int, last: int) -> bool:
        """Choose messages from `start` on that `read` finds in their file. False: the next one has to be copied."""
    def read(self) -> tuple[int, bool]:
        """Read what was planned, in a thread; the next sequence, and False when that one has to be copied."""
    def copy(self, start: int, last: int, until_ns: int) -> int:
        """Copy messages from `start` to `last` until the block is full or the time is over; returns the next one."""
    @property
    def full(self) -> bool: ...
    def end_at(self, seq: int, time_ns: int) -> None:
        """The stream goes up to a sequence whose message is gone."""
    def forget(self) -> None:
        """Only what is lost was looked for."""
    def finish(self, index: int, out: S2Writer) -> None:
        """Write the block with its checksums; the next one begins. May run in a thread."""

class BlockReader:
    """Message blocks of one stream, one after the other, into its log."""

    def __init__(self, stream: str) -> None: ...
    written: int
    def begin(self, index: int) -> None:
        """A block begins."""
    @property
    def unchecked(self) -> int:
        """Bytes that wait for `check`."""
    def feed(self, data: bytes | memoryview) -> None:
        """The next piece of it."""
    def check(self) -> None:
        """Check what has come. May run in a thread. Raises ArchiveError."""
    def store(self, log: StreamLog, until_ns: int) -> bool:
        """Append what was checked, until the time is over; True: there is more. Raises ArchiveError, StorageError."""
    def end(self) -> None:
        """The block ends. Raises ArchiveError when a record does not."""
