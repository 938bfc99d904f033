# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Where a consumer stands in its stream, and how many messages are ahead of it (see cursor.pxd).

Both the search for the next message and the count of those ahead may lead through millions of others. They go on in
steps: some in the consumer's own turn, as long as streams have time left in this iteration of the event loop, the
rest in look_ahead().
"""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.consumers.first_pass cimport FirstPass
from jetbroker.jetstream.timing.work_turns cimport WorkTurns
from jetbroker.store.log.stream_log cimport READ_DAMAGED, READ_LATER, READ_MISSING, READ_OK, StoredMessage, SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.slices cimport count_few, count_piece, next_slot
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.store.log.slices import next_piece

cdef uint64_t WINDOW = limits.JS_COUNT_SLOTS       # what is searched, or counted, in one step
cdef Py_ssize_t JUDGED = limits.JS_JUDGED_SUBJECTS
cdef Py_ssize_t FEW = limits.JS_FEW_SUBJECTS
cdef uint64_t AT_HAND = 64         # so many new messages are counted without a look at the clock


cdef class AheadCount:
    """Counts what a filter matches from a sequence on.

    The log from `start` to its end is counted from the front in pieces of a bounded number of sequences. What is
    delivered, removed or appended changes one of them; where the log loses its front only the first one is counted
    again. Where the log can tell the number at once (no filter, few subjects) there is one piece, however long.
    """

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
        return self.start <= self.log.first_seq and (self.literal or <Py_ssize_t>self.log.subjects.count <= FEW)

    cdef int _count_head(self) except -1:
        cdef Counted* piece = &self.pieces[self.head]
        cdef uint64_t count = 0
        if piece.last - piece.first >= WINDOW or self._at_once():
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
        if last - first >= WINDOW:
            if fresh and self._at_once():
                return self._push(last, self.log.count_from(self.filter, self.start), True)
            piece = next_piece(self.log, first, last, WINDOW)
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
            if join or last - piece.first < WINDOW:
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


cdef class StreamCursor:
    """A position in a stream log."""

    def __init__(self, SegmentedLog log not None, SubjectFilter filter not None, uint64_t start,
                 WorkTurns turns not None) -> None:
        self.log = log
        self.turns = turns
        self.filter = filter
        self.next_seq = max(start, <uint64_t>1)
        self.looked_to = self.next_seq - 1
        self.count = AheadCount(log, filter, self.next_seq)

    def choose_last_per_subject(self, uint64_t resume, uint64_t delivered):
        """First give out each matching subject's last message up to `resume` (0: now), then what came after it.

        They are chosen in steps (see turns.py), before anything is delivered.
        """
        self.resume = resume or self.log.last_seq
        self.first = FirstPass(self.log, self.filter, delivered, self.resume)
        self._pass_to(max(self.resume, delivered) + 1)
        self.looked_to = delivered
        return self.first.choosing()

    def first_chosen(self) -> int:
        """The first message of the first pass, 0: there is none."""
        return self.first.next_seq() if self.first is not None else 0

    def set_filter(self, SubjectFilter filter not None) -> None:
        """Judge what is ahead by another filter."""
        self.filter = filter
        self.count = AheadCount(self.log, filter, self.next_seq)

    def move_to(self, uint64_t seq) -> None:
        """Go on at `seq`."""
        self.next_seq = max(seq, <uint64_t>1)
        self.looked_to = self.next_seq - 1
        self.resume = 0
        self.first = None
        self.count.restart(self.next_seq)

    cdef int _pass_to(self, uint64_t seq) except -1:
        self.next_seq = seq
        self.looked_to = seq - 1
        return self.count.pass_to(seq)

    cdef int _follow_first(self) except -1:
        """What was evicted is not ahead any more."""
        if self.first is not None:
            self.first.follow()
            if not self.first.open():
                self.first = None
        if self.log.first_seq > self.next_seq:
            self.next_seq = self.log.first_seq
            self.count.evicted(self.next_seq)
        return 0

    # --- the next message ---

    cdef int find(self, uint64_t limit, StoredMessage* out) except -1:
        cdef int64_t began, now
        cdef uint64_t messages
        cdef int result
        if self.first is not None:
            result = self._find_first(limit, out)
            if self.first is not None:
                return result
        if self.next_seq > limit:
            self.looked_to = max(self.looked_to, limit)
            return READ_MISSING
        if not self.filter.patterns:
            messages = self.log.messages
            result = self.log.next_message(None, self.next_seq, limit, out)
            if result == READ_MISSING:
                self._pass_to(limit + 1)
            elif result == READ_DAMAGED and self.log.messages < messages:
                self.count.removed_match(out.seq)
            return result
        result = self._find_window(limit, out)
        if result != READ_LATER:
            return result
        began = monotonic_ns()
        while result == READ_LATER and self.turns.has_time():
            result = self._find_window(limit, out)
            now = monotonic_ns()
            self.turns.spent(now - began)
            began = now
        return result

    cdef int _find_first(self, uint64_t limit, StoredMessage* out) except -1:
        cdef uint64_t seq
        cdef int result
        while True:
            seq = self.first.next_seq()
            if seq == 0:
                self.first = None
                return READ_MISSING
            if seq > limit:
                return READ_MISSING
            result = self.log.read(seq, out)
            if result != READ_MISSING:
                return result
            self.first.take()

    cdef int _find_window(self, uint64_t limit, StoredMessage* out) except -1:
        """Look through some sequences; READ_LATER: it is in none of them."""
        cdef uint64_t messages = self.log.messages
        cdef uint64_t end = limit if limit - self.next_seq < WINDOW else self.next_seq + WINDOW - 1
        cdef int result = self.log.next_within(self.filter, self.next_seq, end, JUDGED, out)
        if result == READ_DAMAGED and self.log.messages < messages:
            self.count.removed_match(out.seq)
        if result != READ_MISSING:
            return result
        if end < limit:
            end = next_slot(self.log, end + 1)     # there may be millions of sequences without any
            if 0 < end <= limit:
                self._pass_to(end)
                return READ_LATER
        self._pass_to(limit + 1)
        return READ_MISSING

    cdef int took(self, uint64_t seq) except -1:
        if self.first is not None:
            self.first.take()
            self.looked_to = seq if self.first.open() else self.resume
            return 0
        self.looked_to = seq
        self.next_seq = seq + 1
        return self.count.take(seq)

    cdef int skip(self, uint64_t seq) except -1:
        if self.first is not None:
            return self.first.take()
        return self._pass_to(seq + 1)

    cdef bint look_ahead(self, uint64_t limit, int64_t until_ns) except -1:
        cdef StoredMessage message
        cdef bint counted = False
        self._follow_first()
        while monotonic_ns() < until_ns:
            if not counted:
                counted = self.count_step()
            elif self.first is not None or self.next_seq > limit or not self.filter.patterns \
                    or self._find_window(limit, &message) != READ_LATER:
                return False
        return True

    # --- how many are ahead ---

    cdef uint64_t ahead(self) noexcept:
        return self.count.total + (self.first.live if self.first is not None else 0)

    cdef bint counts(self, uint64_t seq) noexcept:
        return seq <= self.count.counted_to

    cdef bint count_on(self) except -1:
        cdef int64_t began, now
        cdef bint counted
        self._follow_first()
        if self.count.done() and (self.first is None or self.first.done()):
            return True
        if self.count.head_known and self.log.last_seq - self.count.counted_to <= AT_HAND and self.first is None:
            return self.count.step()
        began = monotonic_ns()
        counted = False
        while not counted and self.turns.has_time():
            counted = self.count_step()
            now = monotonic_ns()
            self.turns.spent(now - began)
            began = now
        return counted

    cdef bint count_step(self) except -1:
        self._follow_first()
        if self.first is not None and not self.first.done():
            self.first.step()
            return False
        return self.count.done() or self.count.step()

    cdef int removed(self, uint64_t seq, bytes subject) except -1:
        if seq >= self.next_seq:
            return self.count.removed(seq, subject)
        if self.first is not None:
            self.first.removed(seq)
        return 0

    def counted_in(self, uint64_t first, uint64_t last) -> list:
        """How many messages of a short piece of the log are counted as ahead; removed_in takes it."""
        self._follow_first()
        return self.count.within(first, last)

    def removed_in(self, uint64_t first, uint64_t last, list before) -> None:
        """Messages of this piece are gone, and nothing else has changed since counted_in() returned `before`."""
        if before:
            self.count.less(first, last, before)
        if self.first is not None:
            self.first.lost_some(first, last)
        if self.log.first_seq > self.next_seq:
            self.next_seq = self.log.first_seq
            self.count.pass_to(self.next_seq)

    cdef int purged_to(self, uint64_t start) except -1:
        self._follow_first()       # what a limit evicted before has been counted
        if self.next_seq < start:
            self.next_seq = start
            self.count.pass_to(start)
        self.looked_to = max(self.looked_to, start - 1)
        return 0

    cdef int purged(self) except -1:
        self.count.restart(self.next_seq)
        if self.first is not None:
            self.first.purged()
        return 0

    cdef bint wants(self, uint64_t seq) except -1:
        cdef StoredMessage message
        if seq < self.next_seq:
            return self.first is not None and self.first.has(seq)
        return self.log.read(seq, &message) == READ_OK and self.filter.matches(message.subject, message.subject_len)
