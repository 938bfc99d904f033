# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Where a consumer stands in its stream, and how many messages are ahead of it (see cursor.pxd).

`ahead` is kept by adding what was appended and taking off what was delivered; the log is counted again only when
messages went away that may have been ahead.
"""
from bisect import bisect_left, bisect_right

from libc.stdint cimport uint64_t

from jetbroker.store.log cimport READ_MISSING, READ_OK, StoredMessage, StreamLog, SubjectFilter
from jetbroker.store.segmented cimport SegmentedLog


cdef class StreamCursor:
    """A position in a stream log."""

    def __init__(self, StreamLog log not None, SubjectFilter filter not None, uint64_t start) -> None:
        self.log = log
        self.filter = filter
        self.next_seq = max(start, <uint64_t>1)
        self.chosen = []
        self.recount = True

    def choose_last_per_subject(self, uint64_t resume, uint64_t delivered) -> None:
        """First give out each matching subject's last message up to `resume` (0: now), then what came after it."""
        cdef set last = set()
        self.resume = resume or self.log.last_seq
        for pattern in self.filter.patterns or (b">",):
            for state in self.log.matching_subjects(pattern):
                last.add(state.last)
        self.chosen = sorted(seq for seq in last if delivered < seq <= self.resume)
        self.chosen_at = 0
        self.next_seq = max(self.resume, delivered) + 1
        self.recount = True

    def set_filter(self, SubjectFilter filter not None) -> None:
        """Judge what is ahead by another filter."""
        self.filter = filter
        self.recount = True

    def move_to(self, uint64_t seq) -> None:
        """Go on at `seq`."""
        self.next_seq = max(seq, <uint64_t>1)
        self.resume = 0
        self.chosen = []
        self.chosen_at = 0
        self.recount = True

    cdef bint _first_pass(self) noexcept:
        return self.chosen_at < len(self.chosen)

    cdef int find(self, uint64_t limit, StoredMessage* out) except -1:
        cdef uint64_t seq
        cdef int result
        while self._first_pass():
            seq = self.chosen[self.chosen_at]
            if seq > limit:
                return READ_MISSING
            result = self.log.read(seq, out)
            if result != READ_MISSING:
                return result
            self.chosen_at += 1
        if self.next_seq > limit:
            return READ_MISSING
        result = self.log.next_message(self.filter, self.next_seq, limit, out)
        if result == READ_MISSING:
            self.count()
            self.next_seq = limit + 1
        return result

    cdef int took(self, uint64_t seq) except -1:
        if self.recount or seq > self.counted_to:
            self.count()
        if self.ahead > 0:
            self.ahead -= 1
        if self._first_pass():
            self.chosen_at += 1
        else:
            self.next_seq = seq + 1
        return 0

    cdef int count(self) except -1:
        cdef StreamLog log = self.log
        cdef bint plain = len(self.filter.patterns) == 0 and log.messages == log.last_seq + 1 - log.first_seq
        while self._first_pass() and self.chosen[self.chosen_at] < log.first_seq:
            self.chosen_at += 1
            self.recount = True
        if log.first_seq > self.next_seq:
            # evicted before they could be delivered
            self.next_seq = log.first_seq
            self.recount = True
        if self.recount or self.counted_to > log.last_seq:
            if log.messages == 0 or log.last_seq < self.next_seq:
                self.ahead = 0
            elif plain:
                self.ahead = log.last_seq + 1 - self.next_seq
            else:
                self.ahead = log.count_from(self.filter, self.next_seq)
            if self._first_pass():
                for seq in self.chosen[self.chosen_at:]:
                    self.ahead += log.time_of(seq) != 0
            self.recount = False
        elif log.last_seq > self.counted_to:
            if log.last_seq < self.next_seq:
                pass
            elif plain:
                self.ahead += log.last_seq - max(self.counted_to, self.next_seq - 1)
            else:
                self.ahead += log.count_from(self.filter, max(self.counted_to + 1, self.next_seq))
        self.counted_to = log.last_seq
        return 0

    cdef int removed(self, uint64_t seq) except -1:
        cdef Py_ssize_t i
        if seq >= self.next_seq:
            self.recount = True
        elif self._first_pass():
            i = bisect_left(self.chosen, seq, self.chosen_at)
            if i < len(self.chosen) and self.chosen[i] == seq:
                del self.chosen[i]
                self.recount = True
        return 0

    def counted_in(self, uint64_t first, uint64_t last) -> int:
        """How many messages of a short piece of the log are counted as ahead; removed_in takes it."""
        if self.log.first_seq > self.next_seq \
                or self._first_pass() and self.chosen[self.chosen_at] < self.log.first_seq:
            self.recount = True        # some went away unseen
        return 0 if self.recount else self._ahead_in(first, last)

    def removed_in(self, uint64_t first, uint64_t last, uint64_t before) -> None:
        """Messages of this piece are gone, and nothing else has changed since counted_in() returned `before`."""
        if self.recount:
            return
        self.ahead -= min(self.ahead, before - self._ahead_in(first, last))
        while self._first_pass() and self.chosen[self.chosen_at] < self.log.first_seq:
            self.chosen_at += 1
        self.next_seq = max(self.next_seq, self.log.first_seq)

    def _ahead_in(self, uint64_t first, uint64_t last) -> int:
        cdef uint64_t total = 0
        if self._first_pass():
            i = bisect_left(self.chosen, first, self.chosen_at)
            for seq in self.chosen[i:bisect_right(self.chosen, last, i)]:
                total += self.log.time_of(seq) != 0
        first = max(first, self.next_seq)
        last = min(last, self.counted_to)
        if first <= last:
            total += (<SegmentedLog?>self.log).count_between(self.filter, first, last)
        return total

    cdef void purged(self) noexcept:
        self.recount = True

    cdef bint wants(self, uint64_t seq) except -1:
        cdef StoredMessage message
        cdef Py_ssize_t i
        if seq < self.next_seq:
            i = bisect_left(self.chosen, seq, self.chosen_at)
            return i < len(self.chosen) and self.chosen[i] == seq
        return self.log.read(seq, &message) == READ_OK and self.filter.matches(message.subject, message.subject_len)
