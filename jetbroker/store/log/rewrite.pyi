from jetbroker.store.log.filelog import FileLog

def rewrite_unsynced(log: FileLog) -> None:
    """Move everything not synced into a new active segment, written but for its fdatasync. Raises OSError."""

def give_up(log: FileLog, error: OSError) -> None:
    """The new file could not be synced either: take back everything that is not on disk and say so."""

def abandon_suspects(log: FileLog, error: OSError) -> None:
    """sync_interval mode: files whose fdatasync failed are never synced again; appends go to a new one."""
