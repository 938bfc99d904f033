"""What is kept for connections that have not logged in: bounded for all of them together.

One connection may keep half a command (max_control_line), half a request or frame; ten thousand of them could take all
memory. Who logs in at once never keeps anything. So when it gets too much, the one that has kept something for the
longest time is cut off.
"""

from typing import Protocol

from jetbroker import limits


class Holder(Protocol):
    """A connection that keeps bytes."""

    def cut_off(self) -> None:
        """Close the connection and give the bytes back."""


class Unauthenticated:
    """Who keeps how much, the oldest first."""

    def __init__(self, max_bytes: int = limits.UNAUTHENTICATED_BYTES) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.cut_off = 0  # how many had to go
        self._kept: dict[Holder, int] = {}

    def keep(self, holder: Holder, size: int) -> None:
        """`holder` keeps `size` bytes now. It, or another, may be cut off before this returns."""
        if not size:
            self.forget(holder)
            return
        size += limits.UNAUTHENTICATED_OBJECT_BYTES
        self.bytes += size - self._kept.get(holder, 0)
        self._kept[holder] = size
        while self.bytes > self.max_bytes:
            oldest = next(iter(self._kept))
            self.forget(oldest)
            self.cut_off += 1
            oldest.cut_off()

    def forget(self, holder: Holder) -> None:
        """`holder` keeps nothing any more: it has logged in, or is gone."""
        self.bytes -= self._kept.pop(holder, 0)
