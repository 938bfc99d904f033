# cython: language_level=3, boundscheck=False, wraparound=False
"""Header blocks (see headers.pxd)."""
from libc.string cimport memchr, memcmp


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


def header_value(bytes block not None, bytes name not None) -> bytes | None:
    """The trimmed value of the first header of this exact name, or None."""
    cdef const char* value = NULL
    cdef Py_ssize_t value_len = 0
    if find_header(<const char*>block, len(block), <const char*>name, len(name), &value, &value_len):
        return value[:value_len]
    return None
