# cython: boundscheck=False, wraparound=False
"""The thread in which a round's files are synced (see sync_thread.pxd).

A round of plain files, which is nearly every one, never takes the interpreter's lock: with it the thread would begin
only when the event loop lets go of it, and the loop would have to wait for it in turn.
"""
import errno
import os
import threading

from libc.errno cimport EINTR, errno as c_errno
from libc.stdlib cimport free, realloc

from jetbroker.clock cimport monotonic_ns
from jetbroker.store.disk cimport Disk
from jetbroker.store.log.sync_figures cimport SyncFigures

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
            self.steps = <Step*>_grown(self.steps, total * sizeof(Step))
            self.capacity = total
        self.members = len(work)
        if self.members > self.members_capacity:
            self.codes = <int*>_grown(self.codes, self.members * sizeof(int))
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


cdef void* _grown(void* p, size_t size) except NULL:
    p = realloc(p, size)
    if p == NULL:
        raise MemoryError
    return p
