"""The event loop of all brokers that run in this process: a uvloop of its own, in a thread of its own.

The broker's connections need uvloop, and a test may have any loop, block it, or have none. All brokers share one
thread, since what runs once per message keeps some of its state per process.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

import uvloop

from jetbroker.testing.places import ServerError

T = TypeVar("T")
Leave = weakref.WeakMethod[Callable[[], None]]  # who forgets his broker does not keep it


class Host:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._tidy = True
        self._ready = threading.Event()
        # a test run that leaks a broker ends all the same
        self._thread = threading.Thread(target=self._serve, name="jetbroker-testing", daemon=True)
        self._thread.start()
        self._ready.wait()

    def call(self, work: Coroutine[Any, Any, T], seconds: float, what: str) -> T:
        """The result of this work. Raises :class:`ServerError` when it is not done in time."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except FutureTimeout:
            if future.done():
                raise
            future.cancel()
            raise ServerError(f"{what} took more than {seconds:g} seconds") from None

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work; nobody waits for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def end(self, *, tidy: bool = True) -> None:
        """Nothing runs here any more. `tidy` False: the process ends, and threads can be started no more."""
        self._tidy = tidy
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        if not self._tidy:
            return
        self._loop.run_until_complete(_tidied(self._loop))
        self._loop.close()


async def _tidied(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


class Tenants:
    """Who runs in this process, and on what: the host comes with the first one and goes with the last."""

    def __init__(self) -> None:
        self._host: Host | None = None
        self._running: dict[object, Leave] = {}
        self._lock = threading.Lock()
        self._left_behind: list[Host | None] = []

    def enter(self, tenant: object, leave: Leave) -> Host:
        """`leave` is called should the process end first: the broker stands still then."""
        with self._lock:
            if self._host is None:
                self._host = Host()
            self._running[tenant] = leave
            return self._host

    def leave(self, tenant: object) -> None:
        """It has ended, or did not start."""
        with self._lock:
            self._running.pop(tenant, None)
            if self._running or self._host is None:
                return
            host, self._host = self._host, None
        host.end()

    def leave_all(self) -> None:
        """The process ends: a clean stop would need threads, which cannot be started now."""
        host, self._host = self._host, None
        if host is not None:
            host.end(tidy=False)
        self._left_behind.append(host)
        for leave in [found for found in (weak() for weak in self._running.values()) if found is not None]:
            leave()

    def forget(self) -> None:
        """This is the child of a fork: it has no such thread, and its brokers are its parent's."""
        self._left_behind.append(self._host)  # its loop is never touched again, not even to be freed
        self._host = None
        self._running = {}
        self._lock = threading.Lock()


tenants = Tenants()
atexit.register(tenants.leave_all)
os.register_at_fork(after_in_child=tenants.forget)
