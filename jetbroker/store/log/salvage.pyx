# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What can be kept of a segment whose fdatasync has failed (see salvage.pxd).

The kernel drops the dirty pages and reports success the next time, so the file is never trusted again behind what was
synced before: what is not on disk is written again, into a new file, whose header says how much of the old one is
valid.
"""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.store.format import records as store_format

from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment

# Ranges in one D record: 1 MiB
cdef Py_ssize_t RANGES_PER_RECORD = 65536


cdef Py_ssize_t slots_before(FileSegment segment, uint64_t offset) noexcept:
    cdef Py_ssize_t slot
    for slot in range(segment.slots - 1, -1, -1):
        if segment.offsets[slot] and segment.offsets[slot] < offset:
            return slot + 1
    return 0


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
