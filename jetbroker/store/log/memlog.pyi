from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.tick import Tick

DEFAULT_MEMORY_SEGMENT_BYTES: int

class MemoryLog(SegmentedLog):
    closed: bool
    def __init__(self, tick: Tick, segment_bytes: int = ...) -> None: ...
