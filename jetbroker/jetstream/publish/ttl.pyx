# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Time to live of single messages (see ttl.pxd)."""
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free, realloc

from jetbroker.jetstream.timing.due_heap cimport Due, heap_add, heap_drop_first, heapify
from jetbroker.forms.durations cimport read_duration
from jetbroker.saturate cimport add_int64, multiply_int64
from jetbroker.store.log.flagged cimport is_stored
from jetbroker.store.log.stream_log cimport StreamLog
from jetbroker.wire.digits cimport read_uint64
from jetbroker.wire.headers cimport find_header

cdef extern from "strings.h":
    int strncasecmp(const char* a, const char* b, size_t n) noexcept nogil

cdef int64_t SECOND_NS = 1_000_000_000
# Entries of removed messages are thrown out when they outnumber the stored ones by this many.
cdef Py_ssize_t SPARE_ENTRIES = 1024


cdef int64_t parse_ttl(const char* text, Py_ssize_t n) noexcept nogil:
    cdef int64_t duration
    cdef uint64_t seconds
    if n == 0:
        return TTL_NONE
    if n == 5 and strncasecmp(text, b"never", 5) == 0:
        return TTL_NEVER
    if read_duration(text, n, &duration):
        return duration // SECOND_NS if duration >= SECOND_NS else TTL_INVALID
    if not read_uint64(text, n, &seconds) or seconds > <uint64_t>INT64_MAX:
        return TTL_INVALID
    return <int64_t>seconds


cdef int64_t ttl_of(const char* headers, Py_ssize_t headers_len) noexcept nogil:
    cdef const char* value = NULL
    cdef Py_ssize_t value_len = 0
    if not headers_len or not find_header(headers, headers_len, b"Nats-TTL", 8, &value, &value_len):
        return TTL_NONE
    return parse_ttl(value, value_len)


cdef int64_t expiry_ns(int64_t time_ns, int64_t seconds) noexcept nogil:
    return add_int64(time_ns, multiply_int64(seconds, SECOND_NS))


def ttl_seconds(bytes text not None):
    """Whole seconds of a Nats-TTL value; -1: never, 0: none, -2: the server refuses it."""
    return parse_ttl(text, len(text))


cdef class TtlHeap:
    """A binary heap of (time, sequence)."""

    def __init__(self, StreamLog log not None) -> None:
        self.log = log

    def __dealloc__(self):
        free(self.entries)

    cdef int add(self, uint64_t seq, int64_t expires_ns) except -1:
        cdef Due* grown
        if self.count > 2 * <Py_ssize_t>self.log.messages + SPARE_ENTRIES:
            self.compact()
        if self.count == self.capacity:
            grown = <Due*>realloc(self.entries, (2 * self.capacity + 64) * sizeof(Due))
            if grown == NULL:
                raise MemoryError
            self.entries = grown
            self.capacity = 2 * self.capacity + 64
        heap_add(self.entries, self.count, expires_ns, seq)
        self.count += 1
        if self.entries[0].seq == seq and self.on_earlier is not None:
            self.on_earlier()
        return 0

    cdef int64_t earliest(self) noexcept:
        return self.entries[0].when_ns if self.count else 0

    cdef uint64_t pop(self) noexcept:
        cdef uint64_t seq = self.entries[0].seq
        self.count -= 1
        heap_drop_first(self.entries, self.count)
        return seq

    cdef int compact(self) except -1:
        """Throw the entries of messages that are gone out."""
        cdef Py_ssize_t kept = 0
        cdef Py_ssize_t i
        for i in range(self.count):
            if is_stored(self.log, self.entries[i].seq):
                self.entries[kept] = self.entries[i]
                kept += 1
        self.count = kept
        heapify(self.entries, kept)
        return 0
