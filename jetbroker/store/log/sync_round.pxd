"""Which of a log's files wait for their fdatasync, and what the round under way covers."""
from libc.stdint cimport uint64_t

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.segment_files cimport FileSegment


cdef struct Position:
    uint64_t change                    # of the log
    uint64_t seq
    uint64_t offset                    # in the active file


cdef class SyncRound:
    cdef Disk disk
    cdef readonly list unsynced        # sealed segments, in order
    cdef set directories               # to be synced with the next round
    cdef set erased                    # segments with overwritten bytes, to be synced
    cdef list dead                     # [(change, segment)]: its file may go once that change is synced
    cdef object suspect                # the error that made the active file suspect; None once that is left
    cdef readonly bint running
    # of the round under way, or of the last one
    cdef readonly FileSegment active   # what was written to when it began
    cdef Position upto
    cdef set round_erased
    cdef set round_directories

    cpdef list begin(self, FileSegment active, uint64_t change, uint64_t seq, uint64_t offset)
    cpdef int end(self) except -1
    cpdef int fail(self) except -1
    cpdef bint leave(self) except -1
    cpdef list removable(self, uint64_t change)
    cpdef set held(self)
    cdef int drop(self, FileSegment segment, uint64_t change) except -1
