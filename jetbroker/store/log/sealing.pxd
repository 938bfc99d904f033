"""The end of a segment: its footer."""
from libc.stdint cimport uint64_t

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment


cdef class Sealing:
    cdef Disk disk
    cdef readonly bint syncs_batches   # a footer vouches for batches: they are on disk before it is written
    cdef public uint64_t batches_end   # file offset behind the last batch in the active file
    cdef bint overdue                  # the active segment is full, and no new file could be made

    cpdef int seal(self, FileSegment segment, uint64_t synced) except -1


# The footer of a segment whose columns are loaded, to stand at `at` of the plain form.
cdef bytes segment_footer(FileSegment segment, uint64_t at, Ranges recorded)
