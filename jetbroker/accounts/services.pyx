# cython: language_level=3, boundscheck=False, wraparound=False
"""Service imports (see services.pxd)."""
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy

from jetbroker.accounts.streams cimport set_in_service
from jetbroker.routing.router cimport Route, Router, charge_publisher, get_origin
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.routing.traced cimport publish_traced, with_block
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard

import os

from jetbroker import limits

cdef long SERVICE_UNITS = limits.SERVICE_UNITS
cdef long EVENT_UNITS = limits.EVENT_UNITS
cdef Py_ssize_t MAX_OWED = limits.SERVICE_RESPONSES
cdef int MAX_DEPTH = limits.IMPORT_DEPTH
cdef int TOKEN_CHARACTERS = 16         # 95 bits: more than all the messages of two minutes can try
cdef bytes DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
cdef double SWEEP_SECONDS = 0.1        # between two walks over all requests
cdef double WALK_SECONDS = 1e-5        # more for each of them, so that the walks take a part of the time only

# The imports that the message at hand has crossed so far, outermost first: ServiceReceivers, and Responses on the way back.
cdef list crossed = []
# The reply subject that the message had before the first of them, if it is one of a fast batch: it says which.
cdef bytes batch_reply = None


cdef bytes random_bytes = b""
cdef Py_ssize_t random_used = 0


cdef bytes random_token(int length):
    """Base 62, at most 16 of them: nobody can guess it, or he could answer in somebody's place."""
    global random_bytes, random_used
    cdef char[16] token
    cdef int i = 0
    cdef unsigned char byte
    while i < length:
        if random_used == PyBytes_GET_SIZE(random_bytes):
            random_bytes, random_used = os.urandom(4096), 0
        byte = PyBytes_AS_STRING(random_bytes)[random_used]
        random_used += 1
        if byte < 248:  # 4 * 62: all are as frequent
            token[i] = PyBytes_AS_STRING(DIGITS)[byte % 62]
            i += 1
    return PyBytes_FromStringAndSize(token, length)


cdef class Response:
    """One request that may still be answered."""


cdef class Responses(Receiver):
    """The answers that one account's services owe to others, and what it waits for itself."""

    def __init__(self, Router router not None) -> None:
        self.router = router
        self.prefix = b"_R_." + random_token(6) + b"."
        self.owed = {}
        self.awaited = {}
        router.subscribe(self, self.prefix + b">")

    cdef Response _new(self, Responses requestor, bytes original, object export, bint single):
        """A generated reply subject for a request to this account; the oldest makes room when there are too many."""
        cdef Response response = Response.__new__(Response)
        if len(self.owed) >= MAX_OWED:
            self._finish(<Response>next(iter(self.owed.values())))
        response.reply = self.prefix + random_token(TOKEN_CHARACTERS)
        while response.reply in self.owed:
            response.reply = self.prefix + random_token(TOKEN_CHARACTERS)
        response.original = original
        response.owner = self
        response.requestor = requestor
        response.export = export
        response.single = single
        response.used_at = self.router.tick.loop.time()
        self.owed[response.reply] = response
        requestor.awaited.setdefault(response.original, {})[response] = None
        self._expect_expiry(response.used_at + export.threshold)
        return response

    cdef int _finish(self, Response response) except -1:
        """No answer to this one is passed on any more; harmless when that is so already."""
        cdef dict others
        if self.owed.pop(response.reply, None) is None:
            return 0
        others = <dict>response.requestor.awaited[response.original]
        del others[response]
        if not others:
            del response.requestor.awaited[response.original]
        return 0

    def asker_of(self, bytes subject not None) -> object:
        """(router, subject) where an answer ends, through all accounts on its way; None: nobody waits for it."""
        cdef Responses owner = self
        cdef Response response
        while subject.startswith(owner.prefix):
            response = <Response>owner.owed.get(subject)
            if response is None:
                return None
            owner, subject = response.requestor, response.original
        return owner.router, subject

    def clear(self) -> None:
        """Forget every request: those of others to this account, and its own to others."""
        for response in list(self.owed.values()):
            self._finish(response)
        for others in list(self.awaited.values()):
            for response in list(others):
                (<Response>response).owner._finish(response)

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        """An answer. It counts as taken even when nobody waits for it any more, as in nats-server.

        But a consumer hears of that: its message goes to somebody else.
        """
        cdef Route sending = self.router.sending
        cdef Response response
        cdef Response further = None
        cdef Message answer = msg[0]
        cdef int count
        subject = msg.subject[:msg.subject_len] if sending is None else sending.subject
        response = <Response>self.owed.get(subject)
        if response is None or len(crossed) >= MAX_DEPTH:
            return 1 if sending is None else 0
        charge_publisher(SERVICE_UNITS)
        if msg.reply != NULL and not keeps_reply(msg):
            # the requestor may answer to the answer
            further = response.requestor._new(self, msg.reply[:msg.reply_len], response.export, response.single)
            answer.reply = PyBytes_AS_STRING(further.reply)
            answer.reply_len = PyBytes_GET_SIZE(further.reply)
            answer.tail = NULL
        crossed.append(response)
        try:
            if sending is None:
                count = cross(response.requestor.router, response.original, &answer, None)
            else:
                count = hand_on(response, &answer)
        finally:
            crossed.pop()
        if count <= 0 and further is not None:
            response.requestor._finish(further)
        if count <= 0 or response.single or msg.body_len == 0:
            self._finish(response)
        else:
            response.used_at = self.router.tick.loop.time()
        return 1 if sending is None or count > 0 else 0

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        """Answers are not followed into the account that asked."""
        cdef Message answer = msg[0]
        cdef bytes subject = msg.subject[:msg.subject_len]
        cdef bytes _body
        cdef Response response = <Response>self.owed.get(subject)
        if response is None:
            return 1
        trace.asked(response.requestor.router.account_name, subject, response.original)
        if trace.only:
            self._finish(response)
            return 0
        _body = with_block(&answer, trace.untraced(msg.body[:msg.headers_len]))
        return self.deliver(sub, None, &answer)

    # --- what ends without an answer ---

    def unsubscribed(self, bytes subject not None) -> None:
        """Interest in `subject` is gone: requests whose answers nobody takes any more are forgotten."""
        if not self.awaited:
            return
        if not has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            self._forget_unheard(subject)
        elif not self.sweep_due:
            # all of them have to be looked at: once for everything that goes within a moment
            self.sweep_due = True
            self.router.tick.loop.call_later(SWEEP_SECONDS + len(self.awaited) * WALK_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self.sweep_due = False
        for original in list(self.awaited):
            self._forget_unheard(original)

    def _forget_unheard(self, bytes original) -> None:
        cdef dict waiting = <dict>self.awaited.get(original)
        if waiting is not None and not self.router.interested(original):
            for response in list(waiting):
                (<Response>response).owner._finish(response)

    cdef int _expect_expiry(self, double due) except -1:
        """One timer serves all: it is set again only for what is due before it."""
        if self.timer is not None:
            if self.timer_due <= due:
                return 0
            self.timer.cancel()
        self.timer_due = due
        self.timer = self.router.tick.loop.call_at(due, self._expire)
        return 0

    def _expire(self) -> None:
        """Forget what was not answered in its export's time; look again when the next one is due."""
        cdef double now = self.router.tick.loop.time()
        cdef double due, next_due = 0.0
        cdef Response response
        self.timer = None
        for response in list(self.owed.values()):
            due = response.used_at + response.export.threshold
            if due <= now:
                self._finish(response)
            elif next_due == 0.0 or due < next_due:
                next_due = due
        if self.owed:
            # not more often than the walk over all of them allows
            self._expect_expiry(max(next_due, now + SWEEP_SECONDS + len(self.owed) * WALK_SECONDS))


cdef class ServiceReceiver(Receiver):
    """Stands in the importer's router for one service of another account.

    `describe` makes the value of Nats-Request-Info from the connection (or None), what was crossed, this last, and
    the reply subject of a message in a fast batch (or None).
    """

    def __init__(self, object rule not None, Responses importer not None, Responses exporter not None,
                 object describe) -> None:
        self.rule = rule
        self.importer = importer
        self.exporter = exporter
        self.subject = rule.subject
        self.transform = rule.transform
        self.published = rule.published
        self.export = rule.export
        self.describe = describe

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        return self._ask(sub, msg, None)

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        return self._ask(sub, msg, trace)

    cdef int _ask(self, Subscription sub, const Message* msg, object trace) except -1:
        """Publish the request in the exporter's account; 0 or WITHHELD when nobody takes it there."""
        global batch_reply
        cdef Route sending = self.importer.router.sending
        cdef Response response = None
        cdef Message request = msg[0]
        cdef bytes target, block, _body
        cdef int count
        if sub.closed or len(crossed) >= MAX_DEPTH:
            return 0
        for before in crossed:
            if before.export is self.export:
                return 0
        # who asks is described anew for each message that tells everything of him, and behind another import
        charge_publisher((EVENT_UNITS if crossed or self.rule.share else SERVICE_UNITS) + msg.headers_len // 32)
        if sending is None:
            target = self._target(msg.subject, msg.subject_len)
        else:
            target = self._target(PyBytes_AS_STRING(sending.subject), PyBytes_GET_SIZE(sending.subject))
        if msg.reply != NULL and not keeps_reply(msg):
            response = self.exporter._new(self.importer, msg.reply[:msg.reply_len], self.export, self.export.single)
            request.reply = PyBytes_AS_STRING(response.reply)
            request.reply_len = PyBytes_GET_SIZE(response.reply)
        if not crossed:
            batch_reply = msg.reply[:msg.reply_len] if is_in_batch(msg) else None
        crossed.append(self)
        try:
            block = with_request_info(msg.body[:msg.headers_len], self.describe(get_origin(), crossed, batch_reply))
            if trace is None:
                _body = with_block(&request, block)
                count = cross(self.exporter.router, target, &request, None)
            else:
                count = self._ask_traced(target, &request, block, trace)
        finally:
            crossed.pop()
        if response is not None and (count <= 0 or (trace is not None and trace.only)):
            self.exporter._finish(response)
        return min(count, 1)

    cdef int _ask_traced(self, bytes target, Message* request, bytes block, object trace) except -1:
        """Servers behind links of the exporter's account tell of it to a reply subject: it leads back."""
        cdef Router router = self.exporter.router
        cdef bytes told_to = trace.destination
        cdef Response owed
        cdef bytes _body
        cdef object hops = trace.hops
        cdef int count
        trace.asked(router.account_name, request.subject[:request.subject_len], mapped_in(router, target))
        if not self.export.traced:
            _body = with_block(request, trace.untraced(block))
            return 0 if trace.only else cross(router, target, request, None)
        owed = self.exporter._new(self.importer, told_to, self.export, False)
        trace.destination = owed.reply
        try:
            _body = with_block(request, trace.redirected(block))
            count = cross(router, target, request, trace)
        finally:
            trace.destination = told_to
        if trace.hops == hops:
            self.exporter._finish(owed)
        return count

    cdef bytes _target(self, const char* subject, Py_ssize_t n):
        if self.transform is not None:
            return self.transform.map(subject, n)
        return subject[:n] if self.published else self.subject


cdef inline bint keeps_reply(const Message* msg) noexcept nogil:
    """Acks of a consumer find their way by an import of their own: rewritten they would be nobody's."""
    return msg.reply_len >= 8 and memcmp(msg.reply, b"$JS.ACK.", 8) == 0


cdef inline bint is_in_batch(const Message* msg) noexcept nogil:
    """Is it of a fast batch, by its reply subject?"""
    return msg.reply_len > 4 and memcmp(msg.reply + msg.reply_len - 4, b".$FI", 4) == 0


cdef bytes mapped_in(Router router, bytes subject):
    """What an account's mappings make of a subject; b"": it is lost."""
    cdef bytes mapped = router.mapped(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
    return subject if mapped is None else mapped


cdef int cross(Router router, bytes subject, Message* msg, object trace) except -1:
    """Publish in another account, its mappings applied. Returns what Router.publish does. `trace`: None for most."""
    cdef Route sending = router.sending
    cdef Receiver unheard
    cdef bint before
    cdef int count
    subject = mapped_in(router, subject)
    if not subject:
        return 0
    msg.subject = PyBytes_AS_STRING(subject)
    msg.subject_len = PyBytes_GET_SIZE(subject)
    router.sending = None
    before = set_in_service(True)
    try:
        unheard = getattr(get_origin(), "unheard", None)  # the way may lead back to the publisher's own account
        if trace is None:
            count = router.publish(unheard, msg)
        else:
            count = publish_traced(router, unheard, msg, trace)
    finally:
        set_in_service(before)
        router.sending = sending
    return count


cdef int hand_on(Response response, Message* msg) except -1:
    """A consumer's delivery: the subject it shows stays, and the way is kept for the next one."""
    cdef Router router = response.requestor.router
    cdef bytes original = response.original
    cdef bint before
    if response.route is None or response.route.stale:
        response.route = router.route(PyBytes_AS_STRING(original), PyBytes_GET_SIZE(original))
    before = set_in_service(True)
    try:
        return router.send(response.route, msg)
    finally:
        set_in_service(before)


def with_request_info(bytes block not None, bytes value not None) -> bytes:
    """A header block that says who asks. What a client may have said of that itself is taken out, however spelt."""
    if not block:
        return b"NATS/1.0\r\nNats-Request-Info: %b\r\n\r\n" % value
    if b"nats-request-info" in block.lower():
        block = without_request_info(block)
    return b"%bNats-Request-Info: %b\r\n\r\n" % (block[:max(len(block) - 2, 0)], value)


cdef bytes without_request_info(bytes block):
    """Lines that continue one that goes, go with it."""
    cdef const char* at = PyBytes_AS_STRING(block)
    cdef const char* end = at + PyBytes_GET_SIZE(block)
    cdef const char* line = <const char*>memchr(at, c'\n', end - at)    # the version is no header
    cdef const char* following
    cdef bytearray kept = bytearray(PyBytes_GET_SIZE(block))
    cdef char* out = PyByteArray_AS_STRING(kept)
    cdef Py_ssize_t n = (line if line != NULL else end) - at
    cdef Py_ssize_t size
    cdef bint goes = False
    memcpy(out, at, n)
    while line != NULL:
        at = line + 1
        following = <const char*>memchr(at, c'\n', end - at)
        size = (following if following != NULL else end) - at
        goes = is_request_info(at, size) or (goes and size > 0 and (at[0] == c' ' or at[0] == c'\t'))
        if not goes:
            memcpy(out + n, line, size + 1)
            n += size + 1
        line = following
    return bytes(kept[:n])


cdef bint is_request_info(const char* line, Py_ssize_t n) noexcept nogil:
    """Is this a header of that name, with whatever blanks and in whatever case?"""
    cdef const char* end = line + n
    while line < end and is_blank(line[0]):
        line += 1
    if end - line < 17 or not is_same_word(line, b"nats-request-info", 17):
        return False
    line += 17
    while line < end and is_blank(line[0]):
        line += 1
    return line == end or line[0] == c':'


cdef inline bint is_same_word(const char* text, const char* lower, Py_ssize_t n) noexcept nogil:
    """But for the case of ASCII, whatever the locale is."""
    cdef Py_ssize_t i
    for i in range(n):
        if text[i] != lower[i] and not (c'A' <= text[i] <= c'Z' and text[i] + 32 == lower[i]):
            return False
    return True


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c' ' or 9 <= c <= 13
