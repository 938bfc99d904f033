"""The publish headers a stream acts on, found in one walk over a header block."""
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


cdef struct Text:
    const char* p                      # NULL: the header is not there
    Py_ssize_t n


cdef struct PublishHeaders:
    Text msg_id
    Text expected_stream
    Text expected_last_sequence
    Text expected_last_subject_sequence
    Text expected_last_subject
    Text expected_last_msg_id
    Text rollup
    Text ttl
    Text increment
    Text batch_id
    Text schedule
    Text scheduler
    Text schedule_next
    Text request_info
    Text schedule_time_zone


# Is there a header that only schedules have?
cdef inline bint has_schedule_headers(const PublishHeaders* found) noexcept nogil:
    return (found.schedule.n or found.scheduler.n or found.schedule_next.n
            or found.schedule_time_zone.p != NULL)


# Fills `out`; the first header of a name counts. True when there is at least one of them.
cdef bint scan_publish_headers(const char* block, Py_ssize_t n, PublishHeaders* out) noexcept nogil
# Does the text say this sequence?
cdef bint is_sequence(Text text, uint64_t wanted) noexcept nogil
# Does a line behind the first one begin with this name and a colon?
# Has a schedule made this message?
cdef bint has_scheduler(const char* block, Py_ssize_t n) noexcept nogil
cdef bint has_header(const char* block, Py_ssize_t n, const char* name, Py_ssize_t name_len) noexcept nogil
# The block without every header of that name; b"" when no header is left.
cdef bytes without_header(bytes block, bytes name)
# The block with `name: value` in the place of the first header of that name, or at its end.
cdef bytes with_header(bytes block, bytes name, bytes value)
# The block with its status line cut down to the version; b"" when no header is left.
cdef bytes without_status(bytes block)
# The reply subject that a message of a fast batch had before it came through an import, as Nats-Request-Info tells;
# None: it is of no fast batch.
cdef bytes batch_reply(const char* block, Py_ssize_t n)
