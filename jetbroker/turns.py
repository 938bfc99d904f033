"""Turns: long work in pieces, with the event loop's other work in between.

Whoever has much to do makes a Turn and calls `rest()` between two steps. Everybody who does so shares one turn of each
iteration of the event loop, as long as one of a connection's. When it is over they wait for the next one in a queue,
from which each iteration lets one go on: many long jobs together keep the others waiting no longer than one.
"""

import asyncio
import time
from collections import deque
from collections.abc import Generator
from typing import TypeVar
from weakref import WeakKeyDictionary

from jetbroker import limits


async def next_turn() -> "Turn":
    """A turn behind those that wait for theirs already: for work of which much may begin at the same time."""
    turn = Turn()
    await turn.wait()
    return turn


class Turn:
    """The time of the event loop's iteration that long work may take."""

    __slots__ = ("_line",)

    def __init__(self) -> None:
        self._line = _lines.setdefault(asyncio.get_running_loop(), _Line())

    @property
    def over(self) -> bool:
        """Is it time to let others go on?"""
        return self._line.ends_ns() <= time.monotonic_ns()

    async def rest(self) -> None:
        """Wait for the next turn when this one is over."""
        if self.over:
            await self.wait()

    async def wait(self) -> None:
        """Wait for the next turn."""
        await self._line.place()


Result = TypeVar("Result")
Steps = Generator[None, None, Result]  # work that says where others may go on, and then returns its result


async def in_turns(steps: Steps[Result]) -> Result:
    """The result of this work, with the event loop's other work between its steps."""
    turn = Turn()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        await turn.rest()


def at_once(steps: Steps[Result]) -> Result:
    """The result of this work where nobody else waits: at the start of the broker, say."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class _Line:
    """Those who wait for their turn on the running event loop, and when the turn of this iteration ends."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ends_ns: int | None = None

    def ends_ns(self) -> int:
        """When the turn ends; the first who asks in an iteration begins it."""
        if self._ends_ns is None:
            self._ends_ns = time.monotonic_ns() + limits.TURN_NS
            asyncio.get_running_loop().call_soon(self._begin_iteration)
        return self._ends_ns

    def _begin_iteration(self) -> None:
        self._ends_ns = None

    def place(self) -> asyncio.Future[None]:
        """Done when it is the turn of whoever awaits it."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)
        return place

    def _next(self) -> None:
        """Let the first go on that still waits."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()
