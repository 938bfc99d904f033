"""What a consumer has delivered and what became of it: positions, pending messages, redeliveries, state records."""
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.jetstream.consumers.state cimport StateBatch
from jetbroker.jetstream.timing.due_heap cimport Due


cdef enum:
    NO_ENTRY = 0

cdef enum EntryFlag:
    ENTRY_QUEUED = 1        # waits in the redelivery queue, and has a place there instead of a deadline
    ENTRY_DELAYED = 4       # its deadline is not that of its last delivery: somebody asked for another one
    ENTRY_EXHAUSTED = 2     # max_deliver reached: remembered, but neither listed nor counted as pending
    ENTRY_HELD = 8          # waits for its dead letter, has no deadline and does not come again


cdef struct PendingEntry:
    uint64_t seq               # stream sequence, 0: free slot
    uint64_t cseq              # consumer sequence of the first delivery
    int64_t delivered_ns       # monotonic time of the last delivery, or of the last sign of progress behind it
    int64_t deadline_ns        # monotonic time of the next redelivery; of a queued one: its place in the queue
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
    cdef int64_t latest_ns         # no pending entry has had a later deadline
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
    # Their deadlines were changed one by one. Each entry that had one keeps one.
    cdef void order_deadlines(self) noexcept
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
    cdef int _copy(self, PendingEntry* other) except -1
    cdef void _exchange(self, PendingMap other) noexcept


@cython.final
cdef class SequenceQueue:
    """A first-in first-out ring of sequences. A place is a number in the order of arrival, and never comes again."""
    cdef uint64_t* items
    cdef Py_ssize_t capacity
    cdef int64_t head              # place of the first one
    cdef readonly Py_ssize_t size

    cdef int64_t push(self, uint64_t seq) except? -1  # the place it got
    cdef int _grow(self) except -1
    cdef uint64_t peek(self) noexcept                 # 0: empty
    cdef void pop(self) noexcept
    cdef void clear(self) noexcept


cpdef enum AckPolicy:
    POLICY_NONE = 0
    POLICY_ALL = 1
    POLICY_EXPLICIT = 2


@cython.final
cdef class AckTracker:
    cdef readonly int policy
    cdef readonly uint64_t delivered_cseq, delivered_seq
    cdef readonly uint64_t floor_cseq, floor_seq
    cdef readonly uint32_t redelivered         # messages delivered more than once, or given up, and not finished
    cdef readonly PendingMap pending
    cdef readonly SequenceQueue redeliveries   # lazy: a place counts only while it is that of a queued entry
    cdef readonly SequenceQueue finished       # for the stream's retention; filled only when `report_finished`
    cdef public bint report_finished
    cdef StateBatch batch                      # None for a consumer that keeps no state
    cdef int64_t ack_wait_ns
    cdef list backoff_ns
    cdef public int64_t max_deliver            # -1: no limit
    cdef public uint64_t settled_seq           # nothing was pending when all up to here had been looked at
    cdef public int64_t acked_ns               # wall clock of the last ack, 0: none since the start
    cdef public int64_t active_ns              # wall clock of the last delivery or request for a longer wait, 0: none
    cdef uint64_t passed_cseq, passed_seq      # the floor with what was given up
    cdef uint64_t purged_cseq                  # the highest of what the present purge has taken
    cdef bint purged_lowest                    # ... and the one right behind the floor was among it

    cdef bint dirty                            # positions moved without an operation

    # A new message goes out; returns its consumer sequence.
    cdef uint64_t deliver(self, uint64_t seq, int64_t now_ns) except? 0
    # `entry` goes out again; returns the consumer sequence of this delivery.
    cdef uint64_t redeliver(self, PendingEntry* entry, int64_t now_ns) except? 0
    # Everything up to seq has been looked at and did not match.
    cdef void skip_to(self, uint64_t seq) noexcept
    # False: nothing changed. `entry_of` an acked message is gone afterwards.
    cdef bint ack(self, uint64_t seq, uint64_t cseq) except -1
    # Nothing beyond what was delivered is acked, whatever seq is.
    cdef bint ack_up_to(self, uint64_t seq, uint64_t cseq) except -1
    cdef bint nak(self, uint64_t seq, int64_t delay_ns, int64_t now_ns) except -1
    cdef bint progress(self, uint64_t seq, int64_t now_ns) except -1
    # The message is no longer in the stream. False: it was not pending.
    cdef bint forget(self, uint64_t seq) except -1
    cdef int exhaust(self, PendingEntry* entry) except -1
    cdef void _pass_over(self, uint64_t cseq) noexcept
    # It stays pending, and does not come again in this process.
    cdef void hold(self, PendingEntry* entry) noexcept
    # Next message to redeliver: NULL when none waits. Finished ones at the head are dropped.
    cdef PendingEntry* next_redelivery(self) except? NULL
    # It is due: put it at the end of the redelivery queue.
    cdef int queue(self, PendingEntry* entry) except -1
    # A purge has taken this message.
    cdef int purge(self, PendingEntry* entry) except -1
    # The purge is over: `start` is the first message that may be left, and all up to `reached` is delivered.
    cdef int purged(self, uint64_t start, uint64_t reached) except -1
    # What has happened since the last record, as one; sealed() once that is written.
    cdef bint changed(self) noexcept
    cdef const char* seal(self, Py_ssize_t* n) except NULL
    cdef int sealed(self) except -1
    cdef int64_t wait_after(self, uint32_t deliveries) except? -1
    cdef int _discard(self, PendingEntry* entry) except -1
    cdef int _count_out(self, PendingEntry* entry) except -1
    cdef void _forget_above(self, uint64_t seq, PendingEntry* entry) noexcept
    cdef void _raise_floor(self, uint64_t cseq) noexcept
    cdef int _wait_anew(self) except -1
    cdef bint _is_first(self, PendingEntry* entry) noexcept
    cdef int _close_gaps(self) except -1
    cdef int _delay(self, PendingEntry* entry, int64_t wait_ns, int64_t now_ns) except -1
    cdef int _discard_all(self) except -1          # without telling of them
    cdef int _discard_up_to(self, uint64_t seq) except -1
