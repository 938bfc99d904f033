# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hot half of a consumer: finding the next message, sending it, taking acks (see delivery.pxd).

A message is recorded as delivered only when somebody took it. Receivers must not publish from deliver(), but an
inbox may be an ack subject of this very consumer: nothing that send() can change is kept across it.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from jetbroker.jetstream.consumers.acks cimport (
    ACK_ACK, ACK_NAK, ACK_NEXT, ACK_PROGRESS, ACK_TERM, AckKind, AckNumbers, parse_ack_kind, parse_ack_numbers,
    parse_nak_delay,
)
from jetbroker.jetstream.consumers.pending cimport ENTRY_EXHAUSTED, PendingEntry
from jetbroker.jetstream.consumers.pull cimport WaitingRequest
from jetbroker.jetstream.consumers.receivers cimport ConsumerEvents
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.consumers.tracker cimport POLICY_ALL
from jetbroker.routing.router cimport Route, RouteSlot
from jetbroker.saturate cimport add_int64, subtract_int64
from jetbroker.store.log.stream_log cimport READ_DAMAGED, READ_LATER, READ_MISSING, READ_OK, StoredMessage
from jetbroker.tick cimport PHASE_CONSUMERS
from jetbroker.wire.buffer cimport format_uint
from jetbroker.wire.message cimport Message

from random import randrange

from jetbroker.jetstream.consumers import status as texts
from jetbroker.wire.headers import header_value

# One tick's share, so that sockets are read and flushed in between and no output buffer grows without bound.
cdef int TICK_MESSAGES = 512
cdef Py_ssize_t TICK_BYTES = 256 * 1024
cdef int64_t NO_ROOM_LIMIT = 0x7FFFFFFFFFFFFFFF
cdef Py_ssize_t NUMBERS_BYTES = 5 * 21


cdef class ConsumerDelivery(ConsumerEvents):
    """Base of Consumer."""

    cdef int64_t monotonic(self) except? -1:
        cdef timespec now
        if self.clock is not None:
            return self.clock()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec

    cdef int wake(self) except -1:
        return self.tick.schedule(PHASE_CONSUMERS, self)

    # --- what comes next ---

    cdef int next_delivery(self, StoredMessage* message, PendingEntry** again) except -1:
        cdef PendingEntry* entry
        cdef int result
        while True:
            entry = self.tracker.next_redelivery()
            if entry == NULL:
                break
            if self.tracker.max_deliver > 0 and entry.count >= self.tracker.max_deliver:
                self.give_up(entry)
                continue
            result = self.log.read(entry.seq, message)
            if result == READ_OK:
                again[0] = entry
                return OUTLOOK_AGAIN
            if result == READ_DAMAGED:
                self.give_up(entry)
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
            self.skip_damaged(message.seq)

    cdef bint full(self) noexcept:
        return self.max_ack_pending > 0 and self.tracker.pending.count >= self.max_ack_pending

    cdef bint blocked(self) except -1:
        return self.full() and self.tracker.next_redelivery() == NULL

    cdef int give_up(self, PendingEntry* entry) except -1:
        """max_deliver is used up: the message stays unacked, but is not delivered any more."""
        self.advisories.append((f"MAX_DELIVERIES.{self.stream_name}.{self.name}", "max_deliver", {
            "stream_seq": entry.seq, "deliveries": entry.count,
        }))
        self.tracker.exhaust(entry)
        return 0

    cdef int skip_damaged(self, uint64_t seq) except -1:
        """A damaged record costs this message only; its stream reports it as lost."""
        self.cursor.skip(seq)
        self.tracker.skip_to(seq)
        return 0

    # --- one message out ---

    cdef Py_ssize_t format_reply(self, uint64_t delivered, StoredMessage* message, uint64_t ahead) except? -1:
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
        p += format_uint(p, self.tracker.delivered_cseq + 1)
        p[0] = c'.'
        p += 1
        p += format_uint(p, <uint64_t>message.time_ns)
        p[0] = c'.'
        p += 1
        p += format_uint(p, ahead)
        return self.reply_prefix + (p - start)

    cdef int prepare(self, StoredMessage* message, bint copy, Message* out) except -1:
        """Subject and body of the message to send; copied together when the log's bytes can not be used as they are."""
        cdef bytes size_header
        out.subject = message.subject
        out.subject_len = message.subject_len
        out.headers_len = message.headers_len
        out.body_len = message.headers_len + message.payload_len
        out.size_text = NULL
        out.size_text_len = 0
        out.tail = NULL
        out.tail_len = 0
        out.body = message.headers if message.headers_len else message.payload
        if not self.headers_only:
            if not copy and (message.headers_len == 0 or message.payload_len == 0
                             or message.headers + message.headers_len == message.payload):
                return 0
            self.body.clear()
            self.body.reserve(message.subject_len + out.body_len)
            self.body.append(message.headers, message.headers_len)
            self.body.append(message.payload, message.payload_len)
        else:
            size_header = b"Nats-Msg-Size: %d\r\n\r\n" % message.payload_len
            self.body.clear()
            self.body.reserve(message.subject_len + message.headers_len + 64)
            if message.headers_len:
                self.body.append(message.headers, message.headers_len - 2)
            else:
                self.body.append(b"NATS/1.0\r\n", 10)
            self.body.append(PyBytes_AS_STRING(size_header), PyBytes_GET_SIZE(size_header))
            out.headers_len = out.body_len = self.body.size
        if copy:
            self.body.append(message.subject, message.subject_len)
            out.subject = self.body.data + out.body_len
        out.body = self.body.data
        return 0

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
        self.prepare(message, copy, &out)
        out.reply_len = self.format_reply(count, message, ahead)
        out.reply = self.reply.data
        size[0] = out.subject_len + out.reply_len + out.body_len
        if size[0] > room:
            return SENT_TOO_LARGE
        if self.router.send(route, &out) == 0:
            return SENT_NOTHING
        self.record(seq, again != NULL)
        return SENT_OK

    cdef int record(self, uint64_t seq, bint again) except -1:
        cdef PendingEntry* entry
        if not again:
            self.cursor.took(seq)
            self.tracker.deliver(seq, self.now_ns)
            return 0
        entry = self.tracker.next_redelivery()
        if entry != NULL and entry.seq == seq:
            self.tracker.redeliver(entry, self.now_ns)
        return 0

    cdef int status(self, bytes reply, bytes headers) except -1:
        self.router.publish_bytes(reply, None, headers, b"")
        return 0

    # --- pull ---

    cdef WaitingRequest next_request(self):
        """The request to serve now; those that nobody listens for any more are dropped on the way."""
        cdef WaitingRequest request
        while self.waiting.count:
            request = self.waiting.head
            if request.expires_ns and request.expires_ns <= self.now_ns:
                self.waiting.pop()
                self.status(request.reply, texts.status_with_rest(
                    texts.REQUEST_TIMEOUT, request.left, request.bytes_left if request.bounded else 0))
            elif request.wanted(self.router):
                return request
            else:
                self.waiting.pop()
        return None

    cdef int deliver_pull(self) except -1:
        cdef StoredMessage message
        cdef PendingEntry* again = NULL
        cdef WaitingRequest request
        cdef Py_ssize_t size = 0, total = 0
        cdef int outlook, result, count = 0
        while True:
            request = self.next_request()
            if request is None:
                break
            if count >= TICK_MESSAGES or total >= TICK_BYTES:
                self.tick.defer(PHASE_CONSUMERS, self)
                break
            outlook = self.next_delivery(&message, &again)
            if outlook != OUTLOOK_NEW and outlook != OUTLOOK_AGAIN:
                if outlook == OUTLOOK_NOTHING and self.log.committed == self.log.last_seq:
                    for request in self.waiting.take_exhausted():
                        self.status(request.reply, texts.NO_MESSAGES)
                break
            result = self.send(request.route, request.into_stream, &message, again,
                               request.bytes_left if request.bounded else NO_ROOM_LIMIT, &size)
            if result == SENT_OK:
                self.serve(request, size)
                count += 1
                total += size
            elif result == SENT_TOO_LARGE:
                self.refuse_size(request)
            else:
                self.waiting.pop()
        if count:
            self.last_delivered_ns = wall_clock_ns()
        return 0

    cdef int serve(self, WaitingRequest request, Py_ssize_t size) except -1:
        """`request` (the head) got a message of `size` bytes."""
        if self.waiting.head is not request:
            return 0
        request.delivered += 1
        request.left = subtract_int64(request.left, 1)
        request.bytes_left -= size
        if request.heartbeat_ns:
            request.next_heartbeat_ns = add_int64(self.now_ns, request.heartbeat_ns)
        if request.left > 0 and not (request.bounded and request.bytes_left <= 0):
            self.waiting.rotate()
            return 0
        self.waiting.pop()
        if request.bounded and (request.bytes_left > 0 or request.left > 0):
            self.status(request.reply, texts.status_with_rest(
                texts.BATCH_COMPLETED, request.left, max(request.bytes_left, 0)))
        return 0

    cdef int refuse_size(self, WaitingRequest request) except -1:
        self.waiting.pop()
        return self.status(request.reply, texts.status_with_rest(texts.TOO_LARGE, request.left, request.bytes_left))

    # --- push ---

    cdef bint check_interest(self) except -1:
        """Does the deliver subject have somebody to deliver to? Keeps its route."""
        cdef bint before = self.deliverable
        if self.deliver_route is None or self.deliver_route.stale:
            self.deliver_route = self.router.route(
                PyBytes_AS_STRING(self.deliver_subject), PyBytes_GET_SIZE(self.deliver_subject))
            self.watching = self.running and self.router.watch(self.deliver_route, self.watcher)
            if self.deliver_group is not None:
                self.deliverable = self.router.has_queue_interest(self.deliver_subject, self.deliver_group)
            else:
                self.deliverable = self.has_listener()
            if self.deliverable and not before:
                self.next_heartbeat_ns = add_int64(self.now_ns, self.heartbeat_ns)
                if self.flow is not None:
                    self.flow.reset()
            elif before and self.inactive_ns:
                self.inactive_at_ns = add_int64(self.now_ns, self.inactive_ns)
        return self.deliverable

    cdef bint has_listener(self) except -1:
        """Wildcards and queue groups get copies of what a listener on the very subject gets, and nothing without one."""
        cdef RouteSlot slot
        for slot in self.deliver_route.plain:
            if slot.sub.subject == self.deliver_subject:
                return True
        return False

    cdef int on_interest_changed(self) except -1:
        self.now_ns = self.monotonic()
        if self.waiting.count:
            # Nothing is dropped yet: a requester that reconnects may be back before there is something to send
            if self.inactive_ns:
                self.inactive_at_ns = add_int64(self.now_ns, self.inactive_ns)
            return 0
        return self.wake()

    cdef int leave_route(self) except -1:
        if self.deliver_route is not None:
            self.router.unwatch(self.deliver_route, self.watcher)
        self.deliver_route = None
        self.deliverable = self.watching = False
        return 0

    cdef int deliver_push(self) except -1:
        cdef StoredMessage message
        cdef PendingEntry* again = NULL
        cdef Py_ssize_t size = 0, total = 0
        cdef int outlook, count = 0
        while self.check_interest():
            if self.flow is not None and self.flow.stalled():
                break
            if count >= TICK_MESSAGES or total >= TICK_BYTES:
                self.tick.defer(PHASE_CONSUMERS, self)
                break
            outlook = self.next_delivery(&message, &again)
            if outlook != OUTLOOK_NEW and outlook != OUTLOOK_AGAIN:
                self.hold_until_ns = 0
                break
            self.hold_until_ns = self.held_back(&message)
            if self.hold_until_ns:
                break
            size = 0
            if self.send(self.deliver_route, self.own_subjects is not None, &message, again, NO_ROOM_LIMIT,
                         &size) != SENT_OK:
                # somebody is subscribed, but closed: the route will change
                self.leave_route()
                break
            self.after_push(&message, size)
            count += 1
            total += size
        if count:
            self.last_delivered_ns = wall_clock_ns()
        return 0

    cdef int64_t held_back(self, StoredMessage* message) except? -1:
        """When this message may go (monotonic ns), 0 for now."""
        cdef int64_t due, wait
        if self.replay_until and message.seq <= self.replay_until:
            due = add_int64(self.replay_base_ns, message.time_ns)
            if self.replay_started and due > self.now_ns:
                return due
        if self.rate is not None:
            wait = self.rate.take(
                message.subject_len + self.reply_prefix + message.headers_len + message.payload_len, self.now_ns)
            if wait:
                return add_int64(self.now_ns, wait)
        return 0

    cdef int after_push(self, StoredMessage* message, Py_ssize_t size) except -1:
        if self.replay_until:
            # message.time_ns is our own copy of the number, not a pointer into the log
            self.replay_base_ns = subtract_int64(self.now_ns, message.time_ns)
            self.replay_started = True
            if message.seq >= self.replay_until:
                self.replay_until = 0
        self.next_heartbeat_ns = add_int64(self.now_ns, self.heartbeat_ns)
        if self.flow is not None:
            self.flow.sent(size)
            if self.flow.wants_request() or (self.acks_on_flow and self.full()):
                self.request_flow()
        return 0

    cdef int request_flow(self) except -1:
        """Ask the subscriber how far it is, unless it has been asked already."""
        if self.flow.open_subject is None:
            self.router.publish_bytes(self.deliver_subject, self.flow.open_request(), texts.FLOW_CONTROL_REQUEST, b"")
        return 0

    cdef int on_flow_answer(self, const Message* msg) except -1:
        if self.flow is not None and self.flow.answered(msg.subject[:msg.subject_len]):
            if self.acks_on_flow and msg.headers_len:
                self.take_flow_ack(msg)
            self.wake()
        return 0

    cdef int take_flow_ack(self, const Message* msg) except -1:
        """The answer says up to where everything is safe with the subscriber."""
        cdef bytes headers = msg.body[:msg.headers_len]
        cdef object seq = header_value(headers, b"Nats-Last-Stream")
        cdef object cseq = header_value(headers, b"Nats-Last-Consumer")
        if seq is None or cseq is None or not (seq.isdigit() and cseq.isdigit()) or len(seq) > 19 or len(cseq) > 19:
            return 0
        # a subscriber may know more than this consumer has given it: it had the rest from an earlier one
        if self.tracker.ack_up_to(min(<uint64_t>int(seq), self.tracker.delivered_seq), <uint64_t>int(cseq)):
            self.last_acked_ns = wall_clock_ns()
        return 0

    # --- acks ---

    cdef int on_ack(self, const char* numbers, Py_ssize_t n, const Message* msg) except -1:
        cdef AckNumbers parsed
        cdef AckKind kind
        cdef const char* rest
        cdef Py_ssize_t rest_len
        if not parse_ack_numbers(numbers, n, &parsed) or parsed.stream_seq > self.tracker.delivered_seq:
            return 0
        kind = parse_ack_kind(msg.body + msg.headers_len, msg.body_len - msg.headers_len, &rest, &rest_len)
        if kind == ACK_ACK:
            self.take_ack(&parsed)
        elif kind == ACK_NEXT:
            self.take_ack(&parsed)
            if msg.reply != NULL:
                self.requests.append((msg.reply[:msg.reply_len], b"", rest[:rest_len]))
                self.wake()
            return 0
        elif kind == ACK_NAK:
            self.take_nak(parsed.stream_seq, parse_nak_delay(rest, rest_len))
        elif kind == ACK_TERM:
            self.take_term(parsed.stream_seq, parsed.consumer_seq, rest[:rest_len])
        elif kind == ACK_PROGRESS:
            self.tracker.progress(parsed.stream_seq, self.monotonic())
        if msg.reply != NULL:
            self.ack_replies.append(msg.reply[:msg.reply_len])
        self.wake()
        return 0

    cdef int take_ack(self, AckNumbers* numbers) except -1:
        cdef bint changed
        if self.sample_percent:
            self.sample(numbers.stream_seq)
        if self.tracker.policy == POLICY_ALL:
            changed = self.tracker.ack_up_to(numbers.stream_seq, numbers.consumer_seq)
        else:
            changed = self.tracker.ack(numbers.stream_seq, numbers.consumer_seq)
        if changed:
            self.last_acked_ns = wall_clock_ns()
            self.wake()
        return 0

    def take_nak(self, uint64_t seq, int64_t delay_ns) -> None:
        cdef PendingEntry* entry = self.tracker.pending.find(seq)
        if entry == NULL or entry.flags & ENTRY_EXHAUSTED:
            return
        self.advisories.append((f"MSG_NAKED.{self.stream_name}.{self.name}", "nak", {
            "consumer_seq": entry.cseq, "stream_seq": seq, "deliveries": entry.count,
        }))
        self.tracker.nak(seq, delay_ns, self.monotonic())

    def take_term(self, uint64_t seq, uint64_t cseq, bytes reason) -> None:
        cdef PendingEntry* entry = self.tracker.pending.find(seq)
        if entry == NULL or entry.flags & ENTRY_EXHAUSTED:
            return
        self.terminated(seq, entry.cseq, entry.count, reason.decode("utf-8", "replace"))
        if self.tracker.policy == POLICY_ALL:
            self.tracker.ack_up_to(seq, cseq)
        else:
            self.tracker.ack(seq, cseq)

    def terminated(self, uint64_t seq, uint64_t cseq, uint64_t deliveries, str reason) -> None:
        """Tell that a message will not come again."""
        fields = {"consumer_seq": cseq, "stream_seq": seq, "deliveries": deliveries}
        if reason:
            fields["reason"] = reason
        self.advisories.append((f"MSG_TERMINATED.{self.stream_name}.{self.name}", "terminated", fields))

    def sample(self, uint64_t seq) -> None:
        """Measure this ack when its turn comes."""
        cdef PendingEntry* entry = self.tracker.pending.find(seq)
        if entry == NULL or randrange(100) >= self.sample_percent:
            return
        self.advisories.append((f"ACK.{self.stream_name}.{self.name}", "consumer_ack", {
            "consumer_seq": entry.cseq, "stream_seq": seq,
            "ack_time": self.monotonic() - entry.delivered_ns, "deliveries": entry.count,
        }))
