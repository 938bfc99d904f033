"""Subject mappings of one account: what a client publishes to, and where it really goes."""
from libc.stdint cimport uint64_t

from jetbroker.routing.transform cimport Transform


cdef class Destination:
    cdef Transform transform
    cdef unsigned int below            # chosen when a number of 0..99 is below this one (and not below the one before)


cdef class Mapping:
    cdef readonly bytes source
    cdef bint is_literal
    cdef bint names_system             # its first token is literal: it may map the server's own subjects
    cdef list destinations             # [Destination], by weight; with weights below 100 in all the rest is lost
    cdef bint is_fixed                 # the same subject always becomes the same

    cdef bytes choose(self, const char* subject, Py_ssize_t n)


cdef class CachedMapping:
    cdef bytes subject
    cdef Mapping mapping               # None: none applies
    cdef bytes result                  # None when it has to be chosen anew


cdef class Mappings:
    cdef bytes common                  # what all sources begin with: other subjects need no look
    cdef list mappings                 # [Mapping]: literal sources, then those with wildcards, each as configured
    cdef list cache                    # [CachedMapping or None], direct mapped
    cdef readonly uint64_t builds      # subjects that the cache did not hold

    # The subject a published one is mapped to; None: no mapping applies; b"": the message is lost.
    cdef bytes map(self, const char* subject, Py_ssize_t n)
    cdef CachedMapping _look_up(self, const char* subject, Py_ssize_t n)
