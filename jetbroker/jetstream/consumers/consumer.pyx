# cython: language_level=3
"""The consumer engine: one consumer's life, timers, requests and state around its delivery (see consumer.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.consumers.state cimport StateBatch
from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.delivery cimport ConsumerDelivery
from jetbroker.jetstream.consumers.pending cimport PendingEntry
from jetbroker.jetstream.consumers.pull cimport DUE_NO_MESSAGES, DUE_TIMEOUT, WaitingQueue, WaitingRequest
from jetbroker.jetstream.consumers.push cimport FlowControl, RateLimit
from jetbroker.jetstream.consumers.state_writer cimport StateWriter
from jetbroker.forms.timestamps cimport format_timestamp, wall_clock_ns
from jetbroker.jetstream.consumers.tracker cimport POLICY_ALL, POLICY_EXPLICIT, POLICY_NONE, AckTracker
from jetbroker.jetstream.timing.work_turns cimport Worker
from jetbroker.routing.router cimport charge_publisher
from jetbroker.saturate cimport add_int64, subtract_int64
from jetbroker.store.log.stream_log cimport SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.slices cimport holds
from jetbroker.tick cimport PHASE_CONSUMERS
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.jetstream.consumers import state as consumer_state
from jetbroker.jetstream.consumers import status as texts
from jetbroker.jetstream.models.api_level import LEVEL_HEADER, level_supported
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.consumers.pull_request import PullLimits, PullRequestError, parse_pull_request
from jetbroker.jetstream.consumers.receivers import AckReceiver, FlowReceiver, InterestWatcher, RequestReceiver
from jetbroker.forms.timestamps import ZERO_TIMESTAMP
from jetbroker.store.log.stream_log import subject_filter_steps
from jetbroker.store.log.slices import walk_back
from jetbroker.turns import at_once
from jetbroker.wire.headers import header_value

cdef long REQUEST_UNITS = limits.JS_PULL_REQUEST_UNITS
cdef int64_t PAUSE_LOOK_NS = 5_000_000_000       # how often the wall clock, which may be set, is looked at in a pause
cdef int64_t INTEREST_POLL_NS = 100_000_000     # how often it is looked for a subscriber when the router cannot tell
cdef int64_t MS = 1_000_000
cdef dict POLICIES = {
    "none": POLICY_NONE, "all": POLICY_ALL, "explicit": POLICY_EXPLICIT, "flow_control": POLICY_ALL,
}
cdef int64_t NEVER_AGAIN_NS = 10 * 365 * 86_400 * 1_000_000_000      # ack policy flow_control: nothing comes twice
cdef Py_ssize_t ENTRY_BYTES = 32                 # of a pending message in a snapshot
cdef int FINISHED_AT_ONCE = limits.JS_DUE_AT_ONCE
SEARCHED_AT_ONCE = 4096                          # sequences, for deliver policy last
REMOVED_REASON = "Unacknowledged message was deleted"


def filter_of(config) -> SubjectFilter:
    """The compiled filter of a ConsumerConfig."""
    return at_once(filter_steps(config))


def filter_steps(config):
    """`filter_of` in steps."""
    patterns = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
    return (yield from subject_filter_steps([pattern.encode() for pattern in patterns]))


cdef class LookAhead(Worker):
    """Goes on in turns with what takes a consumer's cursor long."""
    cdef Consumer consumer

    def __init__(self, Consumer consumer not None) -> None:
        self.consumer = consumer
        self.turns = consumer.host.turns

    cdef bint work(self, int64_t until_ns) except -1:
        if not self.consumer.running:
            return False
        if self.consumer.cursor.look_ahead(self.consumer.log.committed, until_ns):
            return True
        self.consumer.wake()
        return False


cdef class Consumer(ConsumerDelivery):
    """One consumer of a stream.

    `state_log` is a StateLog, or None for a consumer kept in memory only. When it holds records the consumer goes on
    from them. `name` is needed for an unnamed ephemeral, `matching` is its filter where that has been made in steps.
    Nothing happens before start().
    """

    def __init__(self, stream, config, state_log, int64_t created_ns, str name="", clock=None,
                 SubjectFilter matching=None) -> None:
        cdef Host host = stream.host
        self.stream = stream
        self.host = host
        self.config = config
        self.name = name or config.name or config.durable_name
        self.stream_name = stream.name
        self.created_ns = created_ns
        self.clock = clock
        self.router = host.router
        self.tick = host.tick
        self.log = stream.log
        self.state_log = state_log
        self.is_push = bool(config.deliver_subject)
        self.watcher = InterestWatcher(self)
        self.waiting = WaitingQueue(self.router, self.watcher)
        self.requests = []
        self.ack_replies = []
        self.advisories = []
        self.subscriptions = {}
        self.body = OutputBuffer()
        self.reply = OutputBuffer()
        prefix = f"$JS.ACK.{self.stream_name}.{self.name}.".encode()
        self.reply.append(PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
        self.reply_prefix = self.reply.size
        self.now_ns = self.monotonic()
        policy = POLICIES[config.ack_policy]
        self.batch = StateBatch() if state_log is not None else None
        self.tracker = AckTracker(policy, self.batch)
        self.tracker.report_finished = stream.config.retention != "limits"
        self.writer = StateWriter(state_log, self.router)
        self.filter = matching or filter_of(config)
        self.look_ahead = LookAhead(self)
        self._configure()
        self._place()

    def _configure(self) -> None:
        config = self.config
        self.acks_on_flow = config.ack_policy == "flow_control"
        ack_wait = NEVER_AGAIN_NS if self.acks_on_flow else config.ack_wait
        self.tracker.configure(ack_wait, list(config.backoff or ()), config.max_deliver or -1)
        self.max_ack_pending = max(config.max_ack_pending, 0) if self.tracker.policy != POLICY_NONE else 0
        self.max_waiting = config.max_waiting
        self.inactive_ns = max(config.inactive_threshold, 0)
        self.sample_percent = texts.parse_sample_percent(config.sample_freq)
        self.headers_only = config.headers_only
        self.limits = PullLimits(config.max_batch, config.max_expires, config.max_bytes)
        self.own_subjects = self.stream.own_subjects
        self._take_pause()
        if not self.is_push:
            return
        self.leave_route()
        self.deliver_subject = config.deliver_subject.encode()
        self.deliver_group = config.deliver_group.encode() or None
        self.heartbeat_ns = max(config.idle_heartbeat, 0)
        self.rate = RateLimit(config.rate_limit_bps, self.now_ns) if config.rate_limit_bps else None
        if config.flow_control and self.flow is None:
            self.flow = FlowControl(f"$JS.FC.{self.stream_name}.{self.name}.".encode())

    def keep_in(self, state_log) -> None:
        """Keep the state of a new consumer in an empty StateLog; before start()."""
        self.state_log = state_log
        self.batch = StateBatch()
        self.tracker.batch = self.batch
        self.writer = StateWriter(state_log, self.router)

    # --- where it begins ---

    def _place(self) -> None:
        """Find the first message: from recorded state, or as the deliver policy says."""
        state = None
        if self.state_log is not None:
            log = self.log
            state = consumer_state.replay(self.state_log.recovered, log.first_seq, log.last_seq, log.slots_held())
        self.restored = state is not None and state.started
        if self.restored:
            self.state_log.recovered.clear()
            self.tracker.restore(state, self.now_ns, wall_clock_ns())
            if self.tracker.delivered_seq > self.log.last_seq and not self._starts_ahead():
                # power was lost before the end of the stream was on disk: those sequences are given out again
                self.tracker.rewind(self.log.last_seq)
            self._drop_removed()
            start = max(self.tracker.delivered_seq + 1, 1)
            self.cursor = self._cursor_at(start)
            if self.config.deliver_policy != "last_per_subject":
                self.reset_to = state.resume
            elif state.resume:
                at_once(self.cursor.choose_last_per_subject(state.resume, self.tracker.delivered_seq))
        else:
            start = self._first_sequence()
            self.cursor = self._cursor_at(start)
            self.tracker.start_at(start)
            if self.config.deliver_policy == "last_per_subject":
                self.search = self._choose_first(self.cursor.choose_last_per_subject(0, 0))
            elif self.config.deliver_policy == "last" and self.filter.patterns:
                self.search = self._search_last(self.log.last_seq + 1)
        if self.config.replay_policy == "original":
            self.replay_until = self.log.last_seq

    def _first_sequence(self) -> int:
        log = self.log
        policy = self.config.deliver_policy
        last = log.last_seq
        first = max(log.first_seq, 1)
        if policy == "all":
            return first
        if policy == "last":
            # with a filter it is searched for when it is placed
            return last + 1 if self.filter.patterns else last or first
        if policy == "by_start_sequence":
            start = max(self.config.opt_start_seq, first)
            # for a mirror or source: one that is ahead of its origin takes what the origin stores next
            return min(start, last + 1) if self.config.direct else start
        if policy == "by_start_time":
            return max(log.seq_at_time(self.config.opt_start_time.ns), first)
        # when a crash took the first record, what came after the consumer was made is still new to it
        return min(log.seq_at_time(self.created_ns), last + 1) if self.state_log is not None else last + 1

    def _cursor_at(self, uint64_t start) -> StreamCursor:
        return StreamCursor(self.log, self.filter, start, self.host.turns)

    def placing(self):
        """Find where a new consumer begins, in steps (see turns.py); start() does what is left of it at once."""
        search, self.search = self.search, None
        if search is not None:
            yield from search

    def _choose_first(self, steps):
        yield from steps
        self.tracker.start_at(self.cursor.first_chosen() or self.cursor.resume)

    def _search_last(self, uint64_t below):
        """Begin with the last message in front of `below` that matches; when there is none, with the first of all."""
        cdef uint64_t found = 0
        while below and not found:
            found, below = walk_back(self.log, self.filter, below, 1, SEARCHED_AT_ONCE)
            yield
        start = below if found else max(self.log.first_seq, 1)
        self.cursor.move_to(start)
        self.tracker.start_at(start)

    def counting(self):
        """Count what is ahead, in steps (see turns.py): info() is exact right behind the last one."""
        while self.stream.running and not self.cursor.count_step():
            yield

    def _starts_ahead(self) -> bool:
        """Nothing has been delivered yet, and it was asked to begin with a message that is still to come."""
        return self.tracker.delivered_cseq == 0 and self.config.deliver_policy in ("all", "by_start_sequence")

    def _drop_removed(self) -> None:
        cdef SegmentedLog log = <SegmentedLog?>self.log
        cdef PendingEntry* entry = self.tracker.pending.first()
        cdef uint64_t seq
        while entry != NULL:
            seq = entry.seq
            entry = self.tracker.pending.next_of(entry)
            if not holds(log, seq):
                self.tracker.forget(seq)
        if self.tracker.pending.exhausted:
            for seq in [row[0] for row in self.tracker.pending.dump() if row[4]]:
                if not holds(log, seq):
                    self.tracker.forget(seq)

    # --- life ---

    def start(self) -> None:
        """Listen for acks and requests, and deliver."""
        if self.running:
            return
        self.running = True
        prefix = f"$JS.ACK.{self.stream_name}.{self.name}.".encode()
        if self.tracker.policy != POLICY_NONE and not self.acks_on_flow:
            domain = self.host.server_info.domain or "_"
            tokens = domain.encode(), texts.account_hash(self.host.account_name)
            long_prefix = prefix.replace(b"$JS.ACK.", b"$JS.ACK.%b.%b." % tokens, 1)
            self._subscribe(AckReceiver(self, len(prefix)), prefix + b"*.*.*.*.*")
            self._subscribe(AckReceiver(self, len(long_prefix)), long_prefix + b"*.*.*.*.>")
        self._subscribe(
            RequestReceiver(self), f"$JS.API.CONSUMER.MSG.NEXT.{self.stream_name}.{self.name}".encode())
        if self.flow is not None:
            self._subscribe(FlowReceiver(self), f"$JS.FC.{self.stream_name}.{self.name}.*".encode())
        self.now_ns = self.monotonic()
        self.inactive_at_ns = add_int64(self.now_ns, self.inactive_ns) if self.inactive_ns else 0
        at_once(self.placing())
        self.record_start()
        self.wake()

    def record_start(self) -> None:
        """Put a new consumer's starting position into its state log; durable after the log's next commit."""
        if self.state_log is not None and not self.restored and not self.recorded:
            self.recorded = True
            self.writer.begin(self._snapshot())

    def _subscribe(self, receiver, bytes subject) -> None:
        self.subscriptions[self.router.subscribe(receiver, subject)] = receiver

    def stop(self, str reason="") -> None:
        """Stop for good. `reason`: the 409 status for waiting requests ("Consumer Deleted", "Server Shutdown")."""
        cdef WaitingRequest request
        if not self.running:
            return
        self.running = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for subscription, receiver in self.subscriptions.items():
            receiver.close()
            self.router.unsubscribe(subscription)
        self.subscriptions = {}
        self.write_state()
        for request in self.waiting.take_all():
            line = f"409 {reason}"
            if line == texts.SERVER_SHUTDOWN:
                self.status(request.reply, texts.status_with_rest(line, request.left, max(request.bytes_left, 0)))
            elif reason:
                self.status(request.reply, texts.status(line))
        self.leave_route()
        self.watcher.close()

    def update(self, config, SubjectFilter matching=None) -> None:
        """Take over a changed configuration (checked before), with its filter where that has been made."""
        self.config = config
        patterns = matching or filter_of(config)
        if patterns.patterns != self.filter.patterns:
            self.filter = patterns
            self.cursor.set_filter(patterns)
            self.stream.interest_changed()
        self._configure()
        if self.running:
            self.inactive_at_ns = add_int64(self.now_ns, self.inactive_ns) if self.inactive_ns else 0
            self.wake()

    def reset(self, uint64_t seq=0) -> int:
        """Begin again at message `seq` (0: behind the ack floor), with consumer sequence 1 and nothing pending.

        Returns the sequence it begins with. Durable after the state log's next commit. Raises ApiError 10204 for a
        sequence that the deliver policy does not allow.
        """
        self._check_reset(seq)
        seq = seq or self.tracker.floor_seq + 1
        self.settle()
        if self.config.deliver_policy != "last_per_subject":
            self.reset_to = seq
        self.tracker.begin_at(seq)
        self.cursor.move_to(seq)
        self.last_delivered_ns = self.last_acked_ns = 0
        if self.flow is not None:
            self.flow.reset()
        if self.state_log is not None:
            self.batch.clear()
            self.tracker.dirty = False
            self.writer.begin(self._snapshot())
        self.stream.position_changed(self)
        self.wake()
        return seq

    def _check_reset(self, uint64_t seq) -> None:
        policy = self.config.deliver_policy
        if seq == 0 or policy == "all":
            return
        if policy == "by_start_sequence":
            fault = "below start seq" if seq < self.config.opt_start_seq else ""
        elif policy == "by_start_time":
            fault = "below start time" if seq < self.log.seq_at_time(self.config.opt_start_time.ns) else ""
        else:
            fault = "not allowed"
        if fault:
            raise api_error("consumer_invalid_reset", err=fault)

    def pause(self, config) -> None:
        """Take over a configuration that differs in `pause_until` (and metadata) only; it holds at once."""
        self.config = config
        self._take_pause()
        if self.running:
            self.wake()

    def _take_pause(self) -> None:
        until = self.config.pause_until
        self.paused_until_ns = until.ns if until is not None and until.ns > wall_clock_ns() else 0

    def pause_fields(self) -> dict:
        """What an advisory tells of a pause that has begun or ended."""
        until = self.config.pause_until
        paused = until is not None and until.ns > wall_clock_ns()
        return {"paused": paused, "pause_until": ZERO_TIMESTAMP if until is None else str(until)}

    def has_delivery_interest(self) -> bool:
        """Push: is there a subscriber to deliver to? Pull: does a request wait whose requester is still there?"""
        cdef WaitingRequest request
        if self.is_push:
            return self.check_interest()
        request = self.waiting.head
        while request is not None:
            if request.wanted(self.router):
                return True
            request = request.next
        return False

    def info(self) -> dict:
        """ConsumerInfo, with nats-server's fields in its order; exact when `counting` is through."""
        self.cursor.count_on()
        self.waiting.take_unwanted(self.router)
        tracker = self.tracker
        delivered = {"consumer_seq": tracker.delivered_cseq, "stream_seq": tracker.delivered_seq}
        if self.last_delivered_ns:
            delivered["last_active"] = format_timestamp(self.last_delivered_ns)
        floor = {"consumer_seq": tracker.floor_cseq, "stream_seq": tracker.floor_seq}
        if self.last_acked_ns:
            floor["last_active"] = format_timestamp(self.last_acked_ns)
        ahead = self.cursor.ahead()
        if self.replay_until and self.hold_until_ns and ahead:
            ahead -= 1      # the message that waits for its time counts as taken
        out = {
            "stream_name": self.stream_name,
            "name": self.name,
            "created": format_timestamp(self.created_ns),
            "config": self.config.to_json(),
            "delivered": delivered,
            "ack_floor": floor,
            "num_ack_pending": tracker.pending.count,
            "num_redelivered": tracker.redelivered,
            "num_waiting": self.waiting.count,
            "num_pending": ahead,
        }
        if self.is_push and self.has_delivery_interest():
            out["push_bound"] = True
        if self.paused_until_ns > wall_clock_ns():
            out["paused"] = True
            out["pause_remaining"] = self.config.pause_until.left(wall_clock_ns())
        out["ts"] = format_timestamp(wall_clock_ns())
        return out

    # --- what the stream asks ---

    cdef SubjectFilter interest(self):
        return self.filter if self.filter.patterns else None

    cdef bint needs(self, uint64_t seq) except -1:
        if self.cursor.wants(seq):
            return True
        return seq <= self.tracker.delivered_seq and self.tracker.pending.find(seq) != NULL

    cdef uint64_t delivered_up_to(self) except? 0:
        return self.tracker.delivered_seq

    cdef uint64_t begun_at(self) except? 0:
        return self.reset_to

    cdef int on_removed(self, uint64_t seq, bytes subject) except -1:
        self.cursor.removed(seq, subject)
        self._removed_while_pending(seq)
        return 0

    def _removed_while_pending(self, uint64_t seq) -> None:
        cdef PendingEntry* entry = self.tracker.pending.find(seq)
        if entry == NULL:
            return
        self.terminated(seq, entry.cseq, entry.count, REMOVED_REASON)
        self.tracker.forget(seq)
        self.wake()

    def _drop_evicted(self) -> None:
        """Pending messages in front of the stream's first have been removed by its limits."""
        cdef PendingEntry* entry = self.tracker.pending.first()
        while entry != NULL and entry.seq < self.log.first_seq:
            self._removed_while_pending(entry.seq)
            entry = self.tracker.pending.first()

    cdef int on_purged(self) except -1:
        self.cursor.purged()
        self.after_removals()
        return 0

    def counted_in(self, uint64_t first, uint64_t last) -> list:
        return self.cursor.counted_in(first, last)

    def removed_in(self, uint64_t first, uint64_t last, list before) -> None:
        self.cursor.removed_in(first, last, before)

    def after_removals(self) -> None:
        if self.log.messages == 0:
            self.tracker.jump(self.log.last_seq)
            if self.cursor.next_seq <= self.log.last_seq:
                self.cursor.move_to(self.log.last_seq + 1)
        else:
            self._drop_removed()
            if self.log.first_seq > self.tracker.delivered_seq + 1:
                self.tracker.jump(self.log.first_seq - 1)
        self.wake()

    # --- the tick ---

    cdef int run_tick(self) except -1:
        cdef bint counted
        if not self.running:
            return 0
        self.now_ns = self.monotonic()
        if self.log.first_seq > self.cursor.next_seq or self.tracker.pending.count:
            self._drop_evicted()
        counted = self.cursor.count_on()
        self.run_timers()
        if not counted:
            self.look_ahead.run_tick()     # each delivery and each answer tells how many are ahead
        else:
            self.deliver_all()
        self.settle()
        self.arm_timer()
        return 0

    cdef int deliver_all(self) except -1:
        """Take requests, and deliver what may be delivered now."""
        if self.requests:
            self.take_requests()
        if self.paused_until_ns and self.paused():
            return self.stay_paused()
        if self.is_push:
            return self.deliver_push()
        return self.deliver_pull() if self.waiting.count else 0

    cdef bint paused(self) except -1:
        if wall_clock_ns() < self.paused_until_ns:
            return True
        self.paused_until_ns = 0
        self.advisories.append((f"PAUSE.{self.stream_name}.{self.name}", "consumer_pause", self.pause_fields()))
        return False

    cdef int stay_paused(self) except -1:
        """What goes on in a pause: interest is watched, and pulls that do not wait hear that there is nothing."""
        cdef WaitingRequest request
        self.hold_until_ns = 0
        if self.is_push:
            self.check_interest()
        elif self.waiting.count:
            for request in self.waiting.take_exhausted():
                self.status(request.reply, texts.NO_MESSAGES)
        return 0

    cdef int on_request(self, const Message* msg) except -1:
        if msg.reply == NULL:
            return 0
        charge_publisher(REQUEST_UNITS + msg.body_len // 32)
        self.requests.append((
            msg.reply[:msg.reply_len], msg.body[:msg.headers_len],
            (msg.body + msg.headers_len)[:msg.body_len - msg.headers_len],
        ))
        return self.wake()

    cdef int take_requests(self) except -1:
        cdef list requests = self.requests
        self.requests = []
        if self.inactive_ns:
            self.inactive_at_ns = add_int64(self.now_ns, self.inactive_ns)
        for reply, headers, body in requests:
            refusal = self._take_request(reply, headers, body)
            if refusal is not None:
                self.status(reply, refusal)
        return 0

    def _take_request(self, bytes reply, bytes headers, bytes body):
        """Queue one pull request, or say why not (a status block; b"" is not sent)."""
        cdef WaitingRequest request
        if self.is_push:
            return texts.PUSH_BASED
        if headers and not level_supported(header_value(headers, LEVEL_HEADER)):
            return texts.REQUIRED_API_LEVEL
        try:
            wanted = parse_pull_request(body, self.limits)
        except PullRequestError as error:
            return texts.status(str(error))
        if self.max_waiting > 0 and self.waiting.count >= self.max_waiting:
            # those whose requester has left make room
            self.waiting.take_unwanted(self.router)
            if self.waiting.count >= self.max_waiting:
                return None if wanted.idle_heartbeat > 0 else texts.TOO_MANY_WAITING
        if wanted.no_wait:
            self.tracker.next_redelivery()      # drops what is finished from the head of the queue
            at_hand = self.cursor.ahead() + self.tracker.redeliveries.size
            if at_hand == 0 and not wanted.expires:
                return texts.NO_MESSAGES
            self.waiting.take_unwanted(self.router)
            if 0 < at_hand < self.waiting.wanted_messages():
                return texts.REQUESTS_PENDING
        request = WaitingRequest(reply, wanted, self.now_ns)
        request.into_stream = bool(self.own_subjects.patterns) and self.own_subjects.matches(
            PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply))
        self.waiting.push(request)
        return None

    cdef int run_timers(self) except -1:
        cdef WaitingRequest request
        if self.tracker.queue_due(self.now_ns):
            self.tick.defer(PHASE_CONSUMERS, self)
        if self.waiting.next_event_ns and self.waiting.next_event_ns <= self.now_ns:
            for request in self.waiting.take_due(self.now_ns, self.blocked()):
                if request.due == DUE_TIMEOUT:
                    self.status(request.reply, texts.status_with_rest(
                        texts.REQUEST_TIMEOUT, request.left, request.bytes_left if request.bounded else 0))
                elif request.due == DUE_NO_MESSAGES:
                    self.status(request.reply, texts.NO_MESSAGES)
                else:
                    self.status(
                        request.reply, texts.heartbeat(self.tracker.delivered_cseq, self.tracker.delivered_seq))
        if self.is_push and self.heartbeat_ns and self.check_interest() and self.next_heartbeat_ns <= self.now_ns:
            stalled = self.flow.open_subject if self.flow is not None and self.flow.stalled() else None
            self.status(self.deliver_subject, texts.heartbeat(
                self.tracker.delivered_cseq, self.tracker.delivered_seq, stalled))
            self.next_heartbeat_ns = add_int64(self.now_ns, self.heartbeat_ns)
            if self.acks_on_flow and self.tracker.pending.count:
                self.request_flow()
        if self.inactive_at_ns and self.inactive_at_ns <= self.now_ns:
            self._check_activity()
        return 0

    def _check_activity(self) -> None:
        self.inactive_at_ns = add_int64(self.now_ns, self.inactive_ns)
        if self.has_delivery_interest() or (not self.is_push and self.tracker.pending.count):
            return
        if self.on_inactive is not None:
            self.inactive_at_ns = 0
            self.on_inactive(self)

    def still_inactive(self) -> bool:
        """Asked before this consumer is deleted: has nothing happened since on_inactive? Else its time starts anew."""
        if self.inactive_ns == 0:
            return False  # it was made to stay meanwhile
        if self.inactive_at_ns == 0 and not self.has_delivery_interest():
            return True
        self.inactive_at_ns = add_int64(self.monotonic(), self.inactive_ns)
        self.wake()
        return False

    cdef int settle(self) except -1:
        """Tell the stream and the listeners what this tick brought, and record it."""
        if self.settle_some():
            self.tick.defer(PHASE_CONSUMERS, self)
        if self.advisories:
            advisories, self.advisories = self.advisories, []
            for subject, kind, fields in advisories:
                self._advise(subject, kind, fields)
        return self.write_state()

    cdef bint settle_some(self) except -1:
        """Let the stream go of what is finished; True: of more than is done at once."""
        cdef uint64_t seq
        cdef int left = FINISHED_AT_ONCE
        while self.tracker.finished.size and left:
            left -= 1
            seq = self.tracker.finished.peek()
            self.tracker.finished.pop()
            self.stream.ack_message(self, seq)
        return self.tracker.finished.size > 0

    def settling(self):
        """Let the stream go of all that is finished, in steps (see turns.py): before it is deleted or begins again."""
        while self.settle_some():
            yield

    def _advise(self, str subject, str kind, dict fields) -> None:
        family, version = ("METRIC", "metric.v1") if kind == "consumer_ack" else ("ADVISORY", "advisory.v1")
        self.host.advisories.publish(f"$JS.EVENT.{family}.CONSUMER.{subject}", {
            "type": f"io.nats.jetstream.{version}.{kind}",
            "stream": self.stream_name,
            "consumer": self.name,
            **fields,
        })

    # --- state ---

    cdef int write_state(self) except -1:
        cdef const char* record
        cdef Py_ssize_t n = 0
        cdef list replies
        if self.batch is not None and (self.batch.ops or self.tracker.dirty):
            record = self.batch.seal(
                wall_clock_ns(), self.tracker.delivered_cseq, self.tracker.delivered_seq,
                self.tracker.floor_cseq, self.tracker.floor_seq, &n)
            self.writer.write(record, n)
            self.batch.clear()
            self.tracker.dirty = False
            if self.writer.wants_snapshot(ENTRY_BYTES * (1 + self.tracker.pending.count)):
                self._replace_records()
        if self.ack_replies:
            replies, self.ack_replies = self.ack_replies, []
            self.writer.confirm(replies)
        return 0

    def _replace_records(self) -> None:
        try:
            self.writer.replace(self._snapshot())
        except StorageError as error:
            # nothing is lost: the log only goes on growing
            self.host.log.warn(f"Consumer {self.stream_name!r} > {self.name!r}: {error}")

    def _snapshot(self) -> bytes:
        """The present state. Times of deliveries are kept as wall times, for they outlive this process."""
        cdef int64_t wall = wall_clock_ns()
        cdef int64_t now = self.monotonic()
        entries = [
            (seq, cseq, subtract_int64(wall, now - delivered_ns), count, exhausted)
            for seq, cseq, count, delivered_ns, exhausted in self.tracker.pending.dump()
        ]
        positions = (
            wall, self.tracker.delivered_cseq, self.tracker.delivered_seq,
            self.tracker.floor_cseq, self.tracker.floor_seq,
        )
        return consumer_state.encode_snapshot(self.cursor.resume or self.reset_to, positions, entries, self.tracker.waits(now))

    # --- timers ---

    cdef int64_t earliest(self) except? -1:
        """When something has to happen without a message; 0: never."""
        cdef int64_t when = 0
        cdef int64_t candidate
        # the heap's top may be stale: then the timer fires early and looks again
        candidate = self.tracker.pending.heap[0].when_ns if self.tracker.pending.heap_size else 0
        if candidate and (not self.is_push or self.deliverable):
            when = candidate
        candidate = self.waiting.next_event_ns
        if candidate and (when == 0 or candidate < when):
            when = candidate
        candidate = self.inactive_at_ns
        if candidate and (when == 0 or candidate < when):
            when = candidate
        if self.paused_until_ns:
            candidate = self.now_ns + min(max(self.paused_until_ns - wall_clock_ns(), 1), PAUSE_LOOK_NS)
            if when == 0 or candidate < when:
                when = candidate
        if not self.is_push:
            return when
        if not self.deliverable:
            candidate = 0 if self.watching else self.now_ns + INTEREST_POLL_NS
        elif self.hold_until_ns:
            candidate = self.hold_until_ns
        else:
            candidate = 0
        if candidate and (when == 0 or candidate < when):
            when = candidate
        if self.heartbeat_ns and self.deliverable and (when == 0 or self.next_heartbeat_ns < when):
            when = self.next_heartbeat_ns
        return when

    cdef int arm_timer(self) except -1:
        cdef int64_t when = self.earliest()
        if not self.running or when == 0 or (self.timer is not None and self.timer_ns <= when):
            return 0
        if self.timer is not None:
            self.timer.cancel()
        self.timer_ns = when
        # rounded up: the loop's clock counts milliseconds
        self.timer = self.tick.loop.call_later(max(add_int64(when - self.now_ns, MS // 2), MS) / 1e9, self._on_timer)
        return 0

    def look(self) -> None:
        """Act on what is due by the clock now: for tests that move it."""
        self.wake()

    def _on_timer(self) -> None:
        self.timer = None
        self.tracker.pending.next_deadline()
        self.wake()
