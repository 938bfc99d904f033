# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The way to the disk: the end of a growing file, who waits for it, and group commit (see commit.pxd).

A round of fdatasync is for everything that arrived meanwhile. A member is anything with files to sync. `begin_sync()`
returns what to do, in order (an open file or the path of a directory: sync it; a function: call it), and remembers what
that covers; `end_sync(error)` hears of the outcome on the event loop. Whoever asks while a round runs takes part in the
next one.

The files of a round are synced in a thread. A round of plain files, which is nearly every one, never takes the
interpreter's lock: with it the thread would begin only when the event loop lets go of it, and the loop would have to
wait for it in turn.
"""
import errno
import os
import threading
from math import inf

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EINTR, errno as c_errno
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove, memset

from jetbroker.clock cimport monotonic_ns
from jetbroker.store.disk cimport Disk
from jetbroker.store.log.segment cimport grow
from jetbroker.tick cimport Tick

from jetbroker.store.faults import Faults

# Written bytes stay in memory for readers that follow closely; more than this is given back.
cdef Py_ssize_t KEEP_BYTES = 4 * 1024 * 1024


cdef class Tail:
    """The write buffer of one file."""

    def __dealloc__(self):
        free(self.data)

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Have room for n more bytes."""
        cdef Py_ssize_t capacity = max(self.capacity, 1024)
        if self.size + n <= self.capacity:
            return 0
        while capacity < self.size + n:
            capacity *= 2
        self.data = <char*>grow(self.data, capacity)
        self.capacity = capacity
        return 0

    cdef int begin(self, bytes content) except -1:
        self.size = 0
        memcpy(self.extend(PyBytes_GET_SIZE(content)), PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
        self.base = self.written = self.synced = 0
        return 0

    cdef void go_on(self, uint64_t end) noexcept:
        self.base = self.written = self.synced = end
        self.size = 0

    cdef int write(self, Disk disk, int fd) except -1:
        cdef Py_ssize_t k
        while self.written < self.end():
            k = disk.write_at(fd, self.at(self.written), self.end() - self.written, self.written)
            if k == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.written += k
        return 0

    cdef void cut(self, uint64_t end) noexcept:
        self.size = end - self.base
        self.written = min(self.written, end)

    cdef void forget_written(self) noexcept:
        """Writing over the same memory again keeps the processor's cache warm."""
        self.base = self.written
        self.size = 0

    cdef void drop_before(self, uint64_t offset) noexcept:
        memmove(self.data, self.at(offset), self.end() - offset)
        self.size = self.end() - offset
        self.base = offset

    cdef int trim(self) except -1:
        """Give back what is on disk, when that is much."""
        cdef Py_ssize_t drop = self.synced - self.base
        if drop < KEEP_BYTES or drop * 2 < self.size:
            return 0
        self.drop_before(self.synced)
        if self.capacity > 4 * KEEP_BYTES and self.size < KEEP_BYTES:
            self.capacity = KEEP_BYTES
            self.data = <char*>realloc(self.data, self.capacity)
        return 0

    cdef void give_back(self) noexcept:
        """Free the memory; all of it is written."""
        free(self.data)
        self.data = NULL
        self.capacity = 0
        self.forget_written()

    cdef void erase(self, uint64_t start, uint64_t end) noexcept:
        """Overwrite what of [start, end) is here."""
        start = max(start, self.base)
        if start < end:
            memset(self.at(start), 0, end - start)


cdef class Waiters:
    """Futures by the position they wait for."""

    def __cinit__(self):
        self.waiting = []

    cdef object add(self, object loop, uint64_t position):
        future = loop.create_future()
        self.waiting.append((position, future))
        return future

    cdef int release(self, uint64_t position) except -1:
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for wanted, future in waiting:
                if wanted > position:
                    self.waiting.append((wanted, future))
                elif not future.done():
                    future.set_result(None)
        return 0

    cdef int fail(self, object error) except -1:
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
        return 0


cdef class Changes:
    """The positions of one log, in changes."""

    def __cinit__(self):
        self.waiters = Waiters()

    cdef bint rests(self, bint is_synced) noexcept:
        cdef bint idle = self.accepted == self.at_rest == (self.synced if is_synced else self.written)
        self.at_rest = self.accepted
        return idle


cdef extern from "unistd.h" nogil:
    Py_ssize_t c_read "read"(int, void*, size_t)
    Py_ssize_t c_write "write"(int, const void*, size_t)
    int c_close "close"(int)


cdef class Round:
    """What is synced now, and the thread's part of the work."""

    def __cinit__(self):
        self.order_in = self.done_out = -1

    def __init__(self, Disk disk not None, SyncFigures figures not None, int order_in, int done_out):
        self.disk = disk
        self.figures = figures
        self.order_in = order_in
        self.done_out = done_out

    def __dealloc__(self):
        for fd in (self.order_in, self.done_out):
            if fd >= 0:
                c_close(fd)
        free(self.steps)
        free(self.codes)

    def serve(self):
        """In the thread: one round after the other, until the owner closes his end."""
        with nogil:
            self._serve()

    cdef list outcome(self):
        cdef Py_ssize_t i
        cdef list outcome = []
        for i in range(self.members):
            error = self.errors[i]
            if error is None and self.codes[i]:
                error = OSError(self.codes[i], os.strerror(self.codes[i]))
            outcome.append(error)
        for i in range(self.count):
            if self.steps[i].took:
                self.figures.seconds.observe(self.steps[i].took * 1e-9)
        self.errors = self.targets = self.levels = self.directories = None
        return outcome

    cdef int plan(self, list work) except -1:
        """First everybody's first target, then everybody's second: a file system writes its journal once for files
        that are synced in a row, but again after each rename."""
        cdef Py_ssize_t total = 0
        cdef Py_ssize_t level = 0
        cdef Py_ssize_t index
        cdef list targets
        for targets in work:
            total += len(targets)
        if total > self.capacity:
            self.steps = <Step*>grow(self.steps, total * sizeof(Step))
            self.capacity = total
        self.members = len(work)
        if self.members > self.members_capacity:
            self.codes = <int*>grow(self.codes, self.members * sizeof(int))
            self.members_capacity = self.members
        for index in range(self.members):
            self.codes[index] = 0
        self.errors = [None] * self.members
        self.targets = []
        self.levels = []
        self.directories = {}
        self.count = self.files = 0
        while self.count < total:
            for index in range(self.members):
                targets = work[index]
                if level < len(targets):
                    self._add(index, level, targets[level])
            level += 1
        return 0

    cdef int _add(self, Py_ssize_t member, Py_ssize_t level, target) except -1:
        cdef Step* step = &self.steps[self.count]
        step.member = member
        step.file = -1
        step.took = 0
        if isinstance(target, int):
            step.file = target
            self.files += 1
        self.targets.append(target)
        self.levels.append(level)
        self.count += 1
        return 0

    cdef void _serve(self) noexcept nogil:
        cdef char token = 0
        cdef Py_ssize_t n
        while True:
            n = c_read(self.order_in, &token, 1)
            if n == 1:
                self._run()
                while c_write(self.done_out, &token, 1) < 0 and c_errno == EINTR:
                    pass
            elif n == 0 or c_errno != EINTR:
                return

    cdef void _run(self) noexcept nogil:
        cdef Py_ssize_t i
        cdef int64_t began
        cdef Step* step
        if self.files > 1:
            # where their bytes go is settled for all files before the journal is written for the first of them
            for i in range(self.count):
                if self.steps[i].file >= 0:
                    self.disk.start_writing(self.steps[i].file)
        for i in range(self.count):
            step = &self.steps[i]
            if self.codes[step.member]:
                continue
            if step.file >= 0:
                began = monotonic_ns()
                self.codes[step.member] = self.disk.sync_file(step.file)
                step.took = max(monotonic_ns() - began, 1)
            else:
                self.codes[step.member] = self._sync_other(i)

    cdef int _sync_other(self, Py_ssize_t i) noexcept with gil:
        try:
            self._sync_target(self.targets[i], self.levels[i])
        except BaseException as error:
            # nothing that is raised here may pass for a sync; what is no OSError gets reported by the group
            self.errors[self.steps[i].member] = error
            return errno.EIO
        return 0

    cdef int _sync_target(self, target, level) except -1:
        """A directory that several members name in one level is synced once."""
        if not isinstance(target, str):
            target()
            return 0
        if (level, target) not in self.directories:
            try:
                self.disk.sync_directory(target)
                self.directories[level, target] = None
            except BaseException as error:
                self.directories[level, target] = error
        if self.directories[level, target] is not None:
            raise self.directories[level, target]
        return 0


cdef class SyncThread:
    """Syncs what each member of a round names, in a thread of its own."""

    def __cinit__(self):
        self.order_out = self.done_in = -1

    def __init__(self, Disk disk not None, SyncFigures figures not None):
        self.drains = []
        order_in, self.order_out = os.pipe()
        self.done_in, done_out = os.pipe()
        self.round = Round(disk, figures, order_in, done_out)
        # a process that ends without closing it does not wait for the thread
        self.thread = threading.Thread(target=self.round.serve, name="jetbroker-sync", daemon=True)
        self.thread.start()

    def __dealloc__(self):
        for fd in (self.order_out, self.done_in):
            if fd >= 0:
                c_close(fd)

    cdef int begin(self, list work) except -1:
        self.round.plan(work)
        os.write(self.order_out, b"r")
        return 0

    cdef list finish(self):
        os.read(self.done_in, 1)
        return self.round.outcome()

    cdef int close(self) except -1:
        """End the thread, which has no round."""
        c_close(self.order_out)
        self.order_out = -1
        self.thread.join()
        return 0


# An SSD with a battery takes a tenth of a millisecond, a disk ten; one that takes seconds is about to fail.
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
CHANGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4)


cdef class Histogram:
    """How many values were at most how large."""

    def __init__(self, tuple bounds not None):
        cdef int index
        if len(bounds) >= MAX_BUCKETS:
            raise ValueError(f"at most {MAX_BUCKETS - 1} bounds")
        for index in range(len(bounds)):
            self.bounds[index] = bounds[index]
        self.size = <int>len(bounds) + 1
        self.bounds[self.size - 1] = inf

    cdef int observe(self, double value) except -1:
        cdef int index = 0
        while index < self.size - 1 and value > self.bounds[index]:
            index += 1
        self.counts[index] += 1
        self.sum += value
        return 0

    def cumulated(self):
        """[(bound, how many values were at most that)]; the last bound is infinite."""
        cdef list found = []
        cdef uint64_t count = 0
        cdef int index
        for index in range(self.size):
            count += self.counts[index]
            found.append((self.bounds[index], count))
        return found


cdef class SyncFigures:
    """Of all rounds of one store since the start."""

    def __cinit__(self):
        self.seconds = Histogram(SECONDS)
        self.changes = Histogram(CHANGES)

    cdef int failed(self) except -1:
        self.failures += 1
        return 0

    cdef int cover(self, uint64_t changes) except -1:
        """A log hears that so many of its changes are on disk now."""
        self.covered += changes
        return 0

    cdef int end_round(self) except -1:
        """All logs have heard of it."""
        if self.covered:
            self.changes.observe(<double>self.covered)
            self.covered = 0
        return 0


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
