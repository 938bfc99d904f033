# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""How many matching messages a consumer has ahead, counted in pieces (see ahead.pxd).

The log from `start` to its end is counted from the front in pieces of a bounded number of sequences. What is
delivered, removed or appended changes one of them; where the log loses its front only the first one is counted again.
Where the log can tell the number at once (no filter, few subjects) there is one piece, however long.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from jetbroker.store.log.stream_log cimport SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.slices cimport count_few, count_piece
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.store.log.slices import next_piece

cdef uint64_t PIECE = limits.JS_COUNT_SLOTS
cdef Py_ssize_t JUDGED = limits.JS_JUDGED_SUBJECTS
cdef Py_ssize_t FEW = limits.JS_FEW_SUBJECTS


cdef class AheadCount:
    """Counts what a filter matches from a sequence on."""

    def __init__(self, SegmentedLog log not None, SubjectFilter filter not None, uint64_t start) -> None:
        self.log = log
        self.filter = filter
        self.literal = len(filter.patterns) <= FEW and not [p for p in filter.patterns if has_wildcard(p, len(p))]
        self.restart(start)

    def __dealloc__(self):
        free(self.pieces)

    cdef bint done(self) noexcept:
        if self.counted_to > self.log.last_seq:
            return self.head == self.end       # it begins with a message to come; otherwise some were lost
        return self.head_known and self.counted_to == self.log.last_seq

    cdef int restart(self, uint64_t start) except -1:
        self.start = start
        self.counted_to = start - 1
        self.total = 0
        self.head = self.end = 0
        self.head_known = True
        return 0

    cdef bint step(self) except -1:
        if self.head < self.end and self.counted_to > self.log.last_seq:
            self.restart(self.start)       # the end of the log was lost
        if not self.head_known:
            self._count_head()
        elif self.counted_to < self.log.last_seq:
            self._count_tail()
        return self.done()

    cdef bint _at_once(self) except -1:
        """Can the log tell at once how many match from `start` on?"""
        if not self.filter.patterns:
            return True
        return self.start <= self.log.first_seq and (self.literal or len(self.log.subjects) <= FEW)

    cdef int _count_head(self) except -1:
        cdef Counted* piece = &self.pieces[self.head]
        cdef uint64_t count = 0
        if piece.last - piece.first >= PIECE or self._at_once():
            return self.restart(self.start)        # and the next step counts
        if count_piece(self.log, self.filter, piece.first, piece.last, JUDGED, &count):
            piece.count = count
            self.total += count
            self.head_known = True
        return 0

    cdef int _count_tail(self) except -1:
        cdef uint64_t first = self.counted_to + 1
        cdef uint64_t last = self.log.last_seq
        cdef uint64_t count = 0
        cdef bint fresh = self.head == self.end
        if not self.filter.patterns:
            if self.log.messages == last + 1 - self.log.first_seq and first >= self.log.first_seq:
                count = last + 1 - first
            else:
                count = self.log.count_between(None, first, last)
            return self._push(last, count, True)
        if last - first >= PIECE:
            if fresh and self._at_once():
                return self._push(last, self.log.count_from(self.filter, self.start), True)
            piece = next_piece(self.log, first, last, PIECE)
            if piece is None:
                return self._push(last, 0, False)
            first, last = piece
        if count_piece(self.log, self.filter, first, last, JUDGED, &count):
            self._push(last, count, False)
        return 0

    cdef int _push(self, uint64_t last, uint64_t count, bint join) except -1:
        """What follows up to `last` has `count`; `join`: it belongs to the piece in front of it, however long."""
        cdef Counted* piece
        self.total += count
        if self.head < self.end:
            piece = &self.pieces[self.end - 1]
            if join or last - piece.first < PIECE:
                piece.last = self.counted_to = last
                piece.count += count
                return 0
        if self.end == self.capacity:
            if self.head > self.capacity // 2:
                memmove(self.pieces, &self.pieces[self.head], (self.end - self.head) * sizeof(Counted))
                self.end -= self.head
                self.head = 0
            else:
                piece = <Counted*>realloc(self.pieces, (self.capacity * 2 + 4) * sizeof(Counted))
                if piece == NULL:
                    raise MemoryError
                self.pieces = piece
                self.capacity = self.capacity * 2 + 4
        piece = &self.pieces[self.end]
        piece.first = self.counted_to + 1
        piece.last = self.counted_to = last
        piece.count = count
        self.end += 1
        return 0

    cdef int _drop_head(self) noexcept:
        if self.head_known:
            self.total -= self.pieces[self.head].count
        self.head_known = True
        self.head += 1
        return 0

    cdef int take(self, uint64_t seq) except -1:
        cdef Counted* piece
        if seq > self.counted_to:
            return self.restart(seq + 1)       # all that was counted lies behind
        while self.pieces[self.head].last < seq:
            self._drop_head()
        piece = &self.pieces[self.head]
        if self.head_known and piece.count:
            piece.count -= 1
            self.total -= 1
        self.start = piece.first = seq + 1
        if seq == piece.last:
            self._drop_head()
        return 0

    cdef int pass_to(self, uint64_t start) except -1:
        if start > self.counted_to:
            return self.restart(start)
        while self.pieces[self.head].last < start:
            self._drop_head()
        self.start = self.pieces[self.head].first = start
        return 0

    cdef int evicted(self, uint64_t start) except -1:
        if start > self.counted_to:
            return self.restart(start)
        while self.pieces[self.head].last < start:
            self._drop_head()
        if self.pieces[self.head].first < start and self.head_known:
            self.total -= self.pieces[self.head].count
            self.head_known = False
        self.start = self.pieces[self.head].first = start
        return 0

    cdef Py_ssize_t _find(self, uint64_t seq) noexcept:
        """The piece with this counted sequence."""
        cdef Py_ssize_t low = self.head
        cdef Py_ssize_t high = self.end - 1
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) >> 1
            if self.pieces[middle].last < seq:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int removed(self, uint64_t seq, bytes subject) except -1:
        if seq >= self.start and seq <= self.counted_to and self.filter.matches(subject, len(subject)):
            self.removed_match(seq)
        return 0

    cdef int removed_match(self, uint64_t seq) except -1:
        cdef Py_ssize_t i
        if seq < self.start or seq > self.counted_to:
            return 0
        i = self._find(seq)
        if (i > self.head or self.head_known) and self.pieces[i].count:
            self.pieces[i].count -= 1
            self.total -= 1
        return 0

    cdef list within(self, uint64_t first, uint64_t last):
        cdef list counts = []
        cdef Py_ssize_t i
        first = max(first, self.start)
        last = min(last, self.counted_to)
        if first > last:
            return counts
        for i in range(self._find(first), self.end):
            if self.pieces[i].first > last:
                break
            counts.append(count_few(
                self.log, self.filter, max(first, self.pieces[i].first), min(last, self.pieces[i].last)))
        return counts

    cdef int less(self, uint64_t first, uint64_t last, list before) except -1:
        cdef list after = self.within(first, last)
        cdef Py_ssize_t i = self._find(max(first, self.start))
        cdef uint64_t gone
        for had, has in zip(before, after, strict=True):
            if i > self.head or self.head_known:
                gone = min(<uint64_t>(had - has), self.pieces[i].count)
                self.pieces[i].count -= gone
                self.total -= gone
            i += 1
        return 0
