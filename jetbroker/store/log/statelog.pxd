"""One consumer's state on disk: a small log of opaque, checksummed entries that is rewritten as a snapshot when grown."""
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.store.log.commit cimport GroupCommit, Tail, Waiters
from jetbroker.store.disk cimport Disk
from jetbroker.store.log.stream_log cimport LogObserver
from jetbroker.tick cimport Tick, TickTask


cdef class StateLog(TickTask):
    cdef public LogObserver observer        # on_committed(position)
    cdef readonly uint64_t position         # of the last append; grows for ever, also across rewrites
    cdef readonly uint64_t committed        # position
    cdef readonly uint64_t size             # bytes in the file and still to be written
    cdef readonly list recovered            # list[bytes]: the entries found at start-up, oldest first
    cdef readonly dict config               # what create or update_config stored
    cdef readonly dict head                 # the whole head record: name, created, config
    cdef readonly object failed             # None, or the StorageError of the last write
    cdef readonly str path
    cdef readonly bint memory               # nothing is stored, everything commits at the end of the tick
    cdef Tick tick
    cdef Disk disk
    cdef GroupCommit group
    cdef bint always
    cdef uint32_t seed
    cdef int fd
    cdef str temporary                      # the file is still called this; renamed in the next round
    cdef str aside                          # what a damaged file, which has the name still, is kept as
    cdef uint64_t rewrite_above             # no snapshot is worth writing before the file is larger, bytes
    cdef Tail tail                          # what is not synced yet
    cdef uint64_t written                   # position
    cdef int round_fd                       # what the round under way syncs, open until it ends; -1: there is none
    cdef str round_temporary                # and renames
    cdef uint64_t round_position
    cdef uint64_t round_offset
    cdef Py_ssize_t temporaries             # how many temporary names were used
    cdef bint wants_sync
    cdef bint closed
    cdef Waiters waiters                    # for positions
    cdef object retry                       # when the next try is, after a failure
    cdef bint suspect                       # its fdatasync failed: the file is never synced again
    cdef object reserve

    # --- hot ---
    # Buffer one entry; it is written at the end of the tick. Returns its position.
    cdef uint64_t append(self, const char* p, Py_ssize_t n) except? 0
    # What was appended so far is to be synced with the next group; without it that happens within a second.
    cpdef int request_sync(self) except -1

    # --- per event ---
    cpdef bint should_rewrite(self, Py_ssize_t snapshot_size) except -1
    # Replace all entries so far by this one. Appends go on; they commit together with the new file.
    cpdef int rewrite(self, bytes snapshot) except -1
    cpdef int update_config(self, dict config) except -1

    cdef int put_frame(self, int kind, const char* p, Py_ssize_t n) except -1
    cdef int put_head(self) except -1
    cdef int flush(self) except -1
    cdef int advance(self, uint64_t position) except -1
