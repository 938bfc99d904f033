# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A consumer's state records (see consumer_state.pxd).

Two kinds, little-endian as on every machine this runs on. Both start with the positions *after* the record, so that
the last readable record always gives delivered and floor; the operations only rebuild what is pending.

    batch     'B' u24 0, u32 ops, i64 wall ns, u64 delivered cseq, seq, u64 floor cseq, seq, then ops of 24 bytes,
              lists with their varints behind them (see consumer_state.pxd)
    snapshot  'S' u24 0, u32 entries, the same positions, u64 resume,
              then entries of 32 bytes: u64 seq, u64 cseq, i64 delivered wall ns, u32 deliveries, u32 exhausted,
              then an OP_WAIT for each that does not wait as its delivery says

`resume` is where a last_per_subject consumer leaves its first pass; for the others, where a reset has made it begin.
"""
import struct
from dataclasses import dataclass, field

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from jetbroker.wire.buffer cimport OutputBuffer

cdef uint32_t KIND_BATCH = 0x42
cdef uint32_t KIND_SNAPSHOT = 0x53
cdef Py_ssize_t VARINT_BYTES = 10

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
        return <StateRecordOp*>(self.buffer.data + self.last_at)

    cdef int add(self, uint32_t op, uint64_t a, uint64_t b, uint32_t n) except -1:
        cdef StateRecordOp* last = self._last()
        if last != NULL and last.op == op and (op == OP_FINISH or op == OP_FINISH_ALL) and last.b + 1 == a:
            last.b = b
            return 0
        return self._begin(op, a, b, n)

    cdef int _begin(self, uint32_t op, uint64_t a, uint64_t b, uint32_t n) except -1:
        cdef StateRecordOp* last
        if self.ops == 0:
            self.buffer.reserve(sizeof(StateRecordHead))
            self.buffer.size = sizeof(StateRecordHead)
        self._pad()
        last = <StateRecordOp*>self.buffer.reserve(sizeof(StateRecordOp))
        last.op = op
        last.a = a
        last.b = b
        last.n = n
        self.last_at = self.buffer.size
        self.buffer.size += sizeof(StateRecordOp)
        self.ops += 1
        return 0

    cdef int _pad(self) except -1:
        cdef Py_ssize_t missing = -self.buffer.size & 7
        if missing:
            memset(self.buffer.reserve(missing), 0, missing)
            self.buffer.size += missing
        return 0

    cdef int _extend(self, uint64_t distance, uint64_t seq) except -1:
        """One more sequence for the list at the end."""
        cdef char* p = self.buffer.reserve(VARINT_BYTES)
        while distance > 0x7F:
            p[0] = <char>(distance | 0x80)
            p += 1
            distance >>= 7
        p[0] = <char>distance
        self.buffer.size = p + 1 - self.buffer.data
        self._last().n += 1
        self.last_seq = seq
        return 0

    cdef int deliver(self, uint64_t seq, uint64_t cseq) except -1:
        cdef StateRecordOp* last = self._last()
        if last != NULL and last.b + last.n == cseq:
            if last.op == OP_DELIVER:
                if last.a + last.n == seq:
                    last.n += 1
                    return 0
                if last.n == 1 and seq > last.a:
                    last.op = OP_DELIVER_LIST
                    self.last_seq = last.a
            if last.op == OP_DELIVER_LIST and seq > self.last_seq:
                return self._extend(seq - self.last_seq, seq)
        return self._begin(OP_DELIVER, seq, cseq, 1)

    cdef int finish(self, uint64_t seq, bint lowest) except -1:
        cdef StateRecordOp* last = self._last()
        cdef int64_t distance
        if last != NULL:
            if last.op == OP_FINISH:
                if last.b + 1 == seq or (lowest and last.b < seq):
                    last.b = seq
                    return 0
                if last.a == last.b:
                    last.op = OP_FINISH_LIST
                    last.n = 1
                    self.last_seq = last.a
            if last.op == OP_FINISH_LIST:
                distance = <int64_t>(seq - self.last_seq)
                return self._extend((<uint64_t>distance << 1) ^ <uint64_t>(distance >> 63), seq)
        return self._begin(OP_FINISH, seq, seq, 0)

    cdef const char* seal(self, int64_t wall_ns, uint64_t delivered_cseq, uint64_t delivered_seq,
                          uint64_t floor_cseq, uint64_t floor_seq, Py_ssize_t* n) except NULL:
        cdef StateRecordHead* head
        if self.ops == 0:
            self.buffer.reserve(sizeof(StateRecordHead))
            self.buffer.size = sizeof(StateRecordHead)
        self._pad()
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
    """One pending message: its first consumer sequence, deliveries so far, wall time of the last one.

    `wait_ns` from `waits_from_ns` (wall time) on it is due again; -1: as its last delivery says.
    """

    cseq: int
    delivered_ns: int
    count: int = 1
    exhausted: bool = False
    wait_ns: int = -1
    waits_from_ns: int = 0


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


def encode_snapshot(resume, positions, entries, waits=()):
    """One record that stands for all before it; `positions` is (wall ns, delivered cseq, seq, floor cseq, seq).

    `waits` are those of AckTracker.waits.
    """
    return b"".join((
        HEAD.pack(KIND_SNAPSHOT, len(entries), *positions),
        RESUME.pack(resume),
        *[ENTRY.pack(*entry) for entry in entries],
        *[OP.pack(seq, wait_ns, 0, OP_WAIT) for seq, wait_ns in waits],
    ))


def replay(recovered):
    """The state that a state log's records add up to. Raises ValueError for a record of no known kind or length."""
    state = ConsumerState()
    for record in recovered:
        if len(record) < HEAD.size:
            raise ValueError(f"consumer state record of {len(record)} bytes")
        kind, count, wall_ns, *positions = HEAD.unpack_from(record)
        if kind == KIND_SNAPSHOT:
            _read_snapshot(state, record, count, wall_ns)
        elif kind == KIND_BATCH:
            _read_batch(state, record, count, wall_ns)
        else:
            raise ValueError(f"consumer state record of kind {kind:#x}, {len(record)} bytes")
        state.delivered_cseq, state.delivered_seq, state.floor_cseq, state.floor_seq = positions
        state.started = True
    return state


def _read_snapshot(state, record, count, wall_ns):
    start = HEAD.size + RESUME.size
    waits = start + count * ENTRY.size
    if len(record) < waits or (len(record) - waits) % OP.size:
        raise ValueError(f"consumer snapshot of {len(record)} bytes")
    state.resume = RESUME.unpack_from(record, HEAD.size)[0]
    state.pending = {
        seq: StateEntry(cseq, delivered_ns, deliveries, bool(exhausted))
        for seq, cseq, delivered_ns, deliveries, exhausted in ENTRY.iter_unpack(record[start:waits])
    }
    for operation in OP.iter_unpack(record[waits:]):
        _apply(state, wall_ns, *operation)


def _read_batch(state, record, count, wall_ns):
    at = HEAD.size
    try:
        for _ in range(count):
            a, b, n, op = OP.unpack_from(record, at)
            at += OP.size
            if op in (OP_DELIVER_LIST, OP_FINISH_LIST):
                sequences, at = _read_list(record, at, a, n, op == OP_FINISH_LIST)
                _apply_list(state, wall_ns, sequences, b, op)
            else:
                _apply(state, wall_ns, a, b, n, op)
    except (struct.error, IndexError) as error:
        raise ValueError(f"consumer state record of {len(record)} bytes for {count} operations") from error
    if at != len(record):
        raise ValueError(f"consumer state record of {len(record)} bytes, {at} used")


def _read_list(bytes record, Py_ssize_t at, seq, n, bint signed):
    """([sequence], offset of the next operation)"""
    sequences = [seq]
    for _ in range(n - 1):
        distance = shift = 0
        while record[at] & 0x80:
            distance |= (record[at] & 0x7F) << shift
            shift += 7
            at += 1
        distance |= record[at] << shift
        at += 1
        seq += (distance >> 1) ^ -(distance & 1) if signed else distance
        sequences.append(seq)
    return sequences, (at + 7) & ~7


def _apply_list(state, wall_ns, sequences, cseq, op):
    if op == OP_DELIVER_LIST:
        for number, seq in enumerate(sequences):
            state.pending[seq] = StateEntry(cseq + number, wall_ns)
        return
    for seq in sequences:
        entry = state.pending.get(seq)
        if entry is not None and not entry.exhausted:
            del state.pending[seq]


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
            entry.wait_ns = -1
    elif op == OP_WAIT:
        entry = pending.get(a)
        if entry is not None:
            entry.wait_ns = b
            entry.waits_from_ns = wall_ns
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
