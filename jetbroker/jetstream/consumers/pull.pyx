# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pull: requests that wait for messages, and how they get them (see pull.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memcmp

from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.consumers.core cimport (
    OUTLOOK_AGAIN, OUTLOOK_NEW, OUTLOOK_NOTHING, SENT_OK, SENT_TOO_LARGE, TICK_BYTES, TICK_MESSAGES,
    ConsumerCore, Delivery, Inactivity, sooner,
)
from jetbroker.jetstream.consumers.pending cimport PendingEntry
from jetbroker.jetstream.consumers.priority cimport (
    CHOICE_AGAIN, CHOICE_HEAD, CHOICE_LATER, CHOICE_NOBODY, group_state, policy_for, tell_unpinned,
)
from jetbroker.jetstream.consumers.waiting cimport (
    DUE_NO_MESSAGES, DUE_TIMEOUT, GroupTerms, WaitingQueue, WaitingRequest,
)
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.saturate cimport add_int64, subtract_int64
from jetbroker.store.log.stream_log cimport StoredMessage, SubjectFilter
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message

from jetbroker.jetstream.consumers import status as texts
from jetbroker.jetstream.consumers.pull_request import PullLimits, PullRequestError, parse_pull_request
from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.tick import REST
from jetbroker.wire.headers import header_value


cdef class PullDelivery(Delivery):
    """Serves requests, those that wait one message each in turn."""

    def __init__(self, ConsumerCore core not None, Inactivity idle not None,
                 SubjectFilter own_subjects not None) -> None:
        Delivery.__init__(self, core, idle)
        self.waiting = WaitingQueue(self.router, self)
        self.own_subjects = own_subjects

    def configure(self, config) -> None:
        """Take over a (changed) ConsumerConfig."""
        self.max_waiting = config.max_waiting
        self.limits = PullLimits(
            config.max_batch, config.max_expires, config.max_bytes,
            config.priority_policy, frozenset(config.priority_groups))
        self.waiting.sort_by_level(config.priority_policy == "prioritized")
        self.priority = policy_for(config, self.priority, self.core)

    def end(self, str reason) -> None:
        """Deliver no more; `reason`: the 409 status for waiting requests, "": none."""
        cdef WaitingRequest request
        cdef str line = f"409 {reason}"
        Delivery.end(self, reason)
        self.waiting.watcher = <TickTask?>REST
        for request in self.waiting.take_all():
            if line == texts.SERVER_SHUTDOWN:
                self.status(request.reply, texts.status_with_rest(line, request.left, max(request.bytes_left, 0)))
            elif reason:
                self.status(request.reply, texts.status(line))

    # --- requests ---

    cdef bytes take_request(self, bytes reply, bytes headers, bytes body):
        cdef WaitingRequest request
        cdef GroupTerms terms = None
        if headers and not level_supported(header_value(headers, LEVEL_HEADER)):
            return texts.REQUIRED_API_LEVEL
        try:
            wanted = parse_pull_request(body, self.limits)
        except PullRequestError as error:
            return texts.status(str(error))
        if wanted.priority.group:
            terms = GroupTerms(wanted.priority)
            refusal = self.priority.refusal(terms, self.turn.now_ns) if self.priority is not None else None
            if refusal is not None:
                return refusal
        if self.max_waiting > 0 and self.waiting.count >= self.max_waiting:
            # those whose requester has left make room
            self.waiting.take_unwanted(self.router)
            if self.waiting.count >= self.max_waiting:
                return None if wanted.idle_heartbeat > 0 else texts.TOO_MANY_WAITING
        if wanted.no_wait:
            refusal = self._no_wait(wanted.expires != 0)
            if refusal is not None:
                return refusal
        request = WaitingRequest(reply, wanted, self.turn.now_ns)
        request.terms = terms
        request.into_stream = bool(self.own_subjects.patterns) and self.own_subjects.matches(
            PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply))
        self.waiting.push(request)
        return None

    cdef bytes _no_wait(self, bint expires):
        """What a request that does not want to wait hears at once, if there is not enough for it."""
        cdef int64_t at_hand
        self.core.tracker.next_redelivery()      # drops what is finished from the head of the queue
        at_hand = <int64_t>self.core.cursor.ahead() + self.core.tracker.redeliveries.size
        if at_hand == 0 and not expires:
            return texts.NO_MESSAGES
        self.waiting.take_unwanted(self.router)
        if 0 < at_hand < self.waiting.wanted_messages():
            return texts.REQUESTS_PENDING
        return None

    cdef Py_ssize_t waiting_requests(self) except? -1:
        self.waiting.take_unwanted(self.router)
        return self.waiting.count

    # --- messages ---

    cdef WaitingRequest _next_request(self):
        """The request to serve now; those that nobody listens for any more are dropped on the way."""
        cdef WaitingRequest request
        while self.waiting.count:
            request = self.waiting.head
            if request.expires_ns and request.expires_ns <= self.turn.now_ns:
                self.waiting.pop()
                self._end(request, texts.REQUEST_TIMEOUT)
            elif request.wanted(self.router):
                return request
            else:
                self.waiting.pop()
        return None

    cpdef int deliver(self) except -1:
        cdef StoredMessage message
        cdef PendingEntry* again = NULL
        cdef WaitingRequest request
        cdef Py_ssize_t size = 0, total = 0, steps = 0
        cdef int outlook, choice, result, count = 0
        while True:
            request = self._next_request()
            if request is None:
                break
            if count >= TICK_MESSAGES or total >= TICK_BYTES:
                self.turn.go_on()
                break
            outlook = self.core.next(&message, &again)
            if outlook != OUTLOOK_NEW and outlook != OUTLOOK_AGAIN:
                if outlook == OUTLOOK_NOTHING and self.core.log.committed == self.core.log.last_seq:
                    self._end_exhausted()
                break
            if self.priority is not None:
                choice = self._choose(again != NULL, &steps)
                if choice == CHOICE_AGAIN:
                    continue
                if choice != CHOICE_HEAD:
                    break
                request = self.waiting.head
            result = self.core.send(request.route, request.into_stream, &message, again,
                                    request.bytes_left if request.bounded else INT64_MAX, &size)
            if result == SENT_OK:
                self._serve(request, size)
                count += 1
                total += size
                continue
            self.waiting.pop()
            if self.priority is not None:
                self.priority.missed(request)
            if result == SENT_TOO_LARGE:
                self.status(request.reply, texts.status_with_rest(texts.TOO_LARGE, request.left, request.bytes_left))
        if count:
            self.core.tracker.active_ns = wall_clock_ns()
        return 0

    cdef int _choose(self, bint again, Py_ssize_t* steps) except -1:
        """Let the priority policy bring somebody to the head. Choice"""
        cdef WaitingRequest request
        cdef int choice = self.priority.choose(self.waiting, self.core, again, steps)
        if choice == CHOICE_AGAIN:
            for request, line in self.priority.take_ended():
                self._end(request, line)
        elif choice == CHOICE_NOBODY:
            self._end_exhausted()
        elif choice == CHOICE_LATER:
            self.turn.go_on()
        return choice

    cdef int _serve(self, WaitingRequest request, Py_ssize_t size) except -1:
        """`request` (the head) got a message of `size` bytes."""
        if self.waiting.head is not request:
            return 0
        request.delivered += 1
        request.left = subtract_int64(request.left, 1)
        request.bytes_left -= size
        if request.heartbeat_ns:
            request.next_heartbeat_ns = add_int64(self.turn.now_ns, request.heartbeat_ns)
        if request.left > 0 and not (request.bounded and request.bytes_left <= 0):
            self.waiting.rotate()
            return 0
        self.waiting.pop()
        if request.bounded and (request.bytes_left > 0 or request.left > 0):
            self.status(request.reply, texts.status_with_rest(
                texts.BATCH_COMPLETED, request.left, max(request.bytes_left, 0)))
        return 0

    cdef int _end_exhausted(self) except -1:
        cdef WaitingRequest request
        for request in self.waiting.take_exhausted():
            self.status(request.reply, texts.NO_MESSAGES)
        return 0

    cdef int pause(self) except -1:
        """Pulls that do not wait hear that there is nothing."""
        return self._end_exhausted()

    # --- its priority group ---

    def group_state(self) -> dict:
        """Who is pinned, and since when, as ConsumerInfo tells it."""
        return group_state(self.priority)

    def unpin(self, str group not None) -> None:
        """Nobody is pinned any more; that is told even when nobody was. There is one pin for all groups."""
        if self.priority is not None:
            self.priority.unpin()
        tell_unpinned(self.core, group, "admin")

    # --- time and interest ---

    cdef int _end(self, WaitingRequest request, str line) except -1:
        """Tell a request that left the queue why, and what it did not get."""
        return self.status(request.reply, texts.status_with_rest(
            line, request.left, request.bytes_left if request.bounded else 0))

    cdef int run_timers(self) except -1:
        cdef WaitingRequest request
        if self.priority is not None:
            self.priority.run_timers(self.turn.now_ns)
        if not self.waiting.next_event_ns or self.waiting.next_event_ns > self.turn.now_ns:
            return 0
        for request in self.waiting.take_due(self.turn.now_ns, self.core.blocked()):
            if request.due == DUE_TIMEOUT:
                self._end(request, texts.REQUEST_TIMEOUT)
            elif request.due == DUE_NO_MESSAGES:
                self.status(request.reply, texts.NO_MESSAGES)
            else:
                self.status(request.reply, texts.heartbeat(
                    self.core.tracker.delivered_cseq, self.core.tracker.delivered_seq))
        return 0

    cpdef int64_t earliest(self) except? -1:
        cdef int64_t when = sooner(self.core.due_ns(), self.waiting.next_event_ns)
        return when if self.priority is None else sooner(when, self.priority.due_ns)

    cdef int interest_changed(self) except -1:
        if not self.waiting.count:
            return self.turn.wake()
        # Nothing is dropped yet: a requester that reconnects may be back before there is something to send
        return self.idle.touch(self.turn.now_ns)

    cdef bint has_interest(self) except -1:
        """Does a request wait whose requester is still there?"""
        cdef WaitingRequest request = self.waiting.head
        while request is not None:
            if request.wanted(self.router):
                return True
            request = request.next
        return False

    cdef bint has_demand(self) except -1:
        cdef WaitingRequest request = self.waiting.head
        while request is not None:
            if request.left > 0 and request.wanted(self.router) and not 0 < request.expires_ns <= self.turn.read():
                return True
            request = request.next
        return False

    cpdef bint in_use(self) except -1:
        return self.has_interest() or self.core.tracker.pending.count > 0


cdef inline bint starts_with(const Message* msg, const char* prefix, Py_ssize_t n) noexcept nogil:
    return msg.subject_len >= n and memcmp(msg.subject, prefix, n) == 0


cdef class SilentReceiver(Receiver):
    """On `$JS.API.>`: with it a subject of the API never lacks a responder, as in nats-server.

    Pulls and direct gets are answered by consumers and streams themselves, and by 503 when there are none.
    """

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        return not (starts_with(msg, b"$JS.API.CONSUMER.MSG.NEXT.", 26) or starts_with(msg, b"$JS.API.DIRECT.GET.", 19))

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        """To clients the rest of the API is a service of the system account."""
        if self.deliver(sub, None, msg):
            subject = msg.subject[:msg.subject_len]
            trace.asked(None, subject, subject)
        return Receiver.deliver_traced(self, sub, msg, trace)
