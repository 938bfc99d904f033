"""Where a consumer stands in its stream, and how many messages are ahead of it."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.first_pass cimport FirstPass
from jetbroker.jetstream.timing.work_turns cimport WorkTurns
from jetbroker.store.log.stream_log cimport StoredMessage, SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog


cdef struct Counted:
    uint64_t first, last           # sequences; each piece begins where the one in front of it ends
    uint64_t count                 # matching messages that are there and have not been delivered


@cython.final
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


@cython.final
cdef class StreamCursor:
    cdef SegmentedLog log
    cdef WorkTurns turns
    cdef readonly SubjectFilter filter
    cdef readonly uint64_t next_seq        # nothing below is new for this consumer (but for the first pass)
    cdef readonly uint64_t looked_to       # all up to here has been looked at to find what to deliver
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
    cdef int purged_to(self, uint64_t start) except -1     # nothing that matches is left in front of `start`
    cdef bint wants(self, uint64_t seq) except -1          # stored, matching and not delivered yet?

    cdef int _follow_first(self) except -1
    cdef int _find_first(self, uint64_t limit, StoredMessage* out) except -1
    cdef int _find_window(self, uint64_t limit, StoredMessage* out) except -1
    cdef int _pass_to(self, uint64_t seq) except -1
