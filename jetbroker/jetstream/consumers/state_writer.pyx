# cython: language_level=3
"""Writes a consumer's state records and answers confirmed acks once theirs is durable (see state_writer.pxd)."""
from collections import deque

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.store.log.stream_log cimport LogObserver
from jetbroker.store.log.statelog cimport StateLog

from jetbroker.errors import StorageError

NOT_STORED = b"NATS/1.0 503 Storage Failed\r\n\r\n"


cdef class StateWriter(LogObserver):
    """The way from a consumer to its state log."""

    def __init__(self, StateLog log, Router router not None) -> None:
        self.log = log
        self.router = router
        self.waiting = deque()
        self.begun = log is None
        if log is not None:
            log.observer = self

    def go_on(self) -> None:
        """Go on from the records that were there."""
        self.begun = True
        self.log.recovered.clear()

    cdef int write(self, const char* record, Py_ssize_t n) except -1:
        self.log.append(record, n)
        return 0

    def begin(self, bytes record not None) -> None:
        """Write the first record of a new consumer, or of one that begins again."""
        self.begun = True
        self.log.append(PyBytes_AS_STRING(record), PyBytes_GET_SIZE(record))
        self.log.request_sync()

    def replace(self, bytes record not None) -> None:
        """Replace all records by this one. Raises StorageError; then nothing has changed, and it is tried again
        only when the log has doubled."""
        try:
            self.log.rewrite(record)
        except StorageError:
            self.try_above = 2 * self.log.size
            raise
        self.try_above = 0

    cdef bint wants_snapshot(self, Py_ssize_t size) except -1:
        return self.log.size > self.try_above and self.log.should_rewrite(size)

    cdef int confirm(self, list replies) except -1:
        if self.log is None:
            self.waiting.append((0, replies))
            return self._release(0)
        if self.log.failed is not None:
            return self._refuse(replies)
        self.waiting.append((self.log.position, replies))
        if self.log.position <= self.log.committed:
            return self._release(self.log.committed)
        return self.log.request_sync()

    cdef int _refuse(self, list replies) except -1:
        """The acks hold, but nothing can be stored now: better told than left waiting."""
        for reply in replies:
            self.router.publish_bytes(reply, None, NOT_STORED, b"")
        return 0

    cdef int refuse_waiting(self) except -1:
        while self.waiting:
            self._refuse(self.waiting.popleft()[1])
        return 0

    cdef int _release(self, uint64_t committed) except -1:
        while self.waiting and self.waiting[0][0] <= committed:
            for reply in self.waiting.popleft()[1]:
                self.router.publish_bytes(reply, None, b"", b"")
        return 0

    cdef int on_committed(self, uint64_t seq) except -1:
        return self._release(seq)

    cdef int on_write_failed(self, uint64_t first_lost, object error) except -1:
        return self.refuse_waiting()
