# cython: language_level=3
"""What a user may publish and subscribe to (see permissions.pxd)."""


cdef class Permissions:
    """The permissions of one user."""

    def __init__(self, object options not None) -> None:
        self.options = options

    cdef bint may_publish(self, const char* subject, Py_ssize_t n) except -1:
        return True
