"""Events that come in bursts: the clock is the test's."""

from __future__ import annotations

from typing import Any, cast

from jetbroker.jetstream.timing.bursts import LONGEST_SECONDS, SOON_SECONDS, Bursts


class Clock:
    """The part of an event loop that is used: time goes on when a timer is run."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Any) -> Clock:
        self.timers.append((delay, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def run(self) -> float:
        """The one timer there is; returns how long it took."""
        [(delay, callback)] = self.timers
        self.timers.clear()
        self.now += delay
        callback()
        return delay


def test_what_goes_on_is_heard_less_and_less_often() -> None:
    clock, heard = Clock(), []
    bursts = Bursts(cast(Any, clock), lambda: heard.append(clock.now))
    pauses = []
    for _ in range(8):
        bursts.happened()
        bursts.happened()  # the same burst
        pauses.append(clock.run())
    assert pauses[:4] == [SOON_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert pauses[-1] == LONGEST_SECONDS and len(heard) == 8


def test_behind_a_quiet_time_it_is_heard_soon() -> None:
    clock = Clock()
    bursts = Bursts(cast(Any, clock), lambda: None)
    for _ in range(4):
        bursts.happened()
        clock.run()
    clock.now += LONGEST_SECONDS + 1
    bursts.happened()
    assert clock.run() == SOON_SECONDS


def test_nobody_hears_once_it_is_stopped() -> None:
    clock = Clock()
    bursts = Bursts(cast(Any, clock), lambda: None)
    bursts.happened()
    bursts.stop()
    assert clock.timers == []
