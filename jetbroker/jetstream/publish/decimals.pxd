"""Whole numbers of any size, added as they are written: in the time it takes to read them."""
from libc.stdint cimport int64_t

cdef enum:
    SMALL_DIGITS = 17                  # so many, twice, are added in 64 bits


cdef struct Decimal:
    const char* digits                 # none of the zeros that may lead
    Py_ssize_t n                       # 0: the number is 0
    bint negative


# Is all of the text one number?
cdef bint is_decimal(const char* p, Py_ssize_t n) noexcept nogil
# The number that the text begins with, as Go's big.Int takes it; 0: it begins with none.
cdef Decimal decimal_of(const char* p, Py_ssize_t n) noexcept nogil
cdef Decimal negated(Decimal a) noexcept nogil
# Is all of the text one number of at most SMALL_DIGITS digits, as which the zeros that may lead count?
cdef bint read_small(const char* p, Py_ssize_t n, int64_t* out) noexcept nogil
cdef bytes decimal_text(Decimal a)
cdef bytes sum_text(Decimal a, Decimal b)
