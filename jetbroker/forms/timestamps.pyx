# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""RFC 3339 times as Go writes them, for the hot path (see timestamps.pxd; gotext.py reads them)."""
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

cdef int64_t SECOND_NS = 1_000_000_000
cdef int64_t DAY_SECONDS = 86_400
# Go's zero time, which stands for "never" in every JSON reply
ZERO_TIMESTAMP = "0001-01-01T00:00:00Z"


cdef int64_t wall_clock_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * SECOND_NS + now.tv_nsec


cdef inline void two_digits(char* p, int v) noexcept nogil:
    p[0] = <char>(48 + v // 10)
    p[1] = <char>(48 + v % 10)


cdef int write_timestamp(char* p, int64_t time_ns) noexcept nogil:
    cdef int64_t seconds = time_ns // SECOND_NS
    cdef int64_t fraction = time_ns % SECOND_NS
    if fraction < 0:                     # C division rounds towards zero
        fraction += SECOND_NS
        seconds -= 1
    cdef int64_t days = seconds // DAY_SECONDS
    cdef int rest = <int>(seconds % DAY_SECONDS)
    if rest < 0:
        rest += <int>DAY_SECONDS
        days -= 1
    # civil date from a day number: years are counted from 1 March, in eras of 400 years
    cdef int64_t z = days + 719_468
    cdef int64_t era = (z if z >= 0 else z - 146_096) // 146_097
    cdef int64_t doe = z - era * 146_097
    cdef int64_t yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    cdef int64_t doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    cdef int64_t mp = (5 * doy + 2) // 153
    cdef int day = <int>(doy - (153 * mp + 2) // 5 + 1)
    cdef int month = <int>(mp + 3 if mp < 10 else mp - 9)
    cdef int64_t year = yoe + era * 400 + (1 if month <= 2 else 0)
    cdef int n, i
    two_digits(p, <int>(year // 100))
    two_digits(p + 2, <int>(year % 100))
    p[4] = c'-'
    two_digits(p + 5, month)
    p[7] = c'-'
    two_digits(p + 8, day)
    p[10] = c'T'
    two_digits(p + 11, rest // 3600)
    p[13] = c':'
    two_digits(p + 14, rest // 60 % 60)
    p[16] = c':'
    two_digits(p + 17, rest % 60)
    n = 19
    if fraction:
        p[19] = c'.'
        for i in range(28, 19, -1):
            p[i] = <char>(48 + fraction % 10)
            fraction //= 10
        n = 29
        while p[n - 1] == c'0':
            n -= 1
    p[n] = c'Z'
    return n + 1


cpdef str format_timestamp(int64_t time_ns):
    """The time as text in UTC, with up to nine digits of fraction; 0 and less (never) as Go's zero time."""
    cdef char text[TIMESTAMP_BYTES]
    if time_ns <= 0:
        return ZERO_TIMESTAMP
    return text[:write_timestamp(text, time_ns)].decode("ascii")
