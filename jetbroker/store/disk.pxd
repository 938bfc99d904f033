"""The one narrow layer for disk, clock and randomness."""
from libc.stdint cimport int64_t


cdef class Disk:
    """The real disk. Every call of the store goes through one of these; tests subclass ObservedDisk."""
    # May write less than n; raises OSError. The GIL is released meanwhile.
    cdef Py_ssize_t write_at(self, int fd, const char* p, Py_ssize_t n, int64_t offset) except? -1
    # Reads until n bytes or the end of the file; returns the number read.
    cdef Py_ssize_t read_at(self, int fd, char* p, Py_ssize_t n, int64_t offset) except? -1
    cpdef int64_t time_ns(self) except? -1
    # fdatasync: 0, or errno.
    cdef int sync_file(self, int fd) noexcept nogil
    # A hint that an fdatasync follows: begin now. It promises nothing and does not fail.
    cdef void start_writing(self, int fd) noexcept nogil


cdef class ObservedDisk(Disk):
    """Calls `before` ahead of each call, so that tests can record, fail, shorten and delay it."""
    cdef dict paths
