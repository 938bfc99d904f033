# cython: language_level=3, boundscheck=False, wraparound=False
"""Header blocks (see headers.pxd)."""
from libc.string cimport memchr, memcmp, memset

cdef extern from "string.h":
    void* memmem(const void* haystack, size_t n, const void* needle, size_t m) noexcept nogil

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


cdef inline bint is_on(const char* p, Py_ssize_t n) noexcept nogil:
    return ((n == 1 and p[0] == c'1') or (n == 2 and strncasecmp(p, b"on", 2) == 0)
            or (n == 4 and strncasecmp(p, b"true", 4) == 0))


cdef inline bint has_line(const char* block, Py_ssize_t n, const char* start, Py_ssize_t start_len) noexcept nogil:
    """Does a line behind the first one begin so?"""
    cdef const char* end = block + n - start_len
    cdef const char* line = <const char*>memchr(block, c'\n', n)
    while line != NULL and line < end:
        if line[1] == start[0] and memcmp(line + 1, start, start_len) == 0:
            return True
        line = <const char*>memchr(line + 1, c'\n', end - line)
    return False


cdef bint find_trace(const char* block, Py_ssize_t n, TraceHeaders* out) noexcept nogil:
    cdef const char* at = block + 10
    cdef const char* end = block + n
    cdef const char* colon
    cdef const char* stop
    cdef const char* first
    cdef const char* last
    cdef bint heard = False            # the first Nats-Trace-Only that has a value counts
    if not has_line(block, n, b"Nats-Trace-Dest:", 16) or memcmp(block, b"NATS/1.0\r\n", 10) != 0:
        return False
    memset(out, 0, sizeof(TraceHeaders))
    while at < end:
        colon = <const char*>memchr(at, c':', end - at)
        if colon == NULL:
            break
        stop = <const char*>memmem(colon + 1, end - colon - 1, b"\r\n", 2)
        if stop == NULL:
            break
        first = colon + 1
        last = stop
        while first < last and (first[0] == c' ' or first[0] == c'\t'):
            first += 1
        while last > first and ((last - 1)[0] == c' ' or (last - 1)[0] == c'\t'):
            last -= 1
        if last > first and colon - at >= 15 and memcmp(at, b"Nats-Trace-", 11) == 0:
            if colon - at == 15 and memcmp(at + 11, b"Dest", 4) == 0 and out.destination == NULL:
                if last - first == 14 and memcmp(first, b"trace disabled", 14) == 0:
                    return False
                out.destination = first
                out.destination_len = last - first
            elif colon - at == 15 and memcmp(at + 11, b"Only", 4) == 0 and not heard:
                heard = True
                out.only = is_on(first, last - first)
            elif colon - at == 25 and memcmp(at + 11, b"Origin-Account", 14) == 0:
                out.void = True
        at = stop + 2
    return out.destination != NULL


def header_value(bytes block not None, bytes name not None) -> bytes | None:
    """The trimmed value of the first header of this exact name, or None."""
    cdef const char* value = NULL
    cdef Py_ssize_t value_len = 0
    if find_header(<const char*>block, len(block), <const char*>name, len(name), &value, &value_len):
        return value[:value_len]
    return None
