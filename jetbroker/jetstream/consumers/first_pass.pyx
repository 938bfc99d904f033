# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Deliver policy last_per_subject: the messages that are given out first (see first_pass.pxd).

They are chosen in pieces, by sequence: what was stored when the walk began, and is the newest of its subject when it
passes. What is published meanwhile comes after the pass.
"""
from array import array
from bisect import bisect_left, bisect_right

from libc.stdint cimport uint64_t

from jetbroker.store.log.stream_log cimport SubjectFilter, SubjectState
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.slices cimport holds, subject_of
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.store.log.slices import newest_in, next_piece

cdef uint64_t CHOSEN_SLOTS = limits.JS_CHOSEN_SLOTS
cdef Py_ssize_t LOOKED_AT = limits.JS_COUNT_SLOTS
cdef Py_ssize_t JUDGED = limits.JS_JUDGED_SUBJECTS
cdef Py_ssize_t FEW = limits.JS_FEW_SUBJECTS


cdef tuple last_tokens(SubjectFilter filter):
    """Filters such as `kv.a*`: (what they begin with, those of all such subjects).

    To a consumer such a filter is no wildcard. nats-server's tree of subjects still takes it for one where subjects
    part right behind what it begins with, and clients list keys so.
    """
    cdef list begin = []
    cdef list wide = []
    cdef bytes pattern, front, last
    for pattern in filter.patterns:
        front, dot, last = pattern.rpartition(b".")
        if len(last) > 1 and last.endswith(b"*") and not has_wildcard(pattern, len(pattern)):
            begin.append(pattern[:len(pattern) - 1])
            wide.append(front + dot + b"*")
    return tuple(begin), wide


cdef bint is_asked(SubjectFilter filter, tuple beginnings, bytes subject) except -1:
    return subject.startswith(beginnings) or filter.matches(subject, len(subject))


cdef class FirstPass:
    """The newest message of each matching subject, behind `delivered` and up to `until`."""

    def __init__(self, SegmentedLog log not None, SubjectFilter filter not None, uint64_t delivered,
                 uint64_t until) -> None:
        self.log = log
        self.filter = filter
        self.walked = delivered
        self.until = until
        self.seqs = array("Q")
        self.gone = bytearray()

    def choosing(self):
        """Choose the messages, in steps (see turns.py)."""
        cdef tuple beginnings
        beginnings, wide = last_tokens(self.filter)
        matching = SubjectFilter(*self.filter.patterns, *wide) if wide else self.filter
        if <Py_ssize_t>self.log.subjects.count <= FEW:
            return self._add(self._chosen_at_once(matching, beginnings))
        while self.walked < self.until:
            piece = next_piece(self.log, self.walked + 1, self.until, CHOSEN_SLOTS)
            if piece is None:
                break
            found = newest_in(self.log, matching, piece[0], piece[1], JUDGED)
            if found is not None:
                self._add([seq for seq in found if is_asked(self.filter, beginnings, subject_of(self.log, seq))]
                          if wide else found)
                self.walked = piece[1]
            yield
        self.walked = self.until

    def _chosen_at_once(self, SubjectFilter matching not None, tuple beginnings not None) -> list:
        cdef SubjectState state
        return sorted(state.last for state in self.log.states.matching(matching)
                      if self.walked < state.last <= self.until
                      and (not beginnings or is_asked(self.filter, beginnings, state.subject)))

    def _add(self, found) -> None:
        if self.looked_at == len(self.gone):
            self.looked_at += len(found)
            self.live += len(found)
        self.seqs.extend(found)
        self.gone.extend(bytes(len(found)))

    cdef bint open(self) noexcept:
        return self.at < len(self.gone)

    cdef bint done(self) noexcept:
        return self.looked_at == len(self.gone)

    cdef bint step(self) except -1:
        cdef Py_ssize_t end = min(<Py_ssize_t>len(self.gone), self.looked_at + LOOKED_AT)
        cdef Py_ssize_t i
        self.follow()
        for i in range(self.looked_at, end):
            if not self.gone[i]:
                if holds(self.log, self.seqs[i]):
                    self.live += 1
                else:
                    self.gone[i] = 1
        self.looked_at = max(self.looked_at, end)
        return self.done()

    cdef uint64_t next_seq(self) except? 0:
        while self.at < len(self.gone) and self.gone[self.at]:
            self.take()
        return self.seqs[self.at] if self.at < len(self.gone) else 0

    cdef int take(self) except -1:
        if not self.gone[self.at] and self.at < self.looked_at:
            self.live -= 1
        self.at += 1
        self.looked_at = max(self.looked_at, self.at)
        return 0

    cdef int purged(self) except -1:
        self.looked_at = self.at
        self.live = 0
        return 0

    cdef bint removed(self, uint64_t seq) except -1:
        cdef Py_ssize_t i = self._find(seq)
        if i < 0 or self.gone[i]:
            return False
        self.gone[i] = 1
        if i < self.looked_at:
            self.live -= 1
        return True

    cdef bint has(self, uint64_t seq) except -1:
        return self._find(seq) >= 0

    cdef int lost_some(self, uint64_t first, uint64_t last) except -1:
        cdef Py_ssize_t i
        for i in range(bisect_left(self.seqs, first, self.at), bisect_right(self.seqs, last, self.at)):
            if not self.gone[i] and not holds(self.log, self.seqs[i]):
                self.gone[i] = 1
                if i < self.looked_at:
                    self.live -= 1
        return self.follow()

    cdef int follow(self) except -1:
        cdef uint64_t first = self.log.first_seq
        while self.at < len(self.gone) and <uint64_t>self.seqs[self.at] < first:
            self.take()
        return 0

    cdef Py_ssize_t _find(self, uint64_t seq) except? -1:
        cdef Py_ssize_t i = bisect_left(self.seqs, seq, self.at)
        return i if i < len(self.gone) and self.seqs[i] == seq else -1
