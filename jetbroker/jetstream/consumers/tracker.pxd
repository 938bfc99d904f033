"""What a consumer has delivered and what became of it: positions, pending messages, redeliveries, state records."""
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.jetstream.consumers.state cimport StateBatch
from jetbroker.jetstream.consumers.pending cimport PendingEntry, PendingMap, SequenceQueue

cpdef enum AckPolicy:
    POLICY_NONE = 0
    POLICY_ALL = 1
    POLICY_EXPLICIT = 2


@cython.final
cdef class AckTracker:
    cdef readonly int policy
    cdef readonly uint64_t delivered_cseq, delivered_seq
    cdef readonly uint64_t floor_cseq, floor_seq
    cdef readonly uint32_t redelivered         # messages delivered more than once and not finished
    cdef readonly PendingMap pending
    cdef readonly SequenceQueue redeliveries   # may hold sequences that are finished by now
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
    cdef int _delay(self, PendingEntry* entry, int64_t wait_ns, int64_t now_ns) except -1
    cdef int _discard_all(self) except -1          # without telling of them
    cdef int _discard_up_to(self, uint64_t seq) except -1
