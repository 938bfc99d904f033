"""How long fdatasync takes, and how much one round of it covers: counted per round, never per message."""
from libc.stdint cimport uint64_t

cdef enum:
    MAX_BUCKETS = 16


cdef class Histogram:
    cdef double[MAX_BUCKETS] bounds
    cdef uint64_t[MAX_BUCKETS] counts     # the last one: of what is above all bounds
    cdef int size                         # of both
    cdef readonly double sum

    cdef int observe(self, double value) except -1


cdef class SyncFigures:
    cdef readonly Histogram seconds       # that an fdatasync took
    cdef readonly Histogram changes       # that a round has put on disk; rounds of consumers' states alone have none
    cdef readonly uint64_t failures       # members of rounds that could not be synced
    cdef uint64_t covered                 # changes of the logs whose round is ending

    cdef int failed(self) except -1
    cdef int cover(self, uint64_t changes) except -1
    cdef int end_round(self) except -1
