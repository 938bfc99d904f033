# cython: language_level=3
"""What subjects that are used once, or now and then, have in common with their neighbours."""


cdef inline Py_ssize_t reply_prefix(const char* p, Py_ssize_t n, int* rest) noexcept nogil:
    """Length of the part that many one-off subjects share, and the number of tokens behind it; 0: none.

    `_INBOX.<id>.` or `_R_.<id>.` and whatever follows with one token behind it, or `$JS.ACK.<stream>.<consumer>.`
    """
    cdef Py_ssize_t i, prefix = 0
    cdef int dots = 0
    rest[0] = 1
    if p[n - 1] == c'.':
        return 0
    if p[0] == c'_':
        for i in range(n - 2, 6, -1):
            if p[i] == c'.':
                return i + 1
        return 7 if p[1] == c'I' else 0
    for i in range(n):
        if p[i] == c'.':
            dots += 1
            if dots == 4:
                prefix = i + 1
            elif dots > 4:
                rest[0] += 1
            if p[i + 1] == c'.':
                return 0
    return prefix


cdef inline Py_ssize_t parent_prefix(const char* p, Py_ssize_t n) noexcept nogil:
    """Length of all but the last token; 0: there is no other, or it is empty."""
    cdef Py_ssize_t i
    for i in range(n - 1, 0, -1):
        if p[i] == c'.':
            return i + 1 if i < n - 1 else 0
    return 0
