"""Time to live of single messages: reading `Nats-TTL`, and when which message is due."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.timing.due_heap cimport Due
from jetbroker.store.log.stream_log cimport StreamLog

cdef enum:
    TTL_NEVER = -1                     # not even by max_age
    TTL_NONE = 0
    TTL_INVALID = -2

# Whole seconds of a Nats-TTL value, or one of the above.
cdef int64_t parse_ttl(const char* text, Py_ssize_t n) noexcept nogil
# The same of a stored message's header block; TTL_NONE when it has none.
cdef int64_t ttl_of(const char* headers, Py_ssize_t headers_len) noexcept nogil
# When a message stored at time_ns is due; far away instead of overflowing.
cdef int64_t expiry_ns(int64_t time_ns, int64_t seconds) noexcept nogil


cdef class TtlHeap:
    """Sequences by the time they are due, the earliest first. Entries are hints: whoever takes one looks at the log.

    Messages that are removed otherwise leave their entries behind; they go when due, or when they become too many.
    """
    cdef Due* entries
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef StreamLog log
    cdef object on_earlier             # called without arguments when a new entry is the earliest

    cdef int add(self, uint64_t seq, int64_t expires_ns) except -1
    cdef int64_t earliest(self) noexcept           # 0: empty
    cdef uint64_t pop(self) noexcept
    cdef int compact(self) except -1
