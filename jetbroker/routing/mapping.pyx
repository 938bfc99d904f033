# cython: language_level=3
"""Subject mappings of one account (see mapping.pxd)."""


cdef class Mappings:
    """The mappings of one account."""

    cdef bytes map(self, const char* subject, Py_ssize_t n):
        return None
