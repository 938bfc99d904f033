"""Removals on their way into a log's file."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.segment cimport Ranges


cdef class PendingRemovals:
    cdef Ranges pending                # not yet in the write buffer
    cdef Ranges in_flight              # in the write buffer, not yet in the file
    cdef Ranges last_batch             # of the last D record of this file; repeated with the next

    cdef int extend(self, Ranges ranges) except -1
    cpdef int add(self, uint64_t first, uint64_t last) except -1
    cpdef Ranges next_batch(self)      # goes into the write buffer; None: nothing
    cpdef int written(self) except -1  # what was in the write buffer is in the file
    cpdef int new_file(self) except -1
    cpdef int take_back(self, uint64_t last_seq) except -1
