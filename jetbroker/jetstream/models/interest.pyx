# cython: language_level=3
"""What a stream asks of its consumers (see interest.pxd)."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.stream_log cimport SubjectFilter
from jetbroker.tick cimport TickTask


cdef class StreamConsumer(TickTask):
    """Base of Consumer."""

    cdef SubjectFilter interest(self):
        return None

    cdef bint needs(self, uint64_t seq) except -1:
        return False

    cdef uint64_t delivered_up_to(self) except? 0:
        return 0

    cdef uint64_t acked_up_to(self) except? 0:
        return 0

    cdef uint64_t begun_at(self) except? 0:
        return 0

    cdef int on_removed(self, uint64_t seq, bytes subject, bint purged) except -1:
        return 0

    cdef int on_changed(self, bint purged) except -1:
        return 0

    cdef int on_purged(self, bytes pattern) except -1:
        return 0


cdef class OfflineConsumer(StreamConsumer):
    """Stands for a consumer that could not be brought back: whatever it may still want stays in the stream."""

    cdef bint needs(self, uint64_t seq) except -1:
        return True

    cdef int run_tick(self) except -1:
        return 0
