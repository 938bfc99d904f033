from jetbroker.store.disk import Disk
from jetbroker.store.log.removals import PendingRemovals
from jetbroker.store.log.segment_files import FileSegment

class ActiveFile:
    def __init__(self, disk: Disk, seed: int) -> None: ...
    def begin(self, segment: FileSegment, content: bytes) -> int:
        """Start with `content`, nothing of which is written yet."""
    def put_deletions(self, removals: PendingRemovals, seq: int, time_ns: int) -> int:
        """D records of what waits, as of this sequence and time."""
    def write(self) -> int:
        """Write all of it. Raises OSError."""
    def cut_back(self, end: int) -> int:
        """What is behind `end` is not going to be written."""
    def written_boundary(self, slots: int) -> int:
        """Where the last wholly written record ends, when so many message records are."""
