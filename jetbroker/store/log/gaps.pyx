# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sequences of a log that have no message (see gaps.pxd)."""
from bisect import bisect_left
from itertools import chain, islice

from libc.stdint cimport uint64_t

from jetbroker import limits

from jetbroker.store.log.segment cimport Segment

cdef Py_ssize_t MAX_LISTED = limits.JS_DELETED_LISTED


def first_of_run(run):
    """Sort key."""
    return run[0]


cdef class Gaps:
    """The missing segments of one log, and what is missing in those that are there."""

    def __cinit__(self):
        self.missing = []

    cpdef int add(self, uint64_t first, uint64_t last) except -1:
        """A segment with these sequences is not there; they are behind all others."""
        self.missing.append((first, last))
        return 0

    cpdef bint covers(self, uint64_t seq) except -1:
        """Was this sequence in a missing segment?"""
        for first, last in self.missing:
            if first <= seq <= last:
                return True
        return False

    cpdef uint64_t first(self, uint64_t otherwise) except? 0:
        """The first sequence of a missing segment."""
        return self.missing[0][0] if self.missing else otherwise

    cpdef int forget_before(self, uint64_t seq) except -1:
        """What is below `seq` is not missed any more."""
        self.missing = [(max(first, seq), last) for first, last in self.missing if last >= seq]
        return 0

    cpdef tuple without(self, uint64_t first, uint64_t last, uint64_t around):
        """The part of first..last that holds `around` and no missing sequence."""
        for gap_first, gap_last in self.missing:
            if first <= gap_last < around:
                first = gap_last + 1
            if around < gap_first <= last:
                last = gap_first - 1
        return first, last

    cdef list deleted(self, list segments, uint64_t first, uint64_t last):
        """What is deleted from `first` to `last`, the first MAX_LISTED."""
        cdef Segment segment
        cdef Py_ssize_t slot
        cdef uint64_t seq = first
        cdef list out = []
        for segment in segments:
            if segment.first_seq + segment.slots <= seq:
                continue
            self._list_between(out, seq, segment.first_seq - 1)
            slot = segment.next_deleted(seq - segment.first_seq if seq > segment.first_seq else 0, segment.slots)
            while slot >= 0 and len(out) < MAX_LISTED:
                out.append(segment.first_seq + slot)
                slot = segment.next_deleted(slot + 1, segment.slots)
            seq = segment.first_seq + segment.slots
        self._list_between(out, seq, last)
        return out

    def _list_between(self, list out not None, first, last):
        """Add what of first..last is not missing, as far as `out` has room."""
        for gap_first, gap_last in [*self.missing, (last + 1, last + 1)]:
            if first > last or len(out) >= MAX_LISTED:
                return
            if gap_last >= first:
                out.extend(range(first, min(gap_first, last + 1, first + MAX_LISTED - len(out))))
                first = gap_last + 1

    cdef list lost(self, list segments):
        """Sequences whose records are damaged or missing, in order, the first MAX_LISTED."""
        cdef Segment segment
        cdef list runs = [range(first, min(last + 1, first + MAX_LISTED)) for first, last in self.missing]
        for segment in segments:
            if segment.lost is not None:
                runs.append([segment.first_seq + <uint64_t>s for s in segment.lost[:MAX_LISTED]])
        runs.sort(key=first_of_run)
        return list(islice(chain.from_iterable(runs), MAX_LISTED))

    cdef uint64_t lost_count(self, list segments, uint64_t start) except? 0:
        """How many of those are `start` or behind it."""
        cdef uint64_t lost = 0
        cdef Segment segment
        for first, last in self.missing:
            if last >= start:
                lost += last - max(first, start) + 1
        for segment in segments:
            if segment.lost is not None:
                lost += len(segment.lost)
                if start > segment.first_seq:
                    lost -= bisect_left(segment.lost, start - segment.first_seq)
        return lost
