"""Messages that are delivered and not finished, in C memory."""
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.jetstream.timing.due_heap cimport Due

cdef enum:
    NO_ENTRY = 0

cdef enum EntryFlag:
    ENTRY_QUEUED = 1        # waits in the redelivery queue, has no deadline
    ENTRY_DELAYED = 4       # its deadline is not that of its last delivery: somebody asked for another one
    ENTRY_EXHAUSTED = 2     # max_deliver reached: remembered, but neither listed nor counted as pending
    ENTRY_HELD = 8          # waits for its dead letter, has no deadline and does not come again


cdef struct PendingEntry:
    uint64_t seq               # stream sequence, 0: free slot
    uint64_t cseq              # consumer sequence of the first delivery
    int64_t delivered_ns       # monotonic time of the last delivery
    int64_t deadline_ns        # monotonic time of the next redelivery
    uint32_t count             # deliveries so far
    uint32_t flags
    uint32_t before, after     # neighbours in the order of first deliveries


@cython.final
cdef class PendingMap:
    """seq -> PendingEntry: a hash table, a list in order of first delivery, and a heap of deadlines.

    Entry pointers are valid until the next insert or discard.
    """
    cdef PendingEntry* entries     # pool; index 0 is never used
    cdef uint32_t pool_size, free_head
    cdef uint32_t* table           # open addressing, linear probing: index into entries, 0: empty
    cdef uint32_t table_mask
    cdef uint32_t oldest, newest   # ends of the list
    cdef Due* heap                 # deadlines
    cdef Py_ssize_t heap_size, heap_capacity
    cdef readonly uint32_t count        # listed entries (num_ack_pending)
    cdef readonly uint32_t exhausted

    cdef PendingEntry* find(self, uint64_t seq) noexcept
    # `seq` must be above every listed one.
    cdef PendingEntry* insert(self, uint64_t seq, uint64_t cseq) except NULL
    cdef void discard(self, PendingEntry* entry) noexcept
    # Keep an entry whose deliveries are used up, but no longer as pending.
    cdef void exhaust(self, PendingEntry* entry) noexcept
    cdef PendingEntry* first(self) noexcept           # lowest pending sequence, NULL: none
    cdef PendingEntry* next_of(self, PendingEntry* entry) noexcept
    # Those whose deliveries are used up, in no order; NULL: from the beginning. The last one given may be discarded.
    cdef PendingEntry* next_exhausted(self, PendingEntry* entry) noexcept
    cdef int set_deadline(self, PendingEntry* entry, int64_t when_ns) except -1
    cdef int64_t next_deadline(self) noexcept         # 0: none
    cdef PendingEntry* pop_due(self, int64_t now_ns) noexcept
    cdef int clear(self) except -1                    # takes no longer when there are many
    cdef int keep_newest(self, uint32_t kept) except -1

    cdef uint32_t _slot_of(self, uint64_t seq) noexcept
    cdef int _grow_pool(self) except -1
    cdef int _grow_table(self) except -1
    cdef void _unlink(self, PendingEntry* entry) noexcept
    cdef bint _live(self, Due* deadline) noexcept
    cdef void _pop_heap(self) noexcept
    cdef int _compact_heap(self) except -1
    cdef void _drop_stale(self) noexcept
    cdef int _copy(self, PendingEntry* other) except -1
    cdef void _exchange(self, PendingMap other) noexcept


@cython.final
cdef class SequenceQueue:
    """A first-in first-out ring of sequences."""
    cdef uint64_t* items
    cdef Py_ssize_t capacity, head
    cdef readonly Py_ssize_t size

    cdef int push(self, uint64_t seq) except -1
    cdef uint64_t peek(self) noexcept                 # 0: empty
    cdef void pop(self) noexcept
    cdef void clear(self) noexcept
