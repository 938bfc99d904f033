# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Time to live of single messages (see ttl.pxd)."""
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp

from jetbroker.jetstream.due_heap cimport Due, heap_add, heap_drop_first, heapify
from jetbroker.store.flagged cimport is_stored
from jetbroker.store.log cimport StreamLog
from jetbroker.wire.headers cimport find_header

cdef extern from "strings.h":
    int strncasecmp(const char* a, const char* b, size_t n) noexcept nogil

cdef int64_t SECOND_NS = 1_000_000_000
# Entries of removed messages are thrown out when they outnumber the stored ones by this many.
cdef Py_ssize_t SPARE_ENTRIES = 1024


cdef inline bint is_digit(char c) noexcept nogil:
    return c'0' <= c <= c'9'


cdef int64_t unit_ns(const char* p, Py_ssize_t n) noexcept nogil:
    """Nanoseconds of a unit's name, 0: there is no such unit."""
    if n == 1:
        return SECOND_NS if p[0] == c's' else 60 * SECOND_NS if p[0] == c'm' else 3600 * SECOND_NS if p[0] == c'h' else 0
    if n == 2 and p[1] == c's':
        return 1 if p[0] == c'n' else 1000 if p[0] == c'u' else 1_000_000 if p[0] == c'm' else 0
    # micro sign and Greek mu, in UTF-8
    if n == 3 and (memcmp(p, b"\xc2\xb5s", 3) == 0 or memcmp(p, b"\xce\xbcs", 3) == 0):
        return 1000
    return 0


cdef int64_t parse_go_duration(const char* p, Py_ssize_t n) noexcept nogil:
    """Nanoseconds of a Go duration that is not negative; -1: it is none, or too long for Go."""
    cdef const char* end = p + n
    cdef const char* name
    cdef int64_t total = 0
    cdef int64_t whole
    cdef int64_t unit
    cdef double part
    cdef double scale
    cdef bint digits
    if n and p[0] == c'+':
        p += 1
    if p == end:
        return -1
    if p[0] == c'0' and p + 1 == end:
        return 0
    while p < end:
        whole = 0
        part = 0
        scale = 1
        digits = False
        while p < end and is_digit(p[0]):
            if whole > (INT64_MAX - 9) // 10:
                return -1
            whole = whole * 10 + (p[0] - c'0')
            digits = True
            p += 1
        if p < end and p[0] == c'.':
            p += 1
            while p < end and is_digit(p[0]):
                scale /= 10
                part += (p[0] - c'0') * scale
                digits = True
                p += 1
        name = p
        while p < end and p[0] != c'.' and not is_digit(p[0]):
            p += 1
        unit = unit_ns(name, p - name)
        if not digits or unit == 0 or whole > INT64_MAX // unit:
            return -1
        whole *= unit
        if whole > INT64_MAX - total:
            return -1
        total += whole
        if total > INT64_MAX - <int64_t>(part * unit):
            return -1
        total += <int64_t>(part * unit)
    return total


cdef int64_t parse_ttl(const char* text, Py_ssize_t n) noexcept nogil:
    cdef int64_t value
    cdef Py_ssize_t i
    if n == 0:
        return TTL_NONE
    if n == 5 and strncasecmp(text, b"never", 5) == 0:
        return TTL_NEVER
    value = parse_go_duration(text, n)
    if value >= 0:
        return value // SECOND_NS if value >= SECOND_NS else TTL_INVALID
    value = 0
    for i in range(n):
        if not is_digit(text[i]):
            return TTL_INVALID
        value = value * 10 + (text[i] - c'0') if value < INT64_MAX // 100 else INT64_MAX
    return value


cdef int64_t ttl_of(const char* headers, Py_ssize_t headers_len) noexcept nogil:
    cdef const char* value = NULL
    cdef Py_ssize_t value_len = 0
    if not headers_len or not find_header(headers, headers_len, b"Nats-TTL", 8, &value, &value_len):
        return TTL_NONE
    return parse_ttl(value, value_len)


cdef int64_t expiry_ns(int64_t time_ns, int64_t seconds) noexcept nogil:
    if seconds > (INT64_MAX - time_ns) // SECOND_NS:
        return INT64_MAX
    return time_ns + seconds * SECOND_NS


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
