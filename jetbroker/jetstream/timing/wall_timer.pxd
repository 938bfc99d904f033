"""A timer for what is due at a time of the wall clock."""
from libc.stdint cimport int64_t

from jetbroker.tick cimport Tick, TickTask


cdef class WallTimer:
    cdef Tick tick
    cdef TickTask task
    cdef object handle
    cdef int64_t due_ns                # when it fires, if it runs

    cdef int set(self, int64_t due_ns) except -1    # 0: nothing is due
    cdef int stop(self) except -1
