"""Turns: long work in pieces, with the event loop's other work in between.

Whoever has much to do makes a Turn and calls `rest()` between two steps. A turn is as long as one of a connection's.
Those whose turn is over wait for the next one in a queue; each iteration of the event loop lets one of them go on, so
that many long jobs together keep the others waiting no longer than one.
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
    await _wait_in_line()
    return Turn()


class Turn:
    """One job's time on the event loop."""

    __slots__ = ("_ends_ns",)

    def __init__(self) -> None:
        self._ends_ns = time.monotonic_ns() + limits.TURN_NS

    @property
    def over(self) -> bool:
        """Is it time to let others go on?"""
        return time.monotonic_ns() >= self._ends_ns

    async def rest(self) -> None:
        """Wait for the next turn when this one is over."""
        if self.over:
            await _wait_in_line()
            self._ends_ns = time.monotonic_ns() + limits.TURN_NS


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


_Line = deque[asyncio.Future[None]]
_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


async def _wait_in_line() -> None:
    loop = asyncio.get_running_loop()
    line = _lines.setdefault(loop, deque())
    place = loop.create_future()
    line.append(place)
    if len(line) == 1:
        loop.call_soon(_next, loop, line)
    await place


def _next(loop: asyncio.AbstractEventLoop, line: _Line) -> None:
    """Let the first go on that still waits."""
    while line:
        place = line.popleft()
        if not place.done():
            place.set_result(None)
            break
    if line:
        loop.call_soon(_next, loop, line)
