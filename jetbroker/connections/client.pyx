# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A client connection: what it says, and what is done about it (see client.pxd)."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from jetbroker.clock cimport monotonic_ns
from jetbroker.auth.permissions cimport Permissions, Responses
from jetbroker.connections.connection cimport Connection
from jetbroker.connections.halves cimport LOOK_DENIED, LOOK_REPLIES, LOOK_TRACE, ClientOutput, Shared
from jetbroker.connections.subscriptions cimport ClientSubscriptions, retire
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.sublist cimport Members, Sublist
from jetbroker.routing.subscription cimport Receiver, Subscription
from jetbroker.routing.traced cimport publish_traced, with_block
from jetbroker.wire.headers cimport asks_for_trace
from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport Parser
from jetbroker.wire.subjects cimport has_valid_tokens, has_wildcard

from jetbroker import limits
from jetbroker.connections.identity import Identity
from jetbroker.connections.trace import INTERNAL, RECEIVED, SENT
from jetbroker.errors import ProtocolError
from jetbroker.forms.gotext import quoted

cdef long LOOK_UP_UNITS = limits.LOOK_UP_UNITS
cdef long ANSWER_UNITS = limits.ANSWER_UNITS
cdef long EVENT_UNITS = limits.EVENT_UNITS
cdef long TRACED_HEADER_UNITS = limits.TRACED_HEADER_UNITS


cdef inline bint reserved_reply(const char* p, Py_ssize_t n) noexcept nogil:
    """Replies that only the server may use (core-protocol section 4)."""
    if p[0] == c'_':
        return (n >= 4 and memcmp(p, b"_R_.", 4) == 0) or (n >= 5 and memcmp(p, b"_GR_.", 5) == 0)
    return p[0] == c'$' and n >= 8 and memcmp(p, b"$JS.ACK.", 8) == 0


cdef inline bint reserved_subject(const char* p, Py_ssize_t n) noexcept nogil:
    if p[0] == c'_':
        return n >= 5 and memcmp(p, b"_GR_.", 5) == 0
    return p[0] == c'$' and n >= 5 and memcmp(p, b"$NRG.", 5) == 0


# What an event makes of a connection; what is not named here changes nothing.
STAGES = {
    (LOGIN_DUE, ACCEPTED): CONNECTED,
    (LOGIN_DUE, ADMITTED): LET_IN,
    (SILENT, ACCEPTED): CONNECTED,
    (SILENT, ADMITTED): LET_IN,
    (LET_IN, ACCEPTED): CONNECTED,
    (LET_IN, PINGED): LET_IN_GREETED,
    (CONNECTED, PINGED): GREETED,
    (LET_IN_GREETED, ACCEPTED): GREETED,
}


@cython.final
cdef class ClientProtocol(Connection):
    """asyncio BufferedProtocol of one client: parses what it says and acts on it."""

    def __init__(self, Shared shared not None, Router router, object account, unsigned long long cid,
                 bint login_due) -> None:
        self.receiver = ClientOutput()
        Connection.__init__(self, shared, Parser(), self.receiver, cid)
        self.router = router
        self.account = account
        self.parser.login_due = login_due
        self.stage = LOGIN_DUE if login_due else SILENT
        self.modes = VERBOSE | PEDANTIC  # until the first CONNECT
        self.subscriptions = ClientSubscriptions()
        self.subscriptions.most = shared.max_subscriptions or -1
        self.kind = "nats"
        self.name = self.lang = self.version = self.proxy = ""
        self.identity = Identity()

    # --- events, told to the broker ---

    cdef int opened(self) except -1:
        self.shared.server.client_opened(self)
        return 0

    cdef int lost(self, object error) except -1:
        self.shared.server.client_lost(self, error)
        return self._drop_subscriptions()

    cdef int failed(self, object error) except -1:
        self.shared.server.client_failed(self, error)
        return 0

    cdef int has_to_wait(self) except -1:
        self.shared.server.client_stalled(self)
        return 0

    cdef int keeps(self, Py_ssize_t size) except -1:
        self.shared.server.client_keeps(self, size)
        return 0

    # --- commands ---

    cdef int begin_read(self) except -1:
        if self.mappings is not self.router.mappings:
            self.mappings = self.router.mappings
            self._choose_path()
        return 0

    cdef int on_publish(self, const Message* msg) except -1:
        cdef Route route = self.last_route
        cdef int count
        self.in_msgs += 1
        self.in_bytes += msg.body_len
        if msg.headers_len and asks_for_trace(msg.body, msg.headers_len, self.router.traces is not None):
            return publish_followed(self, msg)
        if self.modes & CLOSELY:
            return self._publish_closely(msg)
        if (route is None or route.stale or PyBytes_GET_SIZE(route.subject) != msg.subject_len
                or memcmp(PyBytes_AS_STRING(route.subject), msg.subject, msg.subject_len) != 0):
            # a subject that is another than the last one, or has to be looked at each time
            if msg.subject[0] == c'$' and self.router.domain is not None:
                return self._publish_as(self.router.domain.map(msg.subject, msg.subject_len), msg)
            return self._publish_judged(msg)
        if msg.reply != NULL and reserved_reply(msg.reply, msg.reply_len):
            return self._refuse_reply(msg)
        if self.modes & VERBOSE:
            self._ok()  # before the message: the publisher may subscribe to it itself
        count = self.router.deliver(route, self.unheard, msg)
        if count <= 0:
            count = self._nobody_took(msg)
        self.budget -= count + 1
        return self._spend(0) if self.budget < 0 else 0

    def may_trace_to(self, bytes destination not None) -> bool:
        """May it have traces published there? It is told when it may not."""
        cdef Message told
        told.subject = PyBytes_AS_STRING(destination)
        told.subject_len = PyBytes_GET_SIZE(destination)
        if self._is_reserved(&told) or not self._may_publish(&told):
            self._refuse_publish(&told)
            return False
        return True

    cdef int _publish_as(self, bytes subject, const Message* msg) except -1:
        """A message that mappings have looked at; None: they leave its subject as it is."""
        cdef Message mapped
        if subject is None:
            return self._publish_judged(msg)
        mapped = msg[0]
        mapped.subject = PyBytes_AS_STRING(subject)
        mapped.subject_len = PyBytes_GET_SIZE(subject)
        return self._publish_judged(&mapped)

    cdef int _publish_judged(self, const Message* msg) except -1:
        """Mapped first, judged afterwards: what counts is where the message goes."""
        cdef Receiver skip = self.unheard
        cdef uint64_t builds = self.router.builds
        cdef Route route = None
        cdef bint for_good = self.permissions is None or self._may_publish(msg)
        cdef int count = 0
        if self._is_reserved(msg) or not (for_good or self._is_answer(msg)):
            return self._refuse_publish(msg)
        if msg.reply != NULL and reserved_reply(msg.reply, msg.reply_len):
            return self._refuse_reply(msg)
        if self.modes & VERBOSE:
            self._ok()
        if self.modes & FOLLOWED:
            count = deliver_followed(self, skip, msg)
        elif msg.subject[0] == c'_' or msg.subject[0] == c'$':
            count = self.router.publish(skip, msg)
        elif msg.subject_len:  # else lost in a mapping
            route = self.router.frequent_route(msg.subject, msg.subject_len)
            if for_good:
                self.last_route = route
            if route is None:
                count = self.router.deliver_once(skip, msg)
            else:
                count = self.router.deliver(route, skip, msg)
        if count <= 0:
            count = self._nobody_took(msg)
        self.budget -= count + (LOOK_UP_UNITS if self.router.builds != builds else 2)
        return self._spend(0) if self.budget < 0 else 0

    cdef bint _may_publish(self, const Message* msg) except -1:
        """By its user's permissions. A verdict that is not remembered takes of the turn what it takes of time."""
        cdef Permissions permissions = self.permissions
        cdef uint64_t units
        cdef bint verdict
        if permissions is None:
            return True
        units = permissions.units
        verdict = permissions.may_publish(msg.subject, msg.subject_len)
        self._spend(permissions.units - units)
        return verdict

    cdef bint _is_reserved(self, const Message* msg) except -1:
        if not reserved_subject(msg.subject, msg.subject_len):
            return False
        return msg.subject[0] == c'_' or not self.account.is_system

    cdef bint _is_answer(self, const Message* msg) except -1:
        return (self.receiver.responses is not None
                and self.receiver.responses.take(msg.subject[:msg.subject_len], monotonic_ns()))

    cdef int _refuse_publish(self, const Message* msg) except -1:
        subject = quoted(msg.subject[:msg.subject_len])
        return self._refuse(f"Permissions Violation for Publish to {subject}",
                            f"Publish Violation - Subject {subject}")

    cdef int _publish_closely(self, const Message* msg) except -1:
        """Pedantic clients, accounts with mappings, and trace."""
        cdef Router router = self.router
        cdef bytes subject = None
        cdef const char* end = msg.body - 1  # of the command's line
        if self.modes & TRACED:
            self._spend(EVENT_UNITS)
            end -= (end - 1)[0] == c'\r'
            line = msg.subject[:end - msg.subject]
            verb = b"PUB " if len(line.split()) == 2 + (msg.reply != NULL) else b"HPUB "
            self._trace(RECEIVED, verb + line)
        if self.modes & PEDANTIC and (not has_valid_tokens(msg.subject, msg.subject_len)
                                      or has_wildcard(msg.subject, msg.subject_len)):
            self._error("Invalid Publish Subject")
        if self.mappings is not None or router.mappings is None:
            subject = router.mapped(msg.subject, msg.subject_len)
        elif router.domain is not None:  # those of the account hold from the next read on
            subject = router.domain.map(msg.subject, msg.subject_len)
        if subject is not None and self.modes & TRACED:
            self._trace(RECEIVED, b"MAPPING %b -> %b" % (msg.subject[:msg.subject_len], subject))
        if subject is not None and self.modes & FOLLOWED and self.followed.trace is not None:
            self.followed.trace.mapped(subject)
        if self.modes & TRACED and self.shared.tracer is not None:
            self.shared.tracer.payload(self, RECEIVED, msg.body[:msg.body_len], msg.headers_len)
        return self._publish_as(subject, msg)

    cdef int _nobody_took(self, const Message* msg) except -1:
        """503 to the client's own plain subscription for the reply, if it asked for that: what it costs."""
        cdef Subscription sub
        if not self.modes & NO_RESPONDERS or msg.reply == NULL:
            return 0
        sub = own_plain(self, msg.reply, msg.reply_len)
        if sub is not None:
            size = b"%d" % (msg.subject_len + 32)
            self.output.write(b"HMSG %b %b %b %b\r\nNATS/1.0 503\r\nNats-Subject: %b\r\n\r\n\r\n" % (
                msg.reply[:msg.reply_len], sub.sid, size, size, msg.subject[:msg.subject_len]))
        return ANSWER_UNITS

    cdef int on_subscribe(self, bytes subject, bytes queue, bytes sid) except -1:
        cdef Subscription sub
        cdef uint64_t units
        self.heard_ns = monotonic_ns()
        if self.modes & TRACED:
            self._trace(RECEIVED, b" ".join((b"SUB", subject, *(() if queue is None else (queue,)), sid)))
        if queue == b"_sys_" or not self._may_subscribe(subject, queue):
            return self._refuse_subscription(subject, queue, sid)
        if 0 < self.shared.max_sub_tokens <= subject.count(b"."):
            return self._refuse(f"Permissions Violation for Subscription to {quoted(subject)}, too many tokens",
                                f"Subscription Violation Too Many Tokens - Subject {quoted(subject)},"
                                f" SID {shown(sid)}")
        if self.subscriptions.full():
            self.shared.server.client_at_limit(self)
            self._spend(EVENT_UNITS)
            return self._error("maximum subscriptions exceeded")
        if self.subscriptions.find(sid) is None:
            if not has_valid_tokens(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
                self._spend(ANSWER_UNITS)
                return self._error("Invalid Subject")
            sub = self.router.subscribe(self.receiver, subject, queue, sid)
            self.subscriptions.add(sub)
            if self.permissions is not None:
                units = self.permissions.units
                self._look_at(sub)
                self._spend(self.permissions.units - units)
            self._spend_on_interest(subject)
        return self._ok() if self.modes & VERBOSE else 0

    cdef bint _may_subscribe(self, bytes subject, bytes queue) except -1:
        """By its user's permissions; that takes of the turn what it takes of time."""
        cdef Permissions permissions = self.permissions
        cdef uint64_t units
        cdef bint verdict
        if permissions is None:
            return True
        units = permissions.units
        verdict = permissions.may_subscribe(subject, queue)
        self._spend(permissions.units - units)
        return verdict

    cdef int on_unsubscribe(self, bytes sid, long max_deliveries) except -1:
        cdef Subscription sub = self.subscriptions.find(sid)
        self.heard_ns = monotonic_ns()
        if self.modes & TRACED:
            self._trace(RECEIVED, b"UNSUB %b %d" % (sid, max_deliveries) if max_deliveries else b"UNSUB " + sid)
        if self.modes & VERBOSE:
            self._ok()
        if sub is not None:
            if max_deliveries > 0 and <uint64_t>max_deliveries > sub.delivered:
                sub.max_deliveries = max_deliveries
            else:
                self.forget(sub)
                self._spend_on_interest(sub.subject)
        return 0

    def forget(self, Subscription sub) -> None:
        """Remove a subscription (UNSUB, or its max was reached)."""
        if self.modes & TRACED and not sub.closed:
            self._trace(INTERNAL, b"DELSUB " + sub.sid)
        self.router.unsubscribe(sub)
        self.release(sub)

    def release(self, Subscription sub) -> None:
        """The subscription gives its sid back."""
        self.subscriptions.release(sub)

    cdef int on_connect(self, bytes json) except -1:
        if self.modes & TRACED and self.shared.tracer is not None:
            self.shared.tracer.connect(self, json)
        self._spend(EVENT_UNITS)
        self.pings.answer()  # since INFO
        self.shared.server.client_connect(self, json)
        return 0

    cdef int on_anonymous(self) except -1:
        self.shared.server.client_anonymous(self)
        return 0

    cdef int on_ping(self) except -1:
        if self.modes & TRACED:
            self._trace(RECEIVED, b"PING")
            self._trace(SENT, b"PONG")
        self._spend(ANSWER_UNITS)
        self.output.write(b"PONG\r\n")
        if self.stage == CONNECTED and self.protocol_level > 0:
            self.shared.server.client_greet(self)
        return self._advance(PINGED)

    cdef int on_pong(self) except -1:
        if self.modes & TRACED:
            self._trace(RECEIVED, b"PONG")
        self.pings.unanswered = 0
        self.pings.answer()
        return 0

    cdef int on_info(self, bytes json) except -1:
        self._spend(EVENT_UNITS)
        self.shared.server.client_info(self, json)
        return 0

    cdef int on_error(self, bytes text) except -1:
        raise ProtocolError("", "Parse Error", f"Client Error {text.decode('utf-8', 'replace')}")

    # --- for the server's event handlers ---

    def apply_connect(self, object options, Router router, object account, Permissions permissions=None) -> None:
        """CONNECT was accepted: take over its options; a second one drops all subscriptions."""
        if self.stage >= LET_IN or router is not self.router:
            self._drop_subscriptions()
        self._enter(router, account, permissions)
        self._set_mode(VERBOSE, options.verbose)
        self._set_mode(PEDANTIC, options.pedantic)
        self._set_mode(NO_RESPONDERS, options.no_responders)
        self.unheard = None if options.echo else self.receiver
        self.parser.headers = self.receiver.headers = options.headers
        self.protocol_level = options.protocol
        self.name = options.name
        self.lang = options.lang
        self.version = options.version
        self._advance(ACCEPTED)
        if self.modes & VERBOSE:
            self._ok()

    def apply_anonymous(self, Router router, object account, Permissions permissions) -> None:
        """A client that began without CONNECT was let in as `no_auth_user`."""
        self._enter(router, account, permissions)
        self._advance(ADMITTED)

    cdef int _advance(self, StageEvent event) except -1:
        self.stage = <Stage><int>STAGES.get((self.stage, event), self.stage)
        self.parser.login_due = self.stage == LOGIN_DUE
        return 0

    @property
    def connected(self) -> bool:
        """Is it in?"""
        return self.stage >= LET_IN

    @property
    def greeted(self) -> bool:
        """Was its first PING answered?"""
        return self.stage == GREETED or self.stage == LET_IN_GREETED

    @property
    def anonymous(self) -> bool:
        """Was it let in without CONNECT?"""
        return self.stage == LET_IN or self.stage == LET_IN_GREETED

    cdef void _set_mode(self, int mode, bint on) noexcept:
        if on:
            self.modes |= mode
        else:
            self.modes &= ~mode

    def _choose_path(self) -> None:
        self.last_route = None
        self._set_mode(MAPPED, self.mappings is not None)

    def _enter(self, Router router, object account, Permissions permissions) -> None:
        """Belong to an account. Its mappings hold from the next read on, unless those of the one before did."""
        if self.mappings is not None:
            self.mappings = router.mappings
        self.router = router
        self.account = account
        self._set_permissions(permissions)
        self._choose_path()

    cdef int _set_permissions(self, Permissions permissions) except -1:
        cdef ClientOutput output = self.receiver
        self.last_route = None
        self.permissions = output.permissions = permissions
        output.look &= ~(LOOK_DENIED | LOOK_REPLIES)
        output.responses = None
        if permissions is not None and permissions.has_responses:
            output.responses = Responses(permissions)
            output.look |= LOOK_REPLIES
        return 0

    cdef int _look_at(self, Subscription sub) except -1:
        """Have deliveries looked at when this subscription could match what its user may not receive."""
        sub.filter = None
        if self.permissions.is_wider(sub.subject, sub.queue):
            sub.filter = sub.subject
            self.output.look |= LOOK_DENIED
        elif self.permissions.overlaps_denied(sub.subject, sub.queue):
            self.output.look |= LOOK_DENIED
        return 0

    def apply_permissions(self, Permissions permissions) -> None:
        """A reload has given the user other permissions: remove the subscriptions that are not allowed any more."""
        cdef Subscription sub
        self._set_permissions(permissions)
        if permissions is None:
            return
        for sub in self.subscription_list():
            if permissions.may_subscribe(sub.subject, sub.queue):
                self._look_at(sub)
                continue
            self.forget(sub)
            what = quoted(sub.subject)
            if sub.queue is not None:
                what += f" using queue {quoted(sub.queue)}"
            what += f" (sid {quoted(sub.sid)})"
            self._error(f"Permissions Violation for Subscription to {what}")
            self.shared.server.client_subscription_removed(self, what)

    def set_trace(self, bint traced) -> None:
        """Log this client's traffic, or not any more."""
        self.last_route = None
        self._set_mode(TRACED, traced)
        if traced:
            self.output.look |= LOOK_TRACE
        else:
            self.output.look &= ~LOOK_TRACE

    cdef int _drop_subscriptions(self) except -1:
        """All at once nothing is delivered to them; many are taken out of the trie bit by bit."""
        cdef Subscription sub
        cdef list gone = self.subscriptions.take_all()
        self.last_route = None
        for sub in gone:
            sub.closed = True
            if self.modes & TRACED:
                self._trace(INTERNAL, b"DELSUB " + sub.sid)
        if self.receiver.finished is not None:
            gone += self.receiver.finished
            self.receiver.finished = None
        if gone:
            retire(self.router, gone, 0)
        return 0

    def remember_options(self, object options) -> None:
        """Fill CONNECT options with what the last CONNECT said: what a later one leaves out stays as it was."""
        options.verbose = bool(self.modes & VERBOSE)
        options.pedantic = bool(self.modes & PEDANTIC)
        options.echo = self.unheard is None
        options.headers = self.receiver.headers
        options.no_responders = bool(self.modes & NO_RESPONDERS)
        options.protocol = self.protocol_level
        options.name = self.name
        options.lang = self.lang
        options.version = self.version

    def fail(self, object error) -> None:
        """End the connection because of a ProtocolError that came up outside of the parser."""
        self.failed(error)

    def ping(self) -> None:
        """Send a PING; its answer gives the round trip time."""
        if self.modes & TRACED:
            self._trace(SENT, b"PING")
        Connection.ping(self)

    def subscription_list(self) -> list:
        """The client's subscriptions, oldest first."""
        return self.subscriptions.list_all()

    def cut_off(self) -> None:
        """Close a connection that keeps too much before its login, and give that back."""
        self.close("Authentication Timeout", "Authentication Timeout")
        if self.unparsed is not None:
            self.unparsed.release()

    @property
    def server(self) -> str:
        """What is asked of whoever wants a service: a client is no server."""
        return ""

    @property
    def user(self) -> "str | None":
        """What it is called in the log and in monitoring, None without a login."""
        return self.identity.user

    @property
    def login_pending(self) -> bool:
        """True while the client still has to log in."""
        return self.stage == LOGIN_DUE

    @property
    def subscription_count(self) -> int:
        """Subscriptions this client has."""
        return len(self.subscriptions)

    def _trace(self, str arrow, bytes text) -> None:
        if self.shared.tracer is not None:
            self.shared.tracer.line(self, arrow, text)

    cdef int _refuse_reply(self, const Message* msg) except -1:
        reply = quoted(msg.reply[:msg.reply_len])
        return self._refuse(f"Permissions Violation for Publish with Reply of {reply}",
                            f"Publish Violation - Reply {reply}")

    cdef int _ok(self) except -1:
        if self.modes & TRACED:
            self._trace(SENT, b"OK")
        return self.output.write(b"+OK\r\n")

    cdef int _error(self, str text) except -1:
        if self.modes & TRACED:
            self._trace(SENT, b"-ERR " + text.encode("utf-8", "replace"))
        return Connection._error(self, text)

    cdef int _refuse(self, str text, str logged) except -1:
        """What the client asked for is not allowed; the connection stays."""
        if self.modes & FOLLOWED and self.followed.trace is not None:
            self.followed.trace.refused(text)
        self._error(text)
        self.shared.server.client_refused(self, logged)
        return self._spend(EVENT_UNITS)

    cdef int _refuse_subscription(self, bytes subject, bytes queue, bytes sid) except -1:
        what = quoted(subject)
        if queue is None:
            return self._refuse(f"Permissions Violation for Subscription to {what}",
                                f"Subscription Violation - Subject {what}, SID {shown(sid)}")
        return self._refuse(f"Permissions Violation for Subscription to {what} using queue {quoted(queue)}",
                            f"Subscription Violation - Subject {what}, Queue: {quoted(queue)}, SID {shown(sid)}")


cdef int publish_followed(ClientProtocol client, const Message* msg) except -1:
    """It may ask for a trace: what becomes of it is told then, and it may be told only."""
    from jetbroker.tracing.asked import arrive  # most brokers do without

    client._spend(EVENT_UNITS + msg.headers_len * TRACED_HEADER_UNITS)
    arrival = arrive(client, msg.subject[:msg.subject_len], msg.body[:msg.headers_len], msg.body_len)
    if arrival.fault:
        client.shared.server.client_refused(client, arrival.fault)
    if arrival.dropped:
        return 0
    if arrival.trace is None and arrival.block is None:
        return client._publish_closely(msg)
    client.followed = arrival
    client._set_mode(FOLLOWED, True)
    try:
        client._publish_closely(msg)
    finally:
        client._set_mode(FOLLOWED, False)
        client.followed = None
    if arrival.trace is not None:
        client.shared.server.client_traced(client, arrival.trace)
    return 0


cdef Subscription own_plain(ClientProtocol client, const char* subject, Py_ssize_t n):
    """A client's plain subscription that gets this literal subject, None when it has none."""
    cdef list nodes = []
    cdef Members node
    cdef Subscription sub
    cdef long others = 0
    (<Sublist>client.router.sublist).match(subject, n, nodes)
    for node in reversed(nodes):  # those to everything below come last, as in nats-server when they came later
        for sub in node.plain_members():
            if sub.receiver is client.receiver and not sub.closed:
                client._spend(others)
                return sub
            others += 1
    client._spend(others)
    return None


cdef int deliver_followed(ClientProtocol client, Receiver skip, const Message* msg) except -1:
    cdef Message marked = msg[0]
    cdef object trace = client.followed.trace
    cdef bytes _body
    if trace is not None:
        trace.unheard = skip
        return publish_traced(client.router, skip, msg, trace)
    _body = with_block(&marked, client.followed.block)
    return client.router.publish(skip, &marked)


cdef str shown(bytes raw):
    return raw.decode("utf-8", "backslashreplace")
