# cython: boundscheck=False, wraparound=False
"""How long fdatasync takes, and how much one round of it covers (see sync_figures.pxd)."""
from math import inf

# An SSD with a battery takes a tenth of a millisecond, a disk ten; one that takes seconds is about to fail.
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
CHANGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4)


cdef class Histogram:
    """How many values were at most how large."""

    def __init__(self, tuple bounds not None):
        cdef int index
        if len(bounds) >= MAX_BUCKETS:
            raise ValueError(f"at most {MAX_BUCKETS - 1} bounds")
        for index in range(len(bounds)):
            self.bounds[index] = bounds[index]
        self.size = <int>len(bounds) + 1
        self.bounds[self.size - 1] = inf

    cdef int observe(self, double value) except -1:
        cdef int index = 0
        while index < self.size - 1 and value > self.bounds[index]:
            index += 1
        self.counts[index] += 1
        self.sum += value
        return 0

    def cumulated(self):
        """[(bound, how many values were at most that)]; the last bound is infinite."""
        cdef list found = []
        cdef uint64_t count = 0
        cdef int index
        for index in range(self.size):
            count += self.counts[index]
            found.append((self.bounds[index], count))
        return found


cdef class SyncFigures:
    """Of all rounds of one store since the start."""

    def __cinit__(self):
        self.seconds = Histogram(SECONDS)
        self.changes = Histogram(CHANGES)

    cdef int failed(self) except -1:
        self.failures += 1
        return 0

    cdef int cover(self, uint64_t changes) except -1:
        """A log hears that so many of its changes are on disk now."""
        self.covered += changes
        return 0

    cdef int end_round(self) except -1:
        """All logs have heard of it."""
        if self.covered:
            self.changes.observe(<double>self.covered)
            self.covered = 0
        return 0
