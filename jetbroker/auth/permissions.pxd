"""What a user may publish and subscribe to."""


cdef class Permissions:
    cdef readonly object options       # config PermissionsOptions

    # May a client publish to this subject, as it sent it?
    cdef bint may_publish(self, const char* subject, Py_ssize_t n) except -1
