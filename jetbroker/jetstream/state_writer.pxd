"""Writes a consumer's state records and answers confirmed acks once theirs is durable."""
from libc.stdint cimport uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.store.log cimport LogObserver


cdef class StateWriter(LogObserver):
    cdef object log                    # StateLog, None: nothing is kept (memory)
    cdef Router router
    cdef readonly uint64_t position    # behind the last record
    cdef readonly uint64_t committed
    cdef object waiting                # deque of (position, [reply subject])
    cdef Py_ssize_t since_snapshot     # bytes written after the last snapshot
    cdef Py_ssize_t snapshot_bytes

    cdef int write(self, const char* record, Py_ssize_t n) except -1
    cdef bint wants_snapshot(self) noexcept
    # Answer these (empty messages) when everything written so far is durable.
    cdef int confirm(self, list replies) except -1
    cdef int _release(self) except -1
