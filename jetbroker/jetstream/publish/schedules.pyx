# cython: language_level=3, boundscheck=False, wraparound=False
"""Message schedules of one stream: stored messages that publish others when their time has come.

A schedule is an ordinary message whose record is marked, so a start finds all of them without reading the rest. When
each has fired last is not stored: the last message it has made says so, and where that is gone, that the stream has
stored anything later.
"""
import heapq
from collections import deque
from functools import partial

from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.headers cimport has_scheduler
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.timing.wall_timer cimport WallTimer
from jetbroker.jetstream.timing.work_turns cimport Worker
from jetbroker.store.log.flagged cimport FlaggedWalk, is_stored
from jetbroker.store.log.stream_log cimport (
    FLAG_SCHEDULE, READ_MISSING, READ_OK, StoredMessage, StreamLog, SubjectFilter, SubjectState,
)
from jetbroker.tick cimport PHASE_CONSUMERS, Tick, TickTask

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gotext import parse_time
from jetbroker.jetstream.publish.headers import header_text
from jetbroker.jetstream.publish.schedule_headers import PURGE, Rules, due_first, generated_block, read_pattern
from jetbroker.jetstream.publish.schedule_patterns import bounded
from jetbroker.tick import REST

cdef Py_ssize_t SLOTS_AT_ONCE = limits.JS_SCHEDULE_SLOTS
cdef int64_t SECOND_NS = 1_000_000_000
# A message that a limit refuses is made again after this long.
cdef int64_t REFUSED_NS = 30 * SECOND_NS
# Entries of removed schedules are thrown out when they outnumber the stored messages by this many.
cdef Py_ssize_t SPARE_ENTRIES = 1024


def matches_filter(SubjectFilter filter not None, bytes subject not None) -> bool:
    """Does this literal subject match?"""
    return filter.matches(subject, len(subject))


def matches_nothing(subject) -> bool:
    """A stream without subjects."""
    return False


cdef enum Standing:
    STANDS                             # nothing has taken its place
    REPLACED
    UNKNOWN                            # so far


cdef class Schedules(Worker):
    """Fires the schedules of one stream; made by its Ingest.

    Every time comes from schedule_patterns and is in its range. A schedule that cannot be understood, or fails, is
    void: it stays stored and makes nothing, and neither its stream nor other schedules notice.
    """
    cdef Ingest ingest
    cdef StreamLog log
    cdef Tick tick
    cdef readonly object rules         # of the stream's configuration
    cdef bint running
    cdef WallTimer timer
    cdef dict due                      # subject -> (when its schedule is due, ns; sequence of the schedule)
    cdef list heap                     # (when, sequence, subject); valid when `due` says the same
    cdef dict judged                   # sequence of the schedule -> up to where nothing has taken its place
    cdef Py_ssize_t void               # schedules that were found void
    # (sequence of a message that a schedule has made or that has ended it, its subject, when it was due before that and
    # its sequence), for messages that are not committed yet
    cdef object unconfirmed
    cdef FlaggedWalk unread            # schedules stored before the start and not found yet; None: there are none
    cdef int64_t retry_ns              # a read was refused: the log is not read on before
    cdef int64_t stored_before_ns      # time of the last message at the start

    def __init__(self, Ingest ingest not None) -> None:
        self.ingest = ingest
        self.log = ingest.log
        self.tick = ingest.tick
        self.turns = ingest.host.turns
        self.timer = WallTimer(self.tick, self)
        self.due = {}
        self.heap = []
        self.judged = {}
        self.unconfirmed = deque()

    def __len__(self) -> int:
        return len(self.due)

    def configure(self, config, SubjectFilter own_subjects not None) -> None:
        """Judge schedules by a StreamConfig from now on; `own_subjects`: the stream's."""
        covers = partial(matches_filter, own_subjects) if config.subjects else matches_nothing
        self.rules = Rules(config.allow_msg_schedules, config.allow_msg_ttl, covers)

    def start(self) -> None:
        """Find what is stored, and fire from now on. What came due while the broker was down fires once."""
        if self.running:
            return
        self.running = True
        if self.log.messages:
            self.stored_before_ns = self.log.last_time_ns
            self.unread = FlaggedWalk(self.log, FLAG_SCHEDULE)
            self._read_log(monotonic_ns() + limits.JS_WORK_NS)
            self.run_tick()
        self._watch()

    def stop(self) -> None:
        """Fire nothing any more."""
        self.running = False
        self.timer.stop()

    def release(self) -> None:
        """The stream is deleted: the timer, which is stopped, refers to nothing of it."""
        self.timer.task = <TickTask?>REST

    def add(self, bytes subject not None, uint64_t seq, bytes headers not None, int64_t now, prepared) -> None:
        """Message seq, just stored, is a schedule; `prepared`: what `prepare` has said of its headers, or None."""
        try:
            if prepared is not None and prepared.rules is self.rules:
                when = due_first(prepared, now)
            else:
                pattern, _ = read_pattern(headers)
                when = pattern.first(now) if pattern is not None else None
            if when is not None:
                self._put(subject, seq, when)
        except Exception as error:
            self._make_void(seq, error)
        self._watch()

    def end(self, bytes subject not None, uint64_t seq) -> None:
        """Message seq, just stored, takes the place of the schedule on its subject, whatever becomes of it later."""
        entry = self.due.pop(subject, None)
        if entry is not None:
            when, schedule = entry
            self._note(seq, subject, when, schedule)

    cdef int _note(self, uint64_t seq, bytes subject, object when, uint64_t schedule) except -1:
        """Message seq is not committed: without it, the schedule is due as before."""
        while self.unconfirmed and self.unconfirmed[0][0] <= self.log.committed:
            self.unconfirmed.popleft()
        self.unconfirmed.append((seq, subject, when, schedule))
        return 0

    def look_again(self, uint64_t first_lost, list restored not None) -> None:
        """A write has failed: sequences from first_lost on are given out again, removals of `restored` were undone."""
        self.due = {subject: entry for subject, entry in self.due.items() if entry[1] < first_lost}
        self.stored_before_ns = wall_clock_ns()
        self.judged.clear()
        for by, subject, when, seq in reversed(self.unconfirmed):
            if by >= first_lost > seq:
                self._put(subject, seq, when)
        self.unconfirmed = deque([entry for entry in self.unconfirmed if entry[0] < first_lost])
        known = {seq for _, seq in self.due.values()}
        try:
            for seq in restored:
                if seq not in known:
                    self._restore(seq)
        except StorageError as error:
            self.unread = FlaggedWalk(self.log, FLAG_SCHEDULE)  # they are found again when they can be read
            self._read_later(error)
        self._watch()

    cdef int _make_void(self, uint64_t seq, object why) except -1:
        """It never fires. The log tells of the first one of a stream."""
        self.void += 1
        if self.void == 1:
            self._warn(f"the schedule at sequence {seq} is void: {why!r}")
        return 0

    cdef int _warn(self, str text) except -1:
        name = self.ingest.name.decode()
        self.ingest.host.log.warn(f"Stream '{self.ingest.host.account_name} > {name}': {text}")
        return 0

    # --- the heap ---

    cdef int _put(self, bytes subject, uint64_t seq, object when) except -1:
        if len(self.heap) > 2 * <Py_ssize_t>self.log.messages + SPARE_ENTRIES:
            self.due = {kept: entry for kept, entry in self.due.items() if is_stored(self.log, entry[1])}
            self.heap = [(*entry, kept) for kept, entry in self.due.items()]
            heapq.heapify(self.heap)
        if self._known(subject) <= seq:
            self.due[subject] = (when, seq)
            heapq.heappush(self.heap, (when, seq, subject))
        return 0

    cdef uint64_t _known(self, bytes subject) except? 0:
        """The sequence of the schedule that waits on this subject, 0: none is known."""
        entry = self.due.get(subject)
        return 0 if entry is None else entry[1]

    cdef int _watch(self) except -1:
        """Have the timer run for what is due next."""
        cdef int64_t when
        if not self.running:
            return 0
        when = self.heap[0][0] if self.heap else 0
        if self.unread is not None and self.retry_ns and (not when or self.retry_ns < when):
            when = self.retry_ns
        return self.timer.set(when)

    cdef bint work(self, int64_t until_ns) except -1:
        cdef bint more
        if not self.running:
            return False
        more = self.unread is not None and self._read_log(until_ns)
        more = self._fire_due(until_ns) or more
        self._watch()
        return more

    cdef bint _fire_due(self, int64_t until_ns) except -1:
        """True: there are more."""
        cdef StreamConsumer consumer
        cdef uint64_t last_seq = self.log.last_seq
        cdef int64_t now = wall_clock_ns()
        while self.heap and self.heap[0][0] <= now and monotonic_ns() < until_ns:
            when, seq, subject = heapq.heappop(self.heap)
            if self.due.get(subject) == (when, seq):
                del self.due[subject]
                try:
                    self._fire(subject, seq, when, now)
                except StorageError:
                    self._put(subject, seq, now + REFUSED_NS)
                except Exception as error:
                    self._make_void(seq, error)
        if self.log.last_seq != last_seq:
            for consumer in self.ingest.interest.consumers:
                self.tick.schedule(PHASE_CONSUMERS, consumer)
        return bool(self.heap) and self.heap[0][0] <= now

    # --- firing ---

    cdef int _fire(self, bytes subject, uint64_t seq, object when, object now) except -1:
        """Store what the schedule makes."""
        cdef StoredMessage stored
        cdef uint64_t made
        if self.log.read(seq, &stored) != READ_OK or not stored.headers_len:
            return 0
        schedule = block = stored.headers[:stored.headers_len]
        payload = stored.payload[:stored.payload_len]
        standing = self._standing(seq, subject)
        if standing != STANDS:
            return self._put(subject, seq, when) if standing == UNKNOWN else 0
        pattern, fault = read_pattern(schedule)
        target = header_text(schedule, b"Nats-Schedule-Target")
        if pattern is None or not target:
            return self._make_void(seq, fault)
        if pattern.repeats and when <= stored.time_ns:
            # it was prepared before that time, and stored after it
            when = pattern.first(stored.time_ns)
            return self._put(subject, seq, when) if when is not None else 0
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
            self._note(made, subject, when, seq)
            if following is not None:
                self._put(subject, seq, following)
        else:
            self._put(subject, seq, now + (SECOND_NS if self.log.failed is not None else REFUSED_NS))
        return 0

    cdef Standing _standing(self, uint64_t seq, bytes subject) except *:
        """Has a later message of its subject that no schedule has made taken its place? Looks at some at a time."""
        cdef StoredMessage later
        cdef SubjectState state = self.log.subject_state(subject, len(subject))
        cdef SubjectFilter same = SubjectFilter(subject)
        cdef uint64_t at = max(seq, self.judged.pop(seq, 0))
        cdef Py_ssize_t left = SLOTS_AT_ONCE
        while at < state.last:
            if not left:
                self.judged[seq] = at
                return UNKNOWN
            left -= 1
            result = self.log.next_message(same, at + 1, state.last, &later)
            if result == READ_MISSING:
                break
            at = later.seq
            if result == READ_OK and not has_scheduler(later.headers, later.headers_len):
                return REPLACED
        if at > seq:
            self.judged[seq] = at
        return STANDS

    # --- after a start ---

    cdef bint _read_log(self, int64_t until_ns) except -1:
        """Find some more of the schedules that were stored before the start; True: not yet all that can be read now."""
        cdef StoredMessage message
        cdef uint64_t at
        cdef Py_ssize_t left
        if wall_clock_ns() < self.retry_ns:
            return False
        while self.unread.limit and monotonic_ns() < until_ns:
            left = SLOTS_AT_ONCE
            at = self.unread.start
            try:
                if self.unread.find(&left, &message) and (
                        self._known(message.subject[:message.subject_len]) < message.seq):
                    at = message.seq
                    self._restore(at)
            except StorageError as error:
                self.unread.go_back(at)
                self._read_later(error)
                return False
        if self.unread.limit:
            return True
        self.unread = None
        self.retry_ns = 0
        return False

    cdef int _read_later(self, object why) except -1:
        """The log is read on in a second. It tells of the first time only."""
        if not self.retry_ns:
            self._warn(f"schedules cannot be read, which is tried again: {why}")
        self.retry_ns = wall_clock_ns() + SECOND_NS
        return 0

    cdef int _restore(self, uint64_t seq) except -1:
        """Find out when it is due; void where that cannot be told. Raises StorageError."""
        try:
            self._find_due(seq)
        except StorageError:
            raise
        except Exception as error:
            self._make_void(seq, error)
        return 0

    def _find_due(self, uint64_t seq) -> None:
        """When is this schedule due, that an earlier process may have fired?"""
        cdef StoredMessage stored
        cdef int64_t time_ns
        if self.log.read(seq, &stored) != READ_OK or not stored.headers_len:
            return
        subject = stored.subject[:stored.subject_len]
        headers = stored.headers[:stored.headers_len]
        time_ns = stored.time_ns
        pattern, fault = read_pattern(headers)
        if pattern is None:
            self._make_void(seq, fault)
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
            self._put(subject, seq, when)

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
            return bounded(parse_time(following.decode("utf-8", "replace")).ns)
        except ValueError:
            return None
