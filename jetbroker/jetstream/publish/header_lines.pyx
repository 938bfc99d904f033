# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Header lines written at the end of a block that is under construction (see header_lines.pxd)."""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from jetbroker.forms.timestamps cimport TIMESTAMP_BYTES, write_timestamp
from jetbroker.wire.buffer cimport OutputBuffer, format_uint


cdef int append_header(OutputBuffer out, const char* name, Py_ssize_t name_len,
                       const char* value, Py_ssize_t value_len) except -1:
    cdef char* p = out.reserve(name_len + value_len + 2)
    memcpy(p, name, name_len)
    memcpy(p + name_len, value, value_len)
    memcpy(p + name_len + value_len, b"\r\n", 2)
    out.size += name_len + value_len + 2
    return 0


cdef int append_number(OutputBuffer out, const char* name, Py_ssize_t name_len, uint64_t value) except -1:
    cdef char text[20]
    return append_header(out, name, name_len, text, format_uint(text, value))


cdef int append_time(OutputBuffer out, int64_t time_ns) except -1:
    cdef char text[TIMESTAMP_BYTES]
    return append_header(out, b"Nats-Time-Stamp: ", 17, text, write_timestamp(text, time_ns))


cdef int begin_block(OutputBuffer out, const char* headers, Py_ssize_t headers_len) except -1:
    if headers_len > 2:
        return out.append(headers, headers_len - 2)
    return out.append(b"NATS/1.0\r\n", 10)
