# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What a consumer has delivered and what became of it (see tracker.pxd).

Times are monotonic nanoseconds and given by the caller. The ack floor moves over every finished message in a row;
when nothing is pending it is the last delivered position.

Pending messages are kept in C memory. Three structures share one pool of entries: a hash table finds an entry by
sequence, a doubly linked list keeps the order of first deliveries (its head decides the ack floor), and a heap of
(deadline, sequence) finds what is due. The heap is lazy: a pair counts only while it equals the entry's present
deadline.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.consumers.state cimport OP_EXHAUST, OP_FINISH_ALL, OP_REDELIVER, OP_WAIT, StateBatch
from jetbroker.jetstream.timing.due_heap cimport Due, heap_add, heap_drop_first, heapify
from jetbroker.saturate cimport add_int64, subtract_int64

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
        self.latest_ns = max(self.latest_ns, when_ns)
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
        self.order_deadlines()
        if self.heap_size * 2 >= self.heap_capacity:
            grown = <Due*>realloc(self.heap, max(<Py_ssize_t>64, self.heap_capacity * 2) * sizeof(Due))
            if grown == NULL:
                raise MemoryError
            self.heap = grown
            self.heap_capacity = max(<Py_ssize_t>64, self.heap_capacity * 2)
        return 0

    cdef void order_deadlines(self) noexcept:
        """One pair for each entry that has a deadline: to look up the entry of each pair would take longer."""
        cdef PendingEntry* entry = self.first()
        cdef Py_ssize_t kept = 0
        self.latest_ns = 0
        while entry != NULL:
            if entry.deadline_ns != 0 and not entry.flags & ENTRY_QUEUED:
                self.heap[kept].when_ns = entry.deadline_ns
                self.heap[kept].seq = entry.seq
                self.latest_ns = max(self.latest_ns, entry.deadline_ns)
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
        self.order_deadlines()
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

    cdef int64_t push(self, uint64_t seq) except? -1:
        cdef int64_t place = self.head + self.size
        if self.size == self.capacity:
            self._grow()
        self.items[place & (self.capacity - 1)] = seq
        self.size += 1
        return place

    cdef int _grow(self) except -1:
        cdef Py_ssize_t capacity = max(<Py_ssize_t>64, self.capacity * 2)
        cdef uint64_t* grown = <uint64_t*>calloc(capacity, sizeof(uint64_t))
        cdef int64_t place
        if grown == NULL:
            raise MemoryError
        for place in range(self.head, self.head + self.size):
            grown[place & (capacity - 1)] = self.items[place & (self.capacity - 1)]
        free(self.items)
        self.items = grown
        self.capacity = capacity
        return 0

    cdef uint64_t peek(self) noexcept:
        return self.items[self.head & (self.capacity - 1)] if self.size else 0

    cdef void pop(self) noexcept:
        self.head += 1
        self.size -= 1

    cdef void clear(self) noexcept:
        self.head += self.size
        self.size = 0


cdef uint32_t TAKEN_OUT = 1024  # one by one; when more leave at once, it is quicker to copy what stays


cdef inline bint is_redelivered(PendingEntry* entry) noexcept nogil:
    """As nats-server counts: what was given up counts too, after a single delivery as well."""
    return entry.count > 1 or (entry.flags & ENTRY_EXHAUSTED) != 0


cdef class AckTracker:
    """Positions, pending messages and redeliveries of one consumer."""

    def __init__(self, int policy, StateBatch batch=None) -> None:
        self.policy = policy
        self.batch = batch
        self.pending = PendingMap()
        self.redeliveries = SequenceQueue()
        self.finished = SequenceQueue()
        self.backoff_ns = []
        self.max_deliver = -1

    def configure(self, int64_t ack_wait_ns, list backoff_ns, int64_t max_deliver) -> None:
        """Take over a (changed) configuration. Other waits hold for what is pending, too, unless it was asked to wait."""
        cdef bint waits_differ = ack_wait_ns != self.ack_wait_ns or backoff_ns != self.backoff_ns
        self.ack_wait_ns = ack_wait_ns
        self.backoff_ns = backoff_ns
        self.max_deliver = max_deliver
        if waits_differ:
            self._wait_anew()

    cdef int _wait_anew(self) except -1:
        cdef PendingEntry* entry = self.pending.first()
        while entry != NULL:
            if entry.deadline_ns and not entry.flags & (ENTRY_QUEUED | ENTRY_DELAYED):
                entry.deadline_ns = add_int64(entry.delivered_ns, self.wait_after(entry.count))
            entry = self.pending.next_of(entry)
        self.pending.order_deadlines()
        return 0

    def queue_all(self) -> None:
        """Everything pending goes out again now, unless its deliveries are used up."""
        cdef PendingEntry* entry = self.pending.first()
        while entry != NULL:
            if not entry.flags & (ENTRY_QUEUED | ENTRY_HELD) and not 0 < self.max_deliver <= entry.count:
                entry.flags &= ~ENTRY_DELAYED
                self.queue(entry)
            entry = self.pending.next_of(entry)

    def start_at(self, uint64_t seq) -> None:
        """A new consumer whose first message may be `seq`."""
        self.delivered_seq = seq - 1 if seq > 0 else 0
        self.floor_seq = self.delivered_seq
        self.settled_seq = 0
        self.dirty = True

    def restore(self, state, int64_t now_ns, int64_t wall_ns) -> None:
        """Go on from recorded state: what is unacked comes back after its wait, counted from its delivery.

        Where a nak or a sign of progress has asked for another wait, that counts.
        """
        cdef PendingEntry* entry
        cdef int64_t wait
        self.delivered_cseq = state.delivered_cseq
        self.delivered_seq = state.delivered_seq
        self.floor_cseq = state.floor_cseq
        self.floor_seq = state.floor_seq
        if self.policy == POLICY_NONE:
            return
        for seq in sorted(state.pending):
            kept = state.pending[seq]
            entry = self.pending.insert(seq, kept.cseq)
            entry.count = kept.count
            if kept.exhausted:
                self.pending.exhaust(entry)
            self.redelivered += is_redelivered(entry)
            if kept.exhausted:
                continue
            # a clock that was set back or forth must neither hold messages back nor bring all of them at once
            wait = self.wait_after(entry.count)
            entry.delivered_ns = now_ns - min(max(subtract_int64(wall_ns, kept.delivered_ns), 0), wait)
            if kept.wait_ns < 0:
                self.pending.set_deadline(entry, max(add_int64(entry.delivered_ns, wait), now_ns + 1))
                continue
            entry.flags |= ENTRY_DELAYED
            wait = kept.wait_ns - min(max(subtract_int64(wall_ns, kept.waits_from_ns), 0), <int64_t>kept.wait_ns)
            if wait > 0:
                self.pending.set_deadline(entry, add_int64(now_ns, wait))
            else:
                self.queue(entry)

    def rewind(self, uint64_t seq) -> None:
        """Forget everything above stream sequence `seq`: it does not exist any more."""
        cdef PendingEntry* entry = self.pending.first()
        cdef PendingEntry* following
        if self.batch is not None:
            self.batch.add(OP_FINISH_ALL, seq + 1, max(self.delivered_seq, seq + 1), 0)
        while entry != NULL:
            following = self.pending.next_of(entry)
            self._forget_above(seq, entry)
            entry = following
        entry = self.pending.next_exhausted(NULL)
        while entry != NULL:
            self._forget_above(seq, entry)
            entry = self.pending.next_exhausted(entry)
        self.delivered_seq = min(self.delivered_seq, seq)
        self.floor_seq = min(self.floor_seq, seq)
        if self.pending.count == 0:
            self.floor_cseq = self.delivered_cseq
            self.floor_seq = self.delivered_seq
        self.dirty = True

    cdef void _forget_above(self, uint64_t seq, PendingEntry* entry) noexcept:
        if entry.seq > seq:
            self.redelivered -= is_redelivered(entry)
            self.pending.discard(entry)

    cdef int64_t wait_after(self, uint32_t deliveries) except? -1:
        cdef Py_ssize_t n
        if not self.backoff_ns:
            return self.ack_wait_ns
        n = len(self.backoff_ns)
        return <int64_t>self.backoff_ns[min(<Py_ssize_t>max(deliveries, <uint32_t>1), n) - 1]

    cdef uint64_t deliver(self, uint64_t seq, int64_t now_ns) except? 0:
        cdef PendingEntry* entry
        if seq <= self.delivered_seq and self.pending.find(seq) != NULL:
            # never twice in the pending list, whatever led here: its acks would find only one of the two
            entry = self.pending.find(seq)
            self.redelivered -= is_redelivered(entry)
            self.pending.discard(entry)
        self.delivered_cseq += 1
        self.delivered_seq = seq
        if self.policy == POLICY_NONE:
            self.floor_cseq = self.delivered_cseq
            self.floor_seq = seq
            self.dirty = True
            if self.report_finished:
                self.finished.push(seq)
            return self.delivered_cseq
        entry = self.pending.insert(seq, self.delivered_cseq)
        entry.count = 1
        entry.delivered_ns = now_ns
        self.pending.set_deadline(
            entry, add_int64(now_ns, self.ack_wait_ns if not self.backoff_ns else self.wait_after(1)))
        if self.batch is not None:
            self.batch.deliver(seq, self.delivered_cseq)
        return self.delivered_cseq

    cdef uint64_t redeliver(self, PendingEntry* entry, int64_t now_ns) except? 0:
        self.redeliveries.pop()
        self.delivered_cseq += 1
        entry.count += 1
        entry.flags &= ~(ENTRY_QUEUED | ENTRY_DELAYED)
        entry.delivered_ns = now_ns
        self.redelivered += entry.count == 2
        if self.batch is not None:
            self.batch.add(OP_REDELIVER, entry.seq, 0, entry.count)
        self.pending.set_deadline(entry, add_int64(now_ns, self.wait_after(entry.count)))
        return self.delivered_cseq

    cdef void skip_to(self, uint64_t seq) noexcept:
        if seq > self.delivered_seq:
            self.delivered_seq = seq
            if self.pending.count == 0:
                self.floor_seq = seq

    cdef int _discard(self, PendingEntry* entry) except -1:
        self._count_out(entry)
        self.pending.discard(entry)
        return 0

    cdef int _count_out(self, PendingEntry* entry) except -1:
        """It is about to leave the pending ones."""
        self.redelivered -= is_redelivered(entry)
        if self.report_finished:
            self.finished.push(entry.seq)
        return 0

    cdef void _raise_floor(self, uint64_t cseq) noexcept:
        """After message `cseq` (its first consumer sequence) is finished."""
        cdef PendingEntry* lowest = self.pending.first()
        if lowest == NULL:
            self.floor_cseq = self.delivered_cseq
            self.floor_seq = self.delivered_seq
        elif cseq == self.floor_cseq + 1 and lowest.cseq > self.floor_cseq:
            self.floor_cseq = lowest.cseq - 1
            self.floor_seq = lowest.seq - 1
        elif self.passed_cseq:
            self._pass_over(cseq)

    cdef bint ack(self, uint64_t seq, uint64_t cseq) except -1:
        cdef PendingEntry* entry = self.pending.find(seq)
        cdef bint lowest
        if entry == NULL:
            return False
        cseq = entry.cseq
        if entry.flags & ENTRY_EXHAUSTED:
            # a late ack: the floor does not move, as it did not when the deliveries were used up
            if self.batch is not None:
                self.batch.add(OP_FINISH_ALL, seq, seq, 0)
            self._discard(entry)
            return True
        if self.batch is not None:
            lowest = entry == self.pending.first()
            self.batch.finish(seq, lowest)
        self._discard(entry)
        self._raise_floor(cseq)
        return True

    cdef bint ack_up_to(self, uint64_t seq, uint64_t cseq) except -1:
        # what was passed over since the last delivery does not count, nor what another consumer had delivered
        seq = min(seq, self.delivered_seq)
        if seq <= max(self.floor_seq, self.passed_seq) or cseq <= max(self.floor_cseq, self.passed_cseq):
            return False
        self.acked_ns = wall_clock_ns()
        if cseq > self.delivered_cseq:
            return False
        if self.batch is not None:
            self.batch.add(OP_FINISH_ALL, self.floor_seq + 1, seq, 0)
        if seq >= self.delivered_seq and not self.report_finished and not self.passed_seq:
            self._discard_all()
        else:
            self._discard_up_to(seq)
        self.floor_cseq = cseq
        self.floor_seq = seq
        return True

    def first_open(self) -> int:
        """Where a reset to the ack floor begins."""
        return max(self.floor_seq, self.settled_seq, self.passed_seq) + 1

    cdef int _discard_all(self) except -1:
        self.redelivered = 0
        self.redeliveries.clear()
        return self.pending.clear()

    cdef int _discard_up_to(self, uint64_t seq) except -1:
        cdef PendingEntry* entry = self.pending.first()
        cdef uint32_t leaving = 0
        while entry != NULL and entry.seq <= seq:
            self._count_out(entry)
            leaving += 1
            entry = self.pending.next_of(entry)
        if leaving > TAKEN_OUT:
            self.pending.keep_newest(self.pending.count - leaving)
        else:
            for _ in range(leaving):
                self.pending.discard(self.pending.first())
        entry = self.pending.next_exhausted(NULL)
        while entry != NULL:
            if self.passed_seq < entry.seq <= seq:
                self._discard(entry)
            entry = self.pending.next_exhausted(entry)
        return 0

    cdef bint nak(self, uint64_t seq, int64_t delay_ns, int64_t now_ns) except -1:
        cdef PendingEntry* entry = self.pending.find(seq)
        if entry == NULL or entry.flags & (ENTRY_EXHAUSTED | ENTRY_HELD):
            return False
        if entry.flags & ENTRY_QUEUED and delay_ns <= 0:
            return False
        entry.flags &= ~ENTRY_QUEUED
        self._delay(entry, delay_ns, now_ns)
        if delay_ns <= 0:
            self.queue(entry)
        return True

    cdef bint progress(self, uint64_t seq, int64_t now_ns) except -1:
        cdef PendingEntry* entry = self.pending.find(seq)
        if entry == NULL or entry.flags & (ENTRY_EXHAUSTED | ENTRY_HELD):
            return False
        if entry.flags & ENTRY_QUEUED:
            self.active_ns = wall_clock_ns()       # it comes again all the same
            return False
        entry.delivered_ns = now_ns
        self._delay(entry, self.wait_after(entry.count), now_ns)
        return True

    cdef int _delay(self, PendingEntry* entry, int64_t wait_ns, int64_t now_ns) except -1:
        entry.flags |= ENTRY_DELAYED
        if wait_ns > 0:
            self.active_ns = wall_clock_ns()
            self.pending.set_deadline(entry, add_int64(now_ns, wait_ns))
        if self.batch is not None:
            self.batch.add(OP_WAIT, entry.seq, <uint64_t>max(wait_ns, 0), 0)
        return 0

    cdef bint forget(self, uint64_t seq) except -1:
        cdef PendingEntry* entry = self.pending.find(seq)
        cdef uint64_t cseq
        cdef bint reported = self.report_finished
        cdef bint exhausted
        if entry == NULL:
            return False
        cseq = entry.cseq
        exhausted = entry.flags & ENTRY_EXHAUSTED
        if self.batch is not None:
            self.batch.add(OP_FINISH_ALL, seq, seq, 0)
        self.report_finished = False
        self._discard(entry)
        self.report_finished = reported
        if not exhausted:
            self._raise_floor(cseq)
        return True

    cdef int exhaust(self, PendingEntry* entry) except -1:
        if self.batch is not None:
            self.batch.add(OP_EXHAUST, entry.seq, 0, 0)
        self.active_ns = wall_clock_ns()
        self.redelivered -= is_redelivered(entry)
        self.pending.exhaust(entry)
        self.redelivered += is_redelivered(entry)
        self._pass_over(entry.cseq)
        return 0

    cdef void _pass_over(self, uint64_t cseq) noexcept:
        """Message `cseq` is given up, or finished behind one that was.

        The floor that is told of stays, but nothing goes back to what is in front of it.
        """
        cdef PendingEntry* lowest = self.pending.first()
        if lowest == NULL:
            self.passed_cseq = self.delivered_cseq
            self.passed_seq = self.delivered_seq
        elif cseq == max(self.floor_cseq, self.passed_cseq) + 1 and lowest.cseq > cseq:
            self.passed_cseq = lowest.cseq - 1
            self.passed_seq = lowest.seq - 1

    cdef void hold(self, PendingEntry* entry) noexcept:
        entry.flags = (entry.flags | ENTRY_HELD) & ~(ENTRY_QUEUED | ENTRY_DELAYED)
        entry.deadline_ns = 0

    cdef PendingEntry* next_redelivery(self) except? NULL:
        cdef PendingEntry* entry
        while self.redeliveries.size:
            entry = self.pending.find(self.redeliveries.peek())
            if self._is_first(entry):
                return entry
            self.redeliveries.pop()
        return NULL

    cdef bint _is_first(self, PendingEntry* entry) noexcept:
        return entry != NULL and entry.flags & ENTRY_QUEUED and entry.deadline_ns == self.redeliveries.head

    cdef int queue(self, PendingEntry* entry) except -1:
        if self.redeliveries.size == self.redeliveries.capacity and self.redeliveries.size > 2 * <Py_ssize_t>self.pending.count:
            self._close_gaps()
        entry.flags |= ENTRY_QUEUED
        entry.deadline_ns = self.redeliveries.push(entry.seq)
        return 0

    cdef int _close_gaps(self) except -1:
        """Give back the places in the redelivery queue that do not count any more."""
        cdef PendingEntry* entry
        cdef bint counts
        for _ in range(self.redeliveries.size):
            entry = self.pending.find(self.redeliveries.peek())
            counts = self._is_first(entry)
            self.redeliveries.pop()
            if counts:
                entry.deadline_ns = self.redeliveries.push(entry.seq)
        return 0

    cdef int purge(self, PendingEntry* entry) except -1:
        self.purged_cseq = max(self.purged_cseq, entry.cseq)
        self.purged_lowest |= entry.cseq == self.floor_cseq + 1
        self.redelivered -= is_redelivered(entry)
        if self.batch is not None:
            self.batch.add(OP_FINISH_ALL, entry.seq, entry.seq, 0)
        self.pending.discard(entry)
        return 0

    cdef int purged(self, uint64_t start, uint64_t reached) except -1:
        cdef PendingEntry* lowest = self.pending.first()
        if lowest == NULL:
            if self.batch is not None and self.pending.exhausted:
                self.batch.add(OP_FINISH_ALL, 0, self.delivered_seq, 0)
            self._discard_all()
            self.floor_cseq = self.delivered_cseq
            self.floor_seq = reached
            self.delivered_seq = reached
        elif self.floor_seq < start < lowest.seq and self.purged_lowest:
            # as nats-server: its floor is ahead already, and it takes what the purge says for outdated
            self.floor_seq = lowest.seq - 1
            self.floor_cseq = lowest.cseq - 1
        else:
            if self.floor_seq < start:
                self.floor_seq = min(start, lowest.seq) - 1
                self.floor_cseq = min(max(self.floor_cseq, self.purged_cseq), lowest.cseq - 1)
            self.delivered_seq = reached
        self.purged_cseq = 0
        self.purged_lowest = False
        self.dirty = True
        return 0

    def begin_at(self, uint64_t seq) -> None:
        """As a new consumer whose first message may be `seq`: nothing has been delivered, nothing is pending."""
        self._discard_all()
        self.delivered_cseq = self.floor_cseq = self.passed_cseq = self.passed_seq = 0
        self.active_ns = self.acked_ns = 0
        self.start_at(seq)

    # --- on disk ---

    cdef bint changed(self) noexcept:
        return self.batch is not None and (self.batch.ops or self.dirty)

    cdef const char* seal(self, Py_ssize_t* n) except NULL:
        return self.batch.seal(
            wall_clock_ns(), self.delivered_cseq, self.delivered_seq, self.floor_cseq, self.floor_seq, n)

    cdef int sealed(self) except -1:
        if self.batch is not None:
            self.batch.clear()
        self.dirty = False
        return 0

    def counts(self) -> tuple:
        """(pending acks, redelivered, queued for redelivery at most)."""
        return self.pending.count, self.redelivered, self.redeliveries.size
