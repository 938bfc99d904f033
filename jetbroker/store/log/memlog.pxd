"""A stream's log in memory."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.segment cimport Segment
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.tick cimport Tick


cdef class MemorySegment(Segment):
    cdef char* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room


cdef class MemoryLog(SegmentedLog):
    cdef Tick tick
    cdef readonly bint closed
    cdef int resize(self, MemorySegment segment, Py_ssize_t room) except -1
    cdef int compact(self, MemorySegment segment) except -1
    cdef Py_ssize_t record_size(self, Segment segment, Py_ssize_t slot) noexcept
