"""Subject mappings of one account: what a client publishes to, and where it really goes."""


cdef class Mappings:
    # The subject a published one is mapped to; None: no mapping applies; b"": the message is lost.
    cdef bytes map(self, const char* subject, Py_ssize_t n)
