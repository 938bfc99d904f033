# cython: boundscheck=False, wraparound=False
"""Group commit: one round of fdatasync for everything that arrived meanwhile.

A member is anything with files to sync. `begin_sync()` returns what to do, in order (an open file or the path of a
directory: sync it; a function: call it), and remembers what that covers; `end_sync(error)` hears of the outcome on the
event loop. Whoever asks while a round runs takes part in the next one.
"""
import errno

from jetbroker.store.faults import Faults

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.sync_figures cimport SyncFigures
from jetbroker.store.log.sync_thread cimport SyncThread
from jetbroker.tick cimport Tick

# Members that nobody waits for are synced at the latest after this many seconds.
LAZY_SECONDS = 1.0


cdef class GroupCommit:
    """Runs the fdatasync rounds of one store in a thread of their own."""

    def __init__(self, Tick tick not None, Disk disk not None, interval=None, log=None):
        self.tick = tick
        self.disk = disk
        self.interval = interval
        self.faults = Faults(tick.loop, log)
        self.figures = SyncFigures()
        self.waiting = {}
        self.lazy = {}

    def beside(self):
        """Another group of the same store: neither waits for the other's rounds."""
        cdef GroupCommit other = GroupCommit(self.tick, self.disk, self.interval)
        other.faults = self.faults
        other.figures = self.figures
        return other

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
        members = []
        work = []
        for member in list(self.waiting):
            if member not in self.waiting:
                continue  # it was forgotten meanwhile
            del self.waiting[member]
            self.lazy.pop(member, None)
            self.collecting = member
            try:
                targets = member.begin_sync()
            except Exception as failure:
                # the others must not wait for a round that never begins
                self._report(member, failure)
                continue
            finally:
                self.collecting = None
            if targets is not None:
                members.append(member)
                work.append(targets)
        if work:
            self.round = members
            if self.thread is None:
                self.thread = SyncThread(self.disk, self.figures)
                self.tick.loop.add_reader(self.thread.done_in, self._finished)
            self.thread.begin(work)
        elif self.waiting:
            # somebody asked while the members were collected
            self.tick.loop.call_soon(self._start_waiting)

    def _start_waiting(self):
        if self.waiting and self.round is None:
            self._start()

    def _finished(self):
        members = self.round
        self.round = None
        self.tick.begin()
        try:
            for member, error in zip(members, self.thread.finish(), strict=True):
                self._end(member, error)
            self.figures.end_round()
        finally:
            # what was asked meanwhile starts first, so that the disk works while the acks are sent
            if self.waiting and self.round is None:
                self._start()
            self.tick.run()
            self._release_drains()

    def _end(self, member, error):
        try:
            if error is not None:
                self.figures.failed()
            if error is not None and not isinstance(error, OSError):
                self._report(member, error)
                error = OSError(errno.EIO, "internal error")
            member.end_sync(error)
        except Exception as failure:
            # the other members of the group must hear of their commit
            self._report(member, failure)

    def _report(self, member, failure):
        """Our own bug: loud."""
        self.tick.loop.call_exception_handler(
            {"message": f"Internal error in {type(member).__name__}", "exception": failure})

    def _release_drains(self):
        drains = self.thread.drains
        self.thread.drains = []
        for future in drains:
            if not future.done():
                future.set_result(None)

    async def drain(self):
        """Wait until no round is running and nothing is left to sync."""
        self.waiting.update(self.lazy)
        self.lazy = {}
        while self.round is not None or self.waiting:
            if self.round is None:
                self._start()
            else:
                over = self.tick.loop.create_future()
                self.thread.drains.append(over)
                await over

    async def close(self):
        """Finish all rounds and stop the thread."""
        self.closing = True
        await self.drain()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.thread is not None:
            self.tick.loop.remove_reader(self.thread.done_in)
            self.thread.close()
            self.thread = None
