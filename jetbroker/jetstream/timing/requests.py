"""What is asked of each account, and waits.

Two lanes, as in nats-server: what changes something runs strictly one after the other; INFO, NAMES and LIST run
beside it, so that a slow disk does not stop them. What waits is bounded in number and bytes: past the bound, the
client that has most of it loses its requests. Past the bound of the server it is the account that has most.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.jetstream.timing.lanes import Job, Kept, Lane

_STOP_SECONDS = 2.0  # answers that wait for the disk get as long at the end


class RequestQueues:
    """Those of all accounts. So many requests of an account that change something may wait, so many others."""

    def __init__(self, changes: int = limits.JS_API_QUEUE_REQUESTS, infos: int = limits.JS_API_QUEUE_REQUESTS) -> None:
        self.changes = changes
        self.infos = infos
        self.kept = Kept()
        self.open: set[RequestQueue] = set()

    def make_room(self, size: int) -> None:
        """While there is too much, the account that has most loses what its largest client has."""
        while self.open and self.kept.bytes + size > limits.JS_API_SERVER_BYTES:
            if not max(self.open, key=lambda queue: queue.bytes).drop_largest():
                return


class RequestQueue:
    """`report` is told the traceback of a request that fails as nobody has foreseen."""

    def __init__(self, report: Callable[[str], None], queues: RequestQueues | None = None) -> None:
        self.total = 0
        self.errors = 0
        self.tell_dropped: Callable[[int], None] = lambda dropped: None
        self._report = report
        self._queues = queues or RequestQueues()
        self._changes = Lane(self.run, self._queues.kept)
        self._infos = Lane(self.run, self._queues.kept)
        self._workers: list[asyncio.Task[None]] = []
        self._answers: set[asyncio.Task[None]] = set()  # those that wait for the disk
        self._answers_bytes = 0
        self._waited_for: set[asyncio.Future[None]] = set()  # changes of others than clients

    def start(self) -> None:
        """Begin to do what is added."""
        self._queues.open.add(self)
        self._workers = [asyncio.create_task(lane.work()) for lane in (self._changes, self._infos)]

    async def stop(self) -> None:
        """Drop what waits; what is being done is finished."""
        self._queues.open.discard(self)
        for lane in (self._changes, self._infos):
            lane.stop()
        await asyncio.gather(*self._workers)
        self._workers = []
        for done in list(self._waited_for):
            done.set_exception(StorageError("the account is closed"))
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

    @property
    def bytes(self) -> int:
        """That the requests which wait keep."""
        return self._changes.bytes + self._infos.bytes

    def add(self, job: Job, client: int, size: int, *, is_info: bool) -> None:
        """Have a client's request done. `tell_dropped` is told how many that wait were dropped for it."""
        lane = self._infos if is_info else self._changes
        self._dropped(self._make_room(lane, client, size))
        self._queues.make_room(size)
        lane.add(job, client, size)

    def drop_largest(self) -> int:
        """Forget the requests of the client that has most; returns how many."""
        lane = max((self._changes, self._infos), key=lambda each: each.bytes)
        return self._dropped(lane.drop_largest(by_bytes=True))

    def _dropped(self, dropped: int) -> int:
        if dropped:
            self.tell_dropped(dropped)
        return dropped

    def add_change(self, job: Job) -> None:
        """Have a change of the broker's own done, behind those that wait already."""
        self._changes.add(job)

    async def change(self, job: Job) -> None:
        """Have a change done behind those that wait already, and wait for it; what it raises is raised here.

        Raises StorageError when the requests are not handled any more.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                await job()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        if not self._workers:
            raise StorageError("the account is closed")
        self._waited_for.add(done)
        done.add_done_callback(self._waited_for.discard)
        self._changes.add(work)
        await done

    async def answer_later(self, answer: Coroutine[Any, Any, None], size: int) -> None:
        """Have an answer sent while other requests are done; wait for it only where too many do."""
        self._count_answers(size)
        task = asyncio.create_task(self._count_answer(answer, size))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        if self._answers_bytes > limits.JS_API_QUEUE_BYTES:  # the disk is slower than the requests
            await asyncio.wait((task,))

    async def _count_answer(self, answer: Coroutine[Any, Any, None], size: int) -> None:
        try:
            await answer
        finally:
            self._count_answers(-size)

    def _count_answers(self, size: int) -> None:
        self._answers_bytes += size
        self._queues.kept.bytes += size

    def _make_room(self, lane: Lane, client: int, size: int) -> int:
        """As nats-server: better none in time than all too late; but only of the client that has too many."""
        most = self._queues.infos if lane is self._infos else self._queues.changes
        if lane.jobs + len(self._answers) >= most:
            return lane.drop_largest(by_bytes=False)
        if lane.bytes_of(client) + size > limits.JS_API_CLIENT_BYTES:
            return lane.drop(client)
        if lane.bytes + self._answers_bytes + size > limits.JS_API_QUEUE_BYTES:
            return lane.drop_largest(by_bytes=True)
        return 0
