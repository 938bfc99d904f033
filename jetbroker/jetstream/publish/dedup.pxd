"""The duplicate window: which Nats-Msg-Ids have been stored lately."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.timing.work_turns cimport Worker
from jetbroker.store.log.segmented cimport SegmentedLog


cdef class DedupWindow(Worker):
    cdef readonly int64_t window_ns
    cdef SegmentedLog log
    cdef dict entries                  # id -> what `order` has of it
    cdef bint running
    cdef object on_first               # called at the next id: set while nobody has them pruned
    cdef object order                  # deque of (time_ns, id, sequence), oldest first
    # messages that an earlier process stored and that are not read yet; unread_until is 0 when all are
    cdef uint64_t unread_from
    cdef uint64_t unread_until

    # Read what is stored, for a bounded time; the rest is read in turns.
    cpdef int start(self) except -1
    cpdef int stop(self) except -1
    # Can ids be judged? Not before the whole window is read.
    cdef bint is_read(self) except -1
    # The sequence stored under this id inside the window, 0: none. Ask is_read() before.
    cdef uint64_t find(self, bytes msg_id, int64_t now_ns) except? 0
    # The id of message `seq` if that is the newest one with an id, otherwise None.
    cdef bytes newest(self, uint64_t seq)
    cdef int remember(self, bytes msg_id, uint64_t seq, int64_t now_ns) except -1
    # Forget what could not be stored.
    cdef int forget_from(self, uint64_t first_lost) except -1
    # Drop what has left the window, what is much in turns; returns the time of the oldest that is left, 0: none.
    cpdef int64_t prune(self, int64_t now_ns) except? 0
    cpdef int resize(self, int64_t window_ns) except -1

    cdef bint _drop(self, int64_t now_ns, int left) except -1
    cdef int _forget(self, tuple entry) except -1
    cdef bint _read_log(self, int64_t until_ns) except -1
