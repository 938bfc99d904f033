# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One link to another server (see link.pxd)."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcmp, memcpy

from jetbroker.auth.permissions cimport Permissions, Responses
from jetbroker.clock cimport monotonic_ns
from jetbroker.connections.connection cimport Connection
from jetbroker.connections.halves cimport (
    CLOSES, LOOK_CLOSED, LOOK_FULL, LOOK_TRACE, ConnectionOutput, FlowEvent, Shared,
)
from jetbroker.leafnodes.interest cimport Ledger, LinkView, is_word
from jetbroker.leafnodes.subscriptions cimport LinkSubscriptions, name_of
from jetbroker.routing.links cimport LinkReceiver
from jetbroker.routing.router cimport Route, Router, charge_publisher
from jetbroker.routing.subscription cimport WITHHELD
from jetbroker.routing.traced cimport publish_traced, publish_traced_from_link, with_block
from jetbroker.wire.buffer cimport OutputBuffer, format_uint
from jetbroker.wire.headers cimport asks_for_trace
from jetbroker.wire.leaf_parser cimport LeafParser
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_valid_tokens, has_wildcard

from jetbroker import limits
from jetbroker.connections.trace import INTERNAL, RECEIVED, SENT
from jetbroker.errors import ProtocolError
from jetbroker.forms.gotext import quoted

cdef long LOOK_UP_UNITS = limits.LOOK_UP_UNITS
cdef long ANSWER_UNITS = limits.ANSWER_UNITS
cdef long EVENT_UNITS = limits.EVENT_UNITS
cdef Py_ssize_t QUEUE_BYTES = limits.LINK_QUEUE_BYTES
cdef int BYTES_PER_UNIT = 8            # of subjects and replies, which may be long here
cdef long NAME_UNITS = 4               # a queue group that a message names
cdef int ACK_DOTS = 8                  # in front of the last token of what a consumer wants its acks on


cdef long TRACED_HEADER_UNITS = limits.TRACED_HEADER_UNITS
cdef int TRACE_PROTOCOL = 3            # of servers that trace messages
# What a trace says of messages that did not go over a link, or that nothing will be told of behind it.
cdef str DENIED = "Not delivered because publish denied for this subject"
cdef str GONE = "Not delivered because client is closed"
cdef str SLOW = "Not delivered because fast producer not stalled and consumer is slow"
cdef str NOT_FOLLOWED = "Not delivered because remote does not support message tracing"
cdef str UNKNOWN_THERE = (
    "Message delivered but remote does not support message tracing so no trace event generated from there")


cdef inline bint is_ack(const char* p, Py_ssize_t n) noexcept nogil:
    return n > 8 and memcmp(p, b"$JS.ACK.", 8) == 0


cdef inline bint is_service_reply(const char* p, Py_ssize_t n) noexcept nogil:
    return n > 4 and memcmp(p, b"_R_.", 4) == 0


cdef inline bint is_mark(bytes subject):
    """By these a loop of links is found."""
    return subject.startswith(b"$LDS.")


cdef inline bint is_api(bytes subject):
    """Does it look like the API of a JetStream, by whatever prefix?"""
    return b".API." in subject


cdef Py_ssize_t shown_subject(const char* reply, Py_ssize_t n) noexcept nogil:
    """Where the stored subject begins in what a consumer wants its acks on, behind an @; 0: there is none."""
    cdef Py_ssize_t i
    cdef int dots = 0
    if not is_ack(reply, n):
        return 0
    for i in range(n - 1):
        if reply[i] == c'.':
            dots += 1
        elif reply[i] == c'@' and dots >= ACK_DOTS:
            return i + 1
    return 0


cdef list names_that_fit(list queues):
    """The first of these groups: a line must not get so long that the peer cuts the link."""
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t i
    for i in range(len(queues)):
        size += PyBytes_GET_SIZE(<bytes>queues[i]) + 1
        if size > QUEUE_BYTES:
            return queues[:i]
    return queues


cdef inline char* put(char* w, const char* p, Py_ssize_t n) noexcept nogil:
    memcpy(w, p, n)
    return w + n


cdef inline bint is_told_whole(const Message* msg, bytes subject) noexcept:
    """Does the other side read the words that are sent?"""
    if not is_word(msg.subject, msg.subject_len) or (msg.reply != NULL and not is_word(msg.reply, msg.reply_len)):
        return False
    return subject is None or is_word(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))


@cython.final
cdef class LinkOutput(LinkReceiver):
    """What is sent over a link."""

    def __cinit__(self) -> None:
        self.output = ConnectionOutput()
        self.headers = True
        self.imported = frozenset()

    cdef int send(self, const Message* msg, bytes subject, list queues) except -1:
        cdef ConnectionOutput output = self.output
        cdef char* start
        cdef char* w
        cdef Py_ssize_t room
        if output.look and (output.look & LOOK_CLOSED or output.shared.turn.publishing and output.look & LOOK_FULL):
            return 0
        if not is_told_whole(msg, subject):
            return 0
        if self.allowed is not None and not self._may_send(msg, subject):
            return WITHHELD
        if self.told is not None:
            self.told.flush()
        if subject is None and queues is None and msg.tail != NULL and (msg.headers_len == 0 or self.headers):
            start = output.out.reserve(6 + msg.subject_len + msg.tail_len)
            w = put(start, b"HMSG " if msg.headers_len else b"LMSG ", 5)
            w = put(w, msg.subject, msg.subject_len)
            w[0] = c' '
            w = put(w + 1, msg.tail, msg.tail_len)
        else:
            room = 64 + msg.subject_len * 2 + msg.reply_len + msg.body_len
            if subject is not None:
                room += PyBytes_GET_SIZE(subject)
            if queues is not None:
                queues = names_that_fit(queues)
                for queue in queues:
                    room += PyBytes_GET_SIZE(<bytes>queue) + 1
            start = output.out.reserve(room)
            w = self._write(start, msg, subject, queues)
        output.out.size += w - start
        output.added(msg.body_len if self.headers else msg.body_len - msg.headers_len)
        if output.look & LOOK_TRACE:
            self._trace_sent(start, w - start, msg.headers_len if self.headers else 0)
        if self.responses is not None and msg.reply != NULL:
            self.responses.note(msg.reply, msg.reply_len, monotonic_ns())
        return 1

    cdef int send_traced(self, const Message* msg, bytes subject, list queues, object trace) except -1:
        """The other server tells what becomes of it there: its event is found by the number of the hop."""
        cdef Message marked = msg[0]
        cdef ConnectionOutput output = self.output
        cdef str error = ""
        cdef str hop = trace.next_hop()
        cdef bytes _body = with_block(&marked, trace.marked(msg.body[:msg.headers_len], hop))
        cdef int answer = 0
        if output.protocol is None:
            return 0
        if self.allowed is not None and not self._may_send(msg, subject):
            error, answer = DENIED, WITHHELD
        elif output.protocol.remote.protocol >= TRACE_PROTOCOL:
            answer = self.send(&marked, subject, queues)
            error = "" if answer > 0 else GONE if output.look & LOOK_CLOSED else SLOW
        elif trace.only:
            error = NOT_FOLLOWED
        else:
            answer = self.send(&marked, subject, queues)
            error = UNKNOWN_THERE
        trace.sent(output.protocol, hop, error)
        return answer

    cdef bint withholds(self, bytes queue, const char* subject, Py_ssize_t n) except -1:
        cdef uint64_t units = self.denied.units
        cdef bint verdict = self.denied.denies(subject, n, queue)
        charge_publisher(self.denied.units - units)
        return verdict

    cdef bint is_behind(self, object waiter) except -1:
        return self.output.is_behind(waiter)

    cdef char* _write(self, char* w, const Message* msg, bytes subject, list queues) noexcept:
        """LMSG or HMSG from its parts; there is room."""
        cdef bint with_headers = self.headers and msg.headers_len > 0
        cdef Py_ssize_t skipped = 0 if self.headers else msg.headers_len
        cdef bytes queue
        w = put(w, b"HMSG " if with_headers else b"LMSG ", 5)
        if subject is None:
            w = put(w, msg.subject, msg.subject_len)
        else:
            w = put(w, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        w[0] = c' '
        w += 1
        if queues is not None:
            w = put(w, b"+ " if msg.reply != NULL else b"| ", 2)
        if msg.reply != NULL:
            w = put(w, msg.reply, msg.reply_len)
            if subject is not None and shown_subject(msg.reply, msg.reply_len) == 0:
                # what is delivered goes by another subject than it has: that one follows
                w[0] = c'@'
                w = put(w + 1, msg.subject, msg.subject_len)
            w[0] = c' '
            w += 1
        if queues is not None:
            for queue in queues:
                w = put(w, PyBytes_AS_STRING(queue), PyBytes_GET_SIZE(queue))
                w[0] = c' '
                w += 1
        if with_headers:
            w += format_uint(w, msg.headers_len)
            w[0] = c' '
            w += 1
        w += format_uint(w, msg.body_len - skipped)
        w = put(w, b"\r\n", 2)
        w = put(w, msg.body + skipped, msg.body_len - skipped)
        return put(w, b"\r\n", 2)

    cdef int _trace_sent(self, const char* line, Py_ssize_t n, Py_ssize_t headers_len) except -1:
        cdef const char* body = <const char*>memchr(line, c'\n', n) + 1
        cdef ConnectionOutput output = self.output
        if output.shared.tracer is not None:
            output.shared.tracer.line(output.protocol, SENT, line[:body - line - 2])
            output.shared.tracer.payload(output.protocol, SENT, body[:n - (body - line) - 2], headers_len)
        return 0

    cdef bint _may_send(self, const Message* msg, bytes subject) except -1:
        """What is not remembered takes of the publisher's turn."""
        cdef Permissions allowed = self.allowed
        cdef uint64_t units = allowed.units
        cdef bint verdict
        if subject is None:
            verdict = allowed.may_publish(msg.subject, msg.subject_len)
        else:
            verdict = allowed.may_publish(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if allowed.units != units:
            charge_publisher(allowed.units - units)
        return verdict

    cdef int run_tick(self) except -1:
        return 0


@cython.final
cdef class LinkInterest(LinkView):
    """What a link is told of its account's interest."""

    def __init__(self, LinkOutput receiver not None) -> None:
        LinkView.__init__(self, receiver)
        self.receiver = receiver

    cpdef bint hears(self, bint of_hubs, bytes subject) except -1:
        """A hub tells of its other spokes, a spoke of those whose hub it is."""
        if self.receiver.isolated:
            return False
        return not (self.receiver.is_spoke and of_hubs) or is_mark(subject)

    cpdef bint may_tell(self, bytes subject) except -1:
        """By its permissions."""
        cdef Permissions allowed = self.receiver.allowed
        cdef uint64_t units
        cdef bint verdict
        if not self.receiver.is_spoke and (subject in self.receiver.imported or subject in self.ledger.statics):
            return True
        if allowed is None or is_mark(subject):
            return True
        units = allowed.units
        verdict = allowed.may_be_told(subject)
        self.judged += allowed.units - units
        return verdict

    cpdef int write(self, bytes lines) except -1:
        """LS+ and LS-."""
        cdef ConnectionOutput output = self.receiver.output
        if output.look & LOOK_TRACE and output.shared.tracer is not None:
            for line in lines.split(b"\r\n")[:-1]:
                output.shared.tracer.line(output.protocol, SENT, line)
        return output.write(lines)

    cpdef bint is_behind(self) except -1:
        """The walk goes on when the other side has taken what there is."""
        return self.receiver.output.is_behind(self)

    def go_on(self) -> None:
        """The other side has caught up."""
        if not self.receiver.output.closed:
            self.resume()


@cython.final
cdef class Link(Connection):
    """asyncio BufferedProtocol of one link: parses what the other server says and acts on it."""

    def __init__(self, Shared shared not None, unsigned long long cid, bint login_due=False) -> None:
        self.receiver = LinkOutput()
        Connection.__init__(self, shared, LeafParser(), self.receiver.output, cid)
        self.parser.headers = True
        self.parser.login_due = login_due
        self.kind = "nats"
        self.most = shared.max_subscriptions or -1

    cdef int _happens(self, FlowEvent event) except -1:
        if event == CLOSES:
            self.receiver.ended = True
        return Connection._happens(self, event)

    # --- events, told to the broker ---

    cdef int opened(self) except -1:
        self.shared.server.link_opened(self)
        return 0

    cdef int lost(self, object error) except -1:
        self.shared.server.link_lost(self, error)
        if self.ledger is not None:
            self.ledger.forget(self.receiver.told)
            self.receiver.told = None
            for sub in self.subscriptions.list_all() if self.output.look & LOOK_TRACE else ():
                self._trace(INTERNAL, b"DELSUB " + name_of(sub.subject, sub.queue))
            self.subscriptions.retire_all()
        return 0

    cdef int failed(self, object error) except -1:
        self.shared.server.link_failed(self, error)
        return 0

    cdef int has_to_wait(self) except -1:
        self.shared.server.link_stalled(self)
        return 0

    cdef int keeps(self, Py_ssize_t size) except -1:
        self.shared.server.link_keeps(self, size)
        return 0

    # --- for the broker ---

    def begin(self, Router router not None, Ledger ledger not None, object rules, bint is_spoke) -> None:
        """The handshake is done: from now on interest and messages are exchanged. `rules`: leafnodes.rules.Rules."""
        cdef LinkOutput receiver = self.receiver
        self.router = router
        self.parser.login_due = False
        receiver.is_spoke = is_spoke
        receiver.isolated = self.remote.isolated
        receiver.cluster = self.remote.cluster or None
        self._take_rules(rules)
        self.ledger = ledger
        self.subscriptions = LinkSubscriptions(router, receiver, self.most)
        receiver.told = LinkInterest(receiver)
        ledger.add(receiver.told)

    def set_most(self, Py_ssize_t most) -> None:
        """The other side may ask for so many subjects, -1: any number."""
        self.most = most
        if self.subscriptions is not None:
            self.subscriptions.most = most

    def set_trace(self, bint traced) -> None:
        """Log this link's traffic, or not any more."""
        if traced:
            self.output.look |= LOOK_TRACE
        else:
            self.output.look &= ~LOOK_TRACE

    def ping(self) -> None:
        """Send a PING; its answer gives the round trip time."""
        self._trace(SENT, b"PING")
        Connection.ping(self)

    def apply_rules(self, object rules) -> None:
        """Other permissions hold from now on."""
        self._take_rules(rules)
        if self.ledger is not None and not self.receiver.ended:
            self.ledger.retell(self.receiver.told)

    def _take_rules(self, object rules) -> None:
        cdef LinkOutput receiver = self.receiver
        self.last_route = None
        receiver.allowed = rules.link
        receiver.denied = rules.groups
        receiver.withholding = rules.groups is not None
        receiver.imported = rules.imported
        self.accepts = rules.accepts
        receiver.responses = None
        if self.accepts is not None and self.accepts.has_responses:
            receiver.responses = Responses(self.accepts)

    @property
    def headers(self) -> bool:
        """Does the other side understand headers?"""
        return self.receiver.headers

    @headers.setter
    def headers(self, bint value) -> None:
        self.receiver.headers = self.parser.headers = value

    @property
    def login_pending(self) -> bool:
        """True while the other side still has to log in."""
        return self.parser.login_due

    def cut_off(self) -> None:
        """Close a connection that keeps too much before its login, and give that back."""
        self.close("Authentication Timeout", "Authentication Timeout")
        if self.unparsed is not None:
            self.unparsed.release()

    def take_rest(self) -> bytes:
        """Of a parked link: what has come behind the command that parked it. It is handled elsewhere."""
        cdef OutputBuffer left = self.unparsed
        if left is None or left.size == 0:
            return b""
        rest = left.data[:left.size]
        left.release()
        return rest

    @property
    def is_spoke(self) -> bool:
        """This server is the spoke of the link, the other one the hub."""
        return self.receiver.is_spoke

    @property
    def connected(self) -> bool:
        """It is live."""
        return self.ledger is not None

    @property
    def account(self):
        """Ours, that it belongs to; None before that is known."""
        return self.remote.account

    @property
    def identity(self):
        """By what login it is there."""
        return self.remote

    @property
    def user(self):
        """The user it has logged in as, as monitoring shows him; None: it has none, or this server has logged in."""
        return self.remote.user

    @property
    def name(self) -> str:
        """Of the server that dialled; one that was dialled tells none as clients do."""
        return self.remote.server if self.remote.dialled is None else ""

    @property
    def lang(self) -> str:
        """Servers tell none."""
        return ""

    @property
    def version(self) -> str:
        """Of the server that dialled."""
        return self.remote.version if self.remote.dialled is None else ""

    @property
    def server(self) -> str:
        """The name of the other server."""
        return self.remote.server

    @property
    def permissions(self):
        """What may be sent over it, and asked for; None: everything."""
        return self.receiver.allowed

    @property
    def subscription_count(self) -> int:
        """Subjects, and subjects with a queue group, that the other side asks for."""
        return 0 if self.subscriptions is None else len(self.subscriptions)

    def subscription_list(self) -> list:
        """What the other side asks for, oldest first."""
        return [] if self.subscriptions is None else self.subscriptions.list_all()

    def send_error(self, str text not None) -> None:
        """Send -ERR."""
        self._error(text)

    def fail(self, object error) -> None:
        """End the link because of a ProtocolError that came up outside of the parser."""
        self.failed(error)

    # --- commands ---

    cdef int on_connect(self, bytes json) except -1:
        if self.output.look & LOOK_TRACE and self.shared.tracer is not None:
            self.shared.tracer.connect(self, json)
        self._spend(EVENT_UNITS + len(json))
        self.parser.login_due = False
        self.shared.server.link_connect(self, json)
        return 0

    cdef int on_info(self, bytes json) except -1:
        self._spend(EVENT_UNITS + len(json))
        self.shared.server.link_info(self, json)
        return 0

    cdef int on_error(self, bytes text) except -1:
        self._spend(EVENT_UNITS + len(text))
        self.shared.server.link_error(self, text)
        return 0

    cdef int on_ping(self) except -1:
        self._trace(RECEIVED, b"PING")
        self._trace(SENT, b"PONG")
        self._spend(ANSWER_UNITS)
        return self.output.write(b"PONG\r\n")

    cdef int on_pong(self) except -1:
        self._trace(RECEIVED, b"PONG")
        self.pings.unanswered = 0
        self.pings.answer()
        return 0

    cdef int on_leaf_subscribe(self, bytes subject, bytes queue, int weight) except -1:
        cdef bint mark = is_mark(subject)
        if self.output.look & LOOK_TRACE:
            self._trace(RECEIVED, b"LS+ " + (subject if queue is None else b"%b %b %d" % (subject, queue, weight)))
        self.budget -= len(subject)
        self.heard_ns = monotonic_ns()
        if self.ledger is None:
            raise ProtocolError("Authorization Violation")
        if mark and self.shared.server.is_own_mark(self, subject):
            self.shared.server.link_looped(self)
            return 0
        if not (mark or subject.startswith((b"_GR_.", b"$GR.")) or self._may_ask(subject)):
            return self._refuse("Subscription", subject)
        if not has_valid_tokens(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            self._spend(EVENT_UNITS)
            self.shared.server.link_wrong(self)
            return self._error("Invalid Subscription")
        if not self.subscriptions.add(subject, queue, weight):
            self.shared.server.link_at_limit(self)
            return self._spend(EVENT_UNITS)
        if is_api(subject):
            self.shared.server.link_reaches(self)
        return self._spend_on_interest(subject)

    def _may_ask(self, bytes subject) -> bool:
        """What is literal must be allowed; of wildcards each message is judged."""
        return (self.receiver.allowed is None or has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
                or self.receiver.allowed.may_publish(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)))

    cdef int on_leaf_unsubscribe(self, bytes subject, bytes queue) except -1:
        self.heard_ns = monotonic_ns()
        if self.ledger is None:
            raise ProtocolError("Authorization Violation")
        if self.output.look & LOOK_TRACE:
            self._trace(RECEIVED, b"LS- " + name_of(subject, queue))
            if self.subscriptions.knows(subject, queue):
                self._trace(INTERNAL, b"DELSUB " + name_of(subject, queue))
        self.subscriptions.remove(subject, queue)
        if is_api(subject):
            self.shared.server.link_reaches(self)
        return self._spend_on_interest(subject)

    cdef int on_publish(self, const Message* msg) except -1:
        return self.on_leaf_message(msg, None)

    cdef int on_leaf_message(self, const Message* msg, list queues) except -1:
        self.in_msgs += 1
        self.in_bytes += msg.body_len
        if self.output.look & LOOK_TRACE:
            self._trace_message(msg)
        if self.ledger is None:
            return 0
        self.budget -= (msg.subject_len + msg.reply_len) // BYTES_PER_UNIT
        if queues is not None:
            self.budget -= len(queues) * NAME_UNITS
        if msg.headers_len and asks_for_trace(msg.body, msg.headers_len, self.router.traces is not None):
            return self._take_traced(msg, queues)
        return self._take_untraced(msg, queues)

    cdef int _take_untraced(self, const Message* msg, list queues) except -1:
        cdef Py_ssize_t shown
        if self._goes_as_the_last(msg):
            return self._spend_on_message(
                self.router.deliver_from_link(self.receiver, queues, self.last_route, msg), False)
        if not self._is_let_in(msg):
            return self._refuse("Publish", PyBytes_FromStringAndSize(msg.subject, msg.subject_len))
        if msg.reply != NULL and msg.reply[0] == c'$':
            shown = shown_subject(msg.reply, msg.reply_len)
            if shown:
                return self._take_delivery(msg, queues, shown)
        return self._take(msg, queues)

    cdef int _take_traced(self, const Message* msg, list queues) except -1:
        """It may ask for a trace: what becomes of it is told then, and it may be told only."""
        from jetbroker.tracing.asked import arrive  # most brokers do without

        cdef Message marked = msg[0]
        cdef bytes _body
        if msg.reply != NULL and shown_subject(msg.reply, msg.reply_len):
            return self._take_untraced(msg, queues)  # a consumer delivers it
        self._spend(EVENT_UNITS + msg.headers_len * TRACED_HEADER_UNITS)
        arrival = arrive(self, msg.subject[:msg.subject_len], msg.body[:msg.headers_len], msg.body_len)
        if arrival.fault:
            self.shared.server.link_fault(self, arrival.fault)
        if arrival.dropped:
            return 0
        if arrival.block is not None:
            _body = with_block(&marked, arrival.block)
        if arrival.trace is None:
            return self._take_untraced(&marked, queues)
        self._follow(msg, queues, arrival.trace)
        self.shared.server.link_traced(self, arrival.trace)
        return 0

    cdef int _follow(self, const Message* msg, list queues, object trace) except -1:
        cdef Message mapped = msg[0]
        cdef bytes subject
        cdef int count
        if not self._is_let_in(msg):
            shown = PyBytes_FromStringAndSize(msg.subject, msg.subject_len)
            trace.refused(f"Permissions Violation for Publish to {quoted(shown)}")
            return self._refuse("Publish", shown)
        subject = self.router.mapped(msg.subject, msg.subject_len)
        if subject is None:
            count = publish_traced_from_link(self.router, self.receiver, queues, msg, trace)
        else:
            trace.mapped(subject)
            mapped.subject = PyBytes_AS_STRING(subject)
            mapped.subject_len = PyBytes_GET_SIZE(subject)
            if queues is None:
                count = publish_traced(self.router, self.receiver, &mapped, trace)
            else:
                count = publish_traced_from_link(self.router, self.receiver, queues, &mapped, trace)
        return self._spend_on_message(count, True)

    def may_trace_to(self, bytes destination not None) -> bool:
        """May the other server have traces published there? By its permissions, as for a message of its own."""
        cdef Message told
        told.subject = PyBytes_AS_STRING(destination)
        told.subject_len = PyBytes_GET_SIZE(destination)
        if self._is_let_in(&told):
            return True
        shown = quoted(destination)
        self._error(f"Permissions Violation for Publish to {shown}")
        self.shared.server.link_fault(self, f"Publish Violation - Subject {shown}")
        return False

    def _trace(self, str arrow, bytes text) -> None:
        if self.output.look & LOOK_TRACE and self.shared.tracer is not None:
            self.shared.tracer.line(self, arrow, text)

    cdef int _trace_message(self, const Message* msg) except -1:
        """With its line as it came."""
        cdef const char* start = msg.subject
        cdef const char* end = msg.body - 1
        end -= (end - 1)[0] == c'\r'
        while start[-1] == c' ' or start[-1] == c'\t':
            start -= 1
        if self.shared.tracer is not None:
            verb = start[-4:0].upper() if start[-1] & 0xDF == c'G' else b"PUB"
            self._trace(RECEIVED, verb + b" " + msg.subject[:end - msg.subject])
            self.shared.tracer.payload(self, RECEIVED, msg.body[:msg.body_len], msg.headers_len)
        return self._spend(EVENT_UNITS)

    cdef int _error(self, str text) except -1:
        self._trace(SENT, b"-ERR " + text.encode("utf-8", "replace"))
        return Connection._error(self, text)

    cdef bint _goes_as_the_last(self, const Message* msg) noexcept:
        cdef Route route = self.last_route
        return (route is not None and not route.stale and self.router.mappings is None
                and PyBytes_GET_SIZE(route.subject) == msg.subject_len
                and memcmp(PyBytes_AS_STRING(route.subject), msg.subject, msg.subject_len) == 0
                and (msg.reply == NULL or msg.reply[0] != c'$'))

    cdef inline bint _is_let_in(self, const Message* msg) except -1:
        if self.accepts is None and not (self.receiver.is_spoke and self.receiver.allowed is not None):
            return True
        return self._may_come(msg)

    cdef bint _may_come(self, const Message* msg) except -1:
        """By the subject as it came, before any mapping."""
        cdef Permissions judge = self.accepts
        cdef uint64_t units
        cdef bint verdict
        if is_ack(msg.subject, msg.subject_len) or is_service_reply(msg.subject, msg.subject_len):
            return True
        if judge is not None:
            units = judge.units
            verdict = judge.may_publish(msg.subject, msg.subject_len)
        else:
            judge = self.receiver.allowed
            units = judge.units
            verdict = judge.may_receive(msg.subject, msg.subject_len, None)
        self._spend(judge.units - units)
        return verdict or (self.receiver.responses is not None
                           and self.receiver.responses.take(msg.subject[:msg.subject_len], monotonic_ns()))

    cdef int _refuse(self, str what, bytes subject) except -1:
        """A spoke is cut off, as it knows what it may do; of a hub it is just ignored."""
        if not self.receiver.is_spoke:
            self.shared.server.link_violation(self, what, subject)
        return self._spend(EVENT_UNITS)

    cdef int _take(self, const Message* msg, list queues) except -1:
        cdef Router router = self.router
        cdef uint64_t builds = router.builds
        cdef bytes subject = None
        cdef Message mapped
        cdef int count = 0
        if router.mappings is not None or (router.domain is not None and msg.subject[0] == c'$'):
            subject = router.mapped(msg.subject, msg.subject_len)
        if subject is None and (self.receiver.responses is not None or msg.subject[0] == c'_'
                                or msg.subject[0] == c'$'):
            count = router.publish_from_link(self.receiver, queues, msg)
        elif subject is None:
            self.last_route = router.route(msg.subject, msg.subject_len)
            count = router.deliver_from_link(self.receiver, queues, self.last_route, msg)
        elif subject:  # else lost in a mapping
            mapped = msg[0]
            mapped.subject = PyBytes_AS_STRING(subject)
            mapped.subject_len = PyBytes_GET_SIZE(subject)
            if queues is None:  # the other side knows no groups of what it is mapped to
                count = router.publish(self.receiver, &mapped)
            else:
                count = router.publish_from_link(self.receiver, queues, &mapped)
        return self._spend_on_message(count, router.builds != builds)

    cdef int _spend_on_message(self, int count, bint looked_up) except -1:
        self.budget -= max(count, 0) + (LOOK_UP_UNITS if looked_up else 1)
        return self._spend(0) if self.budget < 0 else 0

    cdef int _take_delivery(self, const Message* msg, list queues, Py_ssize_t at) except -1:
        """From a consumer of the other server: `at` is where the stored subject begins in the reply."""
        cdef Router router = self.router
        cdef uint64_t builds = router.builds
        cdef Message shown = msg[0]
        cdef int count
        shown.subject = msg.reply + at
        shown.subject_len = msg.reply_len - at
        shown.reply_len = at - 1
        shown.tail = NULL
        shown.tail_len = 0
        count = router.send_from_link(self.receiver, queues, router.route(msg.subject, msg.subject_len), &shown)
        return self._spend_on_message(count, router.builds != builds)
