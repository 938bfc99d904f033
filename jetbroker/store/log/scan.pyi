from jetbroker.store.log.segment_files import FileSegment, SegmentFiles

class Walk:
    config: dict[str, object] | None
    end: int
    damaged: int
    last_seq: int

def walk_records(segment: FileSegment, data: bytes, limit: int, seed: int, sealed: bool) -> Walk: ...
def first_record(data: bytes, start: int, seed: int) -> int: ...
def use_footer(segment: FileSegment, footer: bytes, trailer: tuple[int, int, int]) -> None: ...
def rebuild_columns(files: SegmentFiles, segment: FileSegment) -> bool:
    """Columns of a sealed segment from its records, because its footer cannot be read. Raises StorageError."""
