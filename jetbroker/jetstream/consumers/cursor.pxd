"""Where a consumer stands in its stream, and how many messages are ahead of it."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.ahead cimport AheadCount
from jetbroker.jetstream.consumers.first_pass cimport FirstPass
from jetbroker.jetstream.timing.work_turns cimport WorkTurns
from jetbroker.store.log.stream_log cimport StoredMessage, SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog


cdef class StreamCursor:
    cdef SegmentedLog log
    cdef WorkTurns turns
    cdef readonly SubjectFilter filter
    cdef readonly uint64_t next_seq        # nothing below is new for this consumer (but for the first pass)
    cdef readonly uint64_t resume          # last_per_subject: the first pass ends here; 0 otherwise
    cdef FirstPass first                   # None: there is none, or it is over
    cdef AheadCount count

    # The next new message up to `limit`, as StreamLog.next_message; READ_LATER: it takes long, see look_ahead().
    cdef int find(self, uint64_t limit, StoredMessage* out) except -1
    # The message find() gave has been delivered.
    cdef int took(self, uint64_t seq) except -1
    # The record find() gave is damaged.
    cdef int skip(self, uint64_t seq) except -1
    # Go on with what count_on() and find() put off, until the clock shows `until_ns`; True: there is more to do.
    cdef bint look_ahead(self, uint64_t limit, int64_t until_ns) except -1
    # Brings `ahead` up to date with the log; False: that takes long, see look_ahead().
    cdef bint count_on(self) except -1
    # One step of it.
    cdef bint count_step(self) except -1
    cdef bint counts(self, uint64_t seq) noexcept          # is message seq in `ahead` already?
    cdef uint64_t ahead(self) noexcept                     # matching messages not delivered yet, as far as counted
    cdef int removed(self, uint64_t seq, bytes subject) except -1
    cdef int purged(self) except -1
    cdef bint wants(self, uint64_t seq) except -1          # stored, matching and not delivered yet?

    cdef int _follow_first(self) except -1
    cdef int _find_first(self, uint64_t limit, StoredMessage* out) except -1
    cdef int _find_window(self, uint64_t limit, StoredMessage* out) except -1
    cdef int _pass_to(self, uint64_t seq) except -1
