"""How many matching messages a consumer has ahead, counted in pieces."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.stream_log cimport SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog


cdef struct Counted:
    uint64_t first, last           # sequences; each piece begins where the one in front of it ends
    uint64_t count                 # matching messages that are there and have not been delivered


cdef class AheadCount:
    cdef SegmentedLog log
    cdef SubjectFilter filter
    cdef bint literal              # a few literal subjects
    cdef readonly uint64_t total   # of all pieces; what is ahead when `done`
    cdef uint64_t start            # the first piece begins here
    cdef uint64_t counted_to
    cdef bint head_known           # the first piece's count holds
    cdef Counted* pieces
    cdef Py_ssize_t head, end, capacity

    cdef bint done(self) noexcept
    # Count a little further; False: there is more to do.
    cdef bint step(self) except -1
    cdef int restart(self, uint64_t start) except -1       # forget all, begin at `start`
    cdef int take(self, uint64_t seq) except -1            # message seq, the next one that matches, is delivered
    cdef int pass_to(self, uint64_t start) except -1       # nothing in front of `start` matches
    cdef int evicted(self, uint64_t start) except -1       # everything in front of `start` is gone, it had been counted
    cdef int removed(self, uint64_t seq, bytes subject) except -1
    cdef int removed_match(self, uint64_t seq) except -1   # one that matches
    # The counted messages of a short piece of the log, and what to do when some of them are gone.
    cdef list within(self, uint64_t first, uint64_t last)
    cdef int less(self, uint64_t first, uint64_t last, list before) except -1

    cdef bint _at_once(self) except -1
    cdef int _push(self, uint64_t last, uint64_t count, bint join) except -1
    cdef int _drop_head(self) noexcept
    cdef int _count_head(self) except -1
    cdef int _count_tail(self) except -1
    cdef Py_ssize_t _find(self, uint64_t seq) noexcept
