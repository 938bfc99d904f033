"""Sequences of a log that have no message: of missing segments, lost in damaged ones, deleted."""
from libc.stdint cimport uint64_t


cdef class Gaps:
    cdef list missing                 # [(first, last)], ascending: sequences of segments that are not there

    cpdef int add(self, uint64_t first, uint64_t last) except -1
    cpdef bint covers(self, uint64_t seq) except -1
    cpdef uint64_t first(self, uint64_t otherwise) except? 0
    cpdef int forget_before(self, uint64_t seq) except -1
    cpdef tuple without(self, uint64_t first, uint64_t last, uint64_t around)
    cdef list deleted(self, list segments, uint64_t first, uint64_t last)
    cdef list lost(self, list segments)
    cdef uint64_t lost_count(self, list segments, uint64_t start) except? 0
