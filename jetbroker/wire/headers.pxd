"""Header blocks: `NATS/1.0[ status]` CR LF, then `Name: value` CR LF lines, then CR LF."""


# 1 and the trimmed value when a header of exactly this name is there (the first one), else 0.
cdef int find_header(const char* block, Py_ssize_t n, const char* name, Py_ssize_t name_len,
                     const char** value, Py_ssize_t* value_len) noexcept nogil


# What a message says of its trace; pointers lead into its header block.
cdef struct TraceHeaders:
    const char* destination
    Py_ssize_t destination_len
    bint only                          # it is to be traced, and not delivered
    bint void                          # a header of old says that there is to be no trace


# False when no trace is asked for; reads a block as nats-server does, line by line only where it begins like headers.
cdef bint find_trace(const char* block, Py_ssize_t n, TraceHeaders* out) noexcept nogil
