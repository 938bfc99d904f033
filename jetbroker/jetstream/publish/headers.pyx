# cython: language_level=3, boundscheck=False, wraparound=False
"""The publish headers a stream acts on, and header lines written at the end of a block (see headers.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from jetbroker.forms.timestamps cimport TIMESTAMP_BYTES, write_timestamp
from jetbroker.wire.buffer cimport OutputBuffer, format_uint
from jetbroker.wire.digits cimport read_uint64
from jetbroker.wire.headers cimport find_header

from jetbroker.forms.gojson import fast_value


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


cdef bytes VERSION_LINE = b"NATS/1.0\r\n"
cdef bytes REQUEST_INFO = b"Nats-Request-Info"
cdef bytes BATCH_REPLY = b'.$FI"}'       # the reply subject is the last thing it tells


cdef inline int assign(Text* target, const char* name, const char* wanted, Py_ssize_t n,
                       const char* value, Py_ssize_t value_len) noexcept nogil:
    if memcmp(name, wanted, n) != 0:
        return 0
    if target.p == NULL:
        target.p = value
        target.n = value_len
    return 1


cdef int match_header(const char* name, Py_ssize_t n, const char* value, Py_ssize_t value_len,
                      PublishHeaders* out) noexcept nogil:
    """`name` without its Nats- prefix; told apart by length first."""
    if n == 6:
        return (assign(&out.msg_id, name, b"Msg-Id", 6, value, value_len)
                or assign(&out.rollup, name, b"Rollup", 6, value, value_len))
    if n == 3:
        return assign(&out.ttl, name, b"TTL", 3, value, value_len)
    if n == 4:
        return assign(&out.increment, name, b"Incr", 4, value, value_len)
    if n == 8:
        return (assign(&out.batch_id, name, b"Batch-Id", 8, value, value_len)
                or assign(&out.schedule, name, b"Schedule", 8, value, value_len))
    if n == 9:
        return assign(&out.scheduler, name, b"Scheduler", 9, value, value_len)
    if n == 13:
        return assign(&out.schedule_next, name, b"Schedule-Next", 13, value, value_len)
    if n == 12:
        return assign(&out.request_info, name, b"Request-Info", 12, value, value_len)
    if n == 15:
        return assign(&out.expected_stream, name, b"Expected-Stream", 15, value, value_len)
    if n == 20:
        return assign(&out.expected_last_msg_id, name, b"Expected-Last-Msg-Id", 20, value, value_len)
    if n == 18:
        return assign(&out.schedule_time_zone, name, b"Schedule-Time-Zone", 18, value, value_len)
    if n == 22:
        return assign(&out.expected_last_sequence, name, b"Expected-Last-Sequence", 22, value, value_len)
    if n == 30:
        return assign(&out.expected_last_subject_sequence, name, b"Expected-Last-Subject-Sequence", 30,
                      value, value_len)
    if n == 38:
        return assign(&out.expected_last_subject, name, b"Expected-Last-Subject-Sequence-Subject", 38,
                      value, value_len)
    return 0


cdef bint scan_publish_headers(const char* block, Py_ssize_t n, PublishHeaders* out) noexcept nogil:
    cdef const char* end = block + n
    cdef const char* line = <const char*>memchr(block, c'\n', n)
    cdef const char* stop
    cdef const char* colon
    cdef const char* first
    cdef const char* last
    cdef int found = 0
    memset(out, 0, sizeof(PublishHeaders))
    while line != NULL and line + 1 < end:
        line += 1
        stop = <const char*>memchr(line, c'\n', end - line)
        if stop == NULL:
            break
        if stop - line > 5 and memcmp(line, b"Nats-", 5) == 0:
            colon = <const char*>memchr(line, c':', stop - line)
            if colon != NULL:
                first = colon + 1
                last = stop
                while first < last and (first[0] == c' ' or first[0] == c'\t'):
                    first += 1
                while last > first and ((last - 1)[0] == c'\r' or (last - 1)[0] == c' ' or (last - 1)[0] == c'\t'):
                    last -= 1
                found |= match_header(line + 5, colon - line - 5, first, last - first, out)
        line = stop
    return found != 0


cdef bint is_sequence(Text text, uint64_t wanted) noexcept nogil:
    cdef uint64_t told
    return read_uint64(text.p, text.n, &told) and told == wanted


cdef bytes without_header(bytes block, bytes name):
    cdef list lines = block.split(b"\r\n")
    cdef list kept = [line for line in lines if not line.startswith(name + b":")]
    if len(kept) <= 3:                 # the version line and the two empty strings behind the last CR LF
        return b""
    return b"\r\n".join(kept)


cdef bytes with_header(bytes block, bytes name, bytes value):
    cdef Py_ssize_t start = block.find(b"\n" + name + b":") + 1
    if not start:
        return b"%b%b: %b\r\n\r\n" % (block.removesuffix(b"\r\n"), name, value)
    start += len(name) + 1
    if block[start:start + 1] == b" ":
        start += 1
    return block[:start] + value + block[block.index(b"\r", start):]


cdef bytes without_status(bytes block):
    cdef bytes rest = block.partition(b"\r\n")[2]
    return b"" if rest == b"\r\n" or not rest else VERSION_LINE + rest


cdef bint has_header(const char* block, Py_ssize_t n, const char* name, Py_ssize_t name_len) noexcept nogil:
    cdef const char* end = block + n
    cdef const char* line = <const char*>memchr(block, c'\n', n)
    while line != NULL and end - line > name_len + 1:
        line += 1
        if line[name_len] == c':' and memcmp(line, name, name_len) == 0:
            return True
        line = <const char*>memchr(line, c'\n', end - line)
    return False


cdef bint has_scheduler(const char* block, Py_ssize_t n) noexcept nogil:
    cdef const char* value
    cdef Py_ssize_t size
    return n > 0 and find_header(block, n, b"Nats-Scheduler", 14, &value, &size) and size > 0


cdef bytes batch_reply(const char* block, Py_ssize_t n):
    cdef const char* value
    cdef Py_ssize_t size
    if (not find_header(block, n, REQUEST_INFO, len(REQUEST_INFO), &value, &size) or size < len(BATCH_REPLY)
            or memcmp(value + size - len(BATCH_REPLY), <const char*>BATCH_REPLY, len(BATCH_REPLY)) != 0):
        return None
    try:
        info = fast_value(value[:size])
    except ValueError:
        return None
    reply = info.get("reply") if isinstance(info, dict) else None
    return reply.encode("utf-8", "replace") if isinstance(reply, str) else None


def header_text(bytes block not None, bytes name not None) -> bytes | None:
    """The value of the first header of this name, None when there is none; blanks at its end belong to it."""
    cdef Py_ssize_t start
    if not has_header(PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block),
                      PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
        return None
    start = block.index(b"\n" + name + b":") + 1
    return block[start + len(name) + 1 : block.find(b"\r\n", start)].lstrip(b" ")
