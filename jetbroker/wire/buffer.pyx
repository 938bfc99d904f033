# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Growable output buffer in C memory (see buffer.pxd)."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef Py_ssize_t FIRST_CAPACITY = 512
cdef Py_ssize_t KEEP_CAPACITY = 1024 * 1024    # what a buffer that rests keeps


cdef class OutputBuffer:
    """Bytes waiting to be sent or written. Memory is taken at the first append and given back by release()."""

    def __dealloc__(self) -> None:
        free(self.data)

    cdef char* reserve(self, Py_ssize_t n) except NULL:
        cdef Py_ssize_t wanted = self.size + n
        cdef Py_ssize_t capacity
        cdef char* grown
        if wanted > self.capacity or self.data == NULL:
            capacity = self.capacity if self.capacity else FIRST_CAPACITY
            while capacity < wanted:
                capacity *= 2
            grown = <char*>realloc(self.data, capacity)
            if grown == NULL:
                raise MemoryError()
            self.data = grown
            self.capacity = capacity
        return self.data + self.size

    cdef int append(self, const char* p, Py_ssize_t n) except -1:
        memcpy(self.reserve(n), p, n)
        self.size += n
        return 0

    cdef void clear(self) noexcept:
        self.size = 0

    cdef void release(self) noexcept:
        free(self.data)
        self.data = NULL
        self.size = 0
        self.capacity = 0

    cdef void rest(self) noexcept:
        if self.capacity > KEEP_CAPACITY:
            self.release()
        else:
            self.clear()


cdef int format_uint(char* p, uint64_t v) noexcept nogil:
    cdef char digits[20]
    cdef int i = 20
    while True:
        i -= 1
        digits[i] = <char>(48 + v % 10)
        v //= 10
        if v == 0:
            break
    memcpy(p, digits + i, 20 - i)
    return 20 - i
