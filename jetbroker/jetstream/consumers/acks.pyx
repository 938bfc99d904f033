# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What an ack says: the numbers of its subject and the word in its payload (see acks.pxd)."""
import orjson

from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memcmp

from jetbroker.forms.durations cimport read_duration

cdef Py_ssize_t MAX_DELAY_BYTES = 1024         # of what follows "-NAK"; longer, it asks for no delay


cdef inline Py_ssize_t parse_number(const char* p, Py_ssize_t n, Py_ssize_t at, uint64_t* out) noexcept nogil:
    """Reads digits up to '.' or the end; returns the place behind the dot, -1 when it is no number."""
    cdef Py_ssize_t start = at
    cdef uint64_t value = 0
    while at < n and p[at] != c'.':
        if p[at] < c'0' or p[at] > c'9' or at - start > 18:
            return -1
        value = value * 10 + <uint64_t>(p[at] - c'0')
        at += 1
    if at == start:
        return -1
    out[0] = value
    return at + 1


cdef bint parse_ack_numbers(const char* p, Py_ssize_t n, AckNumbers* out) noexcept nogil:
    cdef Py_ssize_t at = 0
    while at < n and p[at] != c'.':
        at += 1
    at = parse_number(p, n, at + 1, &out.stream_seq)
    if at < 0:
        return False
    if parse_number(p, n, at, &out.consumer_seq) < 0:
        out.consumer_seq = 0
    return True


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c' ' or c == c'\t' or c == c'\r' or c == c'\n'


cdef AckKind parse_ack_kind(const char* p, Py_ssize_t n, const char** rest, Py_ssize_t* rest_len) noexcept nogil:
    cdef AckKind kind = ACK_UNKNOWN
    cdef Py_ssize_t word = 4
    rest[0] = p + n
    rest_len[0] = 0
    if n == 0:
        return ACK_ACK
    if n == 3 and memcmp(p, b"+OK", 3) == 0:
        return ACK_ACK
    if n < 4:
        return ACK_UNKNOWN
    if n == 4 and memcmp(p, b"+ACK", 4) == 0:
        return ACK_ACK
    if memcmp(p, b"-NAK", 4) == 0:
        kind = ACK_NAK
    elif memcmp(p, b"+NXT", 4) == 0:
        kind = ACK_NEXT
    elif n == 4 and memcmp(p, b"+WPI", 4) == 0:
        return ACK_PROGRESS
    elif n >= 5 and memcmp(p, b"+TERM", 5) == 0:
        kind = ACK_TERM
        word = 5
    else:
        return ACK_UNKNOWN
    while word < n and is_blank(p[word]):
        word += 1
    while n > word and is_blank(p[n - 1]):
        n -= 1
    rest[0] = p + word
    rest_len[0] = n - word
    return kind


cdef int64_t parse_nak_delay(const char* p, Py_ssize_t n) except? -1:
    cdef int64_t delay = 0
    if n == 0 or n > MAX_DELAY_BYTES:
        return 0
    if p[0] == c'{':
        try:
            value = orjson.loads(p[:n]).get("delay", 0)
        except ValueError:
            return 0
        return value if type(value) is int and 0 < value <= INT64_MAX else 0
    return delay if read_duration(p, n, &delay) and delay > 0 else 0
