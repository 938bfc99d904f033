"""The duplicate window: which Nats-Msg-Ids have been stored lately."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.store.log cimport StreamLog


cdef class DedupWindow:
    cdef readonly int64_t window_ns
    cdef dict sequences                # id -> sequence
    cdef object order                  # deque of (time_ns, id, sequence), oldest first
    cdef uint64_t unread_until         # messages up to here were stored by an earlier process and are not read yet

    # The sequence stored under this id inside the window, 0: none.
    cdef uint64_t find(self, StreamLog log, bytes msg_id, int64_t now_ns) except? 0
    cdef int remember(self, bytes msg_id, uint64_t seq, int64_t now_ns) except -1
    # Forget what could not be stored.
    cdef int forget_from(self, uint64_t first_lost) except -1
    # Drop what has left the window; returns the time of the oldest that is left, 0: none.
    cpdef int64_t prune(self, int64_t now_ns) except? 0
    cpdef int resize(self, int64_t window_ns) except -1

    cdef int _read_log(self, StreamLog log, int64_t now_ns) except -1
