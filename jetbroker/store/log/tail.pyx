# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The end of a growing file that is still in memory (see tail.pxd)."""
import errno
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove, memset

from jetbroker.store.disk cimport Disk

# Written bytes stay in memory for readers that follow closely; more than this is given back.
cdef Py_ssize_t KEEP_BYTES = 4 * 1024 * 1024


cdef class Tail:
    """The write buffer of one file."""

    def __dealloc__(self):
        free(self.data)

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Have room for n more bytes."""
        cdef Py_ssize_t capacity = max(self.capacity, 1024)
        cdef char* p
        if self.size + n <= self.capacity:
            return 0
        while capacity < self.size + n:
            capacity *= 2
        p = <char*>realloc(self.data, capacity)
        if p == NULL:
            raise MemoryError
        self.data = p
        self.capacity = capacity
        return 0

    cdef int begin(self, bytes content) except -1:
        self.size = 0
        memcpy(self.extend(PyBytes_GET_SIZE(content)), PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
        self.base = self.written = self.synced = 0
        return 0

    cdef void go_on(self, uint64_t end) noexcept:
        self.base = self.written = self.synced = end
        self.size = 0

    cdef int write(self, Disk disk, int fd) except -1:
        cdef Py_ssize_t k
        while self.written < self.end():
            k = disk.write_at(fd, self.at(self.written), self.end() - self.written, self.written)
            if k == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.written += k
        return 0

    cdef void cut(self, uint64_t end) noexcept:
        self.size = end - self.base
        self.written = min(self.written, end)

    cdef void forget_written(self) noexcept:
        """Writing over the same memory again keeps the processor's cache warm."""
        self.base = self.written
        self.size = 0

    cdef void drop_before(self, uint64_t offset) noexcept:
        memmove(self.data, self.at(offset), self.end() - offset)
        self.size = self.end() - offset
        self.base = offset

    cdef int trim(self) except -1:
        """Give back what is on disk, when that is much."""
        cdef Py_ssize_t drop = self.synced - self.base
        if drop < KEEP_BYTES or drop * 2 < self.size:
            return 0
        self.drop_before(self.synced)
        if self.capacity > 4 * KEEP_BYTES and self.size < KEEP_BYTES:
            self.capacity = KEEP_BYTES
            self.data = <char*>realloc(self.data, self.capacity)
        return 0

    cdef void give_back(self) noexcept:
        """Free the memory; all of it is written."""
        free(self.data)
        self.data = NULL
        self.capacity = 0
        self.forget_written()

    cdef void erase(self, uint64_t start, uint64_t end) noexcept:
        """Overwrite what of [start, end) is here."""
        start = max(start, self.base)
        if start < end:
            memset(self.at(start), 0, end - start)
