"""The file that a log is writing: its segment, and the end of it that is in memory."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.removals cimport PendingRemovals
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.log.commit cimport Tail


cdef class ActiveFile:
    cdef Disk disk
    cdef uint32_t seed                 # of record CRCs
    cdef FileSegment segment
    cdef Tail tail
    cdef uint64_t batch_start          # file offset of the batch that is being appended

    cpdef int begin(self, FileSegment segment, bytes content) except -1   # nothing of which is written yet
    cdef int go_on(self, FileSegment segment) except -1                  # behind what is in the file
    cdef int put(self, int kind, uint64_t seq, int64_t time_ns, const char* payload, Py_ssize_t n) except -1
    # D records of what waits, as of this sequence and time.
    cpdef int put_deletions(self, PendingRemovals removals, uint64_t seq, int64_t time_ns) except -1
    cpdef int write(self) except -1                                       # all of it; raises OSError
    cdef int record(self, PendingRemovals removals) except -1             # those in the write buffer are in the file
    cdef int probe(self) except -1                                       # raises OSError when it cannot grow
    cpdef int cut_back(self, uint64_t end) except -1                      # what is behind is not going to be written
    cdef int retain(self) except -1                                      # another one begins: keep what is not on disk
    # Forget the bytes at [start, end); where those end that are in the file.
    cdef uint64_t erase(self, uint64_t start, uint64_t end) except? 0
    # After a short write: how many slots are wholly written (a batch goes as a whole), and where the last wholly
    # written record ends when so many message records are.
    cdef Py_ssize_t written_slots(self) except? -1
    cdef Py_ssize_t whole_batches(self, Py_ssize_t slots) except? -1
    cpdef uint64_t written_boundary(self, Py_ssize_t slots) except? 0
    # The records that are not on disk, of these sealed segments and of this one, without headers and footers.
    cdef bytes unsynced_records(self, list sealed)

    # Room for a message's record, to be filled at once; `offset` is its place in the file.
    cdef inline char* room(self, uint32_t length, uint32_t* offset) except NULL:
        offset[0] = <uint32_t>self.segment.end
        self.segment.end += length
        return self.tail.extend(length)
