# cython: language_level=3
"""What a log has accepted, written and synced, and who waits for it (see waiters.pxd)."""
from libc.stdint cimport uint64_t


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
