# cython: language_level=3, boundscheck=False
"""The duplicate window (see dedup.pxd).

After a restart the ids are read from the log at the first publish that has one: messages without ids cost nothing,
and a start does not wait for streams whose publishers use none.
"""
from collections import deque

from libc.stdint cimport int64_t, uint64_t

from jetbroker.store.log cimport READ_MISSING, READ_OK, StoredMessage, StreamLog, SubjectFilter
from jetbroker.wire.headers cimport find_header

cdef bytes MSG_ID = b"Nats-Msg-Id"


cdef class DedupWindow:
    """Ids of the last `window_ns` nanoseconds; `stored_before` is the log's last sequence at start."""

    def __init__(self, int64_t window_ns, uint64_t stored_before) -> None:
        self.window_ns = window_ns
        self.unread_until = stored_before
        self.sequences = {}
        self.order = deque()

    def __len__(self) -> int:
        return len(self.sequences)

    cdef uint64_t find(self, StreamLog log, bytes msg_id, int64_t now_ns) except? 0:
        if self.unread_until:
            self._read_log(log, now_ns)
        self.prune(now_ns)
        return <uint64_t>self.sequences.get(msg_id, 0)

    cdef int remember(self, bytes msg_id, uint64_t seq, int64_t now_ns) except -1:
        self.sequences[msg_id] = seq
        self.order.append((now_ns, msg_id, seq))
        return 0

    cdef int forget_from(self, uint64_t first_lost) except -1:
        while self.order and self.order[-1][2] >= first_lost:
            _, msg_id, seq = self.order.pop()
            if self.sequences.get(msg_id) == seq:
                del self.sequences[msg_id]
        return 0

    cpdef int64_t prune(self, int64_t now_ns) except? 0:
        """Drop what has left the window; returns the time of the oldest that is left, 0: none."""
        cdef int64_t limit = now_ns - self.window_ns
        while self.order:
            time_ns, msg_id, seq = self.order[0]
            if time_ns >= limit:
                return time_ns
            self.order.popleft()
            if self.sequences.get(msg_id) == seq:
                del self.sequences[msg_id]
        return 0

    cpdef int resize(self, int64_t window_ns) except -1:
        """Use another window from now on."""
        self.window_ns = window_ns
        return 0

    cdef int _read_log(self, StreamLog log, int64_t now_ns) except -1:
        cdef StoredMessage stored
        cdef const char* value = NULL
        cdef Py_ssize_t value_len = 0
        cdef uint64_t last = self.unread_until
        cdef uint64_t seq = log.seq_at_time(now_ns - self.window_ns)
        cdef SubjectFilter everything = SubjectFilter()
        cdef int result
        self.unread_until = 0
        while seq <= last:
            result = log.next_message(everything, seq, last, &stored)
            if result == READ_MISSING:
                break
            if result == READ_OK and stored.headers_len and find_header(
                    stored.headers, stored.headers_len, MSG_ID, 11, &value, &value_len) and value_len:
                self.remember(value[:value_len], stored.seq, stored.time_ns)
            seq = stored.seq + 1
        return 0
