"""Reading segment files back: what summaries and the assembling of a log share."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.segment cimport Segment
from jetbroker.store.log.segment_files cimport FileSegment


# Empty and lost slots of a footer's columns are dead.
cdef int mark_columns(FileSegment segment) except -1
# Mark the slots dead that the (sorted, joined) ranges delete.
cdef int bury(Segment segment, const uint64_t* ranges, Py_ssize_t count) except -1
