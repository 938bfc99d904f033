"""Where a consumer stands in its stream, and how many messages are ahead of it."""
from libc.stdint cimport uint64_t

from jetbroker.store.log cimport StoredMessage, StreamLog, SubjectFilter


cdef class StreamCursor:
    cdef StreamLog log
    cdef readonly SubjectFilter filter
    cdef readonly uint64_t next_seq        # nothing below is new for this consumer (but for `chosen`)
    cdef readonly uint64_t resume          # last_per_subject: the first pass ends here; 0 otherwise
    cdef list chosen                       # sequences of the first pass, ascending
    cdef Py_ssize_t chosen_at
    cdef readonly uint64_t ahead           # matching messages not delivered yet, as of counted_to
    cdef uint64_t counted_to
    cdef bint recount

    # The next new message up to `limit`, as StreamLog.next_message.
    cdef int find(self, uint64_t limit, StoredMessage* out) except -1
    # The message find() gave has been delivered (or is damaged and skipped).
    cdef int took(self, uint64_t seq) except -1
    # Brings `ahead` up to date with the log.
    cdef int count(self) except -1
    cdef int removed(self, uint64_t seq) except -1
    cdef void purged(self) noexcept
    cdef bint wants(self, uint64_t seq) except -1     # stored, matching and not delivered yet?
    cdef bint _first_pass(self) noexcept
