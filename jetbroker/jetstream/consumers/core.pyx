# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A consumer's core: where it stands, what is pending, and one message on its way out (see core.pxd).

A delivery (pull or push) asks the core for what comes next and has it sent. A message is recorded as delivered only
when somebody took it. Receivers must not publish from deliver(), but an inbox may be an ack subject of this very
consumer: nothing that a sent message can change is kept across it.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.tracker cimport (
    ENTRY_EXHAUSTED, ENTRY_QUEUED, POLICY_NONE, AckTracker, PendingEntry,
)
from jetbroker.jetstream.consumers.snapshot cimport encode_snapshot
from jetbroker.jetstream.timing.work_turns cimport Worker, WorkTurns
from jetbroker.routing.router cimport Route, Router, charge_publisher
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.saturate cimport add_int64, subtract_int64
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.slices cimport holds
from jetbroker.store.log.stream_log cimport (
    READ_DAMAGED, READ_LATER, READ_MISSING, READ_OK, StoredMessage, SubjectFilter, SubjectState,
)
from jetbroker.tick cimport PHASE_CONSUMERS, Tick, TickTask
from jetbroker.wire.buffer cimport OutputBuffer, format_uint
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.wire.subjects import subset

cdef Py_ssize_t NUMBERS_BYTES = 5 * 21
cdef int64_t MS = 1_000_000
cdef int64_t DUE_LONG_NS = <int64_t>(limits.JS_WATCHDOG_SECONDS * 1e9)
cdef int64_t NEVER_AGAIN_NS = 10 * 365 * 86_400 * 1_000_000_000      # ack policy flow_control: nothing comes twice
cdef Py_ssize_t FEW = limits.JS_FEW_SUBJECTS
cdef Py_ssize_t START_SUBJECTS = limits.JS_START_SUBJECTS
cdef int DUE_AT_ONCE = limits.JS_DUE_AT_ONCE
cdef long REQUEST_UNITS = limits.JS_PULL_REQUEST_UNITS
REMOVED_REASON = "Unacknowledged message was deleted"


cdef class ConsumerTurn:
    """A consumer's turns in the tick: what time it is, and how it gets the next one."""

    def __init__(self, Tick tick not None, TickTask task not None, source=None) -> None:
        self.tick = tick
        self.task = task
        self.source = source
        self.begin()

    cdef int64_t read(self) except? -1:
        return monotonic_ns() if self.source is None else self.source()

    cpdef int begin(self) except -1:
        self.now_ns = self.read()
        return 0

    cdef int wake(self) except -1:
        return self.tick.schedule(PHASE_CONSUMERS, self.task)

    cdef int go_on(self) except -1:
        return self.tick.defer(PHASE_CONSUMERS, self.task)

    cdef int arm(self, int64_t when_ns) except -1:
        if when_ns == 0 or (self.timer is not None and self.timer_ns <= when_ns):
            return 0
        self.stop()
        self.timer_ns = when_ns
        # rounded up: the loop's clock counts milliseconds
        self.timer = self.tick.loop.call_later(max(add_int64(when_ns - self.now_ns, MS // 2), MS) / 1e9, self._on_timer)
        return 0

    cdef int stop(self) except -1:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return 0

    def _on_timer(self) -> None:
        self.timer = None
        self.wake()


cdef class ConsumerAdvisories:
    """What a consumer tells by advisories: kept until the end of its turn, for receivers must not publish."""

    def __init__(self, host, str stream not None, str consumer not None) -> None:
        self.host = host
        self.stream = stream
        self.consumer = consumer
        self.waiting = []

    cdef int add(self, str event, str kind, dict fields) except -1:
        self.waiting.append((event, kind, fields))
        return 0

    cdef int terminated(self, uint64_t seq, uint64_t cseq, uint64_t deliveries, str reason) except -1:
        """A message will not come again."""
        cdef dict fields = {"consumer_seq": cseq, "stream_seq": seq, "deliveries": deliveries}
        if reason:
            fields["reason"] = reason
        return self.add("MSG_TERMINATED", "terminated", fields)

    cpdef int publish(self) except -1:
        cdef list waiting = self.waiting
        self.waiting = []
        for event, kind, fields in waiting:
            family, version = ("METRIC", "metric.v1") if kind == "consumer_ack" else ("ADVISORY", "advisory.v1")
            self.host.publish(f"$JS.EVENT.{family}.CONSUMER.{event}.{self.stream}.{self.consumer}", {
                "type": f"io.nats.jetstream.{version}.{kind}",
                "stream": self.stream,
                "consumer": self.consumer,
                **fields,
            })
        return 0


cdef class Envelope:
    """What goes out for a stored message: its subject, the ack subject and the body."""

    def __init__(self, bytes ack_prefix not None) -> None:
        """`ack_prefix` is what stands in front of the numbers."""
        self.reply = OutputBuffer()
        self.reply.append(PyBytes_AS_STRING(ack_prefix), PyBytes_GET_SIZE(ack_prefix))
        self.reply_prefix = self.reply.size
        self.body = OutputBuffer()

    cdef int address(self, StoredMessage* message, uint64_t delivered, uint64_t cseq, uint64_t ahead,
                     Message* out) except -1:
        cdef char* start
        cdef char* p
        self.reply.size = self.reply_prefix
        start = self.reply.reserve(NUMBERS_BYTES)
        p = start
        p += format_uint(p, delivered)
        p[0] = c'.'
        p += 1
        p += format_uint(p, message.seq)
        p[0] = c'.'
        p += 1
        p += format_uint(p, cseq)
        p[0] = c'.'
        p += 1
        p += format_uint(p, <uint64_t>message.time_ns)
        p[0] = c'.'
        p += 1
        p += format_uint(p, ahead)
        out.reply = self.reply.data
        out.reply_len = self.reply_prefix + (p - start)
        return 0

    cdef int fill(self, StoredMessage* message, bint copy, Message* out) except -1:
        """Subject and body; copied together when the log's bytes can not be used as they are."""
        out.subject = message.subject
        out.subject_len = message.subject_len
        out.headers_len = message.headers_len
        out.body_len = message.headers_len + message.payload_len
        out.size_text = NULL
        out.size_text_len = 0
        out.tail = NULL
        out.tail_len = 0
        out.body = message.headers if message.headers_len else message.payload
        if not self.headers_only and self.stamped is None:
            if not copy and (message.headers_len == 0 or message.payload_len == 0
                             or message.headers + message.headers_len == message.payload):
                return 0
            self.body.clear()
            self.body.reserve(message.subject_len + out.body_len)
            self.body.append(message.headers, message.headers_len)
            self.body.append(message.payload, message.payload_len)
        else:
            self._rewrite(message, out)
        if copy:
            self.body.append(message.subject, message.subject_len)
            out.subject = self.body.data + out.body_len
        out.body = self.body.data
        return 0

    cdef int _rewrite(self, StoredMessage* message, Message* out) except -1:
        """The body with headers of its own."""
        cdef bytes line
        self.body.clear()
        if message.headers_len:
            self.body.append(message.headers, message.headers_len - 2)
        else:
            self.body.append(b"NATS/1.0\r\n", 10)
        if self.headers_only:
            line = b"Nats-Msg-Size: %d\r\n" % message.payload_len
            self.body.append(PyBytes_AS_STRING(line), PyBytes_GET_SIZE(line))
        if self.stamped is not None:
            self.body.append(PyBytes_AS_STRING(self.stamped), PyBytes_GET_SIZE(self.stamped))
        self.body.append(b"\r\n", 2)
        out.headers_len = out.body_len = self.body.size
        self.added = 0
        if self.stamped is not None:
            # a message without headers would have had none
            self.added = PyBytes_GET_SIZE(self.stamped) if message.headers_len or self.headers_only else self.body.size
        if not self.headers_only:
            self.body.append(message.payload, message.payload_len)
            out.body_len = self.body.size
        return 0

    cdef int stamp(self, bytes line) except -1:
        """Let every message carry this header line, or none."""
        self.stamped = line
        self.added = 0
        return 0


cdef class LookAhead(Worker):
    """Goes on in turns with what takes a cursor long, then wakes its consumer."""

    def __init__(self, StreamCursor cursor not None, SegmentedLog log not None, ConsumerTurn turn not None,
                 WorkTurns turns not None) -> None:
        self.cursor = cursor
        self.log = log
        self.turn = turn
        self.turns = turns

    def close(self) -> None:
        """Look no further."""
        self.turn = None

    cdef bint work(self, int64_t until_ns) except -1:
        if self.turn is None:
            return False
        if self.cursor.look_ahead(self.log.committed, until_ns):
            return True
        self.turn.wake()
        return False


cdef class Forsaken:
    cdef bint take_exhausted(self, PendingEntry* entry) except -1:
        raise NotImplementedError


cdef class ConsumerCore:
    """The position of a consumer in its stream, and what it has delivered."""

    def __init__(self, SegmentedLog log not None, SubjectFilter filter not None, AckTracker tracker not None,
                 ConsumerTurn turn not None, WorkTurns turns not None, Router router not None,
                 ConsumerAdvisories advisories not None) -> None:
        self.log = log
        self.cursor = StreamCursor(log, filter, 1, turns)
        self.tracker = tracker
        self.turn = turn
        self.router = router
        self.advisories = advisories
        self.envelope = Envelope(f"$JS.ACK.{advisories.stream}.{advisories.consumer}.".encode())
        self.look_ahead = LookAhead(self.cursor, log, turn, turns)

    def configure(self, config) -> None:
        """Take over a (changed) ConsumerConfig."""
        ack_wait = NEVER_AGAIN_NS if config.ack_policy == "flow_control" else config.ack_wait
        self.tracker.configure(ack_wait, list(config.backoff or ()), config.max_deliver or -1)
        self.max_ack_pending = max(config.max_ack_pending, 0) if self.tracker.policy != POLICY_NONE else 0
        self.envelope.headers_only = config.headers_only

    def move_to(self, uint64_t seq) -> None:
        """A new consumer whose first message may be `seq`."""
        self.cursor.move_to(seq)
        self.tracker.start_at(seq)

    def begin_again(self, uint64_t seq) -> None:
        """As a new consumer at `seq`: nothing has been delivered, nothing is pending."""
        self.tracker.begin_at(seq)
        self.cursor.move_to(seq)

    def snapshot(self) -> bytes:
        """The present state as one record."""
        return encode_snapshot(
            self.tracker, self.cursor.resume or self.begun_at, self.turn.read(), wall_clock_ns())

    # --- what comes next ---

    cdef int next(self, StoredMessage* message, PendingEntry** again) except -1:
        cdef PendingEntry* entry
        cdef int result
        while True:
            entry = self.tracker.next_redelivery()
            if entry == NULL:
                break
            if self._is_used_up(entry):
                if self.letters is None or not self.letters.take_exhausted(entry):
                    self._give_up(entry)
                continue
            result = self.log.read(entry.seq, message)
            if result == READ_OK:
                again[0] = entry
                return OUTLOOK_AGAIN
            if result == READ_DAMAGED:
                self._give_up(entry)
            else:
                self.tracker.forget(entry.seq)
        again[0] = NULL
        if self.full():
            return OUTLOOK_BLOCKED
        while True:
            result = self.cursor.find(self.log.committed, message)
            if result == READ_OK:
                return OUTLOOK_NEW
            if result == READ_MISSING:
                return OUTLOOK_NOTHING
            if result == READ_LATER:
                self.look_ahead.run_tick()
                return OUTLOOK_LATER
            self._skip_damaged(message.seq)

    cdef bint full(self) noexcept:
        return self.max_ack_pending > 0 and self.tracker.pending.count >= self.max_ack_pending

    cdef bint blocked(self) except -1:
        return self.full() and self.tracker.next_redelivery() == NULL

    cdef bint take_due(self) except -1:
        cdef PendingEntry* entry
        for _ in range(DUE_AT_ONCE):
            entry = self.tracker.pending.pop_due(self.turn.now_ns)
            if entry == NULL:
                return False
            if not self._is_used_up(entry):
                self.tracker.queue(entry)
            elif self.letters is None or not self.letters.take_exhausted(entry):
                self._give_up(entry)
        return True

    cdef bint _is_used_up(self, PendingEntry* entry) noexcept:
        return self.tracker.max_deliver > 0 and entry.count >= self.tracker.max_deliver

    cdef int give_up_due(self) except -1:
        cdef PendingEntry* entry = self.tracker.next_redelivery()
        while entry != NULL and entry.count >= self.tracker.max_deliver and self.letters.take_exhausted(entry):
            entry = self.tracker.next_redelivery()
        return 0

    cdef int _give_up(self, PendingEntry* entry) except -1:
        """max_deliver is used up: the message stays unacked, but is not delivered any more."""
        cdef int64_t most = self.tracker.max_deliver if self.tracker.max_deliver > 0 else entry.count
        # as nats-server, where the limit was lowered: one delivery more is told, too, unless it was asked for by a nak
        if entry.count <= most + (not entry.flags & ENTRY_QUEUED):
            self.advisories.add("MAX_DELIVERIES", "max_deliver", {
                "stream_seq": entry.seq, "deliveries": min(<int64_t>entry.count, most),
            })
        self.tracker.exhaust(entry)
        if self.tracker.pending.count == 0:
            self.tracker.settled_seq = self.cursor.looked_to
        return 0

    cdef int _skip_damaged(self, uint64_t seq) except -1:
        """A damaged record costs this message only; its stream reports it as lost."""
        self.cursor.skip(seq)
        self.tracker.skip_to(seq)
        return 0

    # --- one message out ---

    cdef int send(self, Route route, bint copy, StoredMessage* message, PendingEntry* again,
                  int64_t room, Py_ssize_t* size) except -1:
        cdef Message out
        cdef uint64_t count = 1
        cdef uint64_t ahead
        cdef uint64_t seq = message.seq
        if again != NULL:
            count = again.count + 1
            ahead = self.cursor.ahead()
        else:
            if not self.cursor.counts(seq):
                self.cursor.count_step()
            ahead = max(self.cursor.ahead(), <uint64_t>1) - 1
        self.envelope.fill(message, copy, &out)
        self.envelope.address(message, count, self.tracker.delivered_cseq + 1, ahead, &out)
        size[0] = out.subject_len + out.reply_len + out.body_len - self.envelope.added
        if size[0] > room:
            return SENT_TOO_LARGE
        if self.router.send(route, &out) == 0:
            return SENT_NOTHING
        self._record(seq, again != NULL)
        return SENT_OK

    cdef int _record(self, uint64_t seq, bint again) except -1:
        cdef PendingEntry* entry
        if not again:
            self.cursor.took(seq)
            self.tracker.deliver(seq, self.turn.now_ns)
            return 0
        entry = self.tracker.next_redelivery()
        if entry != NULL and entry.seq == seq:
            self.tracker.redeliver(entry, self.turn.now_ns)
        return 0

    cdef int64_t due_ns(self) noexcept:
        # the heap's top may be stale: then the timer fires early and looks again
        return self.tracker.pending.heap[0].when_ns if self.tracker.pending.heap_size else 0

    cdef bint owes(self) except -1:
        cdef StoredMessage message
        cdef PendingEntry* again = self.tracker.next_redelivery()
        cdef int64_t due = self.tracker.pending.next_deadline()
        if again != NULL or 0 < due < self.turn.read() - DUE_LONG_NS:
            return True
        if self.full() or self.look_ahead.waiting:
            return False
        return self.cursor.find(self.log.committed, &message) in (READ_OK, READ_LATER)

    # --- what the stream has lost ---

    cdef bint needs(self, uint64_t seq) except -1:
        if self.cursor.wants(seq):
            return True
        return seq <= self.tracker.delivered_seq and self.tracker.pending.find(seq) != NULL

    cdef int removed(self, uint64_t seq, bytes subject, bint purged) except -1:
        self.cursor.removed(seq, subject)
        return self._removed_while_pending(seq, purged)

    cdef int _removed_while_pending(self, uint64_t seq, bint purged) except -1:
        cdef PendingEntry* entry = self.tracker.pending.find(seq)
        if entry == NULL:
            return 0
        self.tracker.acked_ns = wall_clock_ns()
        if purged:
            self.tracker.purge(entry)
            return self.turn.wake()
        if not entry.flags & ENTRY_EXHAUSTED:
            # as nats-server counts here: the first delivery and the second one are both 1
            self.advisories.terminated(seq, entry.cseq, max(entry.count, <uint32_t>2) - 1, REMOVED_REASON)
        if self.tracker.forget(seq) and self.tracker.pending.count == 0:
            self.tracker.settled_seq = self.cursor.looked_to
        return self.turn.wake()

    cdef int drop_evicted(self) except -1:
        """Pending messages in front of the stream's first have been removed by its limits."""
        if self.looked_from != self.log.first_seq:
            self.looked_from = self.log.first_seq
            self.lost_some(0, self.log.first_seq - 1, False)
        return 0

    cdef int lost_some(self, uint64_t first, uint64_t last, bint purged) except -1:
        cdef PendingEntry* entry = self.tracker.pending.first()
        cdef uint64_t seq
        while entry != NULL and entry.seq <= last:
            seq = entry.seq
            entry = self.tracker.pending.next_of(entry)
            if seq >= first and not holds(self.log, seq):
                self._removed_while_pending(seq, purged)
        entry = self.tracker.pending.next_exhausted(NULL)
        while entry != NULL:
            if first <= entry.seq <= last and not holds(self.log, entry.seq):
                self._removed_while_pending(entry.seq, purged)
            entry = self.tracker.pending.next_exhausted(entry)
        return self.turn.wake()

    cpdef int drop_removed(self) except -1:
        """Forget what is pending and not in the stream any more."""
        cdef PendingEntry* entry = self.tracker.pending.first()
        cdef uint64_t seq
        while entry != NULL:
            seq = entry.seq
            entry = self.tracker.pending.next_of(entry)
            if not holds(self.log, seq):
                self.tracker.forget(seq)
        entry = self.tracker.pending.next_exhausted(NULL)
        while entry != NULL:
            if not holds(self.log, entry.seq):
                self.tracker.forget(entry.seq)
            entry = self.tracker.pending.next_exhausted(entry)
        return 0

    cdef int after_purge(self, bytes pattern) except -1:
        """Go on behind what a purge or roll-up of `pattern` has removed (b"": of everything)."""
        cdef uint64_t start = self._start_after_purge(pattern)
        if start:
            self.cursor.purged_to(start)
            self.tracker.purged(start, max(self.cursor.looked_to, self.tracker.delivered_seq))
        return self.turn.wake()

    cdef uint64_t _start_after_purge(self, bytes pattern) except? 0:
        """The first message that may be left for this consumer; 0: the purge was of others."""
        cdef tuple filters = self.cursor.filter.patterns
        cdef uint64_t first = max(self.log.first_seq, <uint64_t>1)
        if not pattern or not filters:
            return first
        inside = [subset(each, pattern) for each in filters]
        if all(inside):
            return self._first_of(pattern)
        # of several filters some may be inside: what is left for the others is not passed over
        return first if any(inside) or any(subset(pattern, each) for each in filters) else 0

    def first_wanted(self, uint64_t start) -> int:
        """Where a new consumer begins that is to begin at `start`: with its first message, if that is easily found.

        Where a subject has messages in front of `start`, or many may match, it is not looked for.
        """
        cdef SubjectState state
        cdef tuple filters = self.cursor.filter.patterns
        cdef uint64_t first = self.log.last_seq
        if len(filters) > START_SUBJECTS or <Py_ssize_t>self.log.subjects.count > FEW:
            return start
        states = [state for each in filters for state in self.log.matching_subjects(each)]
        if len(states) > START_SUBJECTS or any([(<SubjectState>state).last < start for state in states]):
            return start
        for state in states:
            first = min(first, self.log.first_of(state))
            if first < start:
                return start
        return first if first < self.log.last_seq else start

    cdef uint64_t _first_of(self, bytes pattern) except? 0:
        """The first message that matches; where that takes a search, the first of all."""
        if has_wildcard(PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern)) and <Py_ssize_t>self.log.subjects.count > FEW:
            return max(self.log.first_seq, <uint64_t>1)
        return min([self.log.first_of(state) for state in self.log.matching_subjects(pattern)],
                   default=self.log.last_seq + 1)


cdef class Inactivity:
    """How long nobody has used a consumer."""

    def restart(self, int64_t now_ns) -> None:
        """Count from now on, if the consumer is to end at all."""
        self.at_ns = 0
        self.touch(now_ns)

    def stop(self) -> None:
        """The time is up, and somebody has been told."""
        self.at_ns = 0

    cpdef int touch(self, int64_t now_ns) except -1:
        if self.threshold_ns:
            self.at_ns = add_int64(now_ns, self.threshold_ns)
        return 0


cdef class ReplayPace:
    """Keeps the distances in time at which messages were stored; of what is delivered again it is not told."""

    def __init__(self, uint64_t until) -> None:
        self.until = until

    cpdef int64_t due_ns(self, uint64_t seq, int64_t stored_ns, int64_t now_ns) noexcept:
        cdef int64_t due
        if not self.started or seq > self.until:
            return 0
        due = add_int64(self.base_ns, stored_ns)
        return due if due > now_ns else 0

    cpdef void sent(self, uint64_t seq, int64_t stored_ns, int64_t now_ns) noexcept:
        if not self.until:
            return
        self.base_ns = subtract_int64(now_ns, stored_ns)
        self.started = True
        if seq >= self.until:
            self.until = 0


cdef class Delivery(TickTask):
    """Gets a core's messages to clients. As a task it is woken by the router when interest it watches has changed."""

    def __init__(self, ConsumerCore core not None, Inactivity idle not None, uint64_t replay_until=0) -> None:
        """`replay_until`: the last sequence that is replayed at the original pace, 0: none."""
        self.core = core
        self.turn = core.turn
        self.router = core.router
        self.idle = idle
        self.requests = []
        self.replay = ReplayPace(replay_until)

    def configure(self, config) -> None:
        """Take over a (changed) ConsumerConfig."""
        raise NotImplementedError

    def receivers(self) -> list:
        """(receiver, subject) of what clients send to it."""
        names = self.core.advisories
        return [(RequestReceiver(self), f"$JS.API.CONSUMER.MSG.NEXT.{names.stream}.{names.consumer}".encode())]

    def begin(self) -> None:
        """Interest is watched from now on."""
        self.open = True

    def end(self, str reason) -> None:
        """Deliver no more; `reason`: the 409 status for waiting requests, "": none."""
        self.open = False

    cdef int run_tick(self) except -1:
        if not self.open:
            return 0
        self.turn.begin()
        return self.interest_changed()

    cdef int request(self, bytes reply, bytes headers, bytes body) except -1:
        self.requests.append((reply, headers, body))
        return self.turn.wake()

    cpdef int take_requests(self) except -1:
        cdef list requests = self.requests
        self.requests = []
        self.idle.touch(self.turn.now_ns)
        for reply, headers, body in requests:
            refusal = self.take_request(reply, headers, body)
            if refusal is not None:
                self.status(reply, refusal)
        return 0

    cdef int status(self, bytes reply, bytes headers) except -1:
        self.router.publish_bytes(reply, None, headers, b"")
        return 0

    cpdef int deliver(self) except -1:
        raise NotImplementedError

    cdef int pause(self) except -1:
        raise NotImplementedError

    cdef int run_timers(self) except -1:
        raise NotImplementedError

    cpdef int64_t earliest(self) except? -1:
        raise NotImplementedError

    cdef int interest_changed(self) except -1:
        raise NotImplementedError

    cdef bytes take_request(self, bytes reply, bytes headers, bytes body):
        raise NotImplementedError

    cdef bint has_interest(self) except -1:
        raise NotImplementedError

    cpdef bint in_use(self) except -1:
        return self.has_interest()

    cdef bint holds_one(self) except -1:
        return self.replay.until != 0 and self.hold_until_ns != 0

    cdef bint is_held(self) except -1:
        return self.hold_until_ns > self.turn.read() - DUE_LONG_NS

    cdef Py_ssize_t waiting_requests(self) except? -1:
        return 0

    cdef bint has_demand(self) except -1:
        raise NotImplementedError

    cdef int restart(self) except -1:
        return 0


cdef class RequestReceiver(Receiver):
    """Pull requests, which a push consumer gets and refuses, too."""

    def __init__(self, Delivery delivery not None) -> None:
        self.delivery = delivery

    def close(self) -> None:
        """Take no message any more."""
        self.delivery = None

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        if self.delivery is None:
            return 0
        if msg.reply != NULL:
            charge_publisher(REQUEST_UNITS + msg.body_len // 32)
            self.delivery.request(
                msg.reply[:msg.reply_len], msg.body[:msg.headers_len],
                (msg.body + msg.headers_len)[:msg.body_len - msg.headers_len])
        return 1
