# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A consumer's present state as one record (see state.pyx for its bytes).

It is made in one piece, so it is made in C: a consumer may have hundreds of thousands of pending messages.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.jetstream.consumers.tracker cimport (
    ENTRY_DELAYED, ENTRY_EXHAUSTED, ENTRY_QUEUED, AckTracker, PendingEntry, PendingMap,
)
from jetbroker.jetstream.consumers.state cimport (
    KIND_SNAPSHOT, OP_WAIT, SnapshotEntry, StateRecordHead, StateRecordOp,
)
from jetbroker.saturate cimport subtract_int64


cdef bytes encode_snapshot(AckTracker tracker, uint64_t resume, int64_t now_ns, int64_t wall_ns):
    cdef PendingMap pending = tracker.pending
    cdef Py_ssize_t entries = pending.count + pending.exhausted
    cdef Py_ssize_t waits = waiting_otherwise(pending)
    cdef bytes record = PyBytes_FromStringAndSize(
        NULL, sizeof(StateRecordHead) + sizeof(uint64_t) + entries * sizeof(SnapshotEntry)
        + waits * sizeof(StateRecordOp))
    cdef char* p = PyBytes_AS_STRING(record)
    cdef StateRecordHead* head = <StateRecordHead*>p
    head.magic_kind = KIND_SNAPSHOT
    head.ops = <uint32_t>entries
    head.wall_ns = wall_ns
    head.delivered_cseq = tracker.delivered_cseq
    head.delivered_seq = tracker.delivered_seq
    head.floor_cseq = tracker.floor_cseq
    head.floor_seq = tracker.floor_seq
    p += sizeof(StateRecordHead)
    (<uint64_t*>p)[0] = resume
    p += sizeof(uint64_t)
    p = write_entries(p, pending, wall_ns, now_ns)
    write_waits(p, pending, now_ns)
    return record


cdef Py_ssize_t waiting_otherwise(PendingMap pending) noexcept:
    """Pending messages that do not wait as their last delivery says."""
    cdef PendingEntry* entry = pending.first()
    cdef Py_ssize_t found = 0
    while entry != NULL:
        found += (entry.flags & (ENTRY_QUEUED | ENTRY_DELAYED)) != 0
        entry = pending.next_of(entry)
    return found


cdef char* write_entries(char* p, PendingMap pending, int64_t wall_ns, int64_t now_ns) noexcept:
    """Pending messages in order, then those whose deliveries are used up; returns the end."""
    cdef PendingEntry* entry = pending.first()
    while entry != NULL:
        p = write_entry(p, entry, wall_ns, now_ns)
        entry = pending.next_of(entry)
    entry = pending.next_exhausted(NULL)
    while entry != NULL:
        p = write_entry(p, entry, wall_ns, now_ns)
        entry = pending.next_exhausted(entry)
    return p


cdef char* write_entry(char* p, PendingEntry* entry, int64_t wall_ns, int64_t now_ns) noexcept:
    cdef SnapshotEntry* out = <SnapshotEntry*>p
    out.seq = entry.seq
    out.cseq = entry.cseq
    # the time of a delivery is kept as wall time, for it outlives this process
    out.delivered_ns = subtract_int64(wall_ns, subtract_int64(now_ns, entry.delivered_ns))
    out.count = entry.count
    out.exhausted = (entry.flags & ENTRY_EXHAUSTED) != 0
    return p + sizeof(SnapshotEntry)


cdef void write_waits(char* p, PendingMap pending, int64_t now_ns) noexcept:
    cdef PendingEntry* entry = pending.first()
    cdef StateRecordOp* out = <StateRecordOp*>p
    while entry != NULL:
        if entry.flags & (ENTRY_QUEUED | ENTRY_DELAYED):
            out.a = entry.seq
            out.b = 0 if entry.flags & ENTRY_QUEUED else <uint64_t>max(entry.deadline_ns - now_ns, 0)
            out.n = 0
            out.op = OP_WAIT
            out += 1
        entry = pending.next_of(entry)
