"""A bound on bytes a second."""

import time


class Pace:
    """Called with the bytes that were moved, it waits until they fit the rate; without a rate it never does."""

    def __init__(self, bytes_per_second: int | None = None) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0
        self.moved = 0

    def __call__(self, size: int) -> None:
        self.moved += size
        if self._rate is None:
            return
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + size / self._rate
        time.sleep(self._free_at - now)
