"""What a stream removes because its time has come: by max_age and by the time to live of single messages."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.publish.ttl cimport TtlHeap
from jetbroker.jetstream.timing.wall_timer cimport WallTimer
from jetbroker.store.log.flagged cimport FlaggedWalk
from jetbroker.store.log.stream_log cimport StoredMessage, StreamLog
from jetbroker.tick cimport Tick, TickTask


cdef class Expiry(TickTask):
    cdef Ingest ingest
    cdef StreamLog log
    cdef Tick tick
    cdef TtlHeap ttls                  # also the ingest's
    cdef bint running
    cdef WallTimer timer
    cdef int64_t max_age_ns
    cdef bint allow_ttl
    cdef bint singly                   # messages may say that max_age is not for them: sourced ones, too
    cdef int64_t marker_seconds        # 0: no delete markers
    cdef bytes marker_headers
    cdef uint64_t age_cursor           # what is stored below is exempt from max_age
    cdef int64_t retry_ns              # nothing is tried before: a read, or a marker, was refused; 0: none was
    cdef FlaggedWalk unread            # messages with a TTL that a start has not found yet; None: there are none

    cdef int configure(self, object config) except -1
    cdef int start(self) except -1
    cdef int stop(self) except -1
    cdef int watch(self) except -1     # have the timer run for what is due next
    # A write has failed: sequences from first_lost on are given out again, removals of `restored` were undone.
    cdef int look_again(self, uint64_t first_lost, list restored) except -1
    cdef int _read_log(self) except -1
    cdef int64_t _next_due(self) except? 0
    cdef int _expire_aged(self, int64_t now) except -1
    cdef int _expire_aged_singly(self, int64_t now) except -1
    cdef int _expire_due(self, int64_t now) except -1
    cdef int _expire(self, StoredMessage* message, int64_t now) except -1
