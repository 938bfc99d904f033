# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Push: where messages go, what slows them down, and how they are sent (see push.pxd)."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint64_t

from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.consumers.core cimport (
    OUTLOOK_AGAIN, OUTLOOK_NEW, SENT_OK, TICK_BYTES, TICK_MESSAGES, ConsumerCore, Delivery, Inactivity,
    sooner,
)
from jetbroker.jetstream.consumers.tracker cimport PendingEntry
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.saturate cimport add_int64
from jetbroker.store.log.stream_log cimport StoredMessage
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message

from jetbroker.jetstream.consumers import status as texts
from jetbroker.tick import REST
from jetbroker.wire.headers import header_value

cdef int64_t INTEREST_POLL_NS = 100_000_000     # how often it is looked for a subscriber when the router cannot tell

cdef int64_t FIRST_WINDOW = 2 * 1024 * 1024     # nats-server's: a sixteenth of the largest
cdef int64_t LARGEST_WINDOW = 32 * 1024 * 1024
cdef bytes LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


cdef class FlowControl:
    """Bytes on the way to the subscriber and the answers that open the window."""

    def __init__(self, bytes prefix not None) -> None:
        self.prefix = prefix
        self.window = FIRST_WINDOW

    cpdef bint stalled(self) noexcept:
        return self.outstanding > self.window

    cpdef void sent(self, int64_t n) noexcept:
        self.outstanding += n

    cpdef bint wants_request(self) noexcept:
        return self.open_subject is None and self.outstanding > self.window // 2

    cpdef bytes open_request(self):
        """The subject whose answer confirms all that has been sent so far."""
        self.open_subject = self.prefix + bytes([LETTERS[b % 62] for b in os.urandom(4)])
        self.open_bytes = self.outstanding
        return self.open_subject

    cpdef bint answered(self, bytes subject) except -1:
        """False: not the answer to the open request."""
        if self.open_subject is None or subject != self.open_subject:
            return False
        self.open_subject = None
        self.window = min(self.window * 2, LARGEST_WINDOW)
        self.outstanding = max(self.outstanding - self.open_bytes, 0)
        self.open_bytes = 0
        return True

    cdef void reset(self) noexcept:
        """The subscriber is another one now."""
        self.open_subject = None
        self.window = FIRST_WINDOW
        self.outstanding = 0
        self.open_bytes = 0


cdef class RateLimit:
    """A token bucket of bytes."""

    def __init__(self, uint64_t bits_per_second, int64_t burst, int64_t now_ns) -> None:
        self.bits_per_second = bits_per_second
        self.bytes_per_ns = bits_per_second / 8e9
        self.burst = burst
        self.tokens = burst
        self.updated_ns = now_ns

    cpdef int64_t take(self, int64_t n, int64_t now_ns) noexcept:
        cdef double missing
        self.tokens = min(self.burst, self.tokens + (now_ns - self.updated_ns) * self.bytes_per_ns)
        self.updated_ns = now_ns
        # a message larger than the bucket goes when the bucket is full
        missing = min(<double>n, self.burst) - self.tokens
        if missing > 0:
            return <int64_t>(missing / self.bytes_per_ns) + 1
        self.tokens -= n
        return 0


cdef class DeliverSubject:
    """Knows the route to one subject."""

    def __init__(self, Router router not None, TickTask watcher not None) -> None:
        self.router = router
        self.watcher = watcher

    def set(self, bytes subject not None, bytes group) -> None:
        """Deliver to this subject, and to this queue group of its (None: to those in no group)."""
        self.leave()
        self.subject = subject
        self.group = group

    cdef bint known(self) noexcept:
        return self.route is not None and not self.route.stale

    cdef int look(self, bint watch) except -1:
        self.route = self.router.route(PyBytes_AS_STRING(self.subject), PyBytes_GET_SIZE(self.subject))
        self.watched = watch and self.router.watch(self.route, self.watcher)
        if self.group is not None:
            self.heard = self.router.has_queue_interest(self.subject, self.group)
        else:
            # wildcards and queue groups get copies of what a listener on the very subject gets, nothing without one
            self.heard = self.route.has_listener()
        self.waits = False
        return 0

    cdef bint has_to_wait(self) except -1:
        if not self.waits:
            self.waits = self.route.is_behind(self.group, self.watcher)
        return self.waits

    cdef int leave(self) except -1:
        if self.route is not None:
            self.router.unwatch(self.route, self.watcher)
        self.route = None
        self.heard = self.watched = self.waits = False
        return 0


cdef class PushDelivery(Delivery):
    """Sends to the deliver subject as long as somebody listens there."""

    def __init__(self, ConsumerCore core not None, Inactivity idle not None, uint64_t replay_until) -> None:
        """`replay_until`: the last sequence that is replayed at the original pace, 0: none."""
        Delivery.__init__(self, core, idle, replay_until)
        self.target = DeliverSubject(self.router, self)

    def configure(self, config) -> None:
        """Take over a (changed) ConsumerConfig."""
        self.target.set(config.deliver_subject.encode(), config.deliver_group.encode() or None)
        self.acks_on_flow = config.ack_policy == "flow_control"
        self.heartbeat_ns = max(config.idle_heartbeat, 0)
        if config.flow_control and self.flow is None:
            names = self.core.advisories
            self.flow = FlowControl(f"$JS.FC.{names.stream}.{names.consumer}.".encode())

    def limit_rate(self, uint64_t bits_per_second, int64_t burst) -> None:
        """Send no faster, once `burst` bytes are gone; 0: as fast as it goes. The bucket of the same rate is kept."""
        if not bits_per_second:
            self.rate = None
        elif self.rate is None or self.rate.bits_per_second != bits_per_second:
            self.rate = RateLimit(bits_per_second, burst, self.turn.now_ns)

    def receivers(self) -> list:
        """(receiver, subject) of what clients send to it."""
        cdef list out = Delivery.receivers(self)
        if self.flow is not None:
            out.append((FlowReceiver(self), self.flow.prefix + b"*"))
        return out

    def end(self, str reason) -> None:
        """Deliver no more."""
        Delivery.end(self, reason)
        self.target.leave()
        self.target.watcher = <TickTask?>REST

    cdef bytes take_request(self, bytes reply, bytes headers, bytes body):
        return texts.PUSH_BASED

    # --- interest ---

    cdef bint _look(self) except -1:
        """Does the deliver subject have somebody to deliver to?"""
        cdef bint before = self.target.heard
        if self.target.known():
            return before
        self.target.look(self.open)
        if self.target.heard and not before:
            self.next_heartbeat_ns = add_int64(self.turn.now_ns, self.heartbeat_ns)
            self.restart()
        elif before:
            self.idle.touch(self.turn.now_ns)
        return self.target.heard

    cdef bint has_interest(self) except -1:
        return self._look()

    cdef int interest_changed(self) except -1:
        return self.turn.wake()

    def go_on(self) -> None:
        """Somebody who was behind has caught up."""
        self.target.waits = False
        if self.open:
            self.turn.go_on()

    cdef int restart(self) except -1:
        if self.flow is not None:
            self.flow.reset()
        return 0

    # --- messages ---

    cpdef int deliver(self) except -1:
        cdef StoredMessage message
        cdef PendingEntry* again = NULL
        cdef Py_ssize_t size = 0, total = 0
        cdef int outlook, count = 0
        if self._look() and self.target.has_to_wait():
            return 0
        while self._look():
            if self.flow is not None and self.flow.stalled():
                break
            if count >= TICK_MESSAGES or total >= TICK_BYTES:
                self.turn.go_on()
                break
            outlook = self.core.next(&message, &again)
            if outlook != OUTLOOK_NEW and outlook != OUTLOOK_AGAIN:
                self.hold_until_ns = 0
                break
            self.hold_until_ns = self._held_back(&message)
            if self.hold_until_ns:
                break
            # copied: the deliver subject may lead into the stream
            if self.core.send(self.target.route, True, &message, again, INT64_MAX, &size) != SENT_OK:
                # somebody is subscribed, but closed: the route will change
                self.target.leave()
                break
            if again == NULL:
                self.replay.sent(message.seq, message.time_ns, self.turn.now_ns)
            self._after(size)
            count += 1
            total += size
        if count:
            self.core.tracker.active_ns = wall_clock_ns()
        return 0

    cdef int64_t _held_back(self, StoredMessage* message) except? -1:
        """When this message may go (monotonic ns), 0 for now."""
        cdef int64_t now = self.turn.now_ns
        cdef int64_t due = self.replay.due_ns(message.seq, message.time_ns, now)
        cdef int64_t wait
        if due == 0 and self.rate is not None:
            wait = self.rate.take(
                message.subject_len + self.core.envelope.reply_prefix + message.headers_len + message.payload_len, now)
            if wait:
                return add_int64(now, wait)
        return due

    cdef int _after(self, Py_ssize_t size) except -1:
        self.next_heartbeat_ns = add_int64(self.turn.now_ns, self.heartbeat_ns)
        if self.flow is not None:
            self.flow.sent(size)
            if self.flow.wants_request() or (self.acks_on_flow and self.core.full()):
                self._request_flow()
        return 0

    cdef int pause(self) except -1:
        """Interest is watched on."""
        self.hold_until_ns = 0
        self._look()
        return 0

    cdef bint has_demand(self) except -1:
        return (self._look() and not self.is_held() and not self.target.waits
                and not (self.flow is not None and self.flow.stalled()))

    # --- time ---

    cdef int run_timers(self) except -1:
        if not self.heartbeat_ns or not self._look() or self.next_heartbeat_ns > self.turn.now_ns:
            return 0
        stalled = self.flow.open_subject if self.flow is not None else None
        self.status(self.target.subject, texts.heartbeat(
            self.core.tracker.delivered_cseq, self.core.tracker.delivered_seq, stalled))
        self.next_heartbeat_ns = add_int64(self.turn.now_ns, self.heartbeat_ns)
        if self.acks_on_flow and self.core.tracker.pending.count:
            self._request_flow()
        return 0

    cpdef int64_t earliest(self) except? -1:
        cdef int64_t when = self.core.due_ns()   # also while nobody listens: what is used up is given up
        if not self.target.heard:
            return when if self.target.watched else sooner(when, self.turn.now_ns + INTEREST_POLL_NS)
        when = sooner(when, self.hold_until_ns)
        return sooner(when, self.next_heartbeat_ns) if self.heartbeat_ns else when

    # --- flow control ---

    cdef int _request_flow(self) except -1:
        """Ask the subscriber how far it is, unless it has been asked already."""
        if self.flow.open_subject is None:
            self.router.publish_bytes(
                self.target.subject, self.flow.open_request(), texts.FLOW_CONTROL_REQUEST, b"")
        return 0

    cdef int flow_answer(self, const Message* msg) except -1:
        if self.flow is not None and self.flow.answered(msg.subject[:msg.subject_len]):
            if self.acks_on_flow and msg.headers_len:
                self._take_flow_ack(msg)
            self.turn.wake()
        return 0

    cdef int _take_flow_ack(self, const Message* msg) except -1:
        """The answer says up to where everything is safe with the subscriber."""
        cdef bytes headers = msg.body[:msg.headers_len]
        cdef object seq = header_value(headers, b"Nats-Last-Stream")
        cdef object cseq = header_value(headers, b"Nats-Last-Consumer")
        if seq is None or cseq is None or not (seq.isdigit() and cseq.isdigit()) or len(seq) > 19 or len(cseq) > 19:
            return 0
        # a subscriber may know more than this consumer has given it: it had the rest from an earlier one
        self.core.tracker.ack_up_to(<uint64_t>int(seq), <uint64_t>int(cseq))
        return 0


cdef class FlowReceiver(Receiver):
    """Answers to flow control requests."""

    def __init__(self, PushDelivery delivery not None) -> None:
        self.delivery = delivery

    def close(self) -> None:
        """Take no message any more."""
        self.delivery = None

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        if self.delivery is None:
            return 0
        self.delivery.flow_answer(msg)
        return 1
