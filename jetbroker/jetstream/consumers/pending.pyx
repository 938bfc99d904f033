# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages that are delivered and not finished, in C memory (see pending.pxd).

Three structures share one pool of entries: a hash table finds an entry by sequence, a doubly linked list keeps the
order of first deliveries (its head decides the ack floor), and a heap of (deadline, sequence) finds what is due.
The heap is lazy: a pair counts only while it equals the entry's present deadline.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from jetbroker.jetstream.timing.due_heap cimport Due, heap_add, heap_drop_first, heapify

cdef uint32_t FIRST_POOL = 64


cdef inline uint32_t hash_seq(uint64_t seq) noexcept nogil:
    # Fibonacci hashing; consecutive sequences spread over the table
    return <uint32_t>((seq * 0x9E3779B97F4A7C15ULL) >> 32)


cdef class PendingMap:
    """seq -> PendingEntry."""

    def __cinit__(self):
        self._grow_pool()

    def __dealloc__(self):
        free(self.entries)
        free(self.table)
        free(self.heap)

    cdef uint32_t _slot_of(self, uint64_t seq) noexcept:
        cdef uint32_t slot = hash_seq(seq) & self.table_mask
        cdef uint32_t index = self.table[slot]
        while index != NO_ENTRY and self.entries[index].seq != seq:
            slot = (slot + 1) & self.table_mask
            index = self.table[slot]
        return slot

    cdef PendingEntry* find(self, uint64_t seq) noexcept:
        cdef uint32_t index = self.table[self._slot_of(seq)]
        if index == NO_ENTRY:
            return NULL
        return &self.entries[index]

    cdef PendingEntry* insert(self, uint64_t seq, uint64_t cseq) except NULL:
        cdef uint32_t index
        cdef PendingEntry* entry
        if self.free_head == NO_ENTRY:
            self._grow_pool()
        index = self.free_head
        entry = &self.entries[index]
        self.free_head = entry.after
        entry.seq = seq
        entry.cseq = cseq
        entry.delivered_ns = 0
        entry.deadline_ns = 0
        entry.count = 0
        entry.flags = 0
        entry.before = self.newest
        entry.after = NO_ENTRY
        if self.newest != NO_ENTRY:
            self.entries[self.newest].after = index
        else:
            self.oldest = index
        self.newest = index
        self.table[self._slot_of(seq)] = index
        self.count += 1
        return entry

    cdef void _unlink(self, PendingEntry* entry) noexcept:
        if entry.before != NO_ENTRY:
            self.entries[entry.before].after = entry.after
        else:
            self.oldest = entry.after
        if entry.after != NO_ENTRY:
            self.entries[entry.after].before = entry.before
        else:
            self.newest = entry.before

    cdef void discard(self, PendingEntry* entry) noexcept:
        cdef uint32_t slot = self._slot_of(entry.seq)
        cdef uint32_t index = self.table[slot]
        cdef uint32_t probe = slot
        cdef uint32_t home
        if entry.flags & ENTRY_EXHAUSTED:
            self.exhausted -= 1
        else:
            self._unlink(entry)
            self.count -= 1
        # backward shift: no tombstones, so look-ups stay short for ever
        while True:
            probe = (probe + 1) & self.table_mask
            if self.table[probe] == NO_ENTRY:
                break
            home = hash_seq(self.entries[self.table[probe]].seq) & self.table_mask
            if ((probe - home) & self.table_mask) >= ((probe - slot) & self.table_mask):
                self.table[slot] = self.table[probe]
                slot = probe
        self.table[slot] = NO_ENTRY
        entry.seq = 0
        entry.flags = 0
        entry.after = self.free_head
        self.free_head = index
        if self.count == 0:
            self.heap_size = 0

    cdef void exhaust(self, PendingEntry* entry) noexcept:
        if entry.flags & ENTRY_EXHAUSTED:
            return
        self._unlink(entry)
        entry.flags = ENTRY_EXHAUSTED
        entry.deadline_ns = 0
        self.count -= 1
        self.exhausted += 1

    cdef PendingEntry* first(self) noexcept:
        if self.oldest == NO_ENTRY:
            return NULL
        return &self.entries[self.oldest]

    cdef PendingEntry* next_of(self, PendingEntry* entry) noexcept:
        if entry.after == NO_ENTRY:
            return NULL
        return &self.entries[entry.after]

    cdef int set_deadline(self, PendingEntry* entry, int64_t when_ns) except -1:
        if self.heap_size == self.heap_capacity:
            entry.deadline_ns = 0
            self._compact_heap()
        entry.deadline_ns = when_ns
        heap_add(self.heap, self.heap_size, when_ns, entry.seq)
        self.heap_size += 1
        return 0

    cdef bint _live(self, Due* deadline) noexcept:
        cdef PendingEntry* entry = self.find(deadline.seq)
        return (entry != NULL and entry.deadline_ns == deadline.when_ns
                and not entry.flags & (ENTRY_QUEUED | ENTRY_EXHAUSTED))

    cdef int64_t next_deadline(self) noexcept:
        while self.heap_size > 0:
            if self._live(&self.heap[0]):
                return self.heap[0].when_ns
            self._pop_heap()
        return 0

    cdef PendingEntry* pop_due(self, int64_t now_ns) noexcept:
        """Takes the deadline off the entry that is due first; NULL when none is."""
        cdef int64_t when_ns = self.next_deadline()
        cdef PendingEntry* entry
        if when_ns == 0 or when_ns > now_ns:
            return NULL
        entry = self.find(self.heap[0].seq)
        self._pop_heap()
        entry.deadline_ns = 0
        return entry

    cdef void _pop_heap(self) noexcept:
        self.heap_size -= 1
        heap_drop_first(self.heap, self.heap_size)

    cdef int _compact_heap(self) except -1:
        """Make room in a full heap: drop stale pairs, and grow when most are live."""
        cdef Due* grown
        self._drop_stale()
        if self.heap_size * 2 >= self.heap_capacity:
            grown = <Due*>realloc(self.heap, max(<Py_ssize_t>64, self.heap_capacity * 2) * sizeof(Due))
            if grown == NULL:
                raise MemoryError
            self.heap = grown
            self.heap_capacity = max(<Py_ssize_t>64, self.heap_capacity * 2)
        return 0

    cdef void _drop_stale(self) noexcept:
        """One pair for each entry that has a deadline: to look up the entry of each pair would take longer."""
        cdef PendingEntry* entry = self.first()
        cdef Py_ssize_t kept = 0
        while entry != NULL:
            if entry.deadline_ns != 0 and not entry.flags & ENTRY_QUEUED:
                self.heap[kept].when_ns = entry.deadline_ns
                self.heap[kept].seq = entry.seq
                kept += 1
            entry = self.next_of(entry)
        self.heap_size = kept
        heapify(self.heap, kept)

    cdef int _grow_pool(self) except -1:
        cdef uint32_t old = self.pool_size
        cdef uint32_t size = old * 2 if old else FIRST_POOL
        cdef uint32_t i
        cdef PendingEntry* grown
        if size <= old:
            raise MemoryError
        grown = <PendingEntry*>realloc(self.entries, size * sizeof(PendingEntry))
        if grown == NULL:
            raise MemoryError
        self.entries = grown
        memset(&grown[old], 0, (size - old) * sizeof(PendingEntry))
        self.pool_size = size
        i = size
        while i > max(old, <uint32_t>1):
            i -= 1
            grown[i].after = self.free_head
            self.free_head = i
        return self._grow_table()

    cdef int _grow_table(self) except -1:
        """The table is at most half full."""
        cdef uint32_t size = self.pool_size * 2
        cdef uint32_t i
        cdef uint32_t* table = <uint32_t*>calloc(size, sizeof(uint32_t))
        if table == NULL:
            raise MemoryError
        free(self.table)
        self.table = table
        self.table_mask = size - 1
        for i in range(1, self.pool_size):
            if self.entries[i].seq != 0:
                self.table[self._slot_of(self.entries[i].seq)] = i
        return 0

    cdef int clear(self) except -1:
        # what was large is given back: to put each of very many entries in order takes longer
        free(self.entries)
        self.entries = NULL
        self.pool_size = 0
        self.free_head = self.oldest = self.newest = NO_ENTRY
        self.count = self.exhausted = 0
        self.heap_size = 0
        return self._grow_pool()

    cdef int keep_newest(self, uint32_t kept) except -1:
        """All others leave at once, but for the exhausted ones: to take out each of very many takes longer."""
        cdef PendingMap fresh = PendingMap()
        cdef PendingEntry* entry = self.first()
        for _ in range(self.count - kept):
            entry = self.next_of(entry)
        while fresh.pool_size <= kept + self.exhausted:
            fresh._grow_pool()
        while entry != NULL:
            fresh._copy(entry)
            entry = self.next_of(entry)
        entry = self.next_exhausted(NULL)
        while entry != NULL:
            fresh._copy(entry)
            entry = self.next_exhausted(entry)
        self._exchange(fresh)
        self._drop_stale()
        return 0

    cdef int _copy(self, PendingEntry* other) except -1:
        cdef PendingEntry* entry = self.insert(other.seq, other.cseq)
        entry.delivered_ns = other.delivered_ns
        entry.deadline_ns = other.deadline_ns
        entry.count = other.count
        if other.flags & ENTRY_EXHAUSTED:
            self.exhaust(entry)
        else:
            entry.flags = other.flags
        return 0

    cdef void _exchange(self, PendingMap other) noexcept:
        """Take the other one's entries and leave it the own ones to be freed; the deadlines stay."""
        self.entries, other.entries = other.entries, self.entries
        self.table, other.table = other.table, self.table
        self.pool_size, self.table_mask, self.free_head = other.pool_size, other.table_mask, other.free_head
        self.oldest, self.newest = other.oldest, other.newest
        self.count = other.count

    cdef PendingEntry* next_exhausted(self, PendingEntry* entry) noexcept:
        cdef uint32_t i = 1 if entry == NULL else <uint32_t>(entry - self.entries) + 1
        if self.exhausted:
            while i < self.pool_size:
                if self.entries[i].flags & ENTRY_EXHAUSTED:
                    return &self.entries[i]
                i += 1
        return NULL


cdef class SequenceQueue:
    """A first-in first-out ring of sequences."""

    def __dealloc__(self):
        free(self.items)

    cdef int push(self, uint64_t seq) except -1:
        cdef uint64_t* grown
        cdef Py_ssize_t i, capacity
        if self.size == self.capacity:
            capacity = max(<Py_ssize_t>64, self.capacity * 2)
            grown = <uint64_t*>calloc(capacity, sizeof(uint64_t))
            if grown == NULL:
                raise MemoryError
            for i in range(self.size):
                grown[i] = self.items[(self.head + i) & (self.capacity - 1)]
            free(self.items)
            self.items = grown
            self.capacity = capacity
            self.head = 0
        self.items[(self.head + self.size) & (self.capacity - 1)] = seq
        self.size += 1
        return 0

    cdef uint64_t peek(self) noexcept:
        return self.items[self.head] if self.size else 0

    cdef void pop(self) noexcept:
        self.head = (self.head + 1) & (self.capacity - 1)
        self.size -= 1

    cdef void clear(self) noexcept:
        self.size = 0
