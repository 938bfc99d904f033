"""Reading segment files back: what summaries and the assembling of a log share."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.filelog cimport FileLog, FileSegment
from jetbroker.store.log.stream_log cimport SubjectState
from jetbroker.store.log.segment cimport Segment


# Empty and lost slots of a footer's columns are dead.
cdef int mark_columns(FileSegment segment) except -1
# Add a segment's live messages to the counts and SubjectStates of its log; segments come in order.
cdef int count_segment(FileLog log, Segment segment) except -1
# Mark the slots dead that the (sorted, joined) ranges delete.
cdef int bury(FileLog log, Segment segment, const uint64_t* ranges, Py_ssize_t count) except -1
# A segment has `count` live messages of a subject; segments come in order.
cdef SubjectState add_subject_count(FileLog log, bytes subject, uint64_t count, uint64_t first, uint64_t last)
