from jetbroker.store.disk import Disk
from jetbroker.store.log.segment_files import FileSegment

class Sealing:
    syncs_batches: bool
    batches_end: int
    def __init__(self, disk: Disk, syncs_batches: bool) -> None: ...
    def seal(self, segment: FileSegment, synced: int) -> int:
        """Write the footer of a segment of which the first `synced` bytes are on disk. Raises OSError."""
