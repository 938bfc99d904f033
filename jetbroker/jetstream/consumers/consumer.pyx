# cython: language_level=3
"""The consumer: one consumer's life, its acks, and the turns in which its parts do their work (see consumer.pxd).

It has a core (position, pending messages, redelivery), what takes acks, and a delivery, pull or push. They do not know
the consumer; what brings them work asks for a turn (ConsumerTurn), and the consumer calls them in it.
"""
from random import randrange

import orjson

from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint64_t
from libc.string cimport memcmp

from jetbroker.forms.durations cimport read_duration
from jetbroker.forms.timestamps cimport format_timestamp, wall_clock_ns
from jetbroker.jetstream.consumers.core cimport (
    ConsumerAdvisories, ConsumerCore, ConsumerTurn, Delivery, Inactivity, sooner,
)
from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.dead_letters cimport DeadLetters
from jetbroker.jetstream.consumers.pull cimport PullDelivery
from jetbroker.jetstream.consumers.push cimport PushDelivery
from jetbroker.jetstream.consumers.state cimport StateBatch, StateWriter
from jetbroker.jetstream.consumers.tracker cimport (
    ENTRY_EXHAUSTED, ENTRY_HELD, POLICY_ALL, POLICY_EXPLICIT, POLICY_NONE, AckTracker, PendingEntry,
)
from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.store.log.stream_log cimport SubjectFilter
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.timestamps import ZERO_TIMESTAMP
from jetbroker.jetstream.consumers import placement, state as consumer_state, status as texts
from jetbroker.store.log.stream_log import subject_filter_steps
from jetbroker.tick import REST
from jetbroker.turns import at_once

cdef int ACK_UNITS = limits.JS_ACK_UNITS
cdef enum:
    MOST_DIGITS = 19                           # of a number that may count something
cdef Py_ssize_t MAX_DELAY_BYTES = 1024         # of what follows "-NAK"; longer, it asks for no delay


cdef inline Py_ssize_t parse_number(const char* p, Py_ssize_t n, Py_ssize_t at, uint64_t* out) noexcept nogil:
    """Reads digits up to '.' or the end; returns the place behind the dot. What is no number is UINT64_MAX."""
    cdef Py_ssize_t start = at
    cdef uint64_t value = 0
    cdef bint valid = True
    while at < n and p[at] != c'.':
        valid = valid and c'0' <= p[at] <= c'9'
        value = value * 10 + <uint64_t>(p[at] - c'0')
        at += 1
    out[0] = value if valid and start < at <= start + MOST_DIGITS else UINT64_MAX
    return at + 1


cdef int parse_ack_numbers(const char* p, Py_ssize_t n, AckNumbers* out) except -1:
    cdef Py_ssize_t at = parse_number(p, n, 0, &out.deliveries)
    at = parse_number(p, n, at, &out.stream_seq)
    parse_number(p, n, at, &out.consumer_seq)
    return 0


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c' ' or c == c'\t' or c == c'\r' or c == c'\n'


cdef AckKind parse_ack_kind(const char* p, Py_ssize_t n, const char** rest, Py_ssize_t* rest_len) noexcept nogil:
    cdef AckKind kind = ACK_UNKNOWN
    cdef Py_ssize_t word = 4
    rest[0] = p + n
    rest_len[0] = 0
    if n == 0:
        return ACK_ACK
    if n == 3 and memcmp(p, b"+OK", 3) == 0:
        return ACK_ACK
    if n < 4:
        return ACK_UNKNOWN
    if n == 4 and memcmp(p, b"+ACK", 4) == 0:
        return ACK_ACK
    if memcmp(p, b"-NAK", 4) == 0:
        kind = ACK_NAK
    elif memcmp(p, b"+NXT", 4) == 0:
        kind = ACK_NEXT
    elif n == 4 and memcmp(p, b"+WPI", 4) == 0:
        return ACK_PROGRESS
    elif n >= 5 and memcmp(p, b"+TERM", 5) == 0:
        kind = ACK_TERM
        word = 5
    else:
        return ACK_UNKNOWN
    while word < n and is_blank(p[word]):
        word += 1
    while n > word and is_blank(p[n - 1]):
        n -= 1
    rest[0] = p + word
    rest_len[0] = n - word
    return kind


cdef int64_t parse_nak_delay(const char* p, Py_ssize_t n) except? -1:
    cdef int64_t delay = 0
    if n == 0 or n > MAX_DELAY_BYTES:
        return 0
    if p[0] == c'{':
        try:
            found = orjson.loads(p[:n])
        except ValueError:
            return 0
        value = next((found[name] for name in reversed(found) if name.lower() == "delay"), 0)
        return value if type(value) is int and 0 < value <= INT64_MAX else 0
    return delay if read_duration(p, n, &delay) and delay > 0 else 0


cdef class Acks:
    """Takes acks for a tracker, and keeps the replies that are owed for them."""

    def __init__(self, AckTracker tracker not None, StreamCursor cursor not None, ConsumerTurn turn not None,
                 ConsumerAdvisories advisories not None, DeadLetters letters=None, log=None, str who="") -> None:
        self.log = log
        self.who = who
        self.tracker = tracker
        self.cursor = cursor
        self.turn = turn
        self.advisories = advisories
        self.letters = letters
        self.replies = []

    cdef bint take(self, AckKind kind, const AckNumbers* numbers, const char* rest, Py_ssize_t rest_len) except -1:
        cdef bint taken = True
        if kind == ACK_ACK or kind == ACK_NEXT:
            taken = self._finish(numbers, True)
        elif kind == ACK_TERM:
            taken = self._terminate(numbers, rest[:rest_len])
        elif kind == ACK_NAK:
            self._nak(numbers, rest, rest_len)
        elif kind == ACK_PROGRESS:
            self.tracker.progress(numbers.stream_seq, self.turn.read())
        if numbers.stream_seq == 0:
            # nats-server confirms what finishes such a message as long as no stream is to remove it
            return taken and kind in (ACK_ACK, ACK_TERM) and not (
                self.tracker.report_finished or self.tracker.policy == POLICY_ALL)
        return taken

    cdef list take_replies(self):
        cdef list replies = self.replies
        self.replies = []
        return replies

    cdef bint owed_later(self, uint64_t seq, bytes reply) except -1:
        return self.letters is not None and self.letters.owe(seq, reply)

    cdef bint _finish(self, const AckNumbers* numbers, bint sampled) except -1:
        """The message is done with; True for one that was done with before, too."""
        if numbers.stream_seq > max(self.cursor.looked_to, self.tracker.delivered_seq):
            if self.log is not None and numbers.stream_seq > self.cursor.log.last_seq:
                self.log.warn_seldom(f"JetStream consumer '{self.who}' ACK sequence {numbers.stream_seq} past last stream "
                                     f"sequence of {self.cursor.log.last_seq}")
            return False
        if self.tracker.policy == POLICY_ALL:
            self.tracker.ack_up_to(numbers.stream_seq, numbers.consumer_seq)
            return True
        if sampled and self.sample_percent:
            self._sample(numbers)
        if self.tracker.ack(numbers.stream_seq, numbers.consumer_seq) and self.tracker.pending.count == 0:
            self.tracker.settled_seq = self.cursor.looked_to
        self.tracker.acked_ns = wall_clock_ns()
        return True

    cdef int _nak(self, const AckNumbers* numbers, const char* rest, Py_ssize_t rest_len) except -1:
        cdef uint64_t seq = numbers.stream_seq
        cdef uint64_t cseq = numbers.consumer_seq
        cdef PendingEntry* entry = self.tracker.pending.find(seq)
        if entry == NULL or entry.flags & (ENTRY_EXHAUSTED | ENTRY_HELD):
            return 0
        if cseq <= self.tracker.floor_cseq or cseq > self.tracker.delivered_cseq + 1:
            return 0
        self.advisories.add("MSG_NAKED", "nak", {
            "consumer_seq": cseq, "stream_seq": seq, "deliveries": numbers.deliveries,
        })
        self.tracker.nak(seq, parse_nak_delay(rest, rest_len), self.turn.read())
        return 0

    cdef bint _terminate(self, const AckNumbers* numbers, bytes reason) except -1:
        cdef PendingEntry* entry = self.tracker.pending.find(numbers.stream_seq)
        cdef bint taken
        text = reason.decode("utf-8", "replace")
        if (entry != NULL and not entry.flags & ENTRY_EXHAUSTED and self.letters is not None
                and self.letters.take_terminated(entry, numbers.consumer_seq, text)):
            return True
        taken = self._finish(numbers, False)
        self.advisories.terminated(numbers.stream_seq, numbers.consumer_seq, numbers.deliveries, text)
        return taken

    cdef int _sample(self, const AckNumbers* numbers) except -1:
        """Measure this ack when its turn comes."""
        cdef PendingEntry* entry = self.tracker.pending.find(numbers.stream_seq)
        if entry == NULL or entry.flags & ENTRY_EXHAUSTED or randrange(100) >= self.sample_percent:
            return 0
        return self.advisories.add("ACK", "consumer_ack", {
            "consumer_seq": numbers.consumer_seq, "stream_seq": numbers.stream_seq,
            "ack_time": self.turn.read() - entry.delivered_ns, "deliveries": numbers.deliveries,
        })


cdef class AckReceiver(Receiver):
    """Acks in one of the two subject layouts: the part in front of the numbers has a fixed length in each."""

    def __init__(self, Acks acks not None, Delivery delivery not None, Py_ssize_t prefix_len) -> None:
        self.acks = acks
        self.delivery = delivery
        self.prefix_len = prefix_len

    def close(self) -> None:
        """Take no message any more."""
        self.acks = None

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef AckNumbers numbers
        cdef AckKind kind
        cdef const char* rest
        cdef Py_ssize_t rest_len
        cdef bint taken
        if self.acks is None:
            return 0
        self.acks.heard = True
        parse_ack_numbers(msg.subject + self.prefix_len, msg.subject_len - self.prefix_len, &numbers)
        kind = parse_ack_kind(msg.body + msg.headers_len, msg.body_len - msg.headers_len, &rest, &rest_len)
        taken = self.acks.take(kind, &numbers, rest, rest_len)
        if msg.reply != NULL:
            if kind == ACK_NEXT:
                self.delivery.request(msg.reply[:msg.reply_len], b"", rest[:rest_len])
            elif taken and (kind != ACK_TERM or not self.acks.owed_later(numbers.stream_seq, msg.reply[:msg.reply_len])):
                self.acks.replies.append(msg.reply[:msg.reply_len])
        self.acks.turn.wake()
        return ACK_UNITS


cdef class Vigil:
    """Keeps what the last look has seen of one consumer."""

    def __init__(self, ConsumerCore core not None, Delivery delivery not None) -> None:
        self.core = core
        self.delivery = delivery

    cdef bint is_stalled(self, bint resting) except -1:
        cdef uint64_t delivered = self.core.tracker.delivered_cseq
        cdef bint owed_before = self.owed and delivered == self.delivered
        self.delivered = delivered
        self.owed = not resting and self.delivery.has_demand() and self.core.owes()
        return self.owed and owed_before

    cdef dict describe(self):
        return {
            "committed": self.core.log.committed,
            "last_seq": self.core.log.last_seq,
            "next_seq": self.core.cursor.next_seq,
            "redeliveries": self.core.tracker.redeliveries.size,
            "next_deadline_ns": self.core.tracker.pending.next_deadline() - self.core.turn.read(),
            "requests": len(self.delivery.requests),
            "looking_ahead": self.core.look_ahead.waiting,
        }


cdef int64_t PAUSE_LOOK_NS = 5_000_000_000       # how often the wall clock, which may be set, is looked at in a pause
cdef dict POLICIES = {
    "none": POLICY_NONE, "all": POLICY_ALL, "explicit": POLICY_EXPLICIT, "flow_control": POLICY_ALL,
}
cdef Py_ssize_t ENTRY_BYTES = 32                 # of a pending message in a snapshot
cdef int FINISHED_AT_ONCE = limits.JS_DUE_AT_ONCE


def filter_of(config) -> SubjectFilter:
    """The compiled filter of a ConsumerConfig."""
    return at_once(filter_steps(config))


def filter_steps(config):
    """`filter_of` in steps."""
    patterns = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
    return (yield from subject_filter_steps([pattern.encode() for pattern in patterns]))


cdef class Consumer(StreamConsumer):
    """One consumer of a stream.

    `state_log` is a StateLog, or None for a consumer kept in memory only. When it holds records the consumer goes on
    from them. `name` is needed for an unnamed ephemeral, `matching` is its filter where that has been made in steps.
    Nothing happens before start().
    """

    def __init__(self, stream, config, state_log, int64_t created_ns, str name="", clock=None,
                 SubjectFilter matching=None) -> None:
        cdef Host host = stream.host
        cdef AckTracker tracker = AckTracker(POLICIES[config.ack_policy])
        self.stream = stream
        self.name = name or config.name or config.durable_name
        self.created_ns = created_ns
        self.subscriptions = {}
        self.turn = ConsumerTurn(host.tick, self, clock)
        self.advisories = ConsumerAdvisories(host.advisories, stream.name, self.name)
        self.idle = Inactivity()
        self.core = ConsumerCore(stream.log, matching or filter_of(config), tracker, self.turn,
                                 host.turns, host.router, self.advisories)
        self.letters = DeadLetters(stream, tracker, self.turn, self.advisories)
        self.core.letters = self.letters
        self.acks = Acks(tracker, self.core.cursor, self.turn, self.advisories, self.letters, host.log,
                         f"{host.account_name} > {stream.name} > {self.name}")
        replay_until = stream.log.last_seq if config.replay_policy == "original" else 0
        made = PushDelivery if config.deliver_subject else PullDelivery
        self.delivery = made(self.core, self.idle, replay_until)
        self.vigil = Vigil(self.core, self.delivery)
        self.follow_retention()
        self.keep_in(state_log)
        self._configure(config)
        self._place()

    def keep_in(self, state_log) -> None:
        """Keep the state of a new consumer in an empty StateLog; before start()."""
        self.writer = StateWriter(state_log, self.core.router)
        self.core.tracker.batch = StateBatch() if state_log is not None else None

    def _configure(self, config) -> None:
        self.config = config
        self.core.configure(config)
        self.acks.sample_percent = texts.parse_sample_percent(config.sample_freq)
        self.idle.threshold_ns = max(config.inactive_threshold, 0)
        self.letters.configure(config)
        self.delivery.configure(config)
        if isinstance(self.delivery, PushDelivery):
            self.delivery.limit_rate(config.rate_limit_bps, self.stream.largest_message())
        self._take_pause()

    @property
    def state_log(self):
        """Where its state is kept, None: in memory only."""
        return self.writer.log

    def follow_retention(self) -> None:
        """Tell the stream from now on of what is finished, if it has to know: its retention is new, or was changed."""
        self.core.tracker.report_finished = self.stream.config.retention != "limits"

    # --- where it begins ---

    def _place(self) -> None:
        """Find the first message: from recorded state, or as the deliver policy says."""
        log = self.core.log
        if self.writer.log is not None:
            state = consumer_state.replay(self.writer.log.recovered, log.first_seq, log.last_seq, log.slots_held())
            if state.started:
                self.writer.go_on()
                placement.restore(self.core, self.config, state)
                return
        self.search = placement.begin(
            self.core, self.config, self.created_ns, kept=self.writer.log is not None,
            one_each=self.stream.config.max_msgs_per_subject == 1)

    def placing(self):
        """Find where a new consumer begins, in steps (see turns.py); start() does what is left of it at once."""
        search, self.search = self.search, None
        if search is not None:
            yield from search

    def counting(self):
        """Count what is ahead, in steps (see turns.py): info() is exact right behind the last one."""
        while self.stream.running and not self.core.cursor.count_step():
            yield

    # --- life ---

    def start(self) -> None:
        """Listen for acks and requests, and deliver."""
        if self.running:
            return
        self.running = True
        self.delivery.begin()
        for receiver, subject in [*self._ack_receivers(), *self.delivery.receivers()]:
            self.subscriptions[self.core.router.subscribe(receiver, subject)] = receiver
        self.turn.begin()
        self.idle.restart(self.turn.now_ns)
        at_once(self.placing())
        self.record_start()
        self.turn.wake()

    def _ack_receivers(self) -> list:
        if self.config.ack_policy in ("none", "flow_control"):
            return []
        host = self.stream.host
        prefix = f"$JS.ACK.{self.stream.name}.{self.name}.".encode()
        domain = host.server_info.domain or "_"
        tokens = domain.encode(), texts.account_hash(host.account_name)
        long_prefix = prefix.replace(b"$JS.ACK.", b"$JS.ACK.%b.%b." % tokens, 1)
        return [
            (AckReceiver(self.acks, self.delivery, len(prefix)), prefix + b"*.*.*.*.*"),
            (AckReceiver(self.acks, self.delivery, len(long_prefix)), long_prefix + b"*.*.*.*.>"),
        ]

    def record_start(self) -> None:
        """Put a new consumer's starting position into its state log; durable after the log's next commit."""
        if not self.writer.begun:
            self.writer.begin(self.core.snapshot())

    def snapshot(self) -> bytes:
        """Its present state as one record (see state.pyx)."""
        return self.core.snapshot()

    def stop(self, str reason="") -> None:
        """Stop for good. `reason`: the 409 status for waiting requests ("Consumer Deleted", "Server Shutdown")."""
        if not self.running:
            return
        self.running = False
        self.turn.stop()
        self.core.look_ahead.close()
        for subscription, receiver in self.subscriptions.items():
            receiver.close()
            self.core.router.unsubscribe(subscription)
        self.subscriptions = {}
        self._write_state()
        self.delivery.end(reason)

    def release(self) -> None:
        """It is deleted, and stopped: what it refers to lets go of it, so that all of it is freed at once."""
        self.turn.task = <TickTask?>REST
        if self.writer.log is not None:
            self.writer.log.observer = None

    def update(self, config, SubjectFilter matching=None) -> None:
        """Take over a changed configuration (checked before), with its filter where that has been made."""
        patterns = matching or filter_of(config)
        if patterns.patterns != self.core.cursor.filter.patterns:
            self.core.cursor.set_filter(patterns)
            self.stream.interest_changed()
        if config.deliver_subject != self.config.deliver_subject:
            self.core.tracker.queue_all()      # who listens there now has got none of it
        self._configure(config)
        if self.running:
            self.idle.restart(self.turn.now_ns)
            self.turn.wake()

    def reset(self, uint64_t seq=0) -> int:
        """Begin again at message `seq` (0: behind the ack floor), with consumer sequence 1 and nothing pending.

        Returns the sequence it begins with. Durable after the state log's next commit. Raises ApiError 10204 for a
        sequence that the deliver policy does not allow.
        """
        placement.check_reset(self.core, self.config, seq)
        seq = seq or self.core.tracker.first_open()
        self._settle()
        if self.config.deliver_policy != "last_per_subject":
            self.core.begun_at = seq
        self.core.begin_again(seq)
        self.letters.forget()
        self.delivery.restart()
        if self.writer.log is not None:
            self.core.tracker.sealed()
            self.writer.begin(self.core.snapshot())
        self.stream.position_changed(self)
        self.turn.wake()
        return seq

    # --- pauses ---

    def pause(self, config) -> None:
        """Take over a configuration that differs in `pause_until` (and metadata) only; it holds at once."""
        self.config = config
        self._take_pause()
        if self.running:
            self.turn.wake()

    def _take_pause(self) -> None:
        until = self.config.pause_until
        self.paused_until_ns = until.ns if until is not None and until.ns > wall_clock_ns() else 0

    def pause_fields(self) -> dict:
        """What an advisory tells of a pause that has begun or ended."""
        until = self.config.pause_until
        paused = until is not None and until.ns > wall_clock_ns()
        return {"paused": paused, "pause_until": ZERO_TIMESTAMP if until is None else str(until)}

    cdef bint _paused(self) except -1:
        if wall_clock_ns() < self.paused_until_ns:
            return True
        self.paused_until_ns = 0
        self.advisories.add("PAUSE", "consumer_pause", self.pause_fields())
        return False

    # --- priority groups ---

    def unpin(self, str group not None) -> None:
        """The client that is pinned is so no more. `group` is one of its priority groups."""
        self.delivery.unpin(group)
        self.turn.wake()

    # --- inactivity ---

    def _check_activity(self) -> None:
        self.idle.touch(self.turn.now_ns)
        if not self.delivery.in_use() and self.on_inactive is not None:
            self.idle.stop()
            self.on_inactive(self)

    def still_inactive(self) -> bool:
        """Asked before this consumer is deleted: has nothing happened since on_inactive? Else its time starts anew."""
        if self.idle.threshold_ns == 0:
            return False  # it was made to stay meanwhile
        if self.idle.at_ns == 0 and not self.delivery.has_interest():
            return True
        self.idle.touch(self.turn.read())
        self.turn.wake()
        return False

    # --- what others ask ---

    def standing(self) -> tuple:
        """(last delivered stream sequence, messages not acknowledged, redelivered ones): info() in short, at no cost."""
        cdef AckTracker tracker = self.core.tracker
        return tracker.delivered_seq, tracker.pending.count, self._redelivered()

    def _redelivered(self) -> int:
        """None where nothing is delivered twice: what was given up then shows once more deliveries are allowed."""
        return 0 if self.core.tracker.max_deliver == 1 else self.core.tracker.redelivered

    def info(self) -> dict:
        """ConsumerInfo, with nats-server's fields in its order; exact when `counting` is through."""
        cdef AckTracker tracker = self.core.tracker
        self.core.cursor.count_on()
        waiting = self.delivery.waiting_requests()
        delivered = {"consumer_seq": tracker.delivered_cseq, "stream_seq": tracker.delivered_seq}
        if self.writer.log is None and not tracker.delivered_seq:
            delivered["stream_seq"] = self.core.cursor.looked_to   # in memory no position is kept before the first one
        if tracker.active_ns:
            delivered["last_active"] = format_timestamp(tracker.active_ns)
        floor = {"consumer_seq": tracker.floor_cseq, "stream_seq": tracker.floor_seq}
        if self.core.tracker.acked_ns:
            floor["last_active"] = format_timestamp(self.core.tracker.acked_ns)
        ahead = self.core.cursor.ahead()
        if ahead and self.delivery.holds_one():
            ahead -= 1
        out = {
            "stream_name": self.stream.name,
            "name": self.name,
            "created": format_timestamp(self.created_ns),
            "config": self.config.to_json(),
            "delivered": delivered,
            "ack_floor": floor,
            "num_ack_pending": tracker.pending.count,
            "num_redelivered": self._redelivered(),
            "num_waiting": waiting,
            "num_pending": ahead,
        }
        if isinstance(self.delivery, PushDelivery) and self.delivery.has_interest():
            out["push_bound"] = True
        if self.paused_until_ns > wall_clock_ns():
            out["paused"] = True
            out["pause_remaining"] = self.config.pause_until.left(wall_clock_ns())
        out["ts"] = format_timestamp(wall_clock_ns())
        if self.config.priority_groups:
            # one pin for all groups, told with the first one
            out["priority_groups"] = [{"group": self.config.priority_groups[0], **self.delivery.group_state()}]
        return out

    cdef SubjectFilter interest(self):
        return self.core.cursor.filter if self.core.cursor.filter.patterns else None

    cdef bint needs(self, uint64_t seq) except -1:
        return self.core.needs(seq)

    cdef uint64_t delivered_up_to(self) except? 0:
        return self.core.tracker.delivered_seq

    cdef uint64_t acked_up_to(self) except? 0:
        return self.core.tracker.floor_seq

    cdef uint64_t begun_at(self) except? 0:
        return self.core.begun_at

    cdef int on_removed(self, uint64_t seq, bytes subject, bint purged) except -1:
        return self.core.removed(seq, subject, purged)

    cdef int on_changed(self, bint purged) except -1:
        self.core.cursor.purged()
        return self.core.lost_some(0, UINT64_MAX, purged)

    cdef int on_purged(self, bytes pattern) except -1:
        return self.core.after_purge(pattern)

    def counted_in(self, uint64_t first, uint64_t last) -> list:
        return self.core.cursor.counted_in(first, last)

    def removed_in(self, uint64_t first, uint64_t last, list before, bint purged) -> None:
        self.core.cursor.removed_in(first, last, before)
        self.core.lost_some(first, last, purged)

    # --- its turn ---

    cdef int run_tick(self) except -1:
        cdef bint counted
        if not self.running:
            return 0
        self.turn.begin()
        if self.core.tracker.pending.count or self.core.tracker.pending.exhausted:
            self.core.drop_evicted()
        counted = self.core.cursor.count_on()
        if self.core.take_due():
            self.turn.go_on()
        self._give_up_dead()
        self.delivery.run_timers()
        if self.acks.heard:
            self.acks.heard = False
            self.idle.touch(self.turn.now_ns)
        if self.idle.at_ns and self.idle.at_ns <= self.turn.now_ns:
            self._check_activity()
        if not counted:
            self.core.look_ahead.run_tick()     # each delivery and each answer tells how many are ahead
        else:
            if self.delivery.requests:
                self.delivery.take_requests()
            if self.paused_until_ns and self._paused():
                self.delivery.pause()
            else:
                self.delivery.deliver()
        self._settle()
        if self.running:
            self.turn.arm(self._earliest())
        return 0

    cdef int _give_up_dead(self) except -1:
        """Do what is due for dead letters, whether anybody asks for messages or not."""
        if self.core.tracker.redeliveries.size and self.core.tracker.max_deliver > 0 and self.letters.receiver():
            self.core.give_up_due()
        if self.letters.heap:
            self.letters.run()
        if self.letters.replies:
            self.acks.replies += self.letters.take_replies()
        return 0

    cdef int64_t _earliest(self) except? -1:
        """When something has to happen without a message; 0: never."""
        cdef int64_t when = sooner(self.delivery.earliest(), self.idle.at_ns)
        if self.letters.heap:
            when = sooner(when, self.letters.due_ns())
        if self.paused_until_ns:
            when = sooner(
                when, self.turn.now_ns + min(max(self.paused_until_ns - wall_clock_ns(), 1), PAUSE_LOOK_NS))
        return when

    # --- the watchdog ---

    def is_stalled(self) -> bool:
        """Asked once a second: could it have delivered something since the last time, and has not?"""
        cdef uint64_t delivered = self.core.tracker.delivered_cseq
        if not self.vigil.is_stalled(not self.running or self.paused_until_ns > 0):
            return False
        if self.config.priority_policy == "none":
            return True
        self.run_tick()                # who of a group has demand its delivery alone can tell: let it try
        return self.core.tracker.delivered_cseq > delivered

    def describe(self) -> dict:
        """All of its state, for the log."""
        return {"account": self.stream.host.account_name, **self.info(), "scheduled": self.scheduled,
                **self.vigil.describe()}

    def set_going(self) -> None:
        """Take a turn, whatever it seems to wait for."""
        self.turn.stop()
        self.scheduled = self.core.look_ahead.waiting = self.core.look_ahead.scheduled = False
        self.turn.wake()

    def look(self) -> None:
        """Act on what is due by the clock now: for tests that move it."""
        self.turn.wake()

    cdef int _settle(self) except -1:
        """Tell the stream and the listeners what this turn brought, and record it."""
        if self._settle_some():
            self.turn.go_on()
        if self.advisories.waiting:
            self.advisories.publish()
        return self._write_state()

    cdef bint _settle_some(self) except -1:
        """Let the stream go of what is finished; True: of more than is done at once."""
        cdef AckTracker tracker = self.core.tracker
        cdef uint64_t seq
        cdef int left = FINISHED_AT_ONCE
        while tracker.finished.size and left:
            left -= 1
            seq = tracker.finished.peek()
            tracker.finished.pop()
            self.stream.ack_message(self, seq)
        return tracker.finished.size > 0

    def settling(self):
        """Let the stream go of all that is finished, in steps (see turns.py): before it is deleted or begins again."""
        while self._settle_some():
            yield

    cdef int _write_state(self) except -1:
        cdef AckTracker tracker = self.core.tracker
        cdef const char* record
        cdef Py_ssize_t n = 0
        if tracker.changed():
            record = tracker.seal(&n)
            self.writer.write(record, n)
            tracker.sealed()
            if self.writer.wants_snapshot(ENTRY_BYTES * (1 + tracker.pending.count + tracker.pending.exhausted)):
                self._replace_records()
        if self.acks.replies:
            self.writer.confirm(self.acks.take_replies())
        return 0

    def _replace_records(self) -> None:
        try:
            self.writer.replace(self.core.snapshot())
        except StorageError as error:
            # nothing is lost: the log only goes on growing
            self.stream.host.log.warn(f"Consumer {self.stream.name!r} > {self.name!r}: {error}")
