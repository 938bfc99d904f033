"""What happens in bursts is heard soon, and ever less often while it goes on."""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

SOON_SECONDS = 0.05
LONGEST_SECONDS = 2.0


class Bursts:
    """Calls `heard` once for all that happens within a pause, which is twice as long each time until it is quiet."""

    def __init__(self, loop: AbstractEventLoop, heard: Callable[[], None]) -> None:
        self._loop = loop
        self._heard = heard
        self._pause = SOON_SECONDS
        self._last = 0.0
        self._timer: TimerHandle | None = None

    def happened(self) -> None:
        """Something did."""
        if self._timer is not None:
            return
        if self._loop.time() > self._last + LONGEST_SECONDS:
            self._pause = SOON_SECONDS
        self._timer = self._loop.call_later(self._pause, self._tell)

    def stop(self) -> None:
        """Nobody listens any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._pause = min(self._pause * 2, LONGEST_SECONDS)
        self._heard()
