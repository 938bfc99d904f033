from jetbroker.logs.logger import Logger
from jetbroker.store.disk import Disk
from jetbroker.store.faults import Faults
from jetbroker.tick import Tick

class Histogram:
    sum: float
    def __init__(self, bounds: tuple[float, ...]) -> None: ...
    def cumulated(self) -> list[tuple[float, int]]:
        """[(bound, how many values were at most that)]; the last bound is infinite."""

class SyncFigures:
    seconds: Histogram
    changes: Histogram
    failures: int

class GroupCommit:
    disk: Disk
    interval: float | None
    faults: Faults
    figures: SyncFigures
    def __init__(self, tick: Tick, disk: Disk, interval: float | None = None, log: Logger | None = None) -> None: ...
    def beside(self) -> GroupCommit:
        """Another group of the same store: neither waits for the other's rounds."""
    def request(self, member: object) -> int: ...
    def request_later(self, member: object) -> int: ...
    def forget(self, member: object) -> None: ...
    async def drain(self) -> None: ...
    async def close(self) -> None: ...
