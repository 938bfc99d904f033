"""The end of a growing file that is still in memory: what is to be written, and what was lately."""
from libc.stdint cimport uint64_t

from jetbroker.store.disk cimport Disk


cdef class Tail:
    # All positions are file offsets; the bytes are those of [base, end()).
    cdef char* data
    cdef readonly uint64_t base
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t capacity
    cdef readonly uint64_t written
    cdef uint64_t synced

    cdef int reserve(self, Py_ssize_t n) except -1
    cdef int begin(self, bytes content) except -1      # of a new file, of which nothing is written
    cdef void go_on(self, uint64_t end) noexcept       # behind what is in the file already
    cdef int write(self, Disk disk, int fd) except -1  # all that is not written; raises OSError
    cdef void cut(self, uint64_t end) noexcept         # what is behind `end` is taken back
    cdef void forget_written(self) noexcept
    cdef void drop_before(self, uint64_t offset) noexcept
    cdef int trim(self) except -1
    cdef void give_back(self) noexcept
    cdef void erase(self, uint64_t start, uint64_t end) noexcept

    cdef inline uint64_t end(self) noexcept:
        return self.base + self.size

    cdef inline char* at(self, uint64_t offset) noexcept:
        return self.data + (offset - self.base)

    # Where the bytes begin that are not known to be on disk.
    cdef inline uint64_t unsynced_from(self) noexcept:
        return max(self.synced, self.base)

    cdef inline bytes bytes_from(self, uint64_t offset):
        return self.at(offset)[:self.end() - offset]

    # Room for n more bytes, to be filled at once.
    cdef inline char* extend(self, Py_ssize_t n) except NULL:
        if self.size + n > self.capacity:
            self.reserve(n)
        self.size += n
        return self.data + (self.size - n)
