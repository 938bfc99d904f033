"""An exception in one piece of the broker's work costs that piece alone, and is told without filling the log."""

from __future__ import annotations

from typing import Any

from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.tick import Tick
from tests.support.inprocess import FakeLoop


class TellingLoop(FakeLoop):
    """Keeps what is told of exceptions."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.told.append(f"{context['message']}: {context['exception']!r}")


def test_a_callback_that_fails_does_not_take_the_next_messages_with_it() -> None:
    loop = TellingLoop()
    tick = Tick(loop)  # type: ignore[arg-type]
    router = Router("$G", tick)
    heard = []

    def callback(subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: object) -> None:
        heard.append(payload)
        if payload == b"bad":
            raise ValueError("of this message")

    router.subscribe(CallbackReceiver(tick, callback), b"s")
    for payload in (b"1", b"bad", b"2"):
        router.publish_bytes(b"s", None, b"", payload)
    loop.run()
    assert heard == [b"1", b"bad", b"2"]
    assert loop.told == ["Internal error in CallbackReceiver: ValueError('of this message')"]


def test_of_many_errors_within_a_second_only_the_first_are_told() -> None:
    loop = TellingLoop()
    tick = Tick(loop)  # type: ignore[arg-type]
    for number in range(1000):
        tick.report(loop, ValueError(number))
    assert len(loop.told) == 10
    loop.iterations += 1  # a second of this loop's time
    tick.report(loop, ValueError("later"))
    assert loop.told[10:] == ["Internal error in TellingLoop (990 more were not told of): ValueError('later')"]
