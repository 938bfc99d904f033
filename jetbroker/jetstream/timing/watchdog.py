"""The watchdog of deliveries: messages and demand mean a delivery within a second.

It looks at each consumer once a second. One that had both at two looks in a row, and has delivered nothing in between,
is a breach: a bug of the broker, never of a client. The breach is counted and logged, and the consumer is set going
again.
"""

from asyncio import TimerHandle
from collections.abc import Callable, Iterable, Iterator
from time import monotonic_ns
from typing import Any, Protocol

from jetbroker import limits
from jetbroker.tick import Tick


class Watched(Protocol):
    """What is asked of a consumer."""

    def is_stalled(self) -> bool:
        """Asked once a second."""

    def describe(self) -> dict[str, Any]:
        """All of its state."""

    def set_going(self) -> None:
        """Deliver, whatever keeps it from doing so."""


class Watchdog:
    """Looks at the consumers that `consumers` gives, some at a time, and tells `tell` of each breach."""

    def __init__(
        self,
        tick: Tick,
        consumers: Callable[[], Iterable[Watched]],
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self.breaches = 0
        self._tick = tick
        self._consumers = consumers
        self._tell = tell
        self._told = 0
        self._left: Iterator[Watched] = iter(())
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        if self._timer is None:
            self._timer = self._tick.loop.call_later(limits.JS_WATCHDOG_SECONDS, self.look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._left = iter(())

    def look(self) -> None:
        """Look at all of them once, in turns; and again in a second."""
        self._left = iter(list(self._consumers()))
        self._told = 0
        self._go_on()

    def _go_on(self) -> None:
        until = monotonic_ns() + limits.JS_WORK_NS
        for consumer in self._left:
            try:
                if consumer.is_stalled():
                    self._breach(consumer)
            except Exception as error:  # whatever keeps one from being looked at, the others are
                self._tick.report(consumer, error)
            if monotonic_ns() > until:
                self._timer = self._tick.loop.call_later(0, self._go_on)
                return
        self._timer = None
        self.start()

    def _breach(self, consumer: Watched) -> None:
        self.breaches += 1
        try:
            if self._told < limits.JS_WATCHDOG_LINES:
                self._told += 1
                self._tell(consumer.describe())
        finally:
            consumer.set_going()
