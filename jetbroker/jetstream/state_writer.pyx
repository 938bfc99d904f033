# cython: language_level=3
"""Writes a consumer's state records and answers confirmed acks once theirs is durable (see state_writer.pxd)."""
from collections import deque

from libc.stdint cimport uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.store.log cimport LogObserver


cdef class StateWriter(LogObserver):
    """The way from a consumer to its state log."""

    def __init__(self, log, Router router not None) -> None:
        self.log = log
        self.router = router
        self.waiting = deque()

    cdef int write(self, const char* record, Py_ssize_t n) except -1:
        self.since_snapshot += n
        return 0

    def snapshot(self, bytes record not None) -> None:
        self.since_snapshot = 0

    cdef bint wants_snapshot(self) noexcept:
        return self.since_snapshot > 1 << 20

    cdef int confirm(self, list replies) except -1:
        self.waiting.append((self.position, replies))
        return self._release()

    cdef int _release(self) except -1:
        while self.waiting and self.waiting[0][0] <= self.committed:
            for reply in self.waiting.popleft()[1]:
                self.router.publish_bytes(reply, None, b"", b"")
        return 0

    cdef int on_committed(self, uint64_t seq) except -1:
        self.committed = max(self.committed, seq)
        return self._release()
