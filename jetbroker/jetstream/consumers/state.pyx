# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A consumer's state records: what is in them, how they are written and read again (see state.pxd).

Two kinds, little-endian as on every machine this runs on. Both start with the positions *after* the record, so that
the last readable record always gives delivered and floor; the operations only rebuild what is pending.

    batch     'B' u24 0, u32 ops, i64 wall ns, u64 delivered cseq, seq, u64 floor cseq, seq, then ops of 24 bytes,
              lists with their varints behind them (see state.pxd)
    snapshot  'S' u24 0, u32 entries, the same positions, u64 resume,
              then entries of 32 bytes: u64 seq, u64 cseq, i64 delivered wall ns, u32 deliveries, u32 exhausted,
              then an OP_WAIT for each that does not wait as its delivery says

`resume` is where a last_per_subject consumer leaves its first pass; for the others, where a reset has made it begin.
"""
import struct
from collections import deque
from dataclasses import dataclass, field

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from jetbroker.routing.router cimport Router
from jetbroker.store.log.statelog cimport StateLog
from jetbroker.store.log.stream_log cimport LogObserver
from jetbroker.wire.buffer cimport OutputBuffer

from jetbroker.bounds import INT64_MAX, UINT64_MAX
from jetbroker.limits import CONSUMER_PENDING, CONSUMER_REPLAY_STEPS, STREAM_LAST_SEQUENCE

cdef Py_ssize_t VARINT_BYTES = 10

NOT_STORED = b"NATS/1.0 503 Storage Failed\r\n\r\n"
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


cdef class StateWriter(LogObserver):
    """The way from a consumer to its state log."""

    def __init__(self, StateLog log, Router router not None) -> None:
        self.log = log
        self.router = router
        self.waiting = deque()
        self.begun = log is None
        if log is not None:
            log.observer = self

    def go_on(self) -> None:
        """Go on from the records that were there."""
        self.begun = True
        self.log.recovered.clear()

    cdef int write(self, const char* record, Py_ssize_t n) except -1:
        self.log.append(record, n)
        return 0

    def begin(self, bytes record not None) -> None:
        """Write the first record of a new consumer, or of one that begins again."""
        self.begun = True
        self.log.append(PyBytes_AS_STRING(record), PyBytes_GET_SIZE(record))
        self.log.request_sync()

    def replace(self, bytes record not None) -> None:
        """Replace all records by this one. Raises StorageError; then nothing has changed."""
        self.log.rewrite(record)

    cdef bint wants_snapshot(self, Py_ssize_t size) except -1:
        return self.log.should_rewrite(size)

    cdef int confirm(self, list replies) except -1:
        if self.log is None:
            self.waiting.append((0, replies))
            return self._release(0)
        if self.log.failed is not None:
            return self._refuse(replies)
        self.waiting.append((self.log.position, replies))
        if self.log.position <= self.log.committed:
            return self._release(self.log.committed)
        return self.log.request_sync()

    cdef int _refuse(self, list replies) except -1:
        """The acks hold, but nothing can be stored now: better told than left waiting."""
        for reply in replies:
            self.router.publish_bytes(reply, None, NOT_STORED, b"")
        return 0

    cdef int refuse_waiting(self) except -1:
        while self.waiting:
            self._refuse(self.waiting.popleft()[1])
        return 0

    cdef int _release(self, uint64_t committed) except -1:
        while self.waiting and self.waiting[0][0] <= committed:
            for reply in self.waiting.popleft()[1]:
                self.router.publish_bytes(reply, None, b"", b"")
        return 0

    cdef int on_committed(self, uint64_t seq) except -1:
        return self._release(seq)

    cdef int on_write_failed(self, uint64_t first_lost, object error) except -1:
        return self.refuse_waiting()


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


def replay(recovered, first_seq=0, last_seq=STREAM_LAST_SEQUENCE, slots=0):
    """The state that a state log's records add up to. Raises ValueError for a record that no consumer has written.

    The stream has `slots` sequences from `first_seq` to `last_seq`; little more can be pending, whatever a record says.
    """
    state = ConsumerState()
    replay = _Replay(state, first_seq, last_seq, slots)
    for record in recovered:
        if len(record) < HEAD.size:
            raise ValueError(f"consumer state record of {len(record)} bytes")
        kind, count, wall_ns, *positions = HEAD.unpack_from(record)
        if kind == KIND_SNAPSHOT:
            _read_snapshot(replay, record, count, wall_ns)
        elif kind == KIND_BATCH:
            _read_batch(replay, record, count, wall_ns)
        else:
            raise ValueError(f"consumer state record of kind {kind:#x}, {len(record)} bytes")
        _take_positions(state, positions)
        state.started = True
    return state


def _take_positions(state, positions):
    delivered_cseq, delivered_seq, floor_cseq, floor_seq = positions
    if floor_cseq > delivered_cseq or floor_seq > delivered_seq or delivered_cseq > INT64_MAX \
            or delivered_seq >= UINT64_MAX:  # one that waits for a sequence beyond all streams has this much
        raise ValueError(f"consumer positions {delivered_cseq}, {delivered_seq}, {floor_cseq}, {floor_seq}")
    state.delivered_cseq, state.delivered_seq, state.floor_cseq, state.floor_seq = positions


class _Replay:
    """What is pending so far, within bounds."""

    def __init__(self, state, first_seq, last_seq, slots):
        self.state = state
        self.pending = state.pending
        self.first_seq = first_seq
        self.lowest = max(first_seq - CONSUMER_PENDING, 1)
        self.last_seq = last_seq
        self.bound = slots + CONSUMER_PENDING
        self.steps = CONSUMER_REPLAY_STEPS

    def work(self, steps):
        self.steps -= steps
        if self.steps < 0:
            raise ValueError("the consumer's records are too many to be followed")

    def deliver(self, seq, cseq, delivered_ns):
        """A message is pending; one that the stream does not have any more is left out."""
        if not self.lowest <= seq <= self.last_seq:
            return None
        if cseq > INT64_MAX:
            raise ValueError(f"consumer sequence {cseq}")
        entry = self.pending[seq] = StateEntry(cseq, max(delivered_ns, 0))
        if len(self.pending) > self.bound:
            self.drop_removed()
        return entry

    def drop_removed(self):
        self.work(len(self.pending))
        for seq in [seq for seq in self.pending if seq < self.first_seq]:
            del self.pending[seq]
        if len(self.pending) > self.bound:
            raise ValueError(f"more than {self.bound} messages are pending")

    def deliver_run(self, seq, cseq, n, delivered_ns):
        span = range(max(seq, self.lowest), min(seq + n - 1, self.last_seq) + 1)
        self.work(len(span))
        for each in span:
            self.deliver(each, cseq + each - seq, delivered_ns)

    def finish(self, seq, even_exhausted):
        entry = self.pending.get(seq)
        if entry is not None and (even_exhausted or not entry.exhausted):
            del self.pending[seq]

    def finish_run(self, first, last, even_exhausted):
        if last - first < len(self.pending):
            span = range(first, last + 1)
        else:
            self.work(len(self.pending))
            span = [seq for seq in self.pending if first <= seq <= last]
        for seq in span:
            self.finish(seq, even_exhausted)


def _read_snapshot(replay, record, count, wall_ns):
    start = HEAD.size + RESUME.size
    waits = start + count * ENTRY.size
    if len(record) < waits or (len(record) - waits) % OP.size:
        raise ValueError(f"consumer snapshot of {len(record)} bytes")
    replay.state.resume = RESUME.unpack_from(record, HEAD.size)[0]
    replay.pending.clear()
    for seq, cseq, delivered_ns, deliveries, exhausted in ENTRY.iter_unpack(record[start:waits]):
        entry = replay.deliver(seq, cseq, delivered_ns)
        if entry is not None:
            entry.count = max(deliveries, 1)
            entry.exhausted = bool(exhausted)
    for operation in OP.iter_unpack(record[waits:]):
        _apply(replay, wall_ns, *operation)


def _read_batch(replay, record, count, wall_ns):
    at = HEAD.size
    for _ in range(count):
        if at + OP.size > len(record):
            raise ValueError(f"consumer state record of {len(record)} bytes for {count} operations")
        a, b, n, op = OP.unpack_from(record, at)
        at += OP.size
        if op == OP_DELIVER_LIST or op == OP_FINISH_LIST:
            sequences, at = _read_list(record, at, a, n, op == OP_FINISH_LIST)
            _apply_list(replay, wall_ns, sequences, b, op)
        else:
            _apply(replay, wall_ns, a, b, n, op)
    if at != len(record):
        raise ValueError(f"consumer state record of {len(record)} bytes, {at} used")


def _read_list(bytes record, Py_ssize_t at, seq, n, bint signed):
    """([sequence], offset of the next operation)"""
    cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(record)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(record)
    cdef uint64_t distance
    cdef int shift
    sequences = [seq]
    for _ in range(n - 1):
        distance = 0
        shift = 0
        while True:
            if at >= end or shift > 63:
                raise ValueError(f"consumer state record of {end} bytes ends in a list")
            distance |= <uint64_t>(p[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not p[at - 1] & 0x80:
                break
        seq += <int64_t>(distance >> 1) ^ -<int64_t>(distance & 1) if signed else distance
        sequences.append(seq)
    return sequences, (at + 7) & ~7


def _apply_list(replay, wall_ns, sequences, cseq, op):
    if op == OP_DELIVER_LIST:
        for number, seq in enumerate(sequences):
            replay.deliver(seq, cseq + number, wall_ns)
        return
    for seq in sequences:
        replay.finish(seq, False)


def _apply(replay, wall_ns, a, b, n, op):
    if op == OP_DELIVER:
        replay.deliver_run(a, b, n, wall_ns)
    elif op == OP_FINISH or op == OP_FINISH_ALL:
        replay.finish_run(a, b, op == OP_FINISH_ALL)
    elif op == OP_REDELIVER or op == OP_WAIT or op == OP_EXHAUST:
        entry = replay.pending.get(a)
        if entry is not None:
            _change(entry, wall_ns, b, n, op)
    else:
        raise ValueError(f"consumer state operation {op}")


def _change(entry, wall_ns, b, n, op):
    if op == OP_REDELIVER:
        entry.count = max(n, 1)
        entry.delivered_ns = max(wall_ns, 0)
        entry.wait_ns = -1
    elif op == OP_WAIT:
        entry.wait_ns = min(b, INT64_MAX)
        entry.waits_from_ns = max(wall_ns, 0)
    else:
        entry.exhausted = True
