"""The queue of an account's API requests: one after the other, and each client in turn.

A client's own requests keep their order, and many of one client's do not keep another one's waiting.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from jetbroker.turns import Turn

Job = Callable[[], Awaitable[None]]


class _Waiting(NamedTuple):
    job: Job
    size: int


class _Client:
    """What waits of one client, or (key None) of the broker itself."""

    __slots__ = ("bytes", "key", "waiting")

    def __init__(self, key: int | None) -> None:
        self.key = key
        self.waiting: deque[_Waiting] = deque()
        self.bytes = 0


class Kept:
    """Bytes of requests that wait, wherever they do."""

    def __init__(self) -> None:
        self.bytes = 0


class Lane:
    """Jobs that are done one after the other. `run` must raise nothing. `kept` counts what several lanes keep."""

    def __init__(self, run: Callable[[Job], Awaitable[None]], kept: Kept | None = None) -> None:
        self._run = run
        self._kept = kept or Kept()
        self._clients: dict[int | None, _Client] = {}
        self._in_turn: deque[_Client] = deque()  # those of whom something waits
        self._wake = asyncio.Event()
        self._stopped = False
        self.jobs = 0
        self.bytes = 0

    def add(self, job: Job, client: int | None = None, size: int = 0) -> None:
        """Behind what waits of this client already. `client` None: a job of the broker itself."""
        of = self._clients.get(client)
        if of is None:
            of = self._clients[client] = _Client(client)
            self._in_turn.append(of)
        of.waiting.append(_Waiting(job, size))
        of.bytes += size
        self._count(1, size)
        self._wake.set()

    def bytes_of(self, client: int | None) -> int:
        """Of the requests that wait of one client."""
        of = self._clients.get(client)
        return 0 if of is None else of.bytes

    def drop(self, client: int | None) -> int:
        """Forget all requests of a client; returns how many."""
        of = self._clients.pop(client, None)
        if of is None:
            return 0
        self._in_turn.remove(of)
        self._count(-len(of.waiting), -of.bytes)
        return len(of.waiting)

    def drop_largest(self, *, by_bytes: bool) -> int:
        """Forget the requests of the client that has most of them; returns how many."""
        asked = [of for of in self._in_turn if of.key is not None]
        if not asked:
            return 0
        return self.drop(max(asked, key=lambda of: of.bytes if by_bytes else len(of.waiting)).key)

    def stop(self) -> None:
        """Forget what waits; `work` ends when the job at hand is done."""
        self._clients.clear()
        self._in_turn.clear()
        self._count(-self.jobs, -self.bytes)
        self._stopped = True
        self._wake.set()

    async def work(self) -> None:
        """Do what is added, until stop()."""
        while True:
            await self._wake.wait()
            turn = Turn()
            while self._in_turn and not self._stopped:
                await turn.rest()
                if self._in_turn and not self._stopped:
                    await self._run(self._take())
            if self._stopped:
                return
            self._wake.clear()

    def _take(self) -> Job:
        of = self._in_turn.popleft()
        job, size = of.waiting.popleft()
        of.bytes -= size
        self._count(-1, -size)
        if of.waiting:
            self._in_turn.append(of)
        else:
            del self._clients[of.key]
        return job

    def _count(self, jobs: int, size: int) -> None:
        self.jobs += jobs
        self.bytes += size
        self._kept.bytes += size
