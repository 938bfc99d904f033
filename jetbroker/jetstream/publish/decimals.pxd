"""Whole numbers of any size, added as they are written: in the time it takes to read them."""


cdef struct Decimal:
    const char* digits                 # none of the zeros that may lead
    Py_ssize_t n                       # 0: the number is 0
    bint negative


# Is all of the text one number?
cdef bint is_decimal(const char* p, Py_ssize_t n) noexcept nogil
# The number that the text begins with, as Go's big.Int takes it; 0: it begins with none.
cdef Decimal decimal_of(const char* p, Py_ssize_t n) noexcept nogil
cdef Decimal negated(Decimal a) noexcept nogil
cdef bytes decimal_text(Decimal a)
cdef bytes sum_text(Decimal a, Decimal b)
