"""What can be kept of a segment whose file has failed."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.log.tail cimport Tail

# --- a write that was cut short ---
# How many slots of the active segment are wholly written; a batch goes as a whole.
cdef Py_ssize_t written_slots(FileSegment segment, Tail tail) except? -1
# Where the last wholly written record ends, when `slots` message records are.
cdef uint64_t written_boundary(FileSegment segment, Tail tail, Py_ssize_t slots) except? 0

# --- an fdatasync that failed ---
# How many slots are in front of a place in the file.
cdef Py_ssize_t slots_before(FileSegment segment, uint64_t offset) noexcept
# The records that are not on disk, without headers and footers: of the sealed segments, then of the active one.
cdef bytes unsynced_records(list sealed, FileSegment active, Tail tail)
# D records of `ranges`, as of sequence `seq`.
cdef bytes range_records(uint64_t stream_id, Ranges ranges, uint64_t seq, int64_t time_ns)
# What is dead in the old segments is dead in the new one.
cdef int carry_dead(FileSegment new, list old) except -1
# Only the first `slots` slots stay, which end at `end` of the file; nothing is appended any more.
cdef int shorten(FileSegment segment, Py_ssize_t slots, uint64_t end) except -1
