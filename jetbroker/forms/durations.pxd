"""Durations as Go writes them ("1m30s", "150ms")."""
from libc.stdint cimport int64_t

# Into `out`, in nanoseconds; False: the text is none, or 64 bits do not hold it.
cdef bint read_duration(const char* p, Py_ssize_t n, int64_t* out) noexcept nogil
