"""Header blocks: `NATS/1.0[ status]` CR LF, then `Name: value` CR LF lines, then CR LF."""


# 1 and the trimmed value when a header of exactly this name is there (the first one), else 0.
cdef int find_header(const char* block, Py_ssize_t n, const char* name, Py_ssize_t name_len,
                     const char** value, Py_ssize_t* value_len) noexcept nogil
