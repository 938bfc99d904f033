from enum import IntEnum

from jetbroker.errors import StorageError
from jetbroker.store.faults import Fault, Faults, Retry
from jetbroker.store.reserve import Reserve

class Writing(IntEnum):
    WORKS = 0
    UNSYNCED = 1
    REFUSING = 2
    TRYING = 3
    MOVING = 4
    PAUSED = 5

class WriteEvent(IntEnum):
    REFUSED = 0
    NOT_SYNCED = 1
    MOVED = 2
    GIVEN_UP = 3
    TRIED = 4
    COMMITTED = 5
    SYNCED = 6

TRANSITIONS: dict[WriteEvent, tuple[Writing, ...]]

class Health:
    state: Writing
    failed: StorageError | None
    waits: bool
    def __init__(self, retry: Retry, faults: Faults, reserve: Reserve | None = None) -> None: ...
    def take(self, event: WriteEvent) -> int:
        """Follow the table."""
    def refuse(self, fault: Fault, error: StorageError) -> None:
        """The disk did not take a write: appends fail with `error` until a try has worked."""
    def doubt(self, fault: Fault) -> None:
        """An fdatasync failed, but appends go on."""
    def try_later(self) -> None: ...
    def has_reserve(self) -> bool: ...
    def use_reserve(self) -> None: ...
    def close(self) -> None: ...
