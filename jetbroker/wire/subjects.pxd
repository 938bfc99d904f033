"""Subjects: validity and matching (core-protocol: tokens split by '.', '*' one token, '>' one or more at the end)."""


# A literal subject against a valid pattern; a subject with an empty token matches nothing.
cdef bint subject_matches(const char* subject, Py_ssize_t n, bytes pattern) noexcept
cdef bint pattern_matches(const char* subject, Py_ssize_t n, const char* pattern, Py_ssize_t m) noexcept nogil
# No empty token, ">" only at the end: what nats-server asks of SUB and of pedantic PUB (a form feed is an ordinary
# byte there; blanks and line ends cannot get that far).
cdef bint has_valid_tokens(const char* p, Py_ssize_t n) noexcept nogil
# No empty token, no blank; wildcards only as whole tokens count as wildcards, '>' only last.
cdef bint is_valid_subject(const char* p, Py_ssize_t n) noexcept nogil
# Valid and without wildcard tokens.
cdef bint is_valid_literal(const char* p, Py_ssize_t n) noexcept nogil
cdef bint has_wildcard(const char* p, Py_ssize_t n) noexcept nogil
