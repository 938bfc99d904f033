"""A consumer's state records: what one tick delivered and acked, and snapshots of everything."""
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.store.log.statelog cimport StateLog
from jetbroker.store.log.stream_log cimport LogObserver
from jetbroker.wire.buffer cimport OutputBuffer

cdef enum:
    KIND_BATCH = 0x42
    KIND_SNAPSHOT = 0x53

cdef enum StateOp:
    OP_DELIVER = 1      # a: first stream sequence, b: its consumer sequence, n: how many in a row (both grow by one)
    OP_REDELIVER = 2    # a: stream sequence, n: deliveries so far
    OP_FINISH = 3       # a..b: pending messages in this range are finished
    OP_FINISH_ALL = 4   # a..b: as OP_FINISH, exhausted ones too
    OP_EXHAUST = 5      # a: stream sequence; max_deliver reached
    OP_WAIT = 8         # a: stream sequence, b: it comes again so many ns after this record (nak, progress)
    # sequences that do not follow each other; behind the op stand n - 1 varints, then zeros up to a multiple of 8
    OP_DELIVER_LIST = 6     # a: first stream sequence, b: its consumer sequence, n: how many; distances to the next one
    OP_FINISH_LIST = 7      # a: first stream sequence, n: how many; signed distances (zigzag) to the next one


cdef struct StateRecordOp:
    uint64_t a, b
    uint32_t n
    uint32_t op


cdef struct StateRecordHead:
    uint32_t magic_kind
    uint32_t ops
    int64_t wall_ns            # when the tick happened: deliveries in it count from here
    uint64_t delivered_cseq, delivered_seq
    uint64_t floor_cseq, floor_seq


cdef struct SnapshotEntry:
    uint64_t seq, cseq
    int64_t delivered_ns       # wall time of the last delivery
    uint32_t count, exhausted


@cython.final
cdef class StateBatch:
    """The operations of one tick, in order, merged into runs."""
    cdef OutputBuffer buffer           # the head, then StateRecordOps
    cdef readonly uint32_t ops
    cdef Py_ssize_t last_at            # offset of the last op
    cdef uint64_t last_seq             # last sequence of the list at the end

    cdef int deliver(self, uint64_t seq, uint64_t cseq) except -1
    cdef int add(self, uint32_t op, uint64_t a, uint64_t b, uint32_t n) except -1
    # Message seq is finished; `lowest`: nothing below it is pending, so a run may span sequences of others.
    cdef int finish(self, uint64_t seq, bint lowest) except -1
    # The finished record; valid until clear().
    cdef const char* seal(self, int64_t wall_ns, uint64_t delivered_cseq, uint64_t delivered_seq,
                          uint64_t floor_cseq, uint64_t floor_seq, Py_ssize_t* n) except NULL
    cdef void clear(self) noexcept
    cdef StateRecordOp* _last(self) noexcept
    cdef int _begin(self, uint32_t op, uint64_t a, uint64_t b, uint32_t n) except -1
    cdef int _extend(self, uint64_t distance, uint64_t seq) except -1
    cdef int _pad(self) except -1


cdef class StateWriter(LogObserver):
    cdef readonly StateLog log         # None: nothing is kept, everything counts as durable
    cdef Router router
    cdef object waiting                # deque of (position, [reply subject])
    cdef readonly bint begun           # the log has a record to begin with, or there is none

    cdef int write(self, const char* record, Py_ssize_t n) except -1
    # Is a snapshot of about this size worth writing?
    cdef bint wants_snapshot(self, Py_ssize_t size) except -1
    # Answer these (empty messages) when everything written so far is durable.
    cdef int confirm(self, list replies) except -1
    cdef int _release(self, uint64_t committed) except -1
    cdef int _refuse(self, list replies) except -1
    # The log cannot be written now: tell everybody who waits.
    cdef int refuse_waiting(self) except -1
