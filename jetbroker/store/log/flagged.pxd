"""Finding messages by the flags of their records: what a restart rebuilds from a log without reading every message."""
from libc.stdint cimport uint16_t, uint64_t

from jetbroker.store.log.stream_log cimport StoredMessage, StreamLog, SubjectFilter


cdef class FlaggedWalk:
    """The messages with a flag that a log holds now; only those with headers are considered."""
    cdef StreamLog log
    cdef uint16_t flag
    cdef uint64_t start
    cdef uint64_t limit                # 0: everything has been looked at

    # The next one, while `left` slots are not used up; False: not now, and `limit` says whether ever.
    cdef bint find(self, Py_ssize_t* left, StoredMessage* out) except -1
    # Find what stands from `seq` on once more.
    cdef int go_back(self, uint64_t seq) except -1


# Is there a live message of this sequence? Reads nothing from disk.
cdef bint is_stored(StreamLog log, uint64_t seq) except -1
# The first live sequence in start..limit that matches, 0: none. Reads no message.
cdef uint64_t next_stored(StreamLog log, SubjectFilter subjects, uint64_t start, uint64_t limit) except? 0
