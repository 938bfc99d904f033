"""What is asked of one account, and waits.

Two lanes, as in nats-server: what changes something runs strictly one after the other; INFO, NAMES and LIST run
beside it, so that a slow disk does not stop them. What waits is bounded in number and bytes: past the bound, the
client that has most of it loses its requests.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from jetbroker import limits
from jetbroker.jetstream.timing.lanes import Job, Lane

_STOP_SECONDS = 2.0  # answers that wait for the disk get as long at the end


class RequestQueue:
    """`report` is told the traceback of a request that fails as nobody has foreseen."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.total = 0
        self.errors = 0
        self._report = report
        self._changes = Lane(self.run)
        self._infos = Lane(self.run)
        self._workers: list[asyncio.Task[None]] = []
        self._answers: set[asyncio.Task[None]] = set()  # those that wait for the disk
        self._answers_bytes = 0

    def start(self) -> None:
        """Begin to do what is added."""
        self._workers = [asyncio.create_task(lane.work()) for lane in (self._changes, self._infos)]

    async def stop(self) -> None:
        """Drop what waits; what is being done is finished."""
        for lane in (self._changes, self._infos):
            lane.stop()
        await asyncio.gather(*self._workers)
        self._workers = []
        if self._answers:
            await asyncio.wait(self._answers, timeout=_STOP_SECONDS)

    async def run(self, job: Job) -> None:
        """A fault of ours must not stop the account's API; it is logged as loudly as possible."""
        try:
            await job()
        except Exception:
            self._report(traceback.format_exc().rstrip())

    @property
    def inflight(self) -> int:
        """Requests that wait."""
        return self._changes.jobs + self._infos.jobs + len(self._answers)

    def add(self, job: Job, client: int, size: int, *, is_info: bool) -> int:
        """Have a client's request done; returns how many that wait were dropped for it."""
        lane = self._infos if is_info else self._changes
        dropped = self._make_room(lane, client, size)
        lane.add(job, client, size)
        return dropped

    def add_change(self, job: Job) -> None:
        """Have a change of the broker's own done, behind those that wait already."""
        self._changes.add(job)

    async def answer_later(self, answer: Coroutine[Any, Any, None], size: int) -> None:
        """Have an answer sent while other requests are done; wait for it only where too many do."""
        self._answers_bytes += size
        task = asyncio.create_task(self._count_answer(answer, size))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        if self._answers_bytes > limits.JS_API_QUEUE_BYTES:  # the disk is slower than the requests
            await asyncio.wait((task,))

    async def _count_answer(self, answer: Coroutine[Any, Any, None], size: int) -> None:
        try:
            await answer
        finally:
            self._answers_bytes -= size

    def _make_room(self, lane: Lane, client: int, size: int) -> int:
        """As nats-server: better none in time than all too late; but only of the client that has too many."""
        if lane.jobs + len(self._answers) >= limits.JS_API_QUEUE_REQUESTS:
            return lane.drop_largest(by_bytes=False)
        if lane.bytes_of(client) + size > limits.JS_API_CLIENT_BYTES:
            return lane.drop(client)
        if lane.bytes + self._answers_bytes + size > limits.JS_API_QUEUE_BYTES:
            return lane.drop_largest(by_bytes=True)
        return 0
