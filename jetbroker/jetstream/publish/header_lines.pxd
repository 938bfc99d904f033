"""Header lines written at the end of a block that is under construction."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.wire.buffer cimport OutputBuffer


# `name` with its colon and blank.
cdef int append_header(OutputBuffer out, const char* name, Py_ssize_t name_len,
                       const char* value, Py_ssize_t value_len) except -1
cdef int append_number(OutputBuffer out, const char* name, Py_ssize_t name_len, uint64_t value) except -1
# As Nats-Time-Stamp.
cdef int append_time(OutputBuffer out, int64_t time_ns) except -1
# A stored block without the CR LF that ends it; the beginning of a new one when there is none.
cdef int begin_block(OutputBuffer out, const char* headers, Py_ssize_t headers_len) except -1
