# cython: boundscheck=False, wraparound=False
"""Group commit: one round of fdatasync for everything that arrived meanwhile.

A member is anything with files to sync.  `begin_sync()` returns what to do, in order (an open file or the path of a
directory: sync it; a function: call it), and remembers what that covers; `end_sync(error)` hears of the outcome on the event loop.  Whoever
asks while a round runs takes part in the next one.
"""
import asyncio
from concurrent.futures import ThreadPoolExecutor

from jetbroker.tick cimport Tick

# Members that nobody waits for are synced at the latest after this many seconds.
LAZY_SECONDS = 1.0


def sync_all(disk, work):
    """In the commit thread: sync each member's files; returns [(member, error or None)].

    First everybody's first target, then everybody's second: a file system writes its journal once for files that are
    synced in a row, but again after each rename. A directory that several members name in one step is synced once.
    """
    errors = [None] * len(work)
    _start_writing(disk, work)
    for step in range(max(len(targets) for _, targets in work)):
        directories = {}
        for index, (_, targets) in enumerate(work):
            if step < len(targets) and errors[index] is None:
                errors[index] = _sync_target(disk, targets[step], directories)
    return [(member, error) for (member, _), error in zip(work, errors, strict=True)]


def _start_writing(disk, work):
    """Where their bytes go is settled for all files before the journal is written for the first of them."""
    files = [target for _, targets in work for target in targets if isinstance(target, int)]
    if len(files) > 1:
        for file in files:
            disk.start_writing(file)


def _sync_target(disk, target, directories):
    """The OSError, or None. `directories` remembers the outcome of those synced in this step."""
    try:
        if isinstance(target, str):
            if target not in directories:
                directories[target] = None
                disk.sync_directory(target)
            return directories[target]
        if callable(target):
            target()
        else:
            disk.fdatasync(target)
    except OSError as error:
        if isinstance(target, str):
            directories[target] = error
        return error
    return None


cdef class GroupCommit:
    """Runs the fdatasync rounds of one store in a thread of their own."""

    def __init__(self, Tick tick not None, disk, interval=None):
        self.tick = tick
        self.disk = disk
        self.interval = interval
        self.executor = ThreadPoolExecutor(1, "jetbroker-sync")
        self.waiting = {}
        self.lazy = {}

    cpdef int request(self, object member) except -1:
        """Let `member` take part in the next round, and start it when none is running."""
        if member is self.collecting:
            # it asks from within begin_sync, and is part of the round already
            return 0
        self.waiting[member] = None
        if self.round is None and self.collecting is None:
            self._start()
        return 0

    cpdef int request_later(self, object member) except -1:
        """Let `member` take part in the next round, at the latest after the interval."""
        if member is self.collecting:
            return 0
        self.lazy[member] = None
        if self.timer is None and not self.closing:
            delay = LAZY_SECONDS if self.interval is None else self.interval
            self.timer = self.tick.loop.call_later(delay, self._timer_fired)
        return 0

    def forget(self, member):
        """`member` is gone: it takes part in no further round."""
        self.waiting.pop(member, None)
        self.lazy.pop(member, None)

    def _timer_fired(self):
        self.timer = None
        self.waiting.update(self.lazy)
        self.lazy = {}
        if self.waiting and self.round is None:
            self._start()

    def _start(self):
        work = []
        for member in list(self.waiting):
            if member not in self.waiting:
                continue  # it was forgotten meanwhile
            del self.waiting[member]
            self.lazy.pop(member, None)
            self.collecting = member
            try:
                targets = member.begin_sync()
            finally:
                self.collecting = None
            if targets is not None:
                work.append((member, targets))
        if work:
            self.round = self.tick.loop.run_in_executor(self.executor, sync_all, self.disk, work)
            self.round.add_done_callback(self._finished)
        elif self.waiting:
            # somebody asked while the members were collected
            self.tick.loop.call_soon(self._start_waiting)

    def _start_waiting(self):
        if self.waiting and self.round is None:
            self._start()

    def _finished(self, future):
        self.round = None
        self.tick.begin()
        try:
            for member, error in future.result():
                try:
                    member.end_sync(error)
                except Exception as failure:
                    # our own bug: loud, but the other members of the group must hear of their commit
                    self.tick.loop.call_exception_handler(
                        {"message": f"Internal error in {type(member).__name__}", "exception": failure})
        finally:
            # what was asked meanwhile starts first, so that the disk works while the acks are sent
            if self.waiting and self.round is None:
                self._start()
            self.tick.run()

    async def drain(self):
        """Wait until no round is running and nothing is left to sync."""
        self.waiting.update(self.lazy)
        self.lazy = {}
        while self.round is not None or self.waiting:
            if self.round is None:
                self._start()
            else:
                await asyncio.wait([self.round])
                await asyncio.sleep(0)

    async def close(self):
        """Finish all rounds and stop the thread."""
        self.closing = True
        await self.drain()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.executor.shutdown(wait=True)
