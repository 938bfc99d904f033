# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Finding messages by their flags, or by their subjects without reading them (see flagged.pxd)."""
from libc.stdint cimport uint16_t, uint64_t

from jetbroker.store.format.records cimport SIZE_HAS_HEADERS, record_flags
from jetbroker.store.log.stream_log cimport READ_MISSING, READ_OK, StoredMessage, StreamLog, SubjectFilter
from jetbroker.store.log.segment cimport Segment, SubjectSet
from jetbroker.store.log.segmented cimport SegmentedLog


cdef int next_flagged(StreamLog log, uint16_t flag, uint64_t start, uint64_t limit, Py_ssize_t slots,
                      StoredMessage* out) except -1:
    """The first one in start..limit; READ_MISSING leaves in out.seq where to go on (above limit: at the end)."""
    cdef SegmentedLog segmented = <SegmentedLog?>log
    cdef Segment segment
    cdef Py_ssize_t i = max(segmented.index_of(start), 0)
    cdef Py_ssize_t slot
    cdef Py_ssize_t end
    cdef const char* record
    limit = min(limit, log.last_seq)
    while i < len(segmented.segments):
        segment = <Segment>segmented.segments[i]
        if segment.first_seq > limit:
            break
        slot = start - segment.first_seq if start > segment.first_seq else 0
        end = min(segment.slots, <Py_ssize_t>(limit - segment.first_seq + 1))
        if segment.live and slot < end:
            segmented.load(segment)
            while slots and slot < end:
                if not segment.is_dead(slot) and segment.sizes[slot] & SIZE_HAS_HEADERS:
                    record = segmented.fetch(segment, slot)
                    if record == NULL:
                        segmented.found_damaged(segment, slot)
                    elif record_flags(record) & flag:
                        segmented.fill(segment, slot, out)
                        return READ_OK
                slots -= 1
                slot += 1
            if slot < end:
                out.seq = segment.first_seq + slot
                return READ_MISSING
        i += 1
    out.seq = limit + 1
    return READ_MISSING


cdef class FlaggedWalk:
    """Walks over a log's slots, some at a time."""

    def __init__(self, StreamLog log not None, uint16_t flag) -> None:
        self.log = log
        self.flag = flag
        self.start = log.first_seq
        self.limit = log.last_seq if log.messages else 0

    cdef bint find(self, Py_ssize_t* left, StoredMessage* out) except -1:
        cdef uint64_t before
        while left[0] > 0 and self.limit:
            before = self.start
            result = next_flagged(self.log, self.flag, before, self.limit, left[0], out)
            self.start = out.seq + (result == READ_OK)
            if self.start > self.limit:
                self.limit = 0
            left[0] -= <Py_ssize_t>(self.start - before)
            if result == READ_OK:
                return True
        return False

    cdef int go_back(self, uint64_t seq) except -1:
        self.start = seq
        self.limit = max(self.limit, seq)
        return 0


cdef bint is_stored(StreamLog log, uint64_t seq) except -1:
    cdef Segment segment = (<SegmentedLog?>log).segment_of(seq)
    return segment is not None and not segment.is_dead(seq - segment.first_seq)


cdef uint64_t next_stored(StreamLog log, SubjectFilter subjects, uint64_t start, uint64_t limit) except? 0:
    cdef SegmentedLog segmented = <SegmentedLog?>log
    cdef Segment segment
    cdef SubjectSet ids = None
    cdef Py_ssize_t i = max(segmented.index_of(start), 0)
    cdef Py_ssize_t slot
    cdef Py_ssize_t end
    while i < len(segmented.segments):
        segment = <Segment>segmented.segments[i]
        i += 1
        if segment.first_seq > limit:
            break
        slot = start - segment.first_seq if start > segment.first_seq else 0
        end = min(segment.slots, <Py_ssize_t>(limit - segment.first_seq + 1))
        if not segment.live or slot >= end:
            continue
        if subjects.patterns:
            ids = segmented.subject_set(subjects, segment)
            if not ids.matching:
                continue
            ids = segmented.loaded_set(subjects, segment, ids)
            slot = segment.next_in(ids, slot, end)
        else:
            slot = segment.next_live(slot, end)
        if slot >= 0:
            return segment.first_seq + slot
    return 0
