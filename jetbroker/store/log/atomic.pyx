# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Atomic batches in segment files (see atomic.pxd).

The records of a batch stand next to each other in one segment, the first and the last of them marked. What ends
before the last one was never committed. A batch with damage inside may be one that the disk got in part when the
power failed, so it counts as damaged as a whole - unless what is missing had been removed and overwritten.
"""
import os

from libc.stdint cimport uint16_t, uint64_t

from jetbroker.store.format.records cimport record_flags, record_seq
from jetbroker.store.log.stream_log cimport FLAG_BATCH, FLAG_BATCH_FIRST, FLAG_BATCH_LAST


cdef class BatchWalk:
    """Follows the batches of one segment; told of each record in order."""

    def __cinit__(self):
        self.missing = []
        self.torn = []

    cdef int message(self, const char* record, uint64_t expected, Py_ssize_t at, bint damaged) except -1:
        cdef uint16_t flags = record_flags(record)
        cdef uint64_t seq = record_seq(record)
        cdef object gap = [(expected, seq - 1)] if damaged and seq > expected else None
        if self.first_seq and (not flags & FLAG_BATCH or flags & FLAG_BATCH_FIRST):
            self.break_off(gap)
        if not flags & FLAG_BATCH:
            return 0
        if self.first_seq == 0:
            self.first_seq = seq
            self.start = at
            self.missing = []
            if not flags & FLAG_BATCH_FIRST:
                self.missing.append(gap)
        elif damaged:
            self.missing.append(gap)
        self.last_seq = seq
        if flags & FLAG_BATCH_LAST:
            self.close()
        return 0

    cdef int other(self, uint64_t seq, uint64_t expected, bint damaged) except -1:
        if self.first_seq:
            self.break_off([(expected, seq)] if damaged and seq >= expected else None)
        return 0

    cdef int break_off(self, object missing) except -1:
        """The last record of the open batch is not there."""
        self.missing.append(missing)
        return self.close()

    cdef int close(self) except -1:
        """The open batch ends here."""
        if self.missing:
            missing = None if None in self.missing else [gap for gaps in self.missing for gap in gaps]
            self.torn.append((self.first_seq, self.last_seq, missing))
        self.first_seq = 0
        self.missing = []
        return 0


def sync_apart(disk, path):
    """Have a file's content on disk. Raises OSError.

    A descriptor of its own, because the kernel reports a failed write once to each: the one that the commits use must
    still hear of it.
    """
    fd = disk.open(path, os.O_RDWR)
    try:
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
