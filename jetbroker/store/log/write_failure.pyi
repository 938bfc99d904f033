from jetbroker.store.log.filelog import FileLog

def write_failed(log: FileLog, error: OSError) -> None:
    """Keep what was wholly written, take the other appends back and answer for them."""

def restore(log: FileLog, sequences: list[int]) -> int:
    """Undo removals that are not written yet; returns how many messages are back."""
