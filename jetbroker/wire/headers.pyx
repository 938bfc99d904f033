# cython: language_level=3, boundscheck=False, wraparound=False
"""Header blocks (see headers.pxd)."""
from libc.string cimport memchr, memcmp

cdef extern from "strings.h":
    int strncasecmp(const char* a, const char* b, size_t n) noexcept nogil


cdef int find_header(const char* block, Py_ssize_t n, const char* name, Py_ssize_t name_len,
                     const char** value, Py_ssize_t* value_len) noexcept nogil:
    cdef const char* line = <const char*>memchr(block, c'\n', n)   # the status line is not a header
    cdef const char* end = block + n
    cdef const char* stop
    cdef const char* first
    while line != NULL and line + 1 < end:
        line += 1
        stop = <const char*>memchr(line, c'\n', end - line)
        if stop == NULL:
            return 0
        if stop - line > name_len and line[name_len] == c':' and memcmp(line, name, name_len) == 0:
            first = line + name_len + 1
            while first < stop and (first[0] == c' ' or first[0] == c'\t'):
                first += 1
            while stop > first and ((stop - 1)[0] == c'\r' or (stop - 1)[0] == c' ' or (stop - 1)[0] == c'\t'):
                stop -= 1
            value[0] = first
            value_len[0] = stop - first
            return 1
        line = stop
    return 0


cdef inline bint has_line(const char* block, Py_ssize_t n, const char* start, Py_ssize_t start_len) noexcept nogil:
    """Does a line behind the first one begin so?"""
    cdef const char* end = block + n - start_len
    cdef const char* line = <const char*>memchr(block, c'\n', n)
    while line != NULL and line < end:
        if line[1] == start[0] and memcmp(line + 1, start, start_len) == 0:
            return True
        line = <const char*>memchr(line + 1, c'\n', end - line)
    return False


cdef inline bint has_parent(const char* block, Py_ssize_t n) noexcept nogil:
    """The same of a traceparent, however it is spelt."""
    cdef const char* end = block + n - 12
    cdef const char* line = <const char*>memchr(block, c'\n', n)
    while line != NULL and line < end:
        if strncasecmp(line + 1, b"traceparent:", 12) == 0:
            return True
        line = <const char*>memchr(line + 1, c'\n', end - line)
    return False


cdef bint asks_for_trace(const char* block, Py_ssize_t n, bint by_parent) noexcept nogil:
    return has_line(block, n, b"Nats-Trace-Dest:", 16) or (by_parent and has_parent(block, n))


def header_value(bytes block not None, bytes name not None) -> bytes | None:
    """The trimmed value of the first header of this exact name, or None."""
    cdef const char* value = NULL
    cdef Py_ssize_t value_len = 0
    if find_header(<const char*>block, len(block), <const char*>name, len(name), &value, &value_len):
        return value[:value_len]
    return None
