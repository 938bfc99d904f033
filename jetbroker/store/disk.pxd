"""The one narrow layer for disk, clock and randomness."""
from libc.stdint cimport int64_t, uint64_t


cdef class FileMap:
    """The first bytes of a file, in the address space as long as this object lives: a read is no call of the system."""
    cdef const char* start
    cdef uint64_t length

    # Copies n bytes at `offset` of the file. False: they are not mapped, or the disk does not give them. The file may be
    # shorter than it was.
    cdef bint copy(self, char* out, uint64_t offset, Py_ssize_t n) noexcept


cdef class Disk:
    """The real disk. Every call of the store goes through one of these; tests subclass ObservedDisk."""
    # May write less than n; raises OSError. The GIL is released meanwhile.
    cdef Py_ssize_t write_at(self, int fd, const char* p, Py_ssize_t n, int64_t offset) except? -1
    # Reads until n bytes or the end of the file; returns the number read.
    cdef Py_ssize_t read_at(self, int fd, char* p, Py_ssize_t n, int64_t offset) except? -1
    cdef FileMap map(self, int fd, uint64_t length)    # of the file's first bytes; None: it has to be read
    cpdef int64_t time_ns(self) except? -1
    # fdatasync: 0, or errno.
    cdef int sync_file(self, int fd) noexcept nogil
    # A hint that an fdatasync follows: begin now. It promises nothing and does not fail.
    cdef void start_writing(self, int fd) noexcept nogil


cdef class ObservedDisk(Disk):
    """Calls `before` ahead of each call, so that tests can record, fail, shorten and delay it."""
    cdef dict paths
