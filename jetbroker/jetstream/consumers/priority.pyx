# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Priority groups: which of the waiting requests the next message goes to (see priority.pxd).

Policy `prioritized` is not here: it is the order of the queue itself (WaitingQueue.sort_by_level).
"""
from libc.stdint cimport int64_t

from jetbroker.forms.timestamps cimport format_timestamp, wall_clock_ns
from jetbroker.jetstream.consumers.core cimport ConsumerCore
from jetbroker.jetstream.consumers.waiting cimport GroupTerms, WaitingQueue, WaitingRequest
from jetbroker.saturate cimport add_int64

from jetbroker.forms.timestamps import ZERO_TIMESTAMP
from jetbroker.jetstream.consumers import status as texts
from jetbroker.jetstream.models.names import random_name

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
