# cython: language_level=3
"""How the words of a command's line are read: what the grammars have in common."""
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(unsigned long long) noexcept nogil
    const uint64_t ONES "0x0101010101010101ULL"


# What a command begins with; the lower four bits are the verb's length.
cdef enum Op:
    OP_BAD = -1
    OP_PARTIAL = 0                     # it may become one
    OP_PUB = 0x13
    OP_HPUB = 0x24
    OP_SUB = 0x33
    OP_UNSUB = 0x45
    OP_CONNECT = 0x57
    OP_INFO = 0x64
    OP_ERR = 0x74
    OP_LMSG = 0x84
    OP_HMSG = 0x94
    OP_LSUB = 0xA3
    OP_LUNSUB = 0xB3
    OP_ACCOUNT = 0xC2
    # what follows these on their line is skipped
    OP_PING = 0x104
    OP_PONG = 0x114
    OP_OK = 0x123


# `op` when the bytes begin with the verb, in any case.
cdef inline int match_verb(const char* p, Py_ssize_t n, const char* verb, int op) noexcept nogil:
    cdef Py_ssize_t i
    cdef char c
    for i in range(op & 15):
        if i == n:
            return OP_PARTIAL
        c = p[i]
        if c'a' <= c <= c'z':
            c -= 32
        if c != verb[i]:
            return OP_BAD
    return op


cdef inline const char* skip_blanks(const char* p, const char* end) noexcept nogil:
    while p < end and (p[0] == c' ' or p[0] == c'\t'):
        p += 1
    return p


# What `end` leaves behind the first byte that is too much, when one is: neither the blanks in front of the arguments at
# `q` nor the arguments up to `stop` may have more bytes than `most`. 0: none is.
cdef inline Py_ssize_t beyond(const char* args, const char* q, const char* stop, const char* end,
                              Py_ssize_t most) noexcept nogil:
    if q - args > most:
        return end - args - most
    return end - q - most if stop - q > most else 0


cdef inline const char* token_end(const char* p, const char* end) noexcept nogil:
    cdef uint64_t eight, blanks, tabs, found
    while end - p >= 8:                # a byte that is zero in `blanks` or `tabs` gets its highest bit set in `found`
        memcpy(&eight, p, 8)
        blanks = eight ^ <uint64_t>0x2020202020202020
        tabs = eight ^ <uint64_t>0x0909090909090909
        found = (((blanks - ONES) & ~blanks) | ((tabs - ONES) & ~tabs)) & (ONES << 7)
        if found:
            return p + (trailing_zeros(found) >> 3)
        p += 8
    while p < end and p[0] != c' ' and p[0] != c'\t':
        p += 1
    return p


# A size of 1 to `most` digits, else -1 (nats-server refuses longer ones whatever their value).
cdef inline long parse_size(const char* p, const char* end, int most) noexcept nogil:
    cdef long v = 0
    if p == end or end - p > most:
        return -1
    while p < end:
        if p[0] < c'0' or p[0] > c'9':
            return -1
        v = v * 10 + (p[0] - c'0')
        p += 1
    return v
