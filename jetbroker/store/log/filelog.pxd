"""A stream's log in segment files."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.store.format.blocks cimport BlockCache
from jetbroker.store.log.commit cimport GroupCommit
from jetbroker.store.disk cimport Disk
from jetbroker.store.format.frames cimport FrameCache, FrameIndex
from jetbroker.store.log.health cimport Health
from jetbroker.store.log.removals cimport PendingRemovals
from jetbroker.store.log.segment cimport Ranges, Segment
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.tail cimport Tail
from jetbroker.store.log.waiters cimport Waiters
from jetbroker.tick cimport Tick


cdef class FileSegment(Segment):
    cdef public str path
    cdef public int fd                 # -1: not open
    cdef public uint64_t end           # file offset behind the last record
    cdef public uint64_t header_len
    cdef public uint64_t footer_at     # 0: there is no (usable) footer
    cdef public uint64_t footer_len
    cdef public uint32_t footer_crc
    cdef public uint64_t created_ns
    cdef public uint64_t previous      # first_seq of the segment before
    cdef public uint64_t valid_before  # what this segment says of the one before
    cdef Ranges recorded               # deletion ranges in this file; None: look into the footer
    cdef bytes retained                # written but not synced records, from retained_at on
    cdef uint64_t retained_at
    cdef public str temporary          # the file is still called this; renamed in the next round
    cdef public Py_ssize_t summarized_live   # live messages when the cache was told last; -1: never
    cdef public bint packed            # its records are in frames; offsets are those of the plain form
    cdef public uint32_t index_len     # bytes of the frame index before the footer
    cdef public FrameIndex frames      # None: not read yet
    cdef public bint stays_plain       # it cannot be packed: its file is damaged
    cdef object summary                # from the cache, until the log is assembled; None: read the columns


cdef class FileLog(SegmentedLog):
    cdef Tick tick
    cdef Disk disk
    cdef GroupCommit group
    cdef readonly str directory
    cdef public dict meta              # account, stream, created, config: goes into segment headers
    cdef bint always                   # committed = synced
    cdef Tail tail                     # what of the active file is in memory
    cdef BlockCache blocks
    cdef FrameCache frames             # None until a packed segment is read
    cdef readonly bint packs           # sealed segments are to be packed
    cdef public object packer          # who does it, and overwrites messages in packed segments; None: nobody
    cdef public object erasing         # a future: messages removed from packed segments are overwritten; None: all are
    cdef Py_ssize_t loaded_bound       # sealed segments whose columns may stay in memory

    cdef readonly Health health
    cdef PendingRemovals removals

    # every append and removal is a change; commits are counted in them
    cdef readonly uint64_t changes
    cdef readonly uint64_t changes_written
    cdef readonly uint64_t changes_synced
    cdef uint64_t round_changes        # what the sync round under way covers
    cdef uint64_t round_seq
    cdef uint64_t round_offset
    cdef FileSegment round_segment
    cdef bint in_round
    cdef Waiters waiters               # for changes
    cdef list unsynced                 # sealed segments whose files wait for their fdatasync
    cdef list unlinks                  # [(change, segment)]: may go once that change is synced
    cdef set directories               # to be fsynced with the next round
    cdef set erased                    # segments with overwritten bytes, to be synced
    cdef set round_erased              # those that the round under way covers
    cdef bint must_roll                # the next segment's file could not be made
    cdef public object on_sealed       # called with each sealed segment, or None
    cdef public object on_removed      # called with each segment that is dropped, or None
    cdef uint64_t changes_at_rest      # changes at the last call of rest()
    cdef object suspect                # sync_interval: the error that made the active file suspect, until it is left
    cdef Py_ssize_t rewrites
    cdef uint64_t successor_valid_before
    cdef readonly bint closed
    cdef uint64_t batch_start          # file offset of the batch that is being appended
    cdef uint64_t batches_end          # file offset behind the last batch in the active file

    cdef int refuse(self, str reason) except -1
    cdef int put_deletions(self) except -1
    cdef int put_own_record(self, int kind, const char* payload, Py_ssize_t n) except -1
    cdef int write_tail(self) except -1
    cdef int flush(self) except -1
    cdef int write_failed(self, object error) except -1
    cdef int take_back(self, uint64_t first_lost) except -1
    cdef int advance_committed(self) except -1
    cdef int open_segment(self, FileSegment segment) except -1
    cdef int make_file(self, FileSegment segment) except -1
    cdef int rebuild_columns(self, FileSegment segment) except -1
    cdef FileSegment new_segment(self, uint64_t first_seq, uint64_t valid_before, str path)
    cdef int start_segment(self, FileSegment segment) except -1
    cdef int seal(self, FileSegment segment) except -1
    cdef const char* unpacked(self, FileSegment segment, uint64_t offset, Py_ssize_t length) except? NULL
    cdef int shed(self, Py_ssize_t keep) except -1
    cdef bytes read_footer(self, FileSegment segment)      # None: damaged
    cdef Ranges recorded_ranges(self, FileSegment segment)
