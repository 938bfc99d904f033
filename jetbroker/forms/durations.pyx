# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Durations as Go writes them (see durations.pxd)."""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp

from jetbroker.forms.gotext import time_quoted

cdef uint64_t SECOND_NS = 1_000_000_000
cdef uint64_t BEYOND = <uint64_t>1 << 63       # as large as a negative duration may be; a positive one is smaller


cdef inline bint is_digit(char c) noexcept nogil:
    return c'0' <= c <= c'9'


cdef uint64_t unit_ns(const char* p, Py_ssize_t n) noexcept nogil:
    """Nanoseconds of a unit's name, 0: there is no such unit."""
    if n == 1:
        return SECOND_NS if p[0] == c's' else 60 * SECOND_NS if p[0] == c'm' else 3600 * SECOND_NS if p[0] == c'h' else 0
    if n == 2 and p[1] == c's':
        return 1 if p[0] == c'n' else 1000 if p[0] == c'u' else 1_000_000 if p[0] == c'm' else 0
    # micro sign and Greek mu, in UTF-8
    if n == 3 and (memcmp(p, b"\xc2\xb5s", 3) == 0 or memcmp(p, b"\xce\xbcs", 3) == 0):
        return 1000
    return 0


cdef enum Fault:
    FAULT_NONE = 0
    FAULT_INVALID = 1
    FAULT_NO_UNIT = 2
    FAULT_OTHER_UNIT = 3


cdef struct Reading:
    const char* p
    const char* end
    const char* unit               # of the part read last
    Fault fault


cdef uint64_t read_part(Reading* text) noexcept nogil:
    """One number with its unit, in nanoseconds; anything when there is a fault."""
    cdef uint64_t whole = 0
    cdef uint64_t fraction = 0
    cdef uint64_t unit
    cdef double scale = 1
    cdef bint digits = False
    text.fault = FAULT_INVALID
    while text.p < text.end and is_digit(text.p[0]):
        if whole > (BEYOND - (text.p[0] - c'0')) // 10:
            return 0
        whole = whole * 10 + <uint64_t>(text.p[0] - c'0')
        digits = True
        text.p += 1
    if text.p < text.end and text.p[0] == c'.':
        text.p += 1
        while text.p < text.end and is_digit(text.p[0]):
            if fraction <= (BEYOND - 10) // 10:     # digits behind the eighteenth do not count
                fraction = fraction * 10 + <uint64_t>(text.p[0] - c'0')
                scale *= 10
            digits = True
            text.p += 1
    if not digits:
        return 0
    text.unit = text.p
    while text.p < text.end and text.p[0] != c'.' and not is_digit(text.p[0]):
        text.p += 1
    unit = unit_ns(text.unit, text.p - text.unit)
    if unit == 0:
        text.fault = FAULT_NO_UNIT if text.unit == text.p else FAULT_OTHER_UNIT
    elif whole <= BEYOND // unit:
        whole = whole * unit + <uint64_t>(<double>fraction * (<double>unit / scale))
        text.fault = FAULT_NONE if whole <= BEYOND else FAULT_INVALID
    return whole


cdef int64_t read(Reading* text) noexcept nogil:
    """All of it, in nanoseconds; anything when there is a fault."""
    cdef bint negative = False
    cdef uint64_t total = 0
    cdef uint64_t part
    if text.p < text.end and (text.p[0] == c'+' or text.p[0] == c'-'):
        negative = text.p[0] == c'-'
        text.p += 1
    text.fault = FAULT_INVALID if text.p == text.end else FAULT_NONE
    if text.p + 1 == text.end and text.p[0] == c'0':
        return 0
    while text.p < text.end and text.fault == FAULT_NONE:
        part = read_part(text)
        if part > BEYOND - total:
            text.fault = FAULT_INVALID if text.fault == FAULT_NONE else text.fault
            return 0
        total += part
    if total == BEYOND and not negative and text.fault == FAULT_NONE:
        text.fault = FAULT_INVALID
    return <int64_t>(0 - total) if negative else <int64_t>total


cdef bint read_duration(const char* p, Py_ssize_t n, int64_t* out) noexcept nogil:
    cdef Reading text
    text.p = p
    text.end = p + n
    out[0] = read(&text)
    return text.fault == FAULT_NONE


def parse_duration(bytes text not None):
    """Nanoseconds, as Go's time.ParseDuration reads them; a sign is allowed. Raises ValueError with its text."""
    cdef Reading reading
    cdef int64_t value
    reading.p = text
    reading.end = reading.p + len(text)
    value = read(&reading)
    if reading.fault == FAULT_NONE:
        return value
    if reading.fault == FAULT_NO_UNIT:
        raise ValueError(f"time: missing unit in duration {time_quoted(text)}")
    if reading.fault == FAULT_OTHER_UNIT:
        unit = reading.unit[:reading.p - reading.unit]
        raise ValueError(f"time: unknown unit {time_quoted(unit)} in duration {time_quoted(text)}")
    raise ValueError(f"time: invalid duration {time_quoted(text)}")
