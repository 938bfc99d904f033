# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What a stream removes because its time has come (see expiry.pxd).

One timer per stream, for whatever is due first. Work is done in PHASE_EVENTS, for a bounded time per tick.
"""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.publish.ttl cimport TTL_NEVER, expiry_ns, ttl_of
from jetbroker.jetstream.timing.wall_timer cimport WallTimer
from jetbroker.saturate cimport add_int64
from jetbroker.store.log.flagged cimport FlaggedWalk
from jetbroker.store.log.stream_log cimport FLAG_TTL, READ_DAMAGED, READ_MISSING, READ_OK, StoredMessage, SubjectState
from jetbroker.tick cimport PHASE_CONSUMERS, PHASE_EVENTS, TickTask
from jetbroker.wire.headers cimport find_header

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gotext import SECOND, duration_text
from jetbroker.tick import REST

cdef uint64_t EVICTIONS_AT_ONCE = limits.JS_EVICTED_AT_ONCE
cdef int64_t WORK_NS = limits.JS_WORK_NS
cdef Py_ssize_t SLOTS_PER_TICK = limits.JS_TTL_SLOTS_PER_TICK
cdef int64_t SECOND_NS = 1_000_000_000


cdef class Expiry(TickTask):
    """Removes messages of one stream whose time has come, and leaves delete markers when the stream wants them."""

    def __init__(self, Ingest ingest not None) -> None:
        self.ingest = ingest
        self.log = ingest.log
        self.tick = ingest.tick
        self.ttls = ingest.ttls
        self.timer = WallTimer(self.tick, self)

    cdef int configure(self, object config) except -1:
        self.max_age_ns = config.max_age
        self.allow_ttl = config.allow_msg_ttl
        self.singly = self.allow_ttl or config.mirror is not None or bool(config.sources)
        self.marker_seconds = config.subject_delete_marker_ttl // SECOND_NS if not config.sealed else 0
        self.age_cursor = 0
        if self.marker_seconds:
            text = duration_text(self.marker_seconds * SECOND)
            self.marker_headers = (
                f"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: {text}\r\nNats-Rollup: sub\r\n\r\n".encode())
        return self.watch()

    cdef int start(self) except -1:
        self.running = True
        if self.allow_ttl and self.log.messages:
            self.unread = FlaggedWalk(self.log, FLAG_TTL)
            self._read_log()
        self.ttls.on_earlier = self._on_news
        return self.watch()

    cdef int stop(self) except -1:
        self.running = False
        self.ttls.on_earlier = None
        self.ingest.on_first_message = None
        return self.timer.stop()

    def release(self) -> None:
        """The stream is deleted: the timer, which is stopped, refers to nothing of it."""
        self.timer.task = <TickTask?>REST

    cdef int watch(self) except -1:
        cdef int64_t due
        if not self.running:
            return 0
        try:
            due = self._next_due()
        except StorageError:
            # what is due cannot be read now: this must cost neither the publish that asks nor the timer
            due = wall_clock_ns() + SECOND_NS
        return self.timer.set(due)

    cdef int64_t _next_due(self) except? 0:
        """When something is due, 0: nothing will be before the next publish."""
        cdef StoredMessage message
        cdef int64_t due = self.ttls.earliest()
        cdef int64_t aged = 0
        cdef int result
        if self.retry_ns and self.unread is not None:
            return self.retry_ns       # the log has to be read on
        if self.max_age_ns > 0:
            if not self.singly:
                aged = max(self.log.time_of(self.log.first_seq), 1) if self.log.messages else 0
            else:
                result = self.log.next_message(None, self.age_cursor, self.log.last_seq, &message)
                if result == READ_OK:
                    aged = max(message.time_ns, 1)     # a message of time 0 is one, too
                elif result == READ_DAMAGED:
                    due = 1            # it is passed over at once
            if aged:
                aged = add_int64(aged, self.max_age_ns)
                due = min(due, aged) if due else aged
            self.ingest.on_first_message = None if aged else self._on_news
        else:
            self.ingest.on_first_message = None
        return max(due, self.retry_ns) if due else 0

    def _on_news(self) -> None:
        self.watch()

    cdef int run_tick(self) except -1:
        cdef StreamConsumer consumer
        cdef int64_t now = wall_clock_ns()
        cdef uint64_t messages = self.log.messages
        cdef uint64_t last_seq = self.log.last_seq
        if not self.running:
            return 0
        self.retry_ns = 0
        if self.unread is not None:
            self._read_log()
        try:
            self._expire_due(now)
            if self.max_age_ns > 0:
                self._expire_aged(now)
        except StorageError:
            # It cannot be read, or there is no room for a marker: the message stays, so that its end is not lost to
            # those who watch the subject.
            self.retry_ns = now + SECOND_NS
        if self.log.messages != messages or self.log.last_seq != last_seq:
            for consumer in self.ingest.interest.consumers:
                self.tick.schedule(PHASE_CONSUMERS, consumer)
        return self.watch()

    # --- messages with a TTL, after a start ---

    cdef int _read_log(self) except -1:
        """Find some more of the messages that were stored before the start."""
        cdef StoredMessage message
        cdef int64_t ttl
        cdef Py_ssize_t left = SLOTS_PER_TICK
        try:
            while self.unread.find(&left, &message):
                ttl = ttl_of(message.headers, message.headers_len)
                if ttl > 0:
                    self.ttls.add(message.seq, expiry_ns(message.time_ns, ttl))
        except StorageError:
            self.retry_ns = wall_clock_ns() + SECOND_NS
            return 0
        if self.unread.limit:
            self.tick.defer(PHASE_EVENTS, self)
        else:
            self.unread = None
        return 0

    cdef int look_again(self, uint64_t first_lost, list restored) except -1:
        cdef StoredMessage message
        cdef uint64_t seq
        cdef int64_t ttl
        self.age_cursor = min(self.age_cursor, first_lost)
        self.ttls.compact()            # sequences that are given out again must not be in it twice
        for seq in restored:
            if self.log.read(seq, &message) == READ_OK:
                self.age_cursor = min(self.age_cursor, seq)
                ttl = ttl_of(message.headers, message.headers_len)
                if ttl > 0:
                    self.ttls.add(seq, expiry_ns(message.time_ns, ttl))
        return self.watch()

    # --- removal ---

    cdef int _expire_due(self, int64_t now) except -1:
        """What is due by its own TTL."""
        cdef StoredMessage message
        cdef uint64_t seq
        cdef int64_t ttl
        cdef int64_t due
        cdef int64_t until = monotonic_ns() + WORK_NS
        while self.ttls.count and self.ttls.earliest() <= now and monotonic_ns() < until:
            due = self.ttls.earliest()
            seq = self.ttls.pop()
            try:
                if self.log.read(seq, &message) != READ_OK:
                    continue
                ttl = ttl_of(message.headers, message.headers_len)
                if ttl <= 0:
                    continue
                if expiry_ns(message.time_ns, ttl) > now:      # the sequence was given out again after a failed write
                    self.ttls.add(seq, expiry_ns(message.time_ns, ttl))
                    continue
                self._expire(&message, now)
            except StorageError:
                self.retry_ns = now + SECOND_NS                # which the timer asks for when this is added
                self.ttls.add(seq, due)
                raise
        return 0

    cdef int _expire_aged(self, int64_t now) except -1:
        """What is older than max_age."""
        cdef uint64_t keep_from
        cdef int64_t until = monotonic_ns() + WORK_NS
        if self.singly:
            return self._expire_aged_singly(now)
        keep_from = self.log.seq_at_time(now - self.max_age_ns + 1)
        while self.log.messages and self.log.first_seq < keep_from and monotonic_ns() < until:
            self.log.remove_before(min(keep_from, self.log.first_seq + EVICTIONS_AT_ONCE))
        return 0

    cdef int _expire_aged_singly(self, int64_t now) except -1:
        """As above, one by one: some messages never expire, some leave a marker."""
        cdef StoredMessage message
        cdef int result
        cdef int64_t until = monotonic_ns() + WORK_NS
        while monotonic_ns() < until:
            result = self.log.next_message(None, self.age_cursor, self.log.last_seq, &message)
            if result == READ_MISSING:
                self.age_cursor = self.log.last_seq + 1
                return 0
            if result == READ_OK:
                if message.time_ns > now - self.max_age_ns:
                    return 0
                if ttl_of(message.headers, message.headers_len) != TTL_NEVER:
                    seq = message.seq
                    self._expire(&message, now)
                    self.age_cursor = seq + 1
                    continue
            self.age_cursor = message.seq + 1
        return 0

    cdef int _expire(self, StoredMessage* message, int64_t now) except -1:
        """Remove one message; the only one of its subject leaves a marker. Raises StorageError."""
        cdef SubjectState state
        cdef uint64_t seq = message.seq
        if self.marker_seconds and leaves_marker(message):
            state = self.log.subject_state(message.subject, message.subject_len)
            if state.count == 1:
                return self.ingest.replace_by_marker(state, self.marker_headers, self.marker_seconds, now)
        return self.ingest.remove_expired(seq)


cdef bint leaves_marker(const StoredMessage* message) noexcept:
    """False for what tells the end of a subject itself."""
    cdef const char* value = NULL
    cdef Py_ssize_t n = 0
    if not message.headers_len:
        return True
    if find_header(message.headers, message.headers_len, b"Nats-Marker-Reason", 18, &value, &n) and n:
        return False
    return not (find_header(message.headers, message.headers_len, b"KV-Operation", 12, &value, &n)
                and n == 5 and value[:n] == b"PURGE")
