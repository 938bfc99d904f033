"""Who waits for a log to commit what it has accepted."""
from libc.stdint cimport uint64_t


cdef class Waiters:
    cdef list waiting                 # [(position, future)]

    cdef object add(self, object loop, uint64_t position)      # a future, done once `position` is committed
    cdef int release(self, uint64_t position) except -1        # all up to it are committed
    cdef int fail(self, object error) except -1                # none of them will be
