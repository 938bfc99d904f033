"""What the cache keeps of a sealed segment, so that start-up need not read its columns."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.filelog cimport FileLog
from jetbroker.store.log.segment_files cimport FileSegment


# Count a segment into its log by its summary: True when what is dead now is what was dead then. `ranges` are sorted and
# joined. Otherwise nothing is counted, and the columns have to be read.
cdef bint count_by_summary(FileLog log, FileSegment segment, const uint64_t* ranges, Py_ssize_t count) except -1
