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
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.saturate cimport add_int64, subtract_int64
from jetbroker.store.log.stream_log cimport StoredMessage, SubjectFilter
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message

from jetbroker.jetstream.consumers import status as texts
from jetbroker.jetstream.consumers.pull_request import PullLimits, PullRequestError, parse_pull_request
from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.wire.headers import header_value


cdef class WaitingRequest:
    """One request; times are monotonic nanoseconds."""

    def __init__(self, bytes reply not None, object request, int64_t now_ns) -> None:
        """`request` is a PullRequest."""
        self.reply = reply
        self.left = request.batch
        self.bounded = request.max_bytes > 0
        self.bytes_left = request.max_bytes
        self.no_wait = request.no_wait
        if request.expires:
            self.expires_ns = add_int64(now_ns, request.expires)
        if request.idle_heartbeat > 0:
            self.heartbeat_ns = request.idle_heartbeat
            self.next_heartbeat_ns = add_int64(now_ns, self.heartbeat_ns)

    cdef bint wanted(self, Router router) except -1:
        if self.route is None or self.route.stale:
            self.route = router.route(PyBytes_AS_STRING(self.reply), PyBytes_GET_SIZE(self.reply))
            if self.watcher is not None:
                router.watch(self.route, self.watcher)
        return self.route.reaches()

    cdef bint exhausted(self) noexcept:
        return self.no_wait and (self.delivered > 0 or self.expires_ns == 0)

    cdef DueState state_at(self, int64_t now_ns, bint blocked) noexcept:
        if self.expires_ns and self.expires_ns <= now_ns:
            return DUE_TIMEOUT
        if blocked and self.exhausted():
            return DUE_NO_MESSAGES
        if self.heartbeat_ns and self.next_heartbeat_ns <= now_ns:
            return DUE_HEARTBEAT
        return DUE_NOTHING

    cdef int release(self, Router router) except -1:
        if self.route is not None and self.watcher is not None:
            router.unwatch(self.route, self.watcher)
        self.watcher = None
        return 0


cdef class WaitingQueue:
    """The ring of waiting requests: the head is served next. `watcher` hears when a requester may have left."""

    def __init__(self, Router router not None, TickTask watcher=None) -> None:
        self.router = router
        self.watcher = watcher

    cdef int push(self, WaitingRequest request) except -1:
        request.watcher = self.watcher
        self.append(request)
        self.note_event(request)
        # from now on its route is watched
        request.wanted(self.router)
        return 0

    cdef void append(self, WaitingRequest request) noexcept:
        request.next = None
        if self.tail is None:
            self.head = request
        else:
            self.tail.next = request
        self.tail = request
        self.count += 1

    cdef WaitingRequest pop(self):
        cdef WaitingRequest request = self.unlink()
        request.release(self.router)
        return request

    cdef WaitingRequest unlink(self):
        cdef WaitingRequest request = self.head
        self.head = request.next
        if self.head is None:
            self.tail = None
        request.next = None
        self.count -= 1
        return request

    cdef void rotate(self) noexcept:
        cdef WaitingRequest request = self.head
        if request is self.tail:
            return
        self.head = request.next
        request.next = None
        self.tail.next = request
        self.tail = request

    cdef void note_event(self, WaitingRequest request) noexcept:
        if request.expires_ns and (self.next_event_ns == 0 or request.expires_ns < self.next_event_ns):
            self.next_event_ns = request.expires_ns
        if request.heartbeat_ns and (self.next_event_ns == 0 or request.next_heartbeat_ns < self.next_event_ns):
            self.next_event_ns = request.next_heartbeat_ns

    cdef list take_due(self, int64_t now_ns, bint blocked):
        cdef list due = []
        cdef set gone = set()
        cdef WaitingRequest request
        self._find_next_event()
        if self.next_event_ns == 0 or self.next_event_ns > now_ns:
            return due
        request = self.head
        while request is not None:
            request.due = request.state_at(now_ns, blocked)
            if request.due != DUE_NOTHING:
                due.append(request)
            if request.due == DUE_HEARTBEAT:
                request.next_heartbeat_ns = add_int64(now_ns, request.heartbeat_ns)
            elif request.due != DUE_NOTHING:
                gone.add(request)
            request = request.next
        self._take(gone)
        self._find_next_event()
        return due

    cdef int _find_next_event(self) except -1:
        cdef WaitingRequest request = self.head
        self.next_event_ns = 0
        while request is not None:
            self.note_event(request)
            request = request.next
        return 0

    cdef list take_exhausted(self):
        cdef set gone = set()
        cdef WaitingRequest request = self.head
        while request is not None:
            if request.exhausted():
                gone.add(request)
            request = request.next
        return self._take(gone)

    cdef list take_unwanted(self, Router router):
        cdef set gone = set()
        cdef WaitingRequest request = self.head
        while request is not None:
            if not request.wanted(router):
                gone.add(request)
            request = request.next
        return self._take(gone)

    cdef list take_all(self):
        cdef list out = []
        while self.count:
            out.append(self.pop())
        self.next_event_ns = 0
        return out

    cdef int64_t wanted_messages(self) noexcept:
        cdef int64_t total = 0
        cdef WaitingRequest request = self.head
        while request is not None:
            total = add_int64(total, request.left)
            request = request.next
        return total

    cdef list _take(self, set gone):
        cdef list out = []
        cdef WaitingRequest request
        if not gone:
            return out
        for _ in range(self.count):
            request = self.unlink()
            if request in gone:
                request.release(self.router)
                out.append(request)
            else:
                self.append(request)
        return out


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
        self.limits = PullLimits(config.max_batch, config.max_expires, config.max_bytes)

    def end(self, str reason) -> None:
        """Deliver no more; `reason`: the 409 status for waiting requests, "": none."""
        cdef WaitingRequest request
        cdef str line = f"409 {reason}"
        Delivery.end(self, reason)
        for request in self.waiting.take_all():
            if line == texts.SERVER_SHUTDOWN:
                self.status(request.reply, texts.status_with_rest(line, request.left, max(request.bytes_left, 0)))
            elif reason:
                self.status(request.reply, texts.status(line))

    # --- requests ---

    cdef bytes take_request(self, bytes reply, bytes headers, bytes body):
        cdef WaitingRequest request
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
            refusal = self._no_wait(wanted.expires != 0)
            if refusal is not None:
                return refusal
        request = WaitingRequest(reply, wanted, self.turn.now_ns)
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
                self._time_out(request)
            elif request.wanted(self.router):
                return request
            else:
                self.waiting.pop()
        return None

    cpdef int deliver(self) except -1:
        cdef StoredMessage message
        cdef PendingEntry* again = NULL
        cdef WaitingRequest request
        cdef Py_ssize_t size = 0, total = 0
        cdef int outlook, result, count = 0
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
            result = self.core.send(request.route, request.into_stream, &message, again,
                                    request.bytes_left if request.bounded else INT64_MAX, &size)
            if result == SENT_OK:
                self._serve(request, size)
                count += 1
                total += size
                continue
            self.waiting.pop()
            if result == SENT_TOO_LARGE:
                self.status(request.reply, texts.status_with_rest(texts.TOO_LARGE, request.left, request.bytes_left))
        if count:
            self.core.last_delivered_ns = wall_clock_ns()
        return 0

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

    # --- time and interest ---

    cdef int _time_out(self, WaitingRequest request) except -1:
        return self.status(request.reply, texts.status_with_rest(
            texts.REQUEST_TIMEOUT, request.left, request.bytes_left if request.bounded else 0))

    cdef int run_timers(self) except -1:
        cdef WaitingRequest request
        if not self.waiting.next_event_ns or self.waiting.next_event_ns > self.turn.now_ns:
            return 0
        for request in self.waiting.take_due(self.turn.now_ns, self.core.blocked()):
            if request.due == DUE_TIMEOUT:
                self._time_out(request)
            elif request.due == DUE_NO_MESSAGES:
                self.status(request.reply, texts.NO_MESSAGES)
            else:
                self.status(request.reply, texts.heartbeat(
                    self.core.tracker.delivered_cseq, self.core.tracker.delivered_seq))
        return 0

    cpdef int64_t earliest(self) except? -1:
        return sooner(self.core.due_ns(), self.waiting.next_event_ns)

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
