"""Writes a consumer's state records and answers confirmed acks once theirs is durable."""
from libc.stdint cimport uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.store.log.stream_log cimport LogObserver
from jetbroker.store.log.statelog cimport StateLog


cdef class StateWriter(LogObserver):
    cdef readonly StateLog log         # None: nothing is kept, everything counts as durable
    cdef Router router
    cdef object waiting                # deque of (position, [reply subject])
    cdef readonly bint begun           # the log has a record to begin with, or there is none
    cdef uint64_t try_above            # no snapshot is tried before the log is larger than this, bytes

    cdef int write(self, const char* record, Py_ssize_t n) except -1
    # Is a snapshot of about this size worth writing?
    cdef bint wants_snapshot(self, Py_ssize_t size) except -1
    # Answer these (empty messages) when everything written so far is durable.
    cdef int confirm(self, list replies) except -1
    cdef int _release(self, uint64_t committed) except -1
    cdef int _refuse(self, list replies) except -1
    # The log cannot be written now: tell everybody who waits.
    cdef int refuse_waiting(self) except -1
