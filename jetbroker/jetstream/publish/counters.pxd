"""The running totals of a stream whose messages are counters: each publish adds to the last message of its subject."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.store.log.stream_log cimport StreamLog, SubjectState


cdef enum:
    SMALL_DIGITS = 17                  # so many, twice, are added in 64 bits


cdef struct Decimal:
    const char* digits                 # none of the zeros that may lead
    Py_ssize_t n                       # 0: the number is 0
    bint negative


# Is all of the text one number?
cdef bint is_decimal(const char* p, Py_ssize_t n) noexcept nogil
# The number that the text begins with, as Go's big.Int takes it; 0: it begins with none.
cdef Decimal decimal_of(const char* p, Py_ssize_t n) noexcept nogil
cdef Decimal negated(Decimal a) noexcept nogil
# Is all of the text one number of at most SMALL_DIGITS digits, as which the zeros that may lead count?
cdef bint read_small(const char* p, Py_ssize_t n, int64_t* out) noexcept nogil
cdef bytes decimal_text(Decimal a)
cdef bytes sum_text(Decimal a, Decimal b)


cdef enum:
    TOTAL_ROOM = 40                    # for the body that tells a small one


cdef struct KnownTotal:
    int64_t value
    uint64_t seq                       # of the message that tells it, 0: none
    uint32_t failures                  # of the log's writes, up to then: a sequence is given out again after one


cdef class Total:
    cdef bytes value                   # a whole number
    cdef dict sources                  # stream -> subject -> its total there, {}: nothing came from other streams

    # What comes from publishers is added.
    cdef int add(self, Decimal increment) except -1
    # A source's own total takes the place of the one it told before. Returns what that adds.
    cdef bytes add_source(self, bytes stream, bytes subject, Decimal sourced)
    cdef bytes body(self)


# That of a subject, 0 to begin with. Raises DecodeError when its last message does not tell one.
cdef Total last_total(StreamLog log, SubjectState state)
# The same for one of few digits of which nothing came from other streams; False: ask last_total(). Raises StorageError.
cdef bint small_total(StreamLog log, SubjectState state, int64_t* total) except -1
# Write the body that tells it; returns its length.
cdef Py_ssize_t write_total(char* out, int64_t total) noexcept nogil
# Is the block one increment of few digits and nothing else, as clients write it?
cdef bint is_lone_increment(const char* block, Py_ssize_t n, int64_t* increment) noexcept nogil
# The total that a counter's body tells. Raises DecodeError.
cdef bytes total_of(const char* body, Py_ssize_t n)
