"""Payloads' values, checked and made what Arrow builds columns of."""


cdef class Converter:
    cdef object type
    cdef int kind
    cdef object low, high            # of an integer
    cdef object quantum, context     # of a decimal
    cdef Converter item              # of an array or a map
    cdef list members                # of a struct: Places

    cdef object of(self, object value)
    cdef object _string(self, object value)
    cdef object _floating(self, object value)
    cdef object _decimal(self, object value)
    cdef object _nested(self, object value)


cdef class Place:
    cdef tuple path
    cdef str column
    cdef Converter converter

    cdef object find(self, object row)


cdef class RowDecoder:
    cdef list places
    cdef object load
    cdef bint models
    cdef readonly object fault

    # One payload's values, each at the end of its column. Raises ValueError where it does not validate.
    cdef int add(self, bytes payload, list columns) except -1
    cdef int _leave_out(self, list columns, Py_ssize_t row) except -1
