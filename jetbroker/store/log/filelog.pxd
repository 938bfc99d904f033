"""A stream's log in segment files.

The log counts messages and decides; its parts hold what has to do with the files. `flush` writes what was accepted,
`begin_sync` and `end_sync` are called by the group around a round of fdatasync.
"""
from libc.stdint cimport uint64_t

from jetbroker.store.log.active_file cimport ActiveFile
from jetbroker.store.log.commit cimport Changes, GroupCommit
from jetbroker.store.disk cimport Disk
from jetbroker.store.log.health cimport Health
from jetbroker.store.log.removals cimport PendingRemovals
from jetbroker.store.log.sealing cimport Sealing
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment, SegmentFiles
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.sync_round cimport SyncRound
from jetbroker.tick cimport Tick


cdef class FileLog(SegmentedLog):
    cdef Tick tick
    cdef Disk disk
    cdef public GroupCommit group      # another one only when nothing is under way in the rounds of this one
    cdef readonly str directory
    cdef public dict meta              # account, stream, created, config: goes into segment headers
    cdef bint always                   # committed = synced
    cdef readonly bint closed
    cdef ActiveFile file
    cdef SegmentFiles files
    cdef Changes changes
    cdef PendingRemovals removals
    cdef SyncRound round
    cdef Sealing sealing
    cdef readonly Health health
    cdef Py_ssize_t loaded_bound       # sealed segments whose columns may stay in memory
    cdef readonly bint packs           # sealed segments are to be packed
    cdef public object packer          # who does it, and overwrites messages in packed segments; None: nobody
    cdef public object erasing         # a future: messages removed from packed segments are overwritten; None: all are
    cdef public object on_sealed       # called with each sealed segment, or None
    cdef public object on_removed      # called with each segment that is dropped, or None

    # --- positions ---
    cdef int flush(self) except -1
    cdef int all_written(self) except -1
    cdef int advance_committed(self) except -1

    # --- the active file ---
    cdef int put_deletions(self) except -1
    cdef int write_tail(self) except -1

    # --- failures ---
    cdef int refuse(self, str reason) except -1
    cdef int write_failed(self, object error) except -1
    cdef int write_reserved(self) except -1
    cdef int take_back(self, uint64_t first_lost) except -1
    cdef int retire(self, list old, FileSegment kept, FileSegment new) except -1

    # --- segments ---
    cdef FileSegment new_segment(self, uint64_t first_seq, uint64_t valid_before)
    cdef FileSegment replacement(self, FileSegment old)
    cdef int make_file(self, FileSegment segment) except -1
    cdef bytes header_of(self, FileSegment segment)
    cdef int start_segment(self, FileSegment segment) except -1
    cdef Ranges recorded_ranges(self, FileSegment segment)
    cdef int rebuild(self, FileSegment segment) except -1
