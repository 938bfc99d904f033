# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A consumer's state between two forms: a snapshot record of its state log, and nats-server's `o.dat`.

`o.dat`: 22, the version (2), then varints: ack floor (consumer, stream sequence), delivered (the same), the number of
pending messages; when there are any, a time in seconds and for each: its stream and consumer sequence, both less the
ack floor's, and how many seconds before that time it was delivered; then the number of redelivered messages and for
each: its stream sequence less the ack floor's, and its deliveries but one. Version 1 has no consumer sequences of
pending messages, and delivered positions less the ack floor.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from jetbroker.jetstream.consumers.state cimport KIND_SNAPSHOT, SnapshotEntry, StateRecordHead

cdef enum:
    MAGIC = 22
    VERSION = 2
    VARINT = 10                        # bytes at most

cdef int64_t SECOND_NS = 1_000_000_000
cdef Py_ssize_t FIXED = sizeof(StateRecordHead) + sizeof(uint64_t)
cdef uint64_t MANY = 0xFFFFFFFF


cdef inline unsigned char* put(unsigned char* out, uint64_t value) noexcept nogil:
    while value >= 0x80:
        out[0] = <unsigned char>(value | 0x80)
        out += 1
        value >>= 7
    out[0] = <unsigned char>value
    return out + 1


cdef inline unsigned char* put_signed(unsigned char* out, int64_t value) noexcept nogil:
    return put(out, (<uint64_t>value << 1) ^ <uint64_t>(value >> 63))


def to_nats(bytes record not None, int64_t now_s) -> bytes:
    """A consumer's snapshot record as nats-server's `o.dat`."""
    cdef const char* p = PyBytes_AS_STRING(record)
    cdef StateRecordHead head
    cdef Py_ssize_t room
    cdef bytes buffer
    cdef unsigned char* begin
    cdef unsigned char* end
    memcpy(&head, p, sizeof(head))
    room = 2 + 7 * VARINT + 5 * VARINT * <Py_ssize_t>head.ops
    buffer = PyBytes_FromStringAndSize(NULL, room)
    begin = <unsigned char*>PyBytes_AS_STRING(buffer)
    with nogil:
        end = write_state(begin, &head, p + FIXED, now_s)
    return buffer[:end - begin]


cdef unsigned char* write_state(unsigned char* out, const StateRecordHead* head, const char* entries,
                                int64_t now_s) noexcept nogil:
    cdef SnapshotEntry entry
    cdef uint32_t i
    cdef uint64_t pending = 0
    cdef uint64_t redelivered = 0
    for i in range(head.ops):
        memcpy(&entry, entries + i * sizeof(SnapshotEntry), sizeof(entry))
        if not entry.exhausted:
            pending += 1
        if entry.exhausted or entry.count > 1:
            redelivered += 1
    out[0] = MAGIC
    out[1] = VERSION
    out = put(out + 2, head.floor_cseq)
    out = put(out, head.floor_seq)
    out = put(out, head.delivered_cseq)
    out = put(out, head.delivered_seq)
    out = put(out, pending)
    if pending:
        out = put_signed(out, now_s)
    for i in range(head.ops):
        memcpy(&entry, entries + i * sizeof(SnapshotEntry), sizeof(entry))
        if not entry.exhausted:
            out = put(out, entry.seq - head.floor_seq)
            out = put(out, entry.cseq - head.floor_cseq)
            out = put_signed(out, now_s - entry.delivered_ns // SECOND_NS)
    out = put(out, redelivered)
    for i in range(head.ops):
        memcpy(&entry, entries + i * sizeof(SnapshotEntry), sizeof(entry))
        if entry.exhausted or entry.count > 1:
            out = put(out, entry.seq - head.floor_seq)
            out = put(out, entry.count if entry.exhausted else entry.count - 1)
    return out


cdef class _Numbers:
    """The varints of an `o.dat`."""
    cdef bytes data
    cdef Py_ssize_t at
    cdef uint64_t most                 # entries of a kind

    cdef uint64_t take(self) except? 0:
        cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(self.data)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(self.data)
        cdef uint64_t value = 0
        cdef int shift = 0
        while True:
            if self.at >= n or shift > 63 or (shift == 63 and p[self.at] > 1):
                raise ValueError("corrupt state file")
            value |= <uint64_t>(p[self.at] & 0x7F) << shift
            shift += 7
            self.at += 1
            if not p[self.at - 1] & 0x80:
                return value

    cdef int64_t take_signed(self) except? -1:
        cdef uint64_t value = self.take()
        return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)

    cdef uint64_t take_count(self, Py_ssize_t least) except? 0:
        """How many entries follow; each takes `least` bytes."""
        cdef uint64_t count = self.take()
        if count > <uint64_t>((PyBytes_GET_SIZE(self.data) - self.at) // least) or count > self.most:
            raise ValueError("corrupt state file")
        return count


def from_nats(bytes data not None, int64_t max_deliver, int64_t now_ns, uint64_t most) -> bytes:
    """A consumer's snapshot record from nats-server's `o.dat`. Raises ValueError, also for more than `most` entries."""
    cdef _Numbers numbers = _Numbers()
    cdef StateRecordHead head
    cdef uint64_t resume = 0
    cdef int version
    if len(data) < 2 or data[0] != MAGIC or data[1] not in (1, VERSION):
        raise ValueError("corrupt state file")
    version = data[1]
    numbers.data = data
    numbers.at = 2
    numbers.most = min(most, MANY)
    head.magic_kind = KIND_SNAPSHOT
    head.wall_ns = now_ns
    head.floor_cseq = numbers.take()
    head.floor_seq = numbers.take()
    head.delivered_cseq = numbers.take()
    head.delivered_seq = numbers.take()
    if version == 1:
        head.delivered_cseq += head.floor_cseq - 1 if head.floor_cseq > 1 else 0
        head.delivered_seq += head.floor_seq - 1 if head.floor_seq > 1 else 0
    if (head.floor_seq | head.delivered_seq | head.floor_cseq | head.delivered_cseq) >> 63:
        raise ValueError("corrupt state file")
    entries = read_pending(numbers, version, head.floor_seq, head.floor_cseq, now_ns)
    read_redelivered(numbers, entries, head.floor_seq, max_deliver, now_ns)
    head.ops = <uint32_t>len(entries)
    return (<const char*>&head)[:sizeof(head)] + (<const char*>&resume)[:sizeof(resume)] + b"".join(
        [packed(seq, entries[seq]) for seq in sorted(entries)])


cdef bytes packed(uint64_t seq, tuple found):
    cdef SnapshotEntry entry
    entry.seq = seq
    entry.cseq, entry.delivered_ns, entry.count, entry.exhausted = found
    return (<const char*>&entry)[:sizeof(entry)]


cdef dict read_pending(_Numbers numbers, int version, uint64_t floor_seq, uint64_t floor_cseq, int64_t now_ns):
    """{stream sequence: (consumer sequence, time of delivery, deliveries, used up)}"""
    cdef dict entries = {}
    cdef uint64_t count = numbers.take_count(version + 1)
    cdef uint64_t _
    cdef uint64_t seq
    cdef uint64_t cseq = 0
    cdef int64_t base
    cdef int64_t distance
    base = numbers.take_signed() if count else 0
    for _ in range(count):
        seq = floor_seq + numbers.take()
        if version == VERSION:
            cseq = floor_cseq + numbers.take()
        distance = numbers.take_signed()
        if seq == 0 or (seq | cseq) >> 63:
            raise ValueError("corrupt state file")
        entries[seq] = (cseq, delivery_ns(base, distance if version == VERSION else -distance, now_ns), 1, 0)
    return entries


cdef int64_t delivery_ns(int64_t base, int64_t distance, int64_t now_ns):
    """The time `distance` seconds before `base`; what cannot be is now."""
    cdef object seconds = <object>base - distance
    return seconds * SECOND_NS if 0 <= seconds <= now_ns // SECOND_NS else now_ns


cdef int read_redelivered(_Numbers numbers, dict entries, uint64_t floor_seq, int64_t max_deliver,
                          int64_t now_ns) except -1:
    """Deliveries of what is pending; what is not, and has had as many as it may, is used up."""
    cdef uint64_t count = numbers.take_count(2)
    cdef uint64_t _
    cdef uint64_t seq
    cdef uint64_t times
    for _ in range(count):
        seq = numbers.take()
        times = min(numbers.take(), MANY - 1)
        seq += floor_seq
        if seq >> 63:
            raise ValueError("corrupt state file")
        if seq in entries:
            entries[seq] = (entries[seq][0], entries[seq][1], times + 1, 0)
        elif 0 < max_deliver <= <int64_t>times and seq > floor_seq:
            entries[seq] = (0, now_ns, times, 1)
    return 0
