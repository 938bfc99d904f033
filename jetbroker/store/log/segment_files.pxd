"""The files of one log's segments: opened, read, cut, removed."""
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.store.disk cimport Disk, FileMap
from jetbroker.store.format.blocks cimport BlockCache
from jetbroker.store.format.frames cimport FrameCache, FrameIndex
from jetbroker.store.log.segment cimport Ranges, Segment


cdef class FileSegment(Segment):
    cdef public str path
    cdef public int fd                 # -1: not open
    cdef FileMap map                   # of the open file; None: too few reads have jumped yet
    cdef uint32_t jumps                # reads of single records since the file was opened
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

    # Bytes of a slot's record in the file, 0 for an empty or lost slot.
    cdef Py_ssize_t record_size(self, Py_ssize_t slot) noexcept
    # Zeros in place of what is retained of [start, end).
    cdef int erase_retained(self, uint64_t start, uint64_t end) except -1


cdef class SegmentFiles:
    cdef readonly Disk disk
    cdef object loop                   # its exception handler is told of what nobody waits for
    cdef uint32_t seed                 # of record CRCs
    cdef BlockCache blocks
    cdef FrameCache frames             # None until a packed segment is read
    cdef uint64_t clock                # of the segments' last uses
    cdef Py_ssize_t names              # how many temporary names were used
    cdef Py_ssize_t more               # segments whose columns are in memory, beyond those that stay

    cpdef FileSegment new_segment(self, str directory, uint64_t first_seq, uint64_t valid_before, Segment before)
    cdef int open(self, FileSegment segment) except -1                 # raises StorageError
    cdef int forget(self, FileSegment segment) except -1               # what was read of it is not true any more
    cdef int use(self, FileSegment segment) except -1                  # its columns are needed now
    # Load the columns from the footer; False: it is not sound. Raises StorageError.
    cdef bint load(self, FileSegment segment) except -1
    cdef Ranges recorded(self, FileSegment segment)                    # deletions of its file; None: the footer is damaged
    # A record that is in the file, valid until the next call; NULL: damaged. Raises StorageError.
    cdef const char* fetch(self, FileSegment segment, Py_ssize_t slot, uint64_t end) except? NULL
    cdef int jumped(self, FileSegment segment, uint64_t end) except -1
    cdef const char* unpacked(self, FileSegment segment, uint64_t offset, Py_ssize_t length) except? NULL
    cdef int shed(self, list segments, set held, Py_ssize_t keep) except -1
