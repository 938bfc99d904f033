"""RFC 3339 times as Go writes them, from nanoseconds since 1970."""
from libc.stdint cimport int64_t

cdef enum:
    TIMESTAMP_BYTES = 32        # room write_timestamp needs

# Writes "2026-01-02T03:04:05.123456789Z", zeros at the end of the fraction left out, and returns its length.
cdef int write_timestamp(char* p, int64_t time_ns) noexcept nogil
cdef int64_t wall_clock_ns() noexcept nogil
cpdef str format_timestamp(int64_t time_ns)
