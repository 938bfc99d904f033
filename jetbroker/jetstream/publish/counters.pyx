# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The running totals of counters, which are whole numbers of any size (see counters.pxd).

Python's int takes longer than linear time to read and to write its digits, and refuses more than 4,300 of them.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy

from jetbroker.jetstream.publish.headers cimport has_header
from jetbroker.store.log.stream_log cimport READ_OK, StoredMessage, StreamLog, SubjectState
from jetbroker.wire.buffer cimport format_uint

from jetbroker.jetstream.models.counters import read_sources, read_value
from jetbroker.jetstream.models.decode import DecodeError
from jetbroker.jetstream.publish.headers import header_text


cdef inline bint is_digit(char c) noexcept nogil:
    return c'0' <= c <= c'9'


cdef bint is_decimal(const char* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i = 1 if n and (p[0] == c'+' or p[0] == c'-') else 0
    if i == n:
        return False
    while i < n:
        if not is_digit(p[i]):
            return False
        i += 1
    return True


cdef Decimal decimal_of(const char* p, Py_ssize_t n) noexcept nogil:
    cdef Decimal found
    cdef Py_ssize_t i = 0
    found.negative = n > 0 and p[0] == c'-'
    if n and (p[0] == c'-' or p[0] == c'+'):
        i = 1
    while i < n and p[i] == c'0':
        i += 1
    found.digits = p + i
    while i < n and is_digit(p[i]):
        i += 1
    found.n = i - (found.digits - p)
    if found.n == 0:
        found.negative = False
    return found


cdef Decimal negated(Decimal a) noexcept nogil:
    a.negative = not a.negative and a.n > 0
    return a


cdef bytes decimal_text(Decimal a):
    if a.n == 0:
        return b"0"
    return b"-" + a.digits[:a.n] if a.negative else a.digits[:a.n]


cdef inline int64_t small_value(Decimal a) noexcept nogil:
    cdef int64_t value = 0
    cdef Py_ssize_t i
    for i in range(a.n):
        value = value * 10 + (a.digits[i] - c'0')
    return -value if a.negative else value


cdef bint read_small(const char* p, Py_ssize_t n, int64_t* out) noexcept nogil:
    cdef Py_ssize_t i = 1 if n and (p[0] == c'+' or p[0] == c'-') else 0
    cdef int64_t value = 0
    if i == n or n - i > SMALL_DIGITS:
        return False
    while i < n:
        if not is_digit(p[i]):
            return False
        value = value * 10 + (p[i] - c'0')
        i += 1
    out[0] = -value if p[0] == c'-' else value
    return True


cdef bytes small_text(int64_t value):
    cdef char text[24]
    cdef Py_ssize_t at = 24
    cdef bint negative = value < 0
    if negative:
        value = -value
    while True:
        at -= 1
        text[at] = <char>(c'0' + value % 10)
        value //= 10
        if value == 0:
            break
    if negative:
        at -= 1
        text[at] = c'-'
    return text[at:24]


cdef bytes sum_text(Decimal a, Decimal b):
    cdef Decimal larger
    cdef bytes made
    cdef char* out
    cdef Py_ssize_t at
    cdef int carry = 0
    cdef int digit
    cdef int sign
    cdef Py_ssize_t i
    if a.n <= SMALL_DIGITS and b.n <= SMALL_DIGITS:
        return small_text(small_value(a) + small_value(b))
    if b.n > a.n or (b.n == a.n and memcmp(b.digits, a.digits, a.n) > 0):
        larger = b                         # it gives the sign
        b = a
        a = larger
    sign = 1 if a.negative == b.negative else -1
    made = PyBytes_FromStringAndSize(NULL, a.n + 2)      # with a sign and a digit more
    out = PyBytes_AS_STRING(made)
    at = a.n + 2
    for i in range(1, a.n + 1):
        digit = a.digits[a.n - i] - c'0' + carry
        if i <= b.n:
            digit += sign * (b.digits[b.n - i] - c'0')
        carry = 0
        if digit > 9:
            digit -= 10
            carry = 1
        elif digit < 0:
            digit += 10
            carry = -1
        at -= 1
        out[at] = <char>(c'0' + digit)
    if carry:
        at -= 1
        out[at] = c'1'
    while at < a.n + 2 and out[at] == c'0':
        at += 1
    if at == a.n + 2:
        return b"0"
    if a.negative:
        at -= 1
        out[at] = c'-'
    return made[at:]


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
