# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What file and memory logs have in common (see segmented.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from jetbroker import limits
from jetbroker.errors import SequenceError

from jetbroker.store.format.records cimport (
    KIND_MESSAGE, OFFSET_EMPTY, RECORD_HEADER, SIZE_HAS_HEADERS, SUBJECT_NONE, put_record,
)
from jetbroker.store.log.stream_log cimport (
    FLAG_MSG_ID, READ_DAMAGED, READ_LATER, READ_MISSING, READ_OK, StoredMessage, SubjectFilter, SubjectState,
)
from jetbroker.store.log.segment cimport Segment, SubjectSet
from jetbroker.store.log.gaps cimport Gaps
from jetbroker.store.log.subject_states cimport SubjectStates
from jetbroker.wire.subjects cimport has_wildcard

# More skipped sequences start a new segment instead of empty slots.
cdef uint64_t MAX_EMPTY_SLOTS = limits.STREAM_EMPTY_SLOTS
cdef uint64_t LAST_SEQUENCE = limits.STREAM_LAST_SEQUENCE
cdef uint64_t SKIP_SEQUENCE = limits.STREAM_SKIP_SEQUENCE
# Filters keep their verdicts for this many segments.
cdef Py_ssize_t MAX_SEGMENT_SETS = 64
cdef Py_ssize_t ALL_SUBJECTS = 1 << 60


cdef class StoreTotals:
    """What all logs of one kind of storage hold together."""

    def discount(self, SegmentedLog log not None) -> None:
        """What is stored in a log does not count any more: its stream is on its way out."""
        if log.totals is self:
            log.account(-<int64_t>log.messages, -<int64_t>log.bytes)
            log.totals = StoreTotals()


cdef class SegmentedLog(StreamLog):
    """A log as a list of segments; subclasses say where the bytes live."""

    def __cinit__(self):
        self.segments = []
        self.states = SubjectStates()
        self.subjects = self.states.live
        self.gaps = Gaps()
        self.totals = StoreTotals()

    # --- hooks ---

    cdef const char* fetch(self, Segment segment, Py_ssize_t slot) except? NULL:
        raise NotImplementedError

    cdef char* room(self, uint32_t length, uint32_t* offset) except NULL:
        raise NotImplementedError

    cdef int roll(self, uint64_t first_seq) except -1:
        raise NotImplementedError

    cdef int drop(self, Segment segment) except -1:
        raise NotImplementedError

    cdef int erase_slot(self, Segment segment, Py_ssize_t slot) except -1:
        raise NotImplementedError

    cdef int ready(self) except -1:
        return 0

    cdef int load(self, Segment segment) except -1:
        return 0

    cdef int note_removed(self, uint64_t first, uint64_t last) except -1:
        return 0

    cdef int changed(self) except -1:
        return 0

    cdef int after_removal(self, Segment segment) except -1:
        return 0

    # --- append ---

    cdef SubjectState subject_state(self, const char* subject, Py_ssize_t n):
        return self.states.find(subject, n)

    cdef uint64_t append(self, const char* subject, Py_ssize_t subject_len,
                         const char* headers, Py_ssize_t headers_len,
                         const char* payload, Py_ssize_t payload_len,
                         int64_t time_ns, uint16_t flags, SubjectState state) except? 0:
        cdef uint32_t length = <uint32_t>(RECORD_HEADER + subject_len + headers_len + payload_len)
        cdef uint32_t offset = 0
        cdef uint32_t size = <uint32_t>(headers_len + payload_len)
        cdef uint64_t seq
        cdef uint64_t cost
        cdef char* out
        cdef Segment segment
        self.ready()
        if self.last_seq >= LAST_SEQUENCE:
            raise SequenceError("the stream has no sequences left")
        if state is None:
            state = self.subject_state(subject, subject_len)
        if time_ns < self.last_time_ns:
            time_ns = self.last_time_ns
        out = self.room(length, &offset)
        segment = self.active
        seq = self.last_seq + 1
        put_record(out, KIND_MESSAGE, self.seed, seq, time_ns, flags, subject, subject_len, headers, headers_len,
                   payload, payload_len)
        if state.segment_tag != segment.tag:
            state.subject_id = segment.add_subject(subject, subject_len)
            state.segment_tag = segment.tag
        if headers_len:
            size |= SIZE_HAS_HEADERS
        segment.push(offset, time_ns, size, state.subject_id)
        if flags & FLAG_MSG_ID:
            segment.msg_ids += 1
        cost = self.message_cost + subject_len + headers_len + payload_len + (self.headers_cost if headers_len else 0)
        segment.live += 1
        segment.live_bytes += cost
        if state.count == 0:
            self.states.revive(state)
            state.first_hint = seq
        state.count += 1
        state.last = seq
        self.last_seq = seq
        self.last_time_ns = time_ns
        if self.messages == 0:
            self.first_seq = seq
        self.messages += 1
        self.bytes += cost
        self.account(1, cost)
        self.changed()
        return seq

    # --- look-up ---

    cdef Py_ssize_t index_of(self, uint64_t seq) noexcept:
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = len(self.segments)
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) >> 1
            if (<Segment>self.segments[middle]).first_seq <= seq:
                low = middle + 1
            else:
                high = middle
        return low - 1

    cdef Segment segment_of(self, uint64_t seq):
        cdef Segment segment = self.recent
        cdef Py_ssize_t i
        if segment is None or seq < segment.first_seq or seq >= segment.first_seq + segment.slots:
            i = self.index_of(seq)
            if i < 0:
                return None
            segment = <Segment>self.segments[i]
            if seq >= segment.first_seq + segment.slots:
                return None
            self.recent = segment
        return segment

    cdef uint64_t cost_of(self, Segment segment, Py_ssize_t slot) noexcept nogil:
        return segment.cost_of(slot, self.message_cost, self.headers_cost)

    cdef int fill(self, Segment segment, Py_ssize_t slot, StoredMessage* out) except -1:
        cdef const char* record = self.fetch(segment, slot)
        out.seq = segment.first_seq + slot
        if record == NULL:
            self.found_damaged(segment, slot)
            return READ_DAMAGED
        out.time_ns = segment.times[slot]
        point_into(record, out)
        return READ_OK

    cdef int read(self, uint64_t seq, StoredMessage* out) except -1:
        cdef Segment segment = self.segment_of(seq)
        cdef Py_ssize_t slot
        out.seq = seq
        if segment is None:
            return READ_DAMAGED if self.gaps.covers(seq) else READ_MISSING
        slot = seq - segment.first_seq
        if segment.is_dead(slot):
            return READ_DAMAGED if segment.is_lost(slot) else READ_MISSING
        self.load(segment)
        return self.fill(segment, slot, out)

    cpdef tuple get(self, uint64_t seq):
        """(ReadResult, subject, headers, payload, time_ns) of one sequence; bytes are empty unless READ_OK."""
        cdef StoredMessage m
        cdef int result = self.read(seq, &m)
        if result != READ_OK:
            return result, b"", b"", b"", 0
        return (result, m.subject[:m.subject_len], m.headers[:m.headers_len], m.payload[:m.payload_len], m.time_ns)

    cpdef int64_t time_of(self, uint64_t seq) except? -1:
        """When `seq` was stored, ns; 0 when there is no such message."""
        cdef Segment segment = self.segment_of(seq)
        if segment is None or segment.is_dead(seq - segment.first_seq):
            return 0
        self.load(segment)
        return segment.times[seq - segment.first_seq]

    cdef SubjectSet subject_set(self, SubjectFilter filter, Segment segment, Py_ssize_t at_most=ALL_SUBJECTS):
        cdef SubjectSet ids = <SubjectSet>filter.segment_sets.get(segment.tag)
        cdef uint64_t tag = segment.tag
        cdef Py_ssize_t i
        if ids is None:
            if len(filter.segment_sets) >= MAX_SEGMENT_SETS:
                filter.segment_sets.clear()
            ids = SubjectSet()
            filter.segment_sets[segment.tag] = ids
            if segment.sealed:
                self.load(segment)
        elif ids.known < segment.subjects and segment.text_offsets == NULL:
            self.load(segment)
            if segment.tag != tag:
                return self.subject_set(filter, segment, at_most)
        if ids.known < segment.subjects and segment.text_offsets != NULL:
            for i in range(ids.known, min(segment.subjects, ids.known + at_most)):
                ids.add(filter.matches(segment.subject_text(<uint32_t>i), segment.subject_len(<uint32_t>i)))
        return ids

    cdef SubjectSet loaded_set(self, SubjectFilter filter, Segment segment, SubjectSet ids):
        """Load the columns; a segment whose footer is gone bad has other subject ids from then on."""
        cdef uint64_t tag = segment.tag
        self.load(segment)
        return ids if segment.tag == tag else self.subject_set(filter, segment)

    cdef int next_message(self, SubjectFilter filter, uint64_t start, uint64_t limit, StoredMessage* out) except -1:
        return self.next_within(filter, start, limit, ALL_SUBJECTS, out)

    cdef int next_within(self, SubjectFilter filter, uint64_t start, uint64_t limit, Py_ssize_t subjects,
                         StoredMessage* out) except -1:
        cdef Py_ssize_t i
        cdef Py_ssize_t slot
        cdef Py_ssize_t end
        cdef Py_ssize_t lost
        cdef Segment segment
        cdef SubjectSet ids
        if limit > self.last_seq:
            limit = self.last_seq
        if start > limit:
            return READ_MISSING
        segment = self.recent
        if segment is not None and segment.first_seq <= start < segment.first_seq + segment.slots:
            i = -2       # worked out below, only when the segment has nothing
        else:
            i = self.index_of(start)
            if i < 0:
                i = 0
            segment = <Segment>self.segments[i]
        while segment.first_seq <= limit:
            if segment.live or segment.lost is not None:
                slot = start - segment.first_seq if start > segment.first_seq else 0
                end = min(segment.slots, <Py_ssize_t>(limit - segment.first_seq + 1))
                ids = None
                if filter is not None and filter.patterns:
                    ids = self.subject_set(filter, segment, subjects)
                    if ids.known < segment.subjects:
                        return READ_LATER
                lost = self.next_lost(segment, ids, slot, end) if segment.lost is not None else -1
                if lost >= 0:
                    end = lost
                if ids is None:
                    slot = segment.next_live(slot, end)
                elif ids.matching:
                    ids = self.loaded_set(filter, segment, ids)
                    slot = segment.next_in(ids, slot, end)
                else:
                    slot = -1
                if slot >= 0:
                    self.recent = segment
                    self.load(segment)
                    return self.fill(segment, slot, out)
                if lost >= 0:
                    out.seq = segment.first_seq + lost
                    return READ_DAMAGED
            if i == -2:
                i = self.index_of(segment.first_seq)
            i += 1
            if i >= len(self.segments):
                break
            segment = <Segment>self.segments[i]
        return READ_MISSING

    cdef Py_ssize_t next_lost(self, Segment segment, SubjectSet ids, Py_ssize_t slot, Py_ssize_t end) except? -1:
        """First damaged slot in [slot, end) that may match, -1: none. Rare: only in damaged segments."""
        if ids is not None:
            self.load(segment)
        return segment.next_lost(ids, slot, end)

    def read_next(self, SubjectFilter filter, uint64_t start, uint64_t limit=0xFFFFFFFFFFFFFFFF):
        """(ReadResult, seq, subject, headers, payload, time_ns) of the first match at or behind `start`."""
        cdef StoredMessage m
        cdef int result
        m.seq = 0
        result = self.next_message(filter, start, limit, &m)
        if result != READ_OK:
            return result, m.seq, b"", b"", b"", 0
        return (result, m.seq, m.subject[:m.subject_len], m.headers[:m.headers_len], m.payload[:m.payload_len],
                m.time_ns)

    def append_message(self, bytes subject not None, bytes payload not None, bytes headers=b"", int64_t time_ns=0,
                       uint16_t flags=0):
        """`append` for Python callers (restore, tools, tests)."""
        return self.append(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject),
                           PyBytes_AS_STRING(headers), PyBytes_GET_SIZE(headers),
                           PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), time_ns, flags, None)

    def slots_held(self):
        """Sequences that the segments have, whether there is a message or not."""
        cdef Segment segment
        return sum([segment.slots for segment in self.segments])

    def evict(self):
        """`evict_first` for Python callers."""
        self.evict_first()

    def state_of(self, bytes subject not None):
        """The SubjectState of a literal subject (count 0 when it has no message)."""
        return self.states.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    # --- queries ---

    cpdef uint64_t first_of(self, SubjectState state) except? 0:
        """The exact first live sequence of the subject, 0: none."""
        cdef Py_ssize_t i
        cdef Py_ssize_t slot
        cdef Segment segment
        cdef uint32_t subject_id
        cdef uint64_t hint
        if state.count == 0:
            return 0
        if state.count == 1:
            state.first_hint = state.last
            return state.last
        hint = state.first_hint if state.first_hint > self.first_seq else self.first_seq
        i = self.index_of(hint)
        if i < 0:
            i = 0
        while i < len(self.segments):
            segment = <Segment>self.segments[i]
            if segment.live and segment.first_seq + segment.slots > hint:
                self.load(segment)
                subject_id = state.subject_id
                if state.segment_tag != segment.tag:
                    subject_id = segment.find_subject(state.subject, PyBytes_GET_SIZE(state.subject))
                if subject_id != SUBJECT_NONE:
                    slot = segment.next_of(subject_id, hint - segment.first_seq if hint > segment.first_seq else 0,
                                           segment.slots)
                    if slot >= 0:
                        state.first_hint = segment.first_seq + slot
                        return state.first_hint
            i += 1
        return 0

    cdef uint64_t find_previous(self, bytes subject, uint64_t below) except? 0:
        """The last live sequence of `subject` under `below`, 0: none."""
        cdef Py_ssize_t i = self.index_of(below - 1)
        cdef Py_ssize_t slot
        cdef Segment segment
        cdef uint32_t subject_id
        while i >= 0:
            segment = <Segment>self.segments[i]
            if segment.live:
                self.load(segment)
                subject_id = segment.find_subject(subject, PyBytes_GET_SIZE(subject))
                if subject_id != SUBJECT_NONE:
                    slot = segment.previous_of(subject_id, min(<Py_ssize_t>(below - 1 - segment.first_seq),
                                                               segment.slots - 1))
                    if slot >= 0:
                        return segment.first_seq + slot
            i -= 1
        return 0

    cpdef uint64_t count_from(self, SubjectFilter filter, uint64_t start) except? 0:
        """Live messages that match and have a sequence of at least `start`."""
        cdef uint64_t total = 0
        cdef SubjectState state
        cdef bint everything = filter is None or not filter.patterns
        if start <= self.first_seq:
            if everything:
                return self.messages
            if self.subjects.count <= self.messages:
                for state in self.states.matching(filter):
                    total += state.count
                return total
        return self.count_between(filter, start, self.last_seq)

    cdef uint64_t count_between(self, SubjectFilter filter, uint64_t start, uint64_t limit) except? 0:
        """Live messages from `start` to `limit` that match."""
        cdef uint64_t total = 0
        cdef Py_ssize_t i = max(self.index_of(start), <Py_ssize_t>0)
        cdef Py_ssize_t slot
        cdef Py_ssize_t end
        cdef Segment segment
        cdef SubjectSet ids
        cdef bint everything = filter is None or not filter.patterns
        for i in range(i, len(self.segments)):
            segment = <Segment>self.segments[i]
            if segment.first_seq > limit:
                break
            if segment.live == 0 or segment.first_seq + segment.slots <= start:
                continue
            slot = start - segment.first_seq if start > segment.first_seq else 0
            end = min(segment.slots, <Py_ssize_t>min(limit - segment.first_seq, <uint64_t>segment.slots) + 1)
            if everything:
                total += segment.live if slot == 0 and end == segment.slots else segment.count_live(slot, end)
                continue
            ids = self.subject_set(filter, segment)
            if ids.matching == 0:
                continue
            ids = self.loaded_set(filter, segment, ids)
            slot = segment.next_in(ids, slot, end)
            while slot >= 0:
                total += 1
                slot = segment.next_in(ids, slot + 1, end)
        return total

    cpdef uint64_t seq_at_time(self, int64_t time_ns) except? 0:
        """The first live sequence stored at or after `time_ns`; last_seq + 1 when there is none."""
        cdef Segment segment
        cdef Py_ssize_t low
        cdef Py_ssize_t high
        cdef Py_ssize_t middle
        for segment in self.segments:
            if segment.live == 0 or segment.last_time < time_ns:
                continue
            self.load(segment)
            low = 0
            high = segment.slots
            while low < high:
                middle = (low + high) >> 1
                if segment.times[middle] < time_ns:
                    low = middle + 1
                else:
                    high = middle
            low = segment.next_live(low, segment.slots)
            if low >= 0:
                return segment.first_seq + low
        return self.last_seq + 1

    cpdef uint64_t last_by_subject(self, bytes pattern) except? 0:
        """The last live sequence whose subject matches `pattern`, 0: none."""
        cdef SubjectState state
        cdef uint64_t last = 0
        if pattern and not has_wildcard(PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern)):
            state = self.subjects.get(pattern)
            return 0 if state is None else state.last
        for state in self.matching_subjects(pattern):
            if state.last > last:
                last = state.last
        return last

    cpdef list matching_subjects(self, bytes pattern):
        """The SubjectStates of live subjects that match `pattern` (b"": all), unsorted."""
        if pattern == b"" or pattern == b">":
            return self.subjects.states()
        return self.states.matching(SubjectFilter(pattern))

    cpdef list deleted(self):
        """Sequences of interior deletes between first_seq and last_seq, the first JS_DELETED_LISTED of them."""
        return self.gaps.deleted(self.segments, self.first_seq, self.last_seq) if self.messages else []

    cpdef uint64_t deleted_count(self) except? 0:
        """How many interior deletes there are."""
        if self.messages == 0:
            return 0
        return self.last_seq - self.first_seq + 1 - self.messages - self.gaps.lost_count(self.segments, self.first_seq)

    cpdef list lost(self):
        """Sequences whose records are damaged or missing, in order, the first JS_DELETED_LISTED of them."""
        return self.gaps.lost(self.segments)

    cpdef uint64_t lost_count(self) except? 0:
        """How many sequences have damaged or missing records."""
        return self.gaps.lost_count(self.segments, 0)

    # --- counts ---

    cdef int count_segment(self, Segment segment) except -1:
        """Add a segment's live messages to all counts; segments come in order."""
        segment.count(self.message_cost, self.headers_cost)
        self.states.count_segment(segment)
        self.counted(segment)
        return 0

    cdef void counted(self, Segment segment) noexcept:
        self.messages += segment.live
        self.bytes += segment.live_bytes

    cdef int recount(self) except -1:
        """Make every count anew: records are damaged, or the cache was wrong, and nobody knows of which subjects."""
        cdef Segment segment
        cdef SubjectState state
        cdef uint64_t messages = self.messages
        cdef uint64_t size = self.bytes
        self.messages = self.bytes = 0
        for state in self.subjects.states():
            state.count = 0
        for segment in self.segments:
            if segment.live:
                self.load(segment)
                self.count_segment(segment)
        for state in self.matching_subjects(b""):
            if state.count == 0:
                self.states.retire(state)
        self.account(<int64_t>self.messages - <int64_t>messages, <int64_t>self.bytes - <int64_t>size)
        if self.segments:
            self.advance_first()
        return 0

    cdef bint revive_message(self, uint64_t seq) except -1:
        """Count a removed message again; False: its segment is gone, or it was never there."""
        cdef Segment segment = self.segment_of(seq)
        cdef SubjectState state
        cdef uint64_t cost
        cdef Py_ssize_t slot
        if segment is None:
            return False
        slot = seq - segment.first_seq
        self.load(segment)
        if not segment.is_dead(slot) or segment.ids[slot] == SUBJECT_NONE:
            return False
        segment.mark_live(slot)
        cost = self.cost_of(segment, slot)
        segment.live += 1
        segment.live_bytes += cost
        state = self.subject_state(segment.subject_text(segment.ids[slot]), segment.subject_len(segment.ids[slot]))
        if state.count == 0:
            self.states.revive(state)
            state.first_hint = state.last = seq
        state.first_hint = min(state.first_hint, seq)
        state.last = max(state.last, seq)
        state.count += 1
        if self.messages == 0 or seq < self.first_seq:
            self.first_seq = seq
        self.messages += 1
        self.bytes += cost
        self.account(1, cost)
        return True

    # --- removals ---

    cdef int forget_message(self, Segment segment, Py_ssize_t slot) except -1:
        """Take one live message out of every count; first_seq and the log of removals are the caller's.

        The segment's columns are loaded, before and behind it.
        """
        cdef uint64_t seq = segment.first_seq + slot
        cdef uint64_t cost = self.cost_of(segment, slot)
        cdef uint32_t subject_id = segment.ids[slot]
        cdef SubjectState state = self.subjects.find(segment.subject_text(subject_id), segment.subject_len(subject_id))
        if state is None:
            # the cache told of other subjects than the segment has
            self.recount()
            self.load(segment)
            state = self.subjects.find(segment.subject_text(subject_id), segment.subject_len(subject_id))
        segment.mark_dead(slot)
        segment.live -= 1
        segment.live_bytes -= cost
        self.messages -= 1
        self.bytes -= cost
        state.count -= 1
        self.account(-1, -<int64_t>cost)
        if state.count == 0:
            self.states.retire(state)
        elif seq == state.last:
            state.last = self.find_previous(state.subject, seq)
            self.load(segment)         # it may have been the one used longest ago
        elif seq == state.first_hint:
            state.first_hint = seq + 1
        return 0

    cdef int found_damaged(self, Segment segment, Py_ssize_t slot) except -1:
        self.forget_message(segment, slot)
        segment.mark_lost(slot)
        self.advance_first()
        return 0

    cdef int advance_first(self) except -1:
        """Make first_seq the first live sequence again."""
        cdef Py_ssize_t i
        cdef Py_ssize_t slot
        cdef Segment segment
        if self.messages == 0:
            self.first_seq = self.last_seq + 1 if self.last_seq else 0
            return 0
        i = self.index_of(self.first_seq)
        if i < 0:
            i = 0
        while i < len(self.segments):
            segment = <Segment>self.segments[i]
            if segment.live:
                slot = self.first_seq - segment.first_seq if self.first_seq > segment.first_seq else 0
                slot = segment.next_live(slot, segment.slots)
                if slot >= 0:
                    self.first_seq = segment.first_seq + slot
                    return 0
            i += 1
        raise RuntimeError("a log counts messages that no segment holds")

    cdef int drop_dead_segments(self) except -1:
        cdef Segment segment
        cdef Segment before = None
        for segment in list(self.segments):
            if segment.live or segment.lost is not None or segment is self.active or segment.is_limit_of(before):
                before = segment
                continue
            self.segments.remove(segment)
            if self.recent is segment:
                self.recent = None
            self.drop(segment)
        return 0

    cpdef bint remove(self, uint64_t seq, bint erase=False) except -1:
        """Remove one message; False when it was not there. `erase` overwrites its bytes too."""
        cdef Segment segment = self.segment_of(seq)
        cdef Py_ssize_t slot
        if segment is None:
            return False
        slot = seq - segment.first_seq
        if segment.is_dead(slot):
            return False
        self.load(segment)
        self.note_removed(seq, seq)
        self.forget_message(segment, slot)
        try:
            if erase:
                self.erase_slot(segment, slot)
        finally:                       # it is gone, whatever becomes of its bytes
            if seq == self.first_seq:
                self.advance_first()
            if segment.live == 0 and segment is not self.active:
                self.drop_dead_segments()
            else:
                self.after_removal(segment)
            self.changed()
        return True

    cdef int evict_first(self) except -1:
        if self.messages and not self.remove(self.first_seq):
            self.advance_first()       # a removal that the disk has cut short left it behind
        return 0

    cdef uint64_t forget_all(self) except? 0:
        cdef uint64_t removed = self.messages
        cdef Segment segment
        cdef Py_ssize_t slot
        self.account(-<int64_t>self.messages, -<int64_t>self.bytes)
        self.states.retire_all()
        for segment in self.segments:
            if segment is self.active:
                # the others are dropped
                for slot in range(segment.slots):
                    segment.mark_dead(slot)
            segment.live = 0
            segment.live_bytes = 0
            segment.lost = None
        self.gaps.forget_before(self.last_seq + 1)
        self.messages = 0
        self.bytes = 0
        self.first_seq = self.last_seq + 1 if self.last_seq else 0
        return removed

    cdef uint64_t forget_run(self, Segment segment, Py_ssize_t end) except? 0:
        """Take the live messages of slots [0, end) out of every count."""
        cdef uint64_t removed = 0
        cdef Py_ssize_t slot
        if segment.live:
            self.load(segment)
            slot = segment.next_live(0, end)
            while slot >= 0:
                self.forget_message(segment, slot)
                removed += 1
                slot = segment.next_live(slot + 1, end)
        if segment.lost is not None:
            segment.lost = [s for s in segment.lost if s >= end] or None
        return removed

    cpdef uint64_t remove_before(self, uint64_t seq) except? 0:
        """Evict everything below `seq`; returns the number of messages removed."""
        cdef uint64_t removed = 0
        cdef Segment segment
        cdef uint64_t oldest
        if seq > self.last_seq:
            seq = self.last_seq + 1
        oldest = (<Segment>self.segments[0]).first_seq
        oldest = min(oldest, self.gaps.first(oldest))
        if self.messages and oldest > self.first_seq:
            oldest = self.first_seq
        if seq <= oldest:
            return 0
        if seq > self.last_seq:
            removed = self.forget_all()
        else:
            for segment in self.segments:
                if segment.first_seq >= seq:
                    break
                removed += self.forget_run(segment, min(segment.slots, <Py_ssize_t>(seq - segment.first_seq)))
            self.gaps.forget_before(seq)
            self.advance_first()
        self.note_removed(oldest, seq - 1)
        self.drop_dead_segments()
        for segment in self.segments:
            self.after_removal(segment)
        self.changed()
        return removed

    cdef uint64_t keep_newest(self, uint64_t keep) except? 0:
        """Purge all but the newest `keep` messages."""
        cdef uint64_t excess
        cdef Py_ssize_t slot
        cdef Segment segment
        if self.messages <= keep:
            return 0
        excess = self.messages - keep
        for segment in self.segments:
            if <uint64_t>segment.live <= excess:
                excess -= segment.live
                if excess == 0:
                    return self.remove_before(segment.first_seq + segment.slots)
                continue
            slot = segment.next_live(0, segment.slots)
            while excess:
                slot = segment.next_live(slot + 1, segment.slots)
                excess -= 1
            return self.remove_before(segment.first_seq + slot)
        return 0

    cpdef uint64_t purge(self, bytes pattern, uint64_t seq, uint64_t keep) except? 0:
        """As STREAM.PURGE: b"" is every subject; below `seq` when > 0; keep the newest `keep`. Returns the number."""
        if pattern == b"" or pattern == b">":
            if keep:
                return self.keep_newest(keep)
            return self.remove_before(seq if seq else self.last_seq + 1)
        return self.purge_subject(pattern, seq, keep)

    cdef uint64_t purge_subject(self, bytes pattern, uint64_t seq, uint64_t keep) except? 0:
        cdef SubjectFilter filter = SubjectFilter(pattern)
        cdef uint64_t total = self.count_from(filter, 0)
        cdef uint64_t removed = 0
        cdef uint64_t limit = min(seq - 1, self.last_seq) if seq else self.last_seq
        cdef Segment segment
        cdef SubjectSet ids
        cdef Py_ssize_t slot
        cdef Py_ssize_t end
        if keep >= total:
            return 0
        total -= keep
        for segment in self.segments:
            if segment.first_seq > limit or removed == total:
                break
            if segment.live == 0:
                continue
            ids = self.subject_set(filter, segment)
            if ids.matching == 0:
                continue
            ids = self.loaded_set(filter, segment, ids)
            end = min(segment.slots, <Py_ssize_t>(limit - segment.first_seq + 1))
            slot = segment.next_in(ids, 0, end)
            while slot >= 0 and removed < total:
                self.note_removed(segment.first_seq + slot, segment.first_seq + slot)
                self.forget_message(segment, slot)
                removed += 1
                slot = segment.next_in(ids, slot + 1, end)
        if removed:
            self.advance_first()
            self.drop_dead_segments()
            for segment in self.segments:
                self.after_removal(segment)
            self.changed()
        return removed

    cpdef int skip_to(self, uint64_t seq) except -1:
        """Jump ahead: the next append gets `seq`. Only forward."""
        cdef uint64_t first = self.last_seq + 1
        if seq < first:
            raise ValueError(f"cannot skip back to {seq}, the next sequence is {first}")
        if seq == first:
            return 0
        if seq > SKIP_SEQUENCE and (seq > LAST_SEQUENCE or seq - first > MAX_EMPTY_SLOTS):
            raise SequenceError(f"sequence {seq} is beyond {SKIP_SEQUENCE}, the farthest a stream may be moved")
        self.ready()
        if self.active.empty + (seq - first) > MAX_EMPTY_SLOTS and not self.batch_seq:
            self.roll(seq)
        else:
            while self.active.first_seq + self.active.slots < seq:
                self.active.push_empty(OFFSET_EMPTY)
        self.last_seq = seq - 1
        if self.messages == 0:
            self.first_seq = seq
        self.note_removed(first, seq - 1)
        self.drop_dead_segments()
        self.changed()
        return 0
