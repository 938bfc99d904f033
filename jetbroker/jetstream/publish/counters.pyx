# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The running totals of counters (see counters.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy

from jetbroker.jetstream.publish.decimals cimport (
    Decimal, decimal_of, decimal_text, is_decimal, negated, read_small, sum_text,
)
from jetbroker.jetstream.publish.headers cimport has_header
from jetbroker.store.log.stream_log cimport READ_OK, StoredMessage, StreamLog, SubjectState
from jetbroker.wire.buffer cimport format_uint

from jetbroker.jetstream.models.counters import read_sources, read_value
from jetbroker.jetstream.models.decode import DecodeError
from jetbroker.jetstream.publish.headers import header_text

cdef const char* BEGIN = b'{"val":"'
cdef const char* END = b'"}'
cdef const char* LONE = b"NATS/1.0\r\nNats-Incr: "
cdef enum:
    LONE_LEN = 21


cdef inline Decimal number(bytes text) noexcept:
    return decimal_of(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef class Total:
    """Of one subject."""

    cdef int add(self, Decimal increment) except -1:
        self.value = sum_text(number(self.value), increment)
        return 0

    cdef bytes add_source(self, bytes stream, bytes subject, Decimal sourced):
        cdef bytes step
        cdef str origin = stream.decode("utf-8", "replace")
        cdef str name = subject.decode("utf-8", "replace")
        cdef dict totals = self.sources.get(origin) or {}
        cdef bytes before = totals.get(name, "").encode("utf-8", "replace")
        self.sources[origin] = totals
        totals[name] = decimal_text(sourced).decode()
        step = sum_text(sourced, negated(number(before)))
        self.add(number(step))
        return step

    cdef bytes body(self):
        return b'{"val":"%b"}' % self.value


cdef Total last_total(StreamLog log, SubjectState state):
    cdef StoredMessage stored
    cdef Total found = Total.__new__(Total)
    cdef bytes told = None
    found.value = b"0"
    found.sources = {}
    if state.count == 0:
        return found
    if log.read(state.last, &stored) != READ_OK:
        raise DecodeError("the last message cannot be read")
    found.value = total_of(stored.payload, stored.payload_len)
    if has_header(stored.headers, stored.headers_len, b"Nats-Counter-Sources", 20):
        told = header_text(stored.headers[:stored.headers_len], b"Nats-Counter-Sources")
    if told:
        found.sources = read_sources(told)
    return found


cdef bint small_total(StreamLog log, SubjectState state, int64_t* total) except -1:
    cdef StoredMessage stored
    total[0] = 0
    if state.count == 0:
        return True
    if log.read(state.last, &stored) != READ_OK:
        return False
    if has_header(stored.headers, stored.headers_len, b"Nats-Counter-Sources", 20):
        return False
    return tells_total(stored.payload, stored.payload_len) and read_small(
        stored.payload + 8, stored.payload_len - 10, total)


cdef Py_ssize_t write_total(char* out, int64_t total) noexcept nogil:
    cdef Py_ssize_t n = 8
    memcpy(out, BEGIN, 8)
    if total < 0:
        out[8] = c'-'
        n = 9
        total = -total
    n += format_uint(out + n, total)
    memcpy(out + n, END, 2)
    return n + 2


cdef bint is_lone_increment(const char* block, Py_ssize_t n, int64_t* increment) noexcept nogil:
    return (n > LONE_LEN + 4 and memcmp(block, LONE, LONE_LEN) == 0
            and memcmp(block + n - 4, b"\r\n\r\n", 4) == 0
            and read_small(block + LONE_LEN, n - LONE_LEN - 4, increment))


cdef inline bint tells_total(const char* body, Py_ssize_t n) noexcept nogil:
    """As the broker itself writes it."""
    return n > 10 and memcmp(body, BEGIN, 8) == 0 and memcmp(body + n - 2, END, 2) == 0


cdef bytes total_of(const char* body, Py_ssize_t n):
    cdef bytes told
    if tells_total(body, n) and is_decimal(body + 8, n - 10):
        return body[8:n - 2]
    told = read_value(body[:n])
    return decimal_text(number(told))
