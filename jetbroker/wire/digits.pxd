# cython: language_level=3
"""Numbers written as decimal digits."""
from libc.stdint cimport UINT64_MAX, uint64_t


cdef inline bint read_uint64(const char* p, Py_ssize_t n, uint64_t* out) noexcept nogil:
    """False, with 0 in `out`, for anything but digits and for what 64 bits do not hold; zeros may lead."""
    cdef Py_ssize_t i
    cdef uint64_t value = 0
    cdef uint64_t digit
    out[0] = 0
    if n <= 0:
        return False
    for i in range(n):
        digit = <unsigned char>p[i] - <uint64_t>c'0'
        if digit > 9 or value > UINT64_MAX // 10 or (value == UINT64_MAX // 10 and digit > UINT64_MAX % 10):
            return False
        value = value * 10 + digit
    out[0] = value
    return True
