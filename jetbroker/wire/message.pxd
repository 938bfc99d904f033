"""One message on its way through the broker: borrowed pointers, valid during the call only."""


cdef struct Message:
    const char* subject
    Py_ssize_t subject_len
    const char* reply            # NULL when there is none
    Py_ssize_t reply_len
    const char* body             # header block (headers_len bytes, may be 0), then the payload
    Py_ssize_t headers_len
    Py_ssize_t body_len          # headers and payload together
    const char* size_text        # the size(s) as the publisher wrote them ("05"), NULL: format from the lengths
    Py_ssize_t size_text_len
    # "[reply ]<sizes>\r\n<body>\r\n" as one contiguous run when the publisher's own bytes can be copied as they
    # are (single blanks, CR LF, with or without headers alike), else NULL.
    const char* tail
    Py_ssize_t tail_len
