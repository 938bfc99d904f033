# cython: language_level=3, boundscheck=False
"""The duplicate window (see dedup.pxd).

A start reads the ids from the log before anybody can publish. Where that takes long the rest follows in turns, and
publishes with an id are refused until it is done: to store one of them unjudged might store it twice. Segments that
hold no id are not looked at, so that streams whose publishers use none cost a start nothing.

Ids that have left the window count no more, and are dropped a few with each publish; what is left of a burst goes in
turns.
"""
from collections import deque

from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.timing.work_turns cimport WorkTurns
from jetbroker.store.log.stream_log cimport READ_MISSING, READ_OK, StoredMessage
from jetbroker.store.log.segment cimport Segment
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.wire.headers cimport find_header

from jetbroker import limits
from jetbroker.errors import StorageError

cdef bytes MSG_ID = b"Nats-Msg-Id"
# Messages read between two looks at the clock.
cdef int READS_AT_ONCE = 64
# Ids dropped between two looks at the clock, and with each publish that has one.
cdef int DROPS_AT_ONCE = 512
cdef int DROPS_BESIDE_ONE = 16


cdef class DedupWindow(Worker):
    """Ids of the last `window_ns` nanoseconds."""

    def __init__(self, SegmentedLog log not None, WorkTurns turns not None, int64_t window_ns) -> None:
        self.log = log
        self.turns = turns
        self.window_ns = window_ns
        self.unread_until = log.last_seq if log.messages else 0
        self.entries = {}
        self.order = deque()

    def __len__(self) -> int:
        return len(self.entries)

    cpdef int start(self) except -1:
        self.running = True
        if self.unread_until:
            self.unread_from = max(self.unread_from, self.log.seq_at_time(wall_clock_ns() - self.window_ns))
            if self.work(monotonic_ns() + <int64_t>limits.JS_DEDUP_START_NS):
                self.turns.add(self)
        return 0

    cpdef int stop(self) except -1:
        self.running = False
        return 0

    cdef bint is_read(self) except -1:
        if self.unread_until:
            self.turns.add(self)       # it waits there already, unless the disk refused to read
        return self.unread_until == 0

    cdef uint64_t find(self, bytes msg_id, int64_t now_ns) except? 0:
        cdef tuple entry
        self.prune(now_ns)
        entry = <tuple>self.entries.get(msg_id)
        if entry is None or <int64_t>entry[0] < now_ns - self.window_ns:
            return 0
        return <uint64_t>entry[2]

    cdef bytes newest(self, uint64_t seq):
        return self.order[-1][1] if self.order and self.order[-1][2] == seq else None

    cdef int remember(self, bytes msg_id, uint64_t seq, int64_t now_ns) except -1:
        cdef tuple entry = (now_ns, msg_id, seq)
        self.entries[msg_id] = entry
        self.order.append(entry)
        if self.on_first is not None:
            self.on_first()
        return 0

    cdef int forget_from(self, uint64_t first_lost) except -1:
        while self.order and self.order[-1][2] >= first_lost:
            self._forget(<tuple>self.order.pop())
        return 0

    cpdef int64_t prune(self, int64_t now_ns) except? 0:
        """Drop what has left the window, a few at once; returns the time of the oldest that is left, 0: none."""
        if self._drop(now_ns, DROPS_BESIDE_ONE):
            self.turns.add(self)
        return <int64_t>(<tuple>self.order[0])[0] if self.order else 0

    cdef bint _drop(self, int64_t now_ns, int left) except -1:
        """Drop so many that have left the window; True: there are more."""
        cdef int64_t limit = now_ns - self.window_ns
        while self.order and <int64_t>(<tuple>self.order[0])[0] < limit:
            if not left:
                return True
            left -= 1
            self._forget(<tuple>self.order.popleft())
        return False

    cdef int _forget(self, tuple entry) except -1:
        """It is in `order` no more; its id may have come again."""
        if self.entries.get(entry[1]) is entry:
            del self.entries[entry[1]]
        return 0

    cpdef int resize(self, int64_t window_ns) except -1:
        """Use another window from now on."""
        self.window_ns = window_ns
        return 0

    cdef bint work(self, int64_t until_ns) except -1:
        if not self.running:
            return False
        try:
            if self.unread_until and self._read_log(until_ns):
                return True
            while self._drop(wall_clock_ns(), DROPS_AT_ONCE):
                if monotonic_ns() >= until_ns:
                    return True
            return False
        except StorageError as error:
            # the next publish with an id has it tried again
            self.turns.tick.report(self, error)
            return False

    cdef bint _read_log(self, int64_t until_ns) except -1:
        """Read some more; True: not yet all."""
        cdef StoredMessage stored
        cdef const char* value = NULL
        cdef Py_ssize_t value_len = 0
        cdef Segment segment
        cdef int left = READS_AT_ONCE
        while self.unread_from <= self.unread_until:
            segment = self.log.segment_of(self.unread_from)
            if segment is not None and not segment.msg_ids:
                self.unread_from = segment.first_seq + segment.slots
                continue
            if not left:
                if monotonic_ns() >= until_ns:
                    return True
                left = READS_AT_ONCE
            left -= 1
            result = self.log.next_message(None, self.unread_from, self.unread_until, &stored)
            if result == READ_MISSING:
                break
            self.unread_from = stored.seq + 1
            if result == READ_OK and stored.headers_len and find_header(
                    stored.headers, stored.headers_len, MSG_ID, 11, &value, &value_len) and value_len:
                self.remember(value[:value_len], stored.seq, stored.time_ns)
        self.unread_until = 0
        return False
