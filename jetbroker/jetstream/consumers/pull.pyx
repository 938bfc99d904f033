# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pull: requests that wait for messages, which of them is next, and how they get them (see pull.pxd).

Of the priority policies `prioritized` is the order of the queue itself (WaitingQueue.sort_by_level); the others choose
from it.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memcmp

from jetbroker.forms.timestamps cimport format_timestamp, wall_clock_ns
from jetbroker.jetstream.consumers.core cimport (
    OUTLOOK_AGAIN, OUTLOOK_NEW, OUTLOOK_NOTHING, SENT_OK, SENT_TOO_LARGE, TICK_BYTES, TICK_MESSAGES, ConsumerCore,
    Delivery, Inactivity, sooner,
)
from jetbroker.jetstream.consumers.tracker cimport PendingEntry
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.saturate cimport add_int64, subtract_int64
from jetbroker.store.log.stream_log cimport StoredMessage
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message

from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.forms.timestamps import ZERO_TIMESTAMP
from jetbroker.jetstream.consumers import status as texts
from jetbroker.jetstream.consumers.pull_request import (
    REMEMBERED_BYTES, PullLimits, PullRequestError, parse_pull_request,
)
from jetbroker.jetstream.models.names import random_name
from jetbroker.tick import REST
from jetbroker.wire.headers import header_value

cdef bytes GENERATED_REPLY = b"_R_."           # of requests that came from another account


cdef class GroupTerms:
    """What a pull request says of its priority group."""

    def __init__(self, object asked) -> None:
        """`asked` is a PriorityGroup."""
        self.group = asked.group
        self.pin = asked.id
        self.min_pending = asked.min_pending
        self.min_ack_pending = asked.min_ack_pending
        self.level = asked.priority


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

    cdef int level(self) noexcept:
        return self.terms.level if self.terms is not None else LEVELS - 1

    cdef bint wanted(self, Router router) except -1:
        if self.route is None or self.route.stale:
            self.route = self._look(router, self.reply)
            self.leads_inside = self.route.leads_inside()
        if self.asker is None:
            return self.route.reaches()
        if self.heard is None or self.heard.stale:
            self.heard = self._look(self.asker, self.inbox)
        return self.heard.reaches()

    cdef bint find_asker(self, Router router) except -1:
        cdef object found
        if router.imports is None or not self.reply.startswith(GENERATED_REPLY):
            return True
        # on such a subject somebody always listens: it counts who does so in the account that asks
        found = router.imports.asker_of(self.reply)
        if found is None:
            return False
        self.asker, self.inbox = found
        return True

    cdef Route _look(self, Router router, bytes subject):
        cdef Route route = router.route(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if self.watcher is not None:
            router.watch(route, self.watcher)
        return route

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
        if self.heard is not None and self.watcher is not None:
            self.asker.unwatch(self.heard, self.watcher)
        self.watcher = None
        return 0


cdef class WaitingQueue:
    """The ring of waiting requests. `watcher` hears when a requester may have left."""

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
        if self.tails is not None:
            self._insert(request)
            return
        request.next = None
        if self.tail is None:
            self.head = request
        else:
            self.tail.next = request
        self.tail = request
        self.count += 1

    cdef void _insert(self, WaitingRequest request) noexcept:
        """Behind the others of its level."""
        cdef WaitingRequest before = None
        cdef int level = request.level()
        cdef int i = level
        while before is None and i >= 0:
            before = <WaitingRequest>self.tails[i]
            i -= 1
        if before is None:
            request.next = self.head
            self.head = request
        else:
            request.next = before.next
            before.next = request
        if request.next is None:
            self.tail = request
        self.tails[level] = request
        self.count += 1

    cdef int sort_by_level(self, bint wanted) except -1:
        """Have levels, or one line for all."""
        cdef list requests
        cdef WaitingRequest request
        if wanted == (self.tails is not None):
            return 0
        requests = self._unlink_all()
        self.tails = [None] * LEVELS if wanted else None
        for request in requests:
            self.append(request)
        return 0

    cdef WaitingRequest pop(self):
        cdef WaitingRequest request = self.unlink()
        request.release(self.router)
        return request

    cdef WaitingRequest unlink(self):
        cdef WaitingRequest request = self.head
        self.head = request.next
        if self.head is None:
            self.tail = None
        if self.tails is not None and self.tails[request.level()] is request:
            self.tails[request.level()] = None
        request.next = None
        self.count -= 1
        return request

    cdef void rotate(self) noexcept:
        cdef WaitingRequest request = self.head
        if request is self.tail:
            return
        if self.tails is not None:
            self.append(self.unlink())
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
        for request in self._unlink_all():
            if request in gone:
                request.release(self.router)
                out.append(request)
            else:
                self.append(request)
        return out

    cdef list _unlink_all(self):
        cdef list out = []
        while self.count:
            out.append(self.unlink())
        return out


cdef int PIN_LETTERS = 22
cdef dict NOBODY = {"pinned_ts": ZERO_TIMESTAMP}


cdef class PriorityPolicy:
    """Looks for whom a message is, from the head of the queue on; who has to wait goes to the end."""

    def __init__(self) -> None:
        self.ended = []

    cdef int choose(self, WaitingQueue queue, ConsumerCore core, bint again, Py_ssize_t* steps) except -1:
        cdef WaitingRequest request
        cdef int verdict
        cdef int choice = CHOICE_NOBODY
        self.prepare(core, again)
        while queue.count:
            if steps[0] >= STEPS_A_TURN:
                choice = CHOICE_LATER
                break
            steps[0] += 1
            request = queue.head
            if self._expired_or_left(queue, request, core.turn.now_ns):
                continue
            verdict = self.judge(request)
            if verdict == VERDICT_SERVE:
                self.skipped = 0
                choice = CHOICE_HEAD
                break
            if verdict == VERDICT_WRONG_PIN:
                self.ended.append((queue.pop(), texts.WRONG_PIN))
                continue
            queue.rotate()
            self.skipped += 1
            if self.skipped >= queue.count:
                self.skipped = 0
                break
        return CHOICE_AGAIN if self.ended else choice

    cdef int _expired_or_left(self, WaitingQueue queue, WaitingRequest request, int64_t now_ns) except -1:
        if request.expires_ns and request.expires_ns <= now_ns:
            self.ended.append((queue.pop(), texts.REQUEST_TIMEOUT))
        elif request.wanted(queue.router):
            return False
        else:
            queue.pop()
        return True

    cdef list take_ended(self):
        cdef list ended = self.ended
        self.ended = []
        return ended

    cdef int prepare(self, ConsumerCore core, bint again) except -1:
        return 0

    cdef int judge(self, WaitingRequest request) except -1:
        raise NotImplementedError

    cdef int missed(self, WaitingRequest request) except -1:
        return 0

    cdef bytes refusal(self, GroupTerms terms, int64_t now_ns):
        return None

    cdef int run_timers(self, int64_t now_ns) except -1:
        return 0

    cdef int unpin(self) except -1:
        return 0

    cdef dict state(self):
        return NOBODY


cdef class OverflowPolicy(PriorityPolicy):
    """A request may wait until enough messages are ahead, or enough of them unacknowledged."""

    cdef int prepare(self, ConsumerCore core, bint again) except -1:
        # as in nats-server, which has not subtracted the message at hand yet, and adds one to all it has
        cdef int64_t ahead = <int64_t>core.cursor.ahead() + 1 if again else max(<int64_t>core.cursor.ahead(), <int64_t>1)
        cdef int64_t unacked = core.tracker.pending.count
        if ahead != self.ahead or unacked != self.unacked:
            self.skipped = 0
        self.ahead = ahead
        self.unacked = unacked
        return 0

    cdef int judge(self, WaitingRequest request) except -1:
        cdef GroupTerms terms = request.terms
        if terms is None or (terms.min_pending <= 0 and terms.min_ack_pending <= 0):
            return VERDICT_SERVE
        if 0 < terms.min_pending <= self.ahead or 0 < terms.min_ack_pending <= self.unacked:
            return VERDICT_SERVE
        return VERDICT_SKIP


cdef class PinnedClientPolicy(PriorityPolicy):
    """One client gets all messages: the first one, until it is gone for the timeout or is unpinned."""

    def __init__(self, ConsumerCore core not None) -> None:
        PriorityPolicy.__init__(self)
        self.core = core
        self.pin = ""
        core.envelope.stamp(texts.pin_header(""))

    cdef int judge(self, WaitingRequest request) except -1:
        cdef GroupTerms terms = request.terms
        if not self.pin:
            if terms is not None and terms.pin:
                return VERDICT_WRONG_PIN
            if terms is not None:
                self._assign(request)
            return VERDICT_SERVE
        if terms is None or not terms.pin:
            return VERDICT_SKIP
        return VERDICT_SERVE if terms.pin == self.pin else VERDICT_WRONG_PIN

    cdef int _assign(self, WaitingRequest request) except -1:
        self.pin = random_name(PIN_LETTERS)
        self.group = request.terms.group
        self.since_ns = wall_clock_ns()
        self.newcomer = request
        request.terms.pin = self.pin
        self.core.envelope.stamp(texts.pin_header(self.pin))
        self._touch(self.core.turn.now_ns)
        return self.core.advisories.add("PINNED", "consumer_group_pinned", {
            "account": self.core.router.account_name, "group": self.group, "pinned_id": self.pin,
        })

    cdef int missed(self, WaitingRequest request) except -1:
        # a message that is too large for the newcomer does not pin it
        return self.unpin() if request is self.newcomer and not request.delivered else 0

    cdef bytes refusal(self, GroupTerms terms, int64_t now_ns):
        if not self.pin or not terms.pin:
            return None
        if terms.pin != self.pin:
            return texts.PIN_MISMATCH
        self._touch(now_ns)
        return None

    cdef int _touch(self, int64_t now_ns) except -1:
        self.due_ns = add_int64(now_ns, self.timeout_ns)
        return 0

    cdef int run_timers(self, int64_t now_ns) except -1:
        cdef str group = self.group
        if self.due_ns == 0 or self.due_ns > now_ns:
            return 0
        self.unpin()
        return tell_unpinned(self.core, group, "timeout")

    cdef int unpin(self) except -1:
        self.pin = self.group = ""
        self.newcomer = None
        self.due_ns = self.since_ns = self.skipped = 0
        self.core.envelope.stamp(texts.pin_header(""))
        return 0

    cdef dict state(self):
        if not self.pin:
            return NOBODY
        return {"pinned_client_id": self.pin, "pinned_ts": format_timestamp(self.since_ns)}


cdef PriorityPolicy policy_for(object config, PriorityPolicy before, ConsumerCore core):
    """What chooses by a (changed) ConsumerConfig; None: the order of the queue alone."""
    cdef PinnedClientPolicy pinned
    if config.priority_policy == "pinned_client":
        pinned = before if isinstance(before, PinnedClientPolicy) else PinnedClientPolicy(core)
        pinned.timeout_ns = config.priority_timeout
        return pinned
    if isinstance(before, PinnedClientPolicy):
        pinned = before
        if pinned.pin:
            tell_unpinned(core, pinned.group, "admin")
        core.envelope.stamp(None)
    return OverflowPolicy() if config.priority_policy == "overflow" else None


cdef int tell_unpinned(ConsumerCore core, str group, str reason) except -1:
    return core.advisories.add("UNPINNED", "consumer_group_unpinned", {
        "account": core.router.account_name, "group": group, "reason": reason,
    })


cdef dict group_state(PriorityPolicy policy):
    return NOBODY if policy is None else policy.state()


cdef class PullDelivery(Delivery):
    """Serves requests, those that wait one message each in turn."""

    def __init__(self, ConsumerCore core not None, Inactivity idle not None, uint64_t replay_until=0) -> None:
        """`replay_until`: as of Delivery."""
        Delivery.__init__(self, core, idle, replay_until)
        self.waiting = WaitingQueue(self.router, self)

    def configure(self, config) -> None:
        """Take over a (changed) ConsumerConfig."""
        self.max_waiting = config.max_waiting
        self.limits = PullLimits(
            config.max_batch, config.max_expires, config.max_bytes,
            config.priority_policy, frozenset(config.priority_groups))
        self.asked = None
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
        if body != self.asked:     # clients ask for the same again and again
            try:
                self.wanted = parse_pull_request(body, self.limits)
            except PullRequestError as error:
                return texts.status(str(error))
            self.asked = body if len(body) <= REMEMBERED_BYTES else None
        wanted = self.wanted
        if wanted.priority.group:
            terms = GroupTerms(wanted.priority)
            refusal = self.priority.refusal(terms, self.turn.now_ns) if self.priority is not None else None
            if refusal is not None:
                return refusal
        if self.max_waiting > 0 and self.waiting.count >= self.max_waiting:
            self._sweep()
        if wanted.no_wait:
            refusal = self._no_wait(wanted.expires != 0)
            if refusal is not None:
                return refusal
        if self.max_waiting > 0 and self.waiting.count >= self.max_waiting:
            return None if wanted.idle_heartbeat > 0 else texts.TOO_MANY_WAITING
        request = WaitingRequest(reply, wanted, self.turn.now_ns)
        if not request.find_asker(self.router):
            return None
        request.terms = terms
        self.waiting.push(request)
        self.asked_for = add_int64(self.asked_for, request.left)
        return None

    cdef int _sweep(self) except -1:
        """Once a turn: the queue may be as long as clients like."""
        if not self.swept:
            self.swept = True
            self.waiting.take_unwanted(self.router)
            self.asked_for = self.waiting.wanted_messages()
        return 0

    cdef bytes _no_wait(self, bint expires):
        """What a request that does not want to wait hears at once, if there is not enough for it."""
        cdef int64_t at_hand
        self.core.tracker.next_redelivery()      # drops what is finished from the head of the queue
        at_hand = <int64_t>self.core.cursor.ahead() + self.core.tracker.redeliveries.size
        if at_hand == 0 and not expires:
            return texts.NO_MESSAGES
        if at_hand > 0:
            self._sweep()
            if at_hand < self.asked_for:
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
        self.hold_until_ns = 0
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
            if self.replay.until:
                self.hold_until_ns = self.replay.due_ns(message.seq, message.time_ns, self.turn.now_ns)
                if self.hold_until_ns:
                    break
            if self.priority is not None:
                choice = self._choose(again != NULL, &steps)
                if choice == CHOICE_AGAIN:
                    continue
                if choice != CHOICE_HEAD:
                    break
                request = self.waiting.head
            result = self.core.send(request.route, request.leads_inside, &message, again,
                                    request.bytes_left if request.bounded else INT64_MAX, &size)
            if result == SENT_OK:
                if again == NULL:
                    self.replay.sent(message.seq, message.time_ns, self.turn.now_ns)
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
            self.idle.touch(self.turn.now_ns)
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
        if request.bounded and request.bytes_left > 0:
            self.status(request.reply, texts.status_with_rest(
                texts.BATCH_COMPLETED, request.left, request.bytes_left))
        return 0

    cdef int _end_exhausted(self) except -1:
        cdef WaitingRequest request
        for request in self.waiting.take_exhausted():
            self.status(request.reply, texts.NO_MESSAGES)
        return 0

    cdef int pause(self) except -1:
        """Pulls that do not wait hear that there is nothing."""
        self.hold_until_ns = 0
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
        self.swept = False
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
        cdef int64_t when = sooner(sooner(self.core.due_ns(), self.waiting.next_event_ns), self.hold_until_ns)
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
        if self.is_held():
            return False
        while request is not None:
            if request.left > 0 and request.wanted(self.router) and not 0 < request.expires_ns <= self.turn.read():
                return True
            request = request.next
        return False

    cpdef bint in_use(self) except -1:
        # a message that waits to be fetched again holds nobody for ever
        return self.has_interest() or (
            self.core.tracker.pending.count > 0
            and self.turn.now_ns < add_int64(self.core.tracker.pending.latest_ns, self.idle.threshold_ns))


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
