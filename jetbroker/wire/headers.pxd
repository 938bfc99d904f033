"""Header blocks: `NATS/1.0[ status]` CR LF, then `Name: value` CR LF lines, then CR LF."""


# 1 and the trimmed value when a header of exactly this name is there (the first one), else 0.
cdef int find_header(const char* block, Py_ssize_t n, const char* name, Py_ssize_t name_len,
                     const char** value, Py_ssize_t* value_len) noexcept nogil


# May it ask for a trace, by Nats-Trace-Dest or, if that counts, by a traceparent? tracing/asked.py reads what it asks.
cdef bint asks_for_trace(const char* block, Py_ssize_t n, bint by_parent) noexcept nogil
