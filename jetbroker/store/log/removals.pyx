# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Removals on their way into a log's file (see removals.pxd).

Each batch is written again with the next one, so that one damaged record revives nothing.
"""
from bisect import bisect_left, bisect_right

from libc.stdint cimport uint64_t

from jetbroker.store.log.segment cimport Ranges


cdef class PendingRemovals:
    """Ranges of removed sequences that are not known to be in the file."""

    def __cinit__(self):
        self.pending = Ranges()
        self.in_flight = Ranges()
        self.last_batch = Ranges()

    cpdef int add(self, uint64_t first, uint64_t last) except -1:
        """These sequences are removed."""
        return self.pending.add(first, last)

    cdef int extend(self, Ranges ranges) except -1:
        return self.pending.extend(ranges)

    cpdef Ranges next_batch(self):
        """What the next D record says, None: there is nothing to say; it is in the write buffer from now on."""
        cdef Ranges batch
        if self.pending.count == 0:
            return None
        batch = Ranges()
        batch.extend(self.last_batch)
        batch.extend(self.pending)
        batch.normalize()
        self.in_flight.extend(self.pending)
        self.last_batch.clear()
        self.last_batch.extend(self.pending)
        self.pending.clear()
        return batch

    cpdef int written(self) except -1:
        """What was in the write buffer is in the file."""
        self.in_flight.clear()
        return 0

    cpdef int new_file(self) except -1:
        """The next batch is the first of its file."""
        self.last_batch.clear()
        return 0

    cpdef int take_back(self, uint64_t last_seq) except -1:
        """What is not in the file waits again; sequences behind `last_seq` were taken back themselves."""
        cdef Ranges kept = Ranges()
        cdef Py_ssize_t i
        self.in_flight.extend(self.pending)
        for i in range(self.in_flight.count):
            if self.in_flight.data[2 * i] <= last_seq:
                kept.add(self.in_flight.data[2 * i], min(self.in_flight.data[2 * i + 1], last_seq))
        self.pending = kept
        self.in_flight.clear()
        self.last_batch.clear()
        return 0

    def undo(self, list back not None):
        """These sequences (sorted) are not removed after all."""
        cdef Ranges left = Ranges()
        cdef uint64_t first
        cdef uint64_t last
        cdef uint64_t seq
        cdef Py_ssize_t i
        self.pending.normalize()
        for i in range(self.pending.count):
            first = self.pending.data[2 * i]
            last = self.pending.data[2 * i + 1]
            for seq in back[bisect_left(back, first):bisect_right(back, last)]:
                if first < seq:
                    left.add(first, seq - 1)
                first = seq + 1
            if first <= last:
                left.add(first, last)
        self.pending = left
