# cython: language_level=3, boundscheck=False, wraparound=False
"""Subjects: validity, matching, overlap (see subjects.pxd)."""
from libc.string cimport memcmp


cdef bint has_valid_tokens(const char* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, start = 0
    cdef bint full_wildcard = False
    if n == 0:
        return False
    for i in range(n + 1):
        if i == n or p[i] == c'.':
            if i == start or full_wildcard:
                return False
            if i - start == 1 and p[start] == c'>':
                full_wildcard = True
            start = i + 1
    return True


cdef bint is_valid_subject(const char* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if p[i] == c' ' or p[i] == c'\t' or p[i] == c'\r' or p[i] == c'\n' or p[i] == 12:
            return False
    return has_valid_tokens(p, n)


cdef bint has_wildcard(const char* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if p[i] == c'*' or p[i] == c'>':
            if (i == 0 or p[i - 1] == c'.') and (i == n - 1 or p[i + 1] == c'.'):
                return True
    return False


cdef bint is_valid_literal(const char* p, Py_ssize_t n) noexcept nogil:
    return is_valid_subject(p, n) and not has_wildcard(p, n)


cdef inline bint has_full_tokens(const char* p, Py_ssize_t n) noexcept nogil:
    """No token is empty."""
    cdef Py_ssize_t i
    if n == 0 or p[0] == c'.' or p[n - 1] == c'.':
        return False
    for i in range(1, n - 1):
        if p[i] == c'.' and p[i + 1] == c'.':
            return False
    return True


cdef bint pattern_matches(const char* s, Py_ssize_t n, const char* p, Py_ssize_t m) noexcept nogil:
    cdef Py_ssize_t i = 0, j = 0, token_end, pattern_end
    while True:
        if j >= m:
            return False
        pattern_end = j
        while pattern_end < m and p[pattern_end] != c'.':
            pattern_end += 1
        if pattern_end - j == 1 and p[j] == c'>' and pattern_end == m:
            return has_full_tokens(s + i, n - i)
        token_end = i
        while token_end < n and s[token_end] != c'.':
            token_end += 1
        if not (pattern_end - j == 1 and p[j] == c'*'):
            if token_end - i != pattern_end - j or memcmp(s + i, p + j, token_end - i) != 0:
                return False
        elif token_end == i:
            return False
        if token_end == n or pattern_end == m:
            return token_end == n and pattern_end == m
        i = token_end + 1
        j = pattern_end + 1


cdef bint subject_matches(const char* subject, Py_ssize_t n, bytes pattern) noexcept:
    return pattern_matches(subject, n, <const char*>pattern, len(pattern))


def valid_subject(bytes subject not None) -> bool:
    """May this be subscribed to?"""
    return is_valid_subject(<const char*>subject, len(subject))


def valid_literal(bytes subject not None) -> bool:
    """Is this a valid subject to publish on: no empty tokens, blanks or wildcards?"""
    return is_valid_literal(<const char*>subject, len(subject))


def wildcard(bytes subject not None) -> bool:
    """Does the subject have a wildcard token?"""
    return has_wildcard(<const char*>subject, len(subject))


def matches(bytes subject not None, bytes pattern not None) -> bool:
    """Does a literal subject match a valid pattern?"""
    return subject_matches(<const char*>subject, len(subject), pattern)


cdef inline Py_ssize_t token_end(const char* p, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    while at < n and p[at] != c'.':
        at += 1
    return at


cdef inline bint is_token(const char* p, Py_ssize_t at, Py_ssize_t end, char wanted) noexcept nogil:
    return end - at == 1 and p[at] == wanted


def collide(bytes a not None, bytes b not None) -> bool:
    """Is there a literal subject that both patterns match? (nats-server: SubjectsCollide)"""
    cdef const char* p = a
    cdef const char* q = b
    cdef Py_ssize_t n = len(a), m = len(b), i = 0, j = 0, i_end, j_end
    while True:
        i_end = token_end(p, i, n)
        j_end = token_end(q, j, m)
        if is_token(p, i, i_end, c'>') or is_token(q, j, j_end, c'>'):
            return True
        if not is_token(p, i, i_end, c'*') and not is_token(q, j, j_end, c'*') and (
                i_end - i != j_end - j or memcmp(p + i, q + j, i_end - i) != 0):
            return False
        if i_end == n or j_end == m:
            return i_end == n and j_end == m
        i = i_end + 1
        j = j_end + 1


def subset(bytes a not None, bytes b not None) -> bool:
    """Is every match of pattern a also a match of pattern b?"""
    cdef const char* p = a
    cdef const char* q = b
    cdef Py_ssize_t n = len(a), m = len(b), i = 0, j = 0, i_end, j_end
    while True:
        i_end = token_end(p, i, n)
        j_end = token_end(q, j, m)
        if is_token(q, j, j_end, c'>'):
            return True
        if is_token(p, i, i_end, c'>'):
            return False
        if not is_token(q, j, j_end, c'*') and (i_end - i != j_end - j or memcmp(p + i, q + j, i_end - i) != 0):
            return False
        if i_end == n or j_end == m:
            return i_end == n and j_end == m
        i = i_end + 1
        j = j_end + 1
