# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One field of a cron pattern: lists of numbers, ranges and steps, as the bits of one integer."""
from libc.stdint cimport INT64_MAX, uint64_t
from libc.string cimport memchr

from jetbroker.wire.digits cimport read_uint64

cdef uint64_t STAR_BIT = <uint64_t>1 << 63
STAR = STAR_BIT                        # set when the field holds a star whose step is 1


cdef inline const char* next_of(const char* p, const char* end, char mark) noexcept nogil:
    """The next `mark`, or the end."""
    cdef const char* found = <const char*>memchr(p, mark, end - p) if p < end else NULL
    return found if found != NULL else end


cdef bint read_number(const char* p, const char* end, uint64_t* out) noexcept nogil:
    """As Go's Atoi for what is not negative: a sign may stand in front."""
    cdef bint negative = p < end and p[0] == c'-'
    if p < end and (negative or p[0] == c'+'):
        p += 1
    return read_uint64(p, end - p, out) and out[0] <= <uint64_t>INT64_MAX and not (negative and out[0])


cdef bint read_end(const char* p, const char* end, const char* names, Py_ssize_t names_len, uint64_t low,
                   uint64_t* out) noexcept nogil:
    """A number, or one of the names: three letters each, the first stands for `low`."""
    cdef Py_ssize_t i
    if end - p == 3:
        for i in range(0, names_len, 3):
            if p[0] | 0x20 == names[i] and p[1] | 0x20 == names[i + 1] and p[2] | 0x20 == names[i + 2]:
                out[0] = low + <uint64_t>(i // 3)
                return True
    return read_number(p, end, out)


cdef uint64_t parse_part(const char* p, const char* end, uint64_t low, uint64_t high, const char* names,
                         Py_ssize_t names_len) noexcept nogil:
    """The bits of one number, range or star, with its step; 0: it is none."""
    cdef const char* slash = next_of(p, end, c'/')
    cdef const char* hyphen = next_of(p, slash, c'-')
    cdef uint64_t first = low
    cdef uint64_t last = high
    cdef uint64_t step = 1
    cdef uint64_t bits = 0
    if slash < end and not read_number(slash + 1, end, &step):    # a second slash is no number
        return 0
    if hyphen - p == 1 and (p[0] == c'*' or p[0] == c'?'):
        bits = STAR_BIT if step == 1 else 0
    else:
        if not read_end(p, hyphen, names, names_len, low, &first):
            return 0
        if hyphen < slash:
            if next_of(hyphen + 1, slash, c'-') < slash or not read_end(
                    hyphen + 1, slash, names, names_len, low, &last):
                return 0
        elif slash == end:
            last = first
    if step == 0 or not low <= first <= last <= high:
        return 0
    while first <= last:
        bits |= <uint64_t>1 << first
        first = first + step if step <= high else high + 1
    return bits


def parse_field(bytes text not None, uint64_t low, uint64_t high, bytes names=b""):
    """The numbers a field means, as bits, with STAR; None when it is wrong. Empty parts mean nothing.

    `names`: three lower-case letters for each number from `low` on.
    """
    cdef const char* p = text
    cdef const char* end = p + len(text)
    cdef const char* comma
    cdef uint64_t found
    cdef uint64_t bits = 0
    while p < end:
        comma = next_of(p, end, c',')
        if comma > p:
            found = parse_part(p, comma, low, high, names, len(names))
            if not found:
                return None
            bits |= found
        p = comma + 1
    return bits
