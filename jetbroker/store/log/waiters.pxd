"""What a log has accepted, written and synced, and who waits for it."""
from libc.stdint cimport uint64_t


cdef class Waiters:
    cdef list waiting                 # [(position, future)]

    cdef object add(self, object loop, uint64_t position)      # a future, done once `position` is committed
    cdef int release(self, uint64_t position) except -1        # all up to it are committed
    cdef int fail(self, object error) except -1                # none of them will be


cdef class Changes:
    """Every append and every removal is a change; commits are counted in them."""
    cdef readonly uint64_t accepted
    cdef readonly uint64_t written
    cdef readonly uint64_t synced
    cdef uint64_t at_rest             # accepted at the last call of rests()
    cdef Waiters waiters

    cdef bint rests(self, bint is_synced) noexcept    # nothing was accepted since the last call, and all is stored
