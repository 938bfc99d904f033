# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One segment of a log in memory (see segment.pxd). No I/O here."""
from bisect import bisect_left, insort

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

from jetbroker.saturate cimport add_uint64
from jetbroker.store.format.records cimport (
    KIND_MESSAGE, OFFSET_EMPTY, SUBJECT_NONE, FooterLayout, parse_footer, record_kind, record_seq, record_size_entry,
    record_subject, record_subject_len,
)
from jetbroker.store.log.subject_index cimport SlotLinks, SubjectTable

cdef extern from *:
    int popcount "__builtin_popcountll"(unsigned long long) noexcept nogil
    int trailing_zeros "__builtin_ctzll"(unsigned long long) noexcept nogil
    int leading_zeros "__builtin_clzll"(unsigned long long) noexcept nogil

# Searches for one subject go so far without an index.
cdef Py_ssize_t NEAR = 256

cdef uint64_t next_tag = 1


cdef void* grow(void* p, size_t size) except NULL:
    cdef void* out = realloc(p, size if size else 1)
    if out == NULL:
        raise MemoryError
    return out


cdef class SubjectSet:
    """Which subject ids of one segment a filter matches."""

    def __dealloc__(self):
        free(self.bits)

    cdef int add(self, bint matches) except -1:
        cdef Py_ssize_t word = self.known >> 6
        if word >= self.capacity:
            self.bits = <uint64_t*>grow(self.bits, (word * 2 + 4) * 8)
            memset(self.bits + self.capacity, 0, (word * 2 + 4 - self.capacity) * 8)
            self.capacity = word * 2 + 4
        if matches:
            self.bits[word] |= <uint64_t>1 << (self.known & 63)
            self.matching += 1
        self.known += 1
        return 0

    cdef bint has(self, uint32_t subject_id) noexcept nogil:
        return subject_id < <uint64_t>self.known and (self.bits[subject_id >> 6] >> (subject_id & 63)) & 1


cdef int compare_pairs(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*>a)[0]
    cdef uint64_t y = (<const uint64_t*>b)[0]
    return -1 if x < y else (1 if x > y else 0)


cdef class Ranges:
    """A growing list of inclusive sequence ranges."""

    def __dealloc__(self):
        free(self.data)

    cdef int add(self, uint64_t first, uint64_t last) except -1:
        cdef uint64_t* tail
        if first > last:
            return 0
        if self.count:
            tail = self.data + 2 * (self.count - 1)
            if first == add_uint64(tail[1], 1):
                tail[1] = last
                return 0
        if self.count == self.capacity:
            self.capacity = self.capacity * 2 + 16
            self.data = <uint64_t*>grow(self.data, self.capacity * 16)
        self.data[2 * self.count] = first
        self.data[2 * self.count + 1] = last
        self.count += 1
        return 0

    cdef int extend(self, Ranges other) except -1:
        cdef Py_ssize_t i
        for i in range(other.count):
            self.add(other.data[2 * i], other.data[2 * i + 1])
        return 0

    cdef void clear(self) noexcept:
        self.count = 0
        if self.capacity > 4096:
            free(self.data)
            self.data = NULL
            self.capacity = 0

    cdef int normalize(self) except -1:
        cdef Py_ssize_t i
        cdef Py_ssize_t k = 0
        if self.count < 2:
            return 0
        qsort(self.data, self.count, 16, compare_pairs)
        for i in range(1, self.count):
            if self.data[2 * i] <= add_uint64(self.data[2 * k + 1], 1):
                if self.data[2 * i + 1] > self.data[2 * k + 1]:
                    self.data[2 * k + 1] = self.data[2 * i + 1]
            else:
                k += 1
                self.data[2 * k] = self.data[2 * i]
                self.data[2 * k + 1] = self.data[2 * i + 1]
        self.count = k + 1
        return 0

    def pairs(self):
        """[(first, last)]."""
        return [(self.data[2 * i], self.data[2 * i + 1]) for i in range(self.count)]


cdef class Segment:
    """A run of sequences: slot i belongs to first_seq + i."""

    def __init__(self, uint64_t first_seq):
        global next_tag
        self.first_seq = first_seq
        self.tag = next_tag
        next_tag += 1

    def __dealloc__(self):
        self.unload()
        free(self.dead)

    cdef uint64_t last_seq(self) noexcept nogil:
        return self.first_seq + self.slots - 1

    cdef bint loaded(self) noexcept nogil:
        return self.offsets != NULL or self.slots == 0

    cdef void unload(self) noexcept:
        if self.blob is None:
            free(self.offsets)
            free(self.times)
            free(self.sizes)
            free(self.ids)
            free(self.text_offsets)
            free(self.text)
        self.blob = None
        self.offsets = self.sizes = self.ids = self.text_offsets = NULL
        self.times = NULL
        self.text = NULL
        self.capacity = self.subjects_capacity = self.text_capacity = 0
        self.table = None
        self.links = None
        self.searched = 0

    cdef int adopt_footer(self, bytes footer) except -1:
        cdef FooterLayout f
        cdef char* p = PyBytes_AS_STRING(footer)
        if parse_footer(p, PyBytes_GET_SIZE(footer), &f) != 0 or f.first_seq != self.first_seq:
            raise ValueError("footer does not fit its segment")
        self.unload()
        self.blob = footer
        self.slots = f.slots
        self.offsets = <uint32_t*>(p + f.offsets_at)
        self.times = <int64_t*>(p + f.times_at)
        self.sizes = <uint32_t*>(p + f.sizes_at)
        self.ids = <uint32_t*>(p + f.subject_ids_at)
        self.subjects = f.subjects
        self.text_offsets = <uint32_t*>(p + f.subject_offsets_at)
        self.text = p + f.subject_text_at
        self.msg_ids = f.msg_ids
        if f.slots:
            self.first_time = self.times[0]
            self.last_time = self.times[f.slots - 1]
        return 0

    cdef int push(self, uint32_t offset, int64_t time_ns, uint32_t size, uint32_t subject_id) except -1:
        cdef Py_ssize_t i = self.slots
        if i == self.capacity:
            self.capacity = self.capacity * 2 + 64
            self.offsets = <uint32_t*>grow(self.offsets, self.capacity * 4)
            self.times = <int64_t*>grow(self.times, self.capacity * 8)
            self.sizes = <uint32_t*>grow(self.sizes, self.capacity * 4)
            self.ids = <uint32_t*>grow(self.ids, self.capacity * 4)
        self.offsets[i] = offset
        self.times[i] = time_ns
        self.sizes[i] = size
        self.ids[i] = subject_id
        if i == 0:
            self.first_time = time_ns
        self.last_time = time_ns
        self.slots = i + 1
        return 0

    cdef int push_empty(self, uint32_t offset) except -1:
        self.push(offset, self.last_time, 0, SUBJECT_NONE)
        self.mark_dead(self.slots - 1)
        if offset != OFFSET_EMPTY:
            self.mark_lost(self.slots - 1)
        else:
            self.empty += 1
        return 0

    cdef int truncate_slots(self, Py_ssize_t slots) except -1:
        cdef Py_ssize_t i
        for i in range(slots, self.slots):
            self.mark_live(i)
            if self.offsets[i] == OFFSET_EMPTY and self.empty:
                self.empty -= 1
        if self.lost is not None:
            self.lost = [s for s in self.lost if s < slots] or None
        self.slots = slots
        self.msg_ids = min(self.msg_ids, <uint64_t>slots)      # never too few; readers skip a segment without any
        self.links = None
        self.last_time = self.times[slots - 1] if slots else 0
        return 0

    cdef bint is_limit_of(self, Segment before) except -1:
        return False

    cdef uint32_t add_subject(self, const char* subject, Py_ssize_t n) except? 0xFFFFFFFF:
        cdef Py_ssize_t at = self.text_offsets[self.subjects] if self.text_offsets != NULL else 0
        if self.subjects + 2 > self.subjects_capacity:
            self.subjects_capacity = self.subjects_capacity * 2 + 16
            self.text_offsets = <uint32_t*>grow(self.text_offsets, self.subjects_capacity * 4)
            self.text_offsets[self.subjects] = <uint32_t>at
        if at + n > self.text_capacity:
            self.text_capacity = (at + n) * 2 + 256
            self.text = <char*>grow(self.text, self.text_capacity)
        memcpy(self.text + at, subject, n)
        self.subjects += 1
        self.text_offsets[self.subjects] = <uint32_t>(at + n)
        return <uint32_t>(self.subjects - 1)

    cdef uint32_t find_subject(self, const char* subject, Py_ssize_t n) except? 0:
        # from the end: a subject that came back after its last message went has a second entry, and only that lives
        cdef Py_ssize_t i
        if self.table is None and self.searched > self.slots:
            self.table = SubjectTable()
        if self.table is not None:
            self.table.cover(self.text_offsets, self.text, self.subjects)
            return self.table.find(self.text_offsets, self.text, subject, n)
        for i in range(self.subjects - 1, -1, -1):
            if self.text_offsets[i + 1] - self.text_offsets[i] == n and \
                    memcmp(self.text + self.text_offsets[i], subject, n) == 0:
                self.searched += self.subjects - i
                return <uint32_t>i
        self.searched += self.subjects
        return SUBJECT_NONE

    cdef int mark_dead(self, Py_ssize_t slot) except -1:
        cdef Py_ssize_t word = slot >> 6
        cdef Py_ssize_t words
        if word >= self.dead_words:
            # a sealed segment does not grow any more
            words = (self.slots + 63) >> 6 if self.sealed else word * 2 + 16
            self.dead = <uint64_t*>grow(self.dead, words * 8)
            memset(self.dead + self.dead_words, 0, (words - self.dead_words) * 8)
            self.dead_words = words
        self.dead[word] |= <uint64_t>1 << (slot & 63)
        return 0

    cdef void mark_live(self, Py_ssize_t slot) noexcept:
        if slot >> 6 < self.dead_words:
            self.dead[slot >> 6] &= ~(<uint64_t>1 << (slot & 63))

    cdef int mark_lost(self, Py_ssize_t slot) except -1:
        self.mark_dead(slot)
        if self.lost is None:
            self.lost = []
        if not self.lost or slot > self.lost[len(self.lost) - 1]:
            self.lost.append(slot)
        elif self.lost[bisect_left(self.lost, slot)] != slot:
            insort(self.lost, slot)
        return 0

    cdef bint is_lost(self, Py_ssize_t slot) except -1:
        return self.next_lost(None, slot, slot + 1) >= 0

    cdef Py_ssize_t next_lost(self, SubjectSet ids, Py_ssize_t slot, Py_ssize_t end) except? -1:
        cdef Py_ssize_t i
        cdef Py_ssize_t lost
        if self.lost is None:
            return -1
        for i in range(bisect_left(self.lost, slot), len(self.lost)):
            lost = self.lost[i]
            if lost >= end:
                return -1
            if ids is None or self.ids[lost] == SUBJECT_NONE or ids.has(self.ids[lost]):
                return lost
        return -1

    cdef bint is_dead(self, Py_ssize_t slot) noexcept nogil:
        return slot >> 6 < self.dead_words and (self.dead[slot >> 6] >> (slot & 63)) & 1

    cdef Py_ssize_t next_live(self, Py_ssize_t slot, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t word = slot >> 6
        cdef uint64_t bits
        if slot >= end:
            return -1
        if word >= self.dead_words:
            return slot
        bits = ~self.dead[word] & (~<uint64_t>0 << (slot & 63))
        while bits == 0:
            word += 1
            if word << 6 >= end:
                return -1
            if word >= self.dead_words:
                return word << 6
            bits = ~self.dead[word]
        slot = (word << 6) + trailing_zeros(bits)
        return slot if slot < end else -1

    cdef Py_ssize_t next_deleted(self, Py_ssize_t slot, Py_ssize_t end) except? -1:
        cdef Py_ssize_t word
        cdef Py_ssize_t i
        cdef uint64_t bits
        while slot < end:
            word = slot >> 6
            if word >= self.dead_words:
                return -1
            bits = self.dead[word] & (~<uint64_t>0 << (slot & 63))
            if bits == 0:
                slot = (word + 1) << 6
                continue
            slot = (word << 6) + trailing_zeros(bits)
            if slot >= end:
                return -1
            if self.lost is None:
                return slot
            i = bisect_left(self.lost, slot)
            if i == len(self.lost) or self.lost[i] != slot:
                return slot
            slot += 1
        return -1

    cdef Py_ssize_t previous_live(self, Py_ssize_t slot) noexcept nogil:
        cdef Py_ssize_t word = slot >> 6
        cdef uint64_t bits
        if slot < 0 or word >= self.dead_words:
            return slot
        bits = ~self.dead[word] & (~<uint64_t>0 >> (63 - (slot & 63)))
        while bits == 0:
            word -= 1
            if word < 0:
                return -1
            bits = ~self.dead[word]
        return (word << 6) + 63 - leading_zeros(bits)

    cdef Py_ssize_t next_in(self, SubjectSet ids, Py_ssize_t slot, Py_ssize_t end) noexcept nogil:
        while True:
            slot = self.next_live(slot, end)
            if slot < 0 or ids.has(self.ids[slot]):
                return slot
            slot += 1

    cdef Py_ssize_t next_of(self, uint32_t subject_id, Py_ssize_t slot, Py_ssize_t end) except? -1:
        cdef SlotLinks links = None
        cdef Py_ssize_t at = slot
        # where the last search ended, a message may have been removed since
        cdef Py_ssize_t own = slot - 1 if slot and self.ids[slot - 1] == subject_id else -1
        while at < end:
            if self.ids[at] == subject_id:
                if not self.is_dead(at):
                    self.searched += at - slot
                    return at
                own = at
            at += 1
            if at == slot + NEAR:
                links = self.linked()
                if links is not None:
                    break
        if links is None:
            self.searched += end - slot if end > slot else 0
            return -1
        own = links.behind(subject_id, own)
        while own >= 0 and (own < at or self.is_dead(own)):
            own = links.behind(subject_id, own)
        return own if own < end else -1

    cdef Py_ssize_t previous_of(self, uint32_t subject_id, Py_ssize_t slot) except? -1:
        cdef SlotLinks links = None
        cdef Py_ssize_t at = slot
        cdef Py_ssize_t found = -1
        while at >= 0:
            if self.ids[at] == subject_id and not self.is_dead(at):
                self.searched += slot - at
                return at
            at -= 1
            if at == slot - NEAR:
                links = self.linked()
                if links is not None:
                    break
        if links is None:
            self.searched += slot + 1
            return -1
        slot = links.behind(subject_id, -1)
        while 0 <= slot <= at:
            if not self.is_dead(slot):
                found = slot
            slot = links.behind(subject_id, slot)
        return found

    cdef SlotLinks linked(self):
        if self.links is None and self.searched > self.slots:
            self.links = SlotLinks()
        if self.links is not None:
            self.links.cover(self.ids, self.slots, self.subjects)
        return self.links

    cdef size_t index_bytes(self) noexcept:
        return ((self.table.size() if self.table is not None else 0)
                + (self.links.size() if self.links is not None else 0))

    cdef int count(self, uint32_t message_cost, uint32_t headers_cost) except -1:
        cdef Py_ssize_t slot = self.next_live(0, self.slots)
        self.live = 0
        self.live_bytes = 0
        while slot >= 0:
            self.live += 1
            self.live_bytes += self.cost_of(slot, message_cost, headers_cost)
            slot = self.next_live(slot + 1, self.slots)
        return 0

    cdef Py_ssize_t count_live(self, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t total = 0
        cdef Py_ssize_t slot = start
        cdef Py_ssize_t word
        while slot < end and slot & 63:
            total += not self.is_dead(slot)
            slot += 1
        while slot + 64 <= end:
            word = slot >> 6
            total += 64 - popcount(self.dead[word]) if word < self.dead_words else 64
            slot += 64
        while slot < end:
            total += not self.is_dead(slot)
            slot += 1
        return total


cdef Ranges footer_ranges(bytes footer):
    """The ranges that a sound footer records."""
    cdef FooterLayout layout
    cdef Ranges ranges = Ranges()
    cdef const uint64_t* pair
    cdef Py_ssize_t i
    if parse_footer(PyBytes_AS_STRING(footer), PyBytes_GET_SIZE(footer), &layout) != 0:
        raise ValueError("the footer's parts do not fit each other")
    pair = <const uint64_t*>(PyBytes_AS_STRING(footer) + layout.ranges_at)
    for i in range(<Py_ssize_t>layout.ranges):
        ranges.add(pair[2 * i], pair[2 * i + 1])
    return ranges


cdef bint is_record_of(const char* record, Segment segment, Py_ssize_t slot) noexcept:
    """A valid record is the message that the columns have for the slot."""
    cdef uint32_t subject = segment.ids[slot]
    return (record_seq(record) == segment.first_seq + slot and record_kind(record) == KIND_MESSAGE
            and record_size_entry(record) == segment.sizes[slot]
            and record_subject_len(record) == segment.subject_len(subject)
            and memcmp(record_subject(record), segment.subject_text(subject), record_subject_len(record)) == 0)
