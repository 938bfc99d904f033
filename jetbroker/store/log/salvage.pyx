# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What can be kept of a segment whose file has failed (see salvage.pxd).

A short write leaves whole records in front of the one that was cut. After a failed fdatasync the kernel drops the
dirty pages and reports success the next time, so the file is never trusted again behind what was synced before: what
is not on disk is written again, into a new file, whose header says how much of the old one is valid.
"""
from libc.stdint cimport int64_t, uint16_t, uint64_t

from jetbroker.store.format import records as store_format

from jetbroker.store.format.records cimport OFFSET_EMPTY, RECORD_HEADER, record_flags, record_length
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.log.stream_log cimport FLAG_BATCH, FLAG_BATCH_FIRST, FLAG_BATCH_LAST
from jetbroker.store.log.tail cimport Tail

# Ranges in one D record: 1 MiB
cdef Py_ssize_t RANGES_PER_RECORD = 65536


cdef Py_ssize_t written_slots(FileSegment segment, Tail tail) except? -1:
    cdef Py_ssize_t written = segment.slots
    cdef Py_ssize_t slot
    for slot in range(segment.slots - 1, -1, -1):
        if segment.record_size(slot) == 0:
            continue                   # skipped sequences go with the record in front of them
        if segment.offsets[slot] + <uint64_t>segment.record_size(slot) <= tail.written:
            break
        written = slot
    return whole_batches(segment, tail, written)


cdef Py_ssize_t whole_batches(FileSegment segment, Tail tail, Py_ssize_t slots) except? -1:
    """How many of the first `slots` slots stay, when a batch goes as a whole."""
    cdef Py_ssize_t slot = slots
    cdef uint16_t flags
    while slot:
        slot -= 1
        if segment.record_size(slot) == 0:
            continue
        if segment.offsets[slot] < tail.base:
            break                      # written with an earlier group
        flags = record_flags(tail.at(segment.offsets[slot]))
        if not flags & FLAG_BATCH or flags & FLAG_BATCH_LAST:
            break
        if flags & FLAG_BATCH_FIRST:
            return slot
    return slots


cdef uint64_t written_boundary(FileSegment segment, Tail tail, Py_ssize_t slots) except? 0:
    cdef uint64_t at = segment.header_len
    cdef uint64_t end = tail.written
    cdef Py_ssize_t slot
    for slot in range(slots, segment.slots):
        if segment.offsets[slot] != OFFSET_EMPTY:
            # the record behind may be whole, when its batch is not
            end = min(end, <uint64_t>segment.offsets[slot])
            break
    if slots and segment.offsets[slots - 1]:
        at = segment.offsets[slots - 1] + <uint64_t>segment.record_size(slots - 1)
    if at < tail.base:
        at = tail.base
    if end < segment.header_len:
        # not even the header: the whole file is written again
        return segment.header_len
    while at + RECORD_HEADER <= end and at + record_length(tail.at(at)) <= end:
        at += record_length(tail.at(at))
    return at


cdef Py_ssize_t slots_before(FileSegment segment, uint64_t offset) noexcept:
    cdef Py_ssize_t slot
    for slot in range(segment.slots - 1, -1, -1):
        if segment.offsets[slot] and segment.offsets[slot] < offset:
            return slot + 1
    return 0


cdef bytes unsynced_records(list sealed, FileSegment active, Tail tail):
    cdef FileSegment segment
    cdef list parts = []
    cdef uint64_t start
    for segment in sealed:
        start = max(segment.header_len, segment.retained_at)
        parts.append(segment.retained[start - segment.retained_at:])
    parts.append(tail.bytes_from(max(active.header_len, tail.unsynced_from())))
    return b"".join(parts)


cdef bytes range_records(uint64_t stream_id, Ranges ranges, uint64_t seq, int64_t time_ns):
    pairs = ranges.pairs()
    return b"".join([store_format.encode_deletions(stream_id, seq, time_ns, pairs[i:i + RANGES_PER_RECORD])
                     for i in range(0, len(pairs), RANGES_PER_RECORD)])


cdef int carry_dead(FileSegment new, list old) except -1:
    cdef FileSegment segment
    cdef Py_ssize_t i
    for segment in old:
        for i in range(segment.slots):
            if segment.first_seq + i >= new.first_seq and segment.is_dead(i):
                new.mark_dead(segment.first_seq + i - new.first_seq)
    return 0


cdef int shorten(FileSegment segment, Py_ssize_t slots, uint64_t end) except -1:
    segment.sealed = True
    segment.footer_at = 0
    segment.end = end
    return segment.truncate_slots(slots)
