"""Growable output buffer in C memory and the number formatting every wire line needs."""
from libc.stdint cimport uint64_t


cdef class OutputBuffer:
    cdef char* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    # Room for n more bytes: a pointer to write at; the caller then adds what it wrote to `size`.
    cdef char* reserve(self, Py_ssize_t n) except NULL
    cdef int append(self, const char* p, Py_ssize_t n) except -1
    # Forget the content but keep the memory: it is needed again in a moment.
    cdef void clear(self) noexcept
    # Forget the content and give the memory back.
    cdef void release(self) noexcept
    # Forget the content; the memory is kept unless it is much, as after a burst.
    cdef void rest(self) noexcept


# Writes v in decimal at p and returns the number of digits (at most 20).
cdef int format_uint(char* p, uint64_t v) noexcept nogil
