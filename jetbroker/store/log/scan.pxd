"""Reading segment files back: what summaries and the assembling of a log share."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.store.log.segment cimport Ranges, Segment
from jetbroker.store.log.segment_files cimport FileSegment


# How many slots are in front of a place in the file, with the skipped sequences behind the last record there: a record
# without a message in front of that place may tell of them. 0 when no message's record is there.
cdef Py_ssize_t slots_before(FileSegment segment, uint64_t offset) noexcept
# D records of `ranges`, as of sequence `seq`.
cdef bytes range_records(uint64_t stream_id, Ranges ranges, uint64_t seq, int64_t time_ns)
# What is dead or lost in the old segments is so in the new one.
cdef int carry_dead(FileSegment new, list old) except -1
# Only the first `slots` slots stay, which end at `end` of the file; nothing is appended any more. What it recorded is
# said by another file.
cdef int shorten(FileSegment segment, Py_ssize_t slots, uint64_t end) except -1


# Empty and lost slots of a footer's columns are dead.
cdef int mark_columns(FileSegment segment) except -1
# Mark the slots dead that the (sorted, joined) ranges delete.
cdef int bury(Segment segment, const uint64_t* ranges, Py_ssize_t count) except -1
