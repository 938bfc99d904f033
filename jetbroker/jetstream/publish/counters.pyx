# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The running totals of counters (see counters.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from jetbroker.jetstream.publish.decimals cimport (
    Decimal, decimal_of, decimal_text, is_decimal, negated, sum_text,
)
from jetbroker.store.log.stream_log cimport READ_OK, StoredMessage, StreamLog, SubjectState

from jetbroker.jetstream.models.counters import read_sources, read_value
from jetbroker.jetstream.models.decode import DecodeError
from jetbroker.jetstream.publish.headers import header_text

cdef const char* BEGIN = b'{"val":"'
cdef const char* END = b'"}'


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
    if stored.headers_len:
        told = header_text(stored.headers[:stored.headers_len], b"Nats-Counter-Sources")
    if told:
        found.sources = read_sources(told)
    return found


cdef bytes total_of(const char* body, Py_ssize_t n):
    cdef bytes told
    if n > 10 and memcmp(body, BEGIN, 8) == 0 and memcmp(body + n - 2, END, 2) == 0 and is_decimal(body + 8, n - 10):
        return body[8:n - 2]
    told = read_value(body[:n])
    return decimal_text(number(told))
