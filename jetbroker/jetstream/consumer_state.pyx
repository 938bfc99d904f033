# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A consumer's state records (see consumer_state.pxd).

Two kinds, little-endian as on every machine this runs on. Both start with the positions *after* the record, so that
the last readable record always gives delivered and floor; the operations only rebuild what is pending.

    batch     'B' u24 0, u32 ops, i64 wall ns, u64 delivered cseq, seq, u64 floor cseq, seq, then ops of 24 bytes
    snapshot  'S' u24 0, u32 entries, the same positions, u64 resume,
              then entries of 32 bytes: u64 seq, u64 cseq, i64 delivered wall ns, u32 deliveries, u32 exhausted

`resume` is where a last_per_subject consumer leaves its first pass.
"""
import struct
from dataclasses import dataclass, field

from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.wire.buffer cimport OutputBuffer

cdef uint32_t KIND_BATCH = 0x42
cdef uint32_t KIND_SNAPSHOT = 0x53

HEAD = struct.Struct("<IIqQQQQ")
OP = struct.Struct("<QQII")
RESUME = struct.Struct("<Q")
ENTRY = struct.Struct("<QQqII")


cdef class StateBatch:
    """The operations of one tick, in order, merged into runs."""

    def __init__(self) -> None:
        self.buffer = OutputBuffer()
        self.clear()

    cdef void clear(self) noexcept:
        self.ops = 0
        self.buffer.size = 0

    cdef StateRecordOp* _last(self) noexcept:
        if self.ops == 0:
            return NULL
        return <StateRecordOp*>(self.buffer.data + self.buffer.size - sizeof(StateRecordOp))

    cdef int add(self, uint32_t op, uint64_t a, uint64_t b, uint32_t n) except -1:
        cdef StateRecordOp* last = self._last()
        if last != NULL and last.op == op and (op == OP_FINISH or op == OP_FINISH_ALL) and last.b + 1 == a:
            last.b = b
            return 0
        if self.ops == 0:
            self.buffer.reserve(sizeof(StateRecordHead))
            self.buffer.size = sizeof(StateRecordHead)
        last = <StateRecordOp*>self.buffer.reserve(sizeof(StateRecordOp))
        last.op = op
        last.a = a
        last.b = b
        last.n = n
        self.buffer.size += sizeof(StateRecordOp)
        self.ops += 1
        return 0

    cdef int deliver(self, uint64_t seq, uint64_t cseq) except -1:
        cdef StateRecordOp* last = self._last()
        if last != NULL and last.op == OP_DELIVER and last.a + last.n == seq and last.b + last.n == cseq:
            last.n += 1
            return 0
        return self.add(OP_DELIVER, seq, cseq, 1)

    cdef int finish(self, uint64_t seq, bint lowest) except -1:
        cdef StateRecordOp* last = self._last()
        if lowest and last != NULL and last.op == OP_FINISH and last.b < seq:
            last.b = seq
            return 0
        return self.add(OP_FINISH, seq, seq, 0)

    cdef const char* seal(self, int64_t wall_ns, uint64_t delivered_cseq, uint64_t delivered_seq,
                          uint64_t floor_cseq, uint64_t floor_seq, Py_ssize_t* n) except NULL:
        cdef StateRecordHead* head
        if self.ops == 0:
            self.buffer.reserve(sizeof(StateRecordHead))
            self.buffer.size = sizeof(StateRecordHead)
        head = <StateRecordHead*>self.buffer.data
        head.magic_kind = KIND_BATCH
        head.ops = self.ops
        head.wall_ns = wall_ns
        head.delivered_cseq = delivered_cseq
        head.delivered_seq = delivered_seq
        head.floor_cseq = floor_cseq
        head.floor_seq = floor_seq
        n[0] = self.buffer.size
        return self.buffer.data


@dataclass
class StateEntry:
    """One pending message: its first consumer sequence, deliveries so far, wall time of the last one."""

    cseq: int
    delivered_ns: int
    count: int = 1
    exhausted: bool = False


@dataclass
class ConsumerState:
    """What a consumer's records add up to; `started` is False when there were none."""

    delivered_cseq: int = 0
    delivered_seq: int = 0
    floor_cseq: int = 0
    floor_seq: int = 0
    resume: int = 0
    pending: dict[int, StateEntry] = field(default_factory=dict)
    started: bool = False


def encode_snapshot(resume, positions, entries):
    """One record that stands for all before it; `positions` is (wall ns, delivered cseq, seq, floor cseq, seq)."""
    return b"".join((
        HEAD.pack(KIND_SNAPSHOT, len(entries), *positions), RESUME.pack(resume), *[ENTRY.pack(*entry) for entry in entries],
    ))


def replay(recovered):
    """The state that a state log's records add up to. Raises ValueError for a record of no known kind or length."""
    state = ConsumerState()
    for record in recovered:
        if len(record) < HEAD.size:
            raise ValueError(f"consumer state record of {len(record)} bytes")
        kind, count, wall_ns, *positions = HEAD.unpack_from(record)
        if kind == KIND_SNAPSHOT:
            _read_snapshot(state, record, count)
        elif kind == KIND_BATCH and len(record) == HEAD.size + count * OP.size:
            for op in OP.iter_unpack(record[HEAD.size:]):
                _apply(state, wall_ns, *op)
        else:
            raise ValueError(f"consumer state record of kind {kind:#x}, {len(record)} bytes")
        state.delivered_cseq, state.delivered_seq, state.floor_cseq, state.floor_seq = positions
        state.started = True
    return state


def _read_snapshot(state, record, count):
    start = HEAD.size + RESUME.size
    if len(record) != start + count * ENTRY.size:
        raise ValueError(f"consumer snapshot of {len(record)} bytes")
    state.resume = RESUME.unpack_from(record, HEAD.size)[0]
    state.pending = {
        seq: StateEntry(cseq, delivered_ns, deliveries, bool(exhausted))
        for seq, cseq, delivered_ns, deliveries, exhausted in ENTRY.iter_unpack(record[start:])
    }


def _apply(state, wall_ns, a, b, n, op):
    pending = state.pending
    if op == OP_DELIVER:
        for i in range(n):
            pending[a + i] = StateEntry(b + i, wall_ns)
    elif op == OP_REDELIVER:
        entry = pending.get(a)
        if entry is not None:
            entry.count = n
            entry.delivered_ns = wall_ns
    elif op == OP_EXHAUST:
        entry = pending.get(a)
        if entry is not None:
            entry.exhausted = True
    elif op in (OP_FINISH, OP_FINISH_ALL):
        span = range(a, b + 1) if b - a < len(pending) else [seq for seq in pending if a <= seq <= b]
        for seq in span:
            entry = pending.get(seq)
            if entry is not None and (op == OP_FINISH_ALL or not entry.exhausted):
                del pending[seq]
