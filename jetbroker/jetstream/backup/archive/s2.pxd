cdef class S2Writer:
    """See s2.pyx."""
    cdef char* data
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t room

    cdef char* _extend(self, Py_ssize_t n) except NULL
    cdef int add(self, const char* p, Py_ssize_t n) except -1
