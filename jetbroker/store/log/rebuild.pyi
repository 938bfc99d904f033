from jetbroker.store.log.filelog import FileLog, FileSegment

def rebuild_columns(log: FileLog, segment: FileSegment) -> None:
    """Columns of a sealed segment from its records, because its footer cannot be read. Raises StorageError."""

def recount(log: FileLog) -> None:
    """Make every count anew: records are damaged, or the cache was wrong, and nobody knows of which subjects."""
