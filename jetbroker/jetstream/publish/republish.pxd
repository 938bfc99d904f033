"""What a stream publishes again: each message it has stored, once that is committed.

The queue holds messages that are accepted and not committed yet, so what bounds those bounds it too.
"""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.routing.transform cimport Transform
from jetbroker.wire.buffer cimport OutputBuffer


cdef class Republisher:
    cdef Router router
    cdef object log                    # Logger
    cdef bytes name                    # of the stream
    cdef Transform transform           # None: nothing is published again (any more)
    cdef bint headers_only
    cdef OutputBuffer entries          # Waiting headers, each followed by its texts
    cdef Py_ssize_t head               # offset of the oldest entry
    cdef bint releasing                # pointers lead into `entries`
    cdef OutputBuffer out              # the message being sent

    # Where messages of this stored subject go: b"" when nowhere. Always the same for a subject unless is_random().
    cdef bytes destination_of(self, bytes subject)
    cdef bint is_random(self) noexcept
    # Message seq has been accepted by the log. `previous`: the last message of its subject before it, 0: none.
    # Returns the bytes that are kept until it is committed.
    cdef Py_ssize_t stored(self, bytes destination, bytes subject, uint64_t seq, uint64_t previous, int64_t time_ns,
                           const char* headers, Py_ssize_t headers_len,
                           const char* payload, Py_ssize_t payload_len) except? -1
    # Publish what is committed, in order.
    cdef int release(self, uint64_t committed) except -1
    # Messages from first_lost on have been taken back.
    cdef int drop_from(self, uint64_t first_lost) except -1
    cdef int _make_room(self, Py_ssize_t size) except -1
    cdef int _send(self, Py_ssize_t at) except -1
