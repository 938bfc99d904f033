# cython: language_level=3, boundscheck=False, wraparound=False
"""Message schedules of one stream: stored messages that publish others when their time has come.

A schedule is an ordinary message whose record is marked, so a start finds all of them without reading the rest. When
each has fired last is not stored: the last message it has made says so, and where that is gone, that the stream has
stored anything later.
"""
import heapq

from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.ingest cimport Ingest
from jetbroker.jetstream.interest cimport StreamConsumer
from jetbroker.jetstream.timestamps cimport wall_clock_ns
from jetbroker.jetstream.wall_timer cimport WallTimer
from jetbroker.store.flagged cimport FlaggedWalk, is_stored
from jetbroker.store.log cimport (
    FLAG_SCHEDULE, READ_MISSING, READ_OK, StoredMessage, StreamLog, SubjectFilter, SubjectState,
)
from jetbroker.tick cimport PHASE_CONSUMERS, PHASE_EVENTS, Tick, TickTask

from jetbroker import limits
from jetbroker.jetstream.gotext import parse_time
from jetbroker.jetstream.publish_headers import header_text
from jetbroker.jetstream.schedule_headers import PURGE, Rules, generated_block, read_pattern

cdef int FIRINGS_PER_TICK = limits.JS_EXPIRIES_PER_TICK
cdef Py_ssize_t SLOTS_PER_TICK = limits.JS_TTL_SLOTS_PER_TICK
cdef int64_t SECOND_NS = 1_000_000_000
cdef object LATEST_NS = 2 ** 63 - 1    # a schedule may be due beyond it
# A message that a limit refuses is made again after this long.
cdef int64_t REFUSED_NS = 30 * SECOND_NS
# Entries of removed schedules are thrown out when they outnumber the stored messages by this many.
cdef Py_ssize_t SPARE_ENTRIES = 1024


cdef class Schedules(TickTask):
    """Fires the schedules of one stream; made by its Ingest."""
    cdef Ingest ingest
    cdef StreamLog log
    cdef Tick tick
    cdef readonly object rules         # of the stream's configuration
    cdef bint running
    cdef WallTimer timer
    cdef dict due                      # sequence of the schedule -> when, ns
    cdef list heap                     # (when, sequence); valid when `due` says the same
    cdef list unconfirmed              # (sequence of the message made, of its schedule, when) not committed yet
    cdef FlaggedWalk unread            # schedules stored before the start and not found yet; None: there are none
    cdef int64_t stored_before_ns      # time of the last message at the start

    def __init__(self, Ingest ingest not None) -> None:
        self.ingest = ingest
        self.log = ingest.log
        self.tick = ingest.tick
        self.timer = WallTimer(self.tick, self)
        self.due = {}
        self.heap = []
        self.unconfirmed = []

    def __len__(self) -> int:
        return len(self.due)

    def configure(self, config) -> None:
        """Judge schedules by a StreamConfig from now on."""
        subjects = [subject.encode() for subject in config.subjects]
        self.rules = Rules(config.allow_msg_schedules, config.allow_msg_ttl, subjects)

    def start(self) -> None:
        """Find what is stored, and fire from now on. What came due while the broker was down fires once."""
        if self.running:
            return
        self.running = True
        if self.log.messages:
            self.stored_before_ns = self.log.last_time_ns
            self.unread = FlaggedWalk(self.log, FLAG_SCHEDULE)
            self._read_log()
        self._watch()

    def stop(self) -> None:
        """Fire nothing any more."""
        self.running = False
        self.timer.stop()

    def add(self, uint64_t seq, bytes headers not None, int64_t now) -> None:
        """Message seq, just stored, is a schedule."""
        pattern, _ = read_pattern(headers)
        when = pattern.first(now) if pattern is not None else None
        if when is not None:
            self._put(seq, when)
            self._watch()

    def look_again(self, uint64_t first_lost, list restored not None) -> None:
        """A write has failed: sequences from first_lost on are given out again, removals of `restored` were undone."""
        for seq in [seq for seq in self.due if seq >= first_lost]:
            del self.due[seq]
        self.stored_before_ns = wall_clock_ns()
        unconfirmed = self.unconfirmed
        self.unconfirmed = []
        for made, seq, when in unconfirmed:
            if made >= first_lost:
                if seq < first_lost:
                    self._put(seq, when)   # what it made is gone
            else:
                self.unconfirmed.append((made, seq, when))
        for seq in restored:
            if seq not in self.due:
                self._restore(seq)
        self._watch()

    # --- the heap ---

    cdef int _put(self, uint64_t seq, object when) except -1:
        if len(self.heap) > 2 * <Py_ssize_t>self.log.messages + SPARE_ENTRIES:
            self.due = {kept: at for kept, at in self.due.items() if is_stored(self.log, kept)}
            self.heap = [(at, kept) for kept, at in self.due.items()]
            heapq.heapify(self.heap)
        self.due[seq] = when
        heapq.heappush(self.heap, (when, seq))
        return 0

    cdef int _watch(self) except -1:
        """Have the timer run for what is due next."""
        return self.timer.set(min(self.heap[0][0], LATEST_NS) if self.heap else 0) if self.running else 0

    cdef int run_tick(self) except -1:
        cdef StreamConsumer consumer
        cdef uint64_t last_seq = self.log.last_seq
        cdef int left = FIRINGS_PER_TICK
        if not self.running:
            return 0
        if self.unread is not None:
            self._read_log()
        now = wall_clock_ns()
        self.unconfirmed = [entry for entry in self.unconfirmed if entry[0] > self.log.committed]
        while left and self.heap and self.heap[0][0] <= now:
            left -= 1
            when, seq = heapq.heappop(self.heap)
            if self.due.get(seq) == when:
                del self.due[seq]
                self._fire(seq, when, now)
        if self.log.last_seq != last_seq:
            for consumer in self.ingest.consumers:
                self.tick.schedule(PHASE_CONSUMERS, consumer)
        if not left:
            self.tick.defer(PHASE_EVENTS, self)
        return self._watch()

    # --- firing ---

    cdef int _fire(self, uint64_t seq, object when, object now) except -1:
        """Store what the schedule makes."""
        cdef StoredMessage stored
        cdef uint64_t made
        if self.log.read(seq, &stored) != READ_OK or not stored.headers_len:
            return 0
        subject = stored.subject[:stored.subject_len]
        schedule = block = stored.headers[:stored.headers_len]
        payload = stored.payload[:stored.payload_len]
        if not self._is_current(seq, subject):
            return 0
        pattern, _ = read_pattern(schedule)
        target = header_text(schedule, b"Nats-Schedule-Target")
        if pattern is None or not target:
            return 0
        following = pattern.following(when, now)
        source = header_text(schedule, b"Nats-Schedule-Source")
        if source:
            last = self.log.last_by_subject(source)
            if last and self.log.read(last, &stored) == READ_OK:
                block = stored.headers[:stored.headers_len] if stored.headers_len else b""
                payload = stored.payload[:stored.payload_len]
        text = pattern.text(following) if following is not None else ""
        made = self.ingest.store_generated(target, generated_block(block, schedule, subject, text), payload)
        if made:
            self.unconfirmed.append((made, seq, when))
            if following is not None:
                self._put(seq, following)
        else:
            self._put(seq, now + (SECOND_NS if self.log.failed is not None else REFUSED_NS))
        return 0

    cdef bint _is_current(self, uint64_t seq, bytes subject) except -1:
        """False when a later message of its subject that no schedule has made has taken its place."""
        cdef StoredMessage later
        cdef SubjectState state = self.log.subject_state(subject, len(subject))
        cdef SubjectFilter same = SubjectFilter(subject)
        while seq < state.last:
            result = self.log.next_message(same, seq + 1, state.last, &later)
            if result == READ_MISSING:
                break
            seq = later.seq
            if result == READ_OK and (not later.headers_len or not header_text(
                    later.headers[:later.headers_len], b"Nats-Scheduler")):
                return False
        return True

    # --- after a start ---

    cdef int _read_log(self) except -1:
        """Find some more of the schedules that were stored before the start."""
        cdef StoredMessage message
        cdef Py_ssize_t left = SLOTS_PER_TICK
        while self.unread.find(&left, &message):
            if message.seq not in self.due:
                self._restore(message.seq)
        if self.unread.limit:
            self.tick.defer(PHASE_EVENTS, self)
        else:
            self.unread = None
        return 0

    def _restore(self, uint64_t seq) -> None:
        """When is this schedule due, that an earlier process may have fired?"""
        cdef StoredMessage stored
        cdef int64_t time_ns
        if self.log.read(seq, &stored) != READ_OK or not stored.headers_len:
            return
        subject = stored.subject[:stored.subject_len]
        headers = stored.headers[:stored.headers_len]
        time_ns = stored.time_ns
        pattern, _ = read_pattern(headers)
        if pattern is None:
            return
        told = self._told_by_target(subject, header_text(headers, b"Nats-Schedule-Target"), seq)
        if told == PURGE:
            # it has done its work; the record of its removal was lost
            self.ingest.end_schedule(subject, 0)
            return
        when = pattern.first(time_ns)
        if pattern.repeats and when is not None:
            if told is not None:
                when = told
            elif when <= self.stored_before_ns:
                when = pattern.following(when, self.stored_before_ns)
                if when is not None and when <= self.stored_before_ns:
                    when = pattern.first(self.stored_before_ns)
        if when is not None:
            self._put(seq, when)

    cdef object _told_by_target(self, bytes subject, bytes target, uint64_t seq):
        """What the last message says that this schedule has made: PURGE or a time in ns; None: it is not there."""
        cdef StoredMessage made
        cdef uint64_t last = self.log.last_by_subject(target) if target else 0
        if last <= seq or self.log.read(last, &made) != READ_OK or not made.headers_len:
            return None
        headers = made.headers[:made.headers_len]
        following = header_text(headers, b"Nats-Schedule-Next")
        if header_text(headers, b"Nats-Scheduler") != subject or not following:
            return None
        if following == PURGE:
            return PURGE
        try:
            return parse_time(following.decode("utf-8", "replace")).ns
        except ValueError:
            return None
