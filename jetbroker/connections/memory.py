"""Memory back to the operating system once many connections are gone: the allocator keeps it for the next ones."""

import ctypes
from collections.abc import Callable

from jetbroker import limits


class Footprint:
    """Watches how many connections there are."""

    def __init__(self) -> None:
        self._most = 0
        self._last = 0
        self._trim: Callable[[int], int] | None = None

    def grown(self, connections: int) -> None:
        """So many there are now, one more than before."""
        self._most = max(self._most, connections)

    def follow(self, connections: int) -> bool:
        """So many there are left, seen from time to time. True when memory was given back."""
        falling = connections < self._last  # those that go now leave more to give back
        self._last = connections
        if falling or self._most - connections < limits.TRIM_AFTER_CONNECTIONS:
            return False
        self._most = connections
        if self._trim is None:
            self._trim = getattr(ctypes.CDLL(None), "malloc_trim", _nothing)  # glibc has it, others need it less
        self._trim(0)
        return True


def _nothing(_: int) -> int:
    return 0
