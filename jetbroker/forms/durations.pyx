# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Durations as Go writes them (see durations.pxd)."""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp

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


cdef const char* read_part(const char* p, const char* end, uint64_t* out) noexcept nogil:
    """One number with its unit, in nanoseconds; returns the place behind it, NULL: there is none."""
    cdef const char* name
    cdef uint64_t whole = 0
    cdef uint64_t fraction = 0
    cdef uint64_t unit
    cdef double scale = 1
    cdef bint digits = False
    while p < end and is_digit(p[0]):
        if whole > (BEYOND - (p[0] - c'0')) // 10:
            return NULL
        whole = whole * 10 + <uint64_t>(p[0] - c'0')
        digits = True
        p += 1
    if p < end and p[0] == c'.':
        p += 1
        while p < end and is_digit(p[0]):
            if fraction <= (BEYOND - 10) // 10:     # digits behind the eighteenth do not count
                fraction = fraction * 10 + <uint64_t>(p[0] - c'0')
                scale *= 10
            digits = True
            p += 1
    name = p
    while p < end and p[0] != c'.' and not is_digit(p[0]):
        p += 1
    unit = unit_ns(name, p - name)
    if not digits or unit == 0 or whole > BEYOND // unit:
        return NULL
    out[0] = whole * unit + <uint64_t>(<double>fraction * (<double>unit / scale))
    return p if out[0] <= BEYOND else NULL


cdef bint read_duration(const char* p, Py_ssize_t n, int64_t* out) noexcept nogil:
    cdef const char* end = p + n
    cdef bint negative = False
    cdef uint64_t total = 0
    cdef uint64_t part = 0
    out[0] = 0
    if n > 0 and (p[0] == c'+' or p[0] == c'-'):
        negative = p[0] == c'-'
        p += 1
    if p >= end:
        return False
    if p[0] == c'0' and p + 1 == end:
        return True
    while p < end:
        p = read_part(p, end, &part)
        if p == NULL or part > BEYOND - total:
            return False
        total += part
    if total == BEYOND and not negative:
        return False
    out[0] = <int64_t>(0 - total) if negative else <int64_t>total
    return True


def parse_duration(bytes text not None):
    """Nanoseconds; None when the text is no duration or a longer one than 64 bits hold. A sign is allowed."""
    cdef int64_t value
    return value if read_duration(text, len(text), &value) else None
