# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Whole numbers of any size (see decimals.pxd).

Python's int takes longer than linear time to read and to write its digits, and refuses more than 4,300 of them.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.string cimport memcmp


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
