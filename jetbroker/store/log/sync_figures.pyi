class Histogram:
    sum: float
    def __init__(self, bounds: tuple[float, ...]) -> None: ...
    def cumulated(self) -> list[tuple[float, int]]:
        """[(bound, how many values were at most that)]; the last bound is infinite."""

class SyncFigures:
    seconds: Histogram
    changes: Histogram
    failures: int
