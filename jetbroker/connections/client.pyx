# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A client connection's input half (see client.pxd).

All connections read into one shared buffer; only the beginning of an unfinished command is kept per connection. A
command larger than half of the shared buffer is read straight into memory of its own size.
"""
from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from jetbroker.auth.permissions cimport Permissions
from jetbroker.connections.output cimport ClientOutput, Shared, monotonic_ns
from jetbroker.routing.router cimport Receiver, Route, Router, Subscription, set_origin
from jetbroker.tick cimport PHASE_FLUSH
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport Parser
from jetbroker.wire.subjects cimport has_valid_tokens, has_wildcard, pattern_matches

from jetbroker import limits
from jetbroker.errors import ProtocolError

cdef Py_ssize_t IDLE_BYTES = limits.OUTPUT_IDLE_BYTES
cdef Py_ssize_t SOFT_PENDING = limits.SOFT_PENDING_BYTES
cdef int64_t PROGRESS_NS = limits.RECEIVER_PROGRESS_NS
cdef double STALL_SECONDS = limits.PUBLISHER_STALL_SECONDS


cdef inline bint reserved_reply(const char* p, Py_ssize_t n) noexcept nogil:
    """Replies that only the server may use (core-protocol section 4)."""
    if p[0] == c'_':
        return (n >= 4 and memcmp(p, b"_R_.", 4) == 0) or (n >= 5 and memcmp(p, b"_GR_.", 5) == 0)
    return p[0] == c'$' and n >= 8 and memcmp(p, b"$JS.ACK.", 8) == 0


cdef inline bint reserved_subject(const char* p, Py_ssize_t n) noexcept nogil:
    if p[0] == c'_':
        return n >= 5 and memcmp(p, b"_GR_.", 5) == 0
    return p[0] == c'$' and n >= 5 and memcmp(p, b"$NRG.", 5) == 0


cdef class ClientProtocol(Parser):
    """asyncio BufferedProtocol of one client: parses what it says and acts on it."""

    def __init__(self, Shared shared not None, Router router, object account, unsigned long long cid,
                 bint login_due) -> None:
        Parser.__init__(self)
        self.shared = shared
        self.router = router
        self.account = account
        self.cid = cid
        self.login_due = login_due
        self.max_control_line = shared.max_control_line
        self.max_payload = shared.max_payload
        # what holds until the first CONNECT
        self.verbose = True
        self.pedantic = True
        self.echo = True
        self.kind = "nats"
        self.name = self.lang = self.version = ""
        self.output = ClientOutput()
        self.output.shared = shared
        self.output.protocol = self

    # --- asyncio.BufferedProtocol ---

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.output.transport = transport
        transport.set_write_buffer_limits(high=0)
        peername = transport.get_extra_info("peername")
        self.peer = f"{peername[0]}:{peername[1]}" if peername else "pipe"
        self.heard_ns = self.asked_ns = monotonic_ns()
        if transport.get_extra_info("sslcontext") is None:
            self.output.fd = transport.get_extra_info("socket").fileno()
        self.shared.server.client_opened(self)

    def connection_lost(self, exc) -> None:
        cdef Subscription sub
        self.closed = True
        self.stopped = True
        self.output.closed = True
        self.output.fd = -1
        if self.subscriptions is not None:
            for sub in self.subscriptions.values():
                self.router.unsubscribe(sub)
        self.shared.server.client_lost(self, exc)
        self.subscriptions = None
        self.output.out.release()
        self.output.finished = None
        self.output.protocol = None  # a cycle less: the memory is free now, not at the next full collection
        self.unparsed = None
        stalled = self.output.stalled
        self.output.stalled = None
        for publisher in stalled or ():
            publisher.go_on()

    def get_buffer(self, Py_ssize_t sizehint):
        cdef OutputBuffer unparsed = self.unparsed
        self.direct = False
        self.reused = 0
        if unparsed is None or unparsed.size == 0:
            return self.shared.whole_view
        if self.need > self.shared.read_capacity // 2:
            self.direct = True
            return PyMemoryView_FromMemory(unparsed.reserve(self.need - unparsed.size), self.need - unparsed.size,
                                           PyBUF_WRITE)
        memcpy(self.shared.read_buffer, unparsed.data, unparsed.size)
        self.reused = unparsed.size
        return PyMemoryView_FromMemory(self.shared.read_buffer + self.reused,
                                       self.shared.read_capacity - self.reused, PyBUF_WRITE)

    def buffer_updated(self, Py_ssize_t nbytes) -> None:
        self.heard = True
        if self.closed:
            return
        if self.direct:
            self.unparsed.size += nbytes
            if self.unparsed.size >= self.need:
                self._handle(self.unparsed.data, self.unparsed.size)
            return
        self._handle(self.shared.read_buffer, self.reused + nbytes)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.output.blocked = True

    def resume_writing(self) -> None:
        self.output.blocked = False
        if not self.output.closed:
            self.shared.tick.schedule(PHASE_FLUSH, self.output)

    # --- input ---

    cdef int _handle(self, const char* p, Py_ssize_t n) except -1:
        cdef Py_ssize_t used
        cdef ClientOutput behind
        cdef uint64_t in_msgs = self.in_msgs
        self.shared.tick.begin()
        self.shared.congested = None
        set_origin(self)
        try:
            used = self.parse(p, n)
            if self.in_msgs != in_msgs:
                self.heard_ns = monotonic_ns()
            self._keep(p + used, n - used)
        except ProtocolError as error:
            self.shared.server.client_failed(self, error)
        finally:
            set_origin(None)
            self.shared.tick.run()
        behind = self.shared.congested
        if behind is not None:
            self.shared.congested = None
            self._maybe_stall(behind)
        return 0

    cdef int _keep(self, const char* p, Py_ssize_t n) except -1:
        """Keep the beginning of an unfinished command for the next read."""
        cdef OutputBuffer unparsed = self.unparsed
        if unparsed is None:
            if n == 0:
                return 0
            unparsed = self.unparsed = OutputBuffer()
        if unparsed.data <= p <= unparsed.data + unparsed.capacity and unparsed.data != NULL:
            memmove(unparsed.data, p, n)
            unparsed.size = n
        else:
            unparsed.size = 0
            unparsed.append(p, n)
        if n == 0 and unparsed.capacity > IDLE_BYTES:
            unparsed.release()
        return 0

    def _maybe_stall(self, ClientOutput behind) -> None:
        """Slow this publisher down: its receiver is nearly full, or falls behind while it still takes bytes."""
        if behind.closed or behind is self.output or self.closed or behind.pending() <= SOFT_PENDING:
            return
        if (behind.pending() <= behind.shared.max_pending // 4 * 3
                and monotonic_ns() - behind.progress_ns > PROGRESS_NS):
            return
        if self.paused:
            return
        if behind.stalled is None:
            behind.stalled = []
        behind.stalled.append(self)
        self.stalls += 1
        self.shared.stalls += 1
        self.paused = True
        self.transport.pause_reading()
        self.shared.tick.loop.call_later(STALL_SECONDS, self.go_on)

    def go_on(self) -> None:
        """Read again after a stall."""
        if self.paused and not self.parked and not self.closed:
            self.paused = False
            self.transport.resume_reading()

    def park(self) -> None:
        """Handle nothing more until unpark(): a login is being checked off the loop."""
        self.parked = True
        self.stopped = True
        self.paused = True
        self.transport.pause_reading()

    def unpark(self) -> None:
        """Go on with what has arrived meanwhile."""
        if self.closed or not self.parked:
            return
        self.parked = False
        self.stopped = False
        if self.unparsed is not None and self.unparsed.size:
            self._handle(self.unparsed.data, self.unparsed.size)
        self.go_on()

    # --- commands ---

    cdef int on_publish(self, const Message* msg) except -1:
        cdef Route route = self.last_route
        cdef Receiver skip = None if self.echo else self.output
        cdef int count
        self.in_msgs += 1
        self.in_bytes += msg.body_len
        if msg.reply != NULL and reserved_reply(msg.reply, msg.reply_len):
            return self._error(f'Permissions Violation for Publish with Reply of "{text(msg.reply, msg.reply_len)}"')
        if reserved_subject(msg.subject, msg.subject_len):
            return self._error(f'Permissions Violation for Publish to "{text(msg.subject, msg.subject_len)}"')
        if self.pedantic and (not has_valid_tokens(msg.subject, msg.subject_len)
                              or has_wildcard(msg.subject, msg.subject_len)):
            self._error("Invalid Publish Subject")
        if self.verbose:
            self._ok()  # before the message: the publisher may subscribe to it itself
        if (route is not None and not route.stale and PyBytes_GET_SIZE(route.subject) == msg.subject_len
                and memcmp(PyBytes_AS_STRING(route.subject), msg.subject, msg.subject_len) == 0):
            count = self.router.deliver(route, skip, msg)
        elif msg.subject[0] == c'_' or msg.subject[0] == c'$':
            count = self.router.publish(skip, msg)
        else:
            route = self.last_route = self.router.route(msg.subject, msg.subject_len)
            count = self.router.deliver(route, skip, msg)
        if count == 0 and self.no_responders and msg.reply != NULL:
            self._no_responders(msg.subject, msg.subject_len, msg.reply, msg.reply_len)
        return 0

    cdef int _no_responders(self, const char* subject, Py_ssize_t n, const char* reply, Py_ssize_t reply_len) except -1:
        """503 to the client's own plain subscription for the reply, when it has one."""
        cdef Subscription sub
        if self.subscriptions is None:
            return 0
        for sub in self.subscriptions.values():
            if sub.queue is None and not sub.closed and pattern_matches(
                    reply, reply_len, PyBytes_AS_STRING(sub.subject), PyBytes_GET_SIZE(sub.subject)):
                size = b"%d" % (n + 32)
                return self.output.write(
                    b"HMSG %b %b %b %b\r\nNATS/1.0 503\r\nNats-Subject: %b\r\n\r\n\r\n"
                    % (reply[:reply_len], sub.sid, size, size, subject[:n]))
        return 0

    cdef int on_subscribe(self, bytes subject, bytes queue, bytes sid) except -1:
        self.heard_ns = monotonic_ns()
        if self.subscriptions is None:
            self.subscriptions = {}
        if queue == b"_sys_":
            return self._error(f'Permissions Violation for Subscription to "{subject.decode("utf-8", "replace")}"'
                               f' using queue "_sys_"')
        if self.shared.max_subscriptions > 0 and len(self.subscriptions) >= self.shared.max_subscriptions:
            return self._error("maximum subscriptions exceeded")
        if not has_valid_tokens(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return self._error("Invalid Subject")
        if sid not in self.subscriptions:
            self.subscriptions[sid] = self.router.subscribe(self.output, subject, queue, sid)
        return self._ok() if self.verbose else 0

    cdef int on_unsubscribe(self, bytes sid, long max_deliveries) except -1:
        cdef Subscription sub = None
        self.heard_ns = monotonic_ns()
        if self.subscriptions is not None:
            sub = <Subscription>self.subscriptions.get(sid)
        if sub is not None:
            if max_deliveries > 0 and <uint64_t>max_deliveries > sub.delivered:
                sub.max_deliveries = max_deliveries
            else:
                self.forget(sub)
        return self._ok() if self.verbose else 0

    def forget(self, Subscription sub) -> None:
        """Remove a subscription (UNSUB, or its max was reached)."""
        self.router.unsubscribe(sub)
        if self.subscriptions is not None and self.subscriptions.get(sub.sid) is sub:
            del self.subscriptions[sub.sid]

    cdef int on_connect(self, bytes json) except -1:
        self.shared.server.client_connect(self, json)
        return 0

    cdef int on_ping(self) except -1:
        self.output.write(b"PONG\r\n")
        if self.connected and not self.greeted and self.protocol_level > 0:
            self.shared.server.client_greet(self)
        return 0

    cdef int on_pong(self) except -1:
        self.pings_out = 0
        self._answered()
        return 0

    cdef int on_info(self, bytes json) except -1:
        self.shared.server.client_info(self, json)
        return 0

    cdef int on_error(self, bytes text) except -1:
        raise ProtocolError("", "Parse Error", f"Client Error {text.decode('utf-8', 'replace')}")

    # --- for the server's event handlers ---

    def apply_connect(self, object options, Router router, object account, Permissions permissions=None) -> None:
        """CONNECT was accepted: take over its options; a second one drops all subscriptions."""
        cdef Subscription sub
        if self.connected or router is not self.router:
            for sub in (self.subscriptions or {}).values():
                self.router.unsubscribe(sub)
            self.subscriptions = None
            self.last_route = None
        self.router = router
        self.account = account
        self.permissions = permissions
        self.verbose = options.verbose
        self.pedantic = options.pedantic
        self.echo = options.echo
        self.headers = options.headers
        self.output.headers = options.headers
        self.no_responders = options.no_responders
        self.protocol_level = options.protocol
        self.name = options.name
        self.lang = options.lang
        self.version = options.version
        self.login_due = False
        self.connected = True
        self._answered()
        if self.verbose:
            self._ok()

    def fail(self, object error) -> None:
        """End the connection because of a ProtocolError that came up outside of the parser."""
        self.shared.server.client_failed(self, error)

    def send(self, bytes data not None) -> None:
        """Queue protocol bytes for this client."""
        self.output.write(data)

    def ping(self) -> None:
        """Send a PING; its answer gives the round trip time."""
        self.pings_out += 1
        self.asked_ns = monotonic_ns()
        self.output.write(b"PING\r\n")

    def _answered(self) -> None:
        if self.asked_ns:
            self.rtt_ns = monotonic_ns() - self.asked_ns
            self.asked_ns = 0

    def subscription_list(self) -> list:
        """The client's subscriptions, oldest first."""
        return list(self.subscriptions.values()) if self.subscriptions is not None else []

    def set_max_payload(self, Py_ssize_t max_payload) -> None:
        """Bound of this client's messages in bytes; 0: none."""
        self.max_payload = max_payload

    def close(self, str reason not None, str text="") -> None:
        """Send -ERR (when there is a text) behind what is queued, then close."""
        if self.closed:
            return
        if text:
            self._error(text)
        self.closed = True
        self.stopped = True
        self.close_reason = reason
        cdef ClientOutput output = self.output
        output.closed = True
        if output.pending() and not self.transport.is_closing():
            self.transport.write(PyBytes_FromStringAndSize(output.out.data + output.head, output.pending()))
            output.head = output.out.size
        self.transport.close()

    def abort(self, str reason not None) -> None:
        """Cut off at once: what is queued is lost."""
        if self.closed:
            return
        self.closed = True
        self.stopped = True
        self.output.closed = True
        self.close_reason = reason
        self.transport.abort()

    def sweep(self) -> bool:
        """Give idle memory back; True when something arrived since the last sweep."""
        cdef ClientOutput output = self.output
        cdef bint heard = self.heard
        self.heard = False
        if output.idle and output.pending() == 0 and output.out.capacity > IDLE_BYTES:
            output.out.release()
        output.idle = True
        return heard

    @property
    def active_ns(self) -> int:
        """When messages last came or went, or interest changed, on the monotonic clock: keep-alive does not count."""
        return max(self.heard_ns, self.output.sent_ns)

    @property
    def blocked_seconds(self) -> float:
        """For how long the client has not taken a byte that waits for it; 0.0 when nothing waits."""
        return (monotonic_ns() - self.output.progress_ns) / 1e9 if self.output.blocked else 0.0

    @property
    def login_pending(self) -> bool:
        """True while the client still has to log in."""
        return self.login_due

    @property
    def pending_bytes(self) -> int:
        """Bytes waiting to be sent to this client."""
        return self.output.pending()

    @property
    def subscription_count(self) -> int:
        """Subscriptions this client has."""
        return len(self.subscriptions) if self.subscriptions is not None else 0

    @property
    def out_msgs(self) -> int:
        """Messages delivered to this client."""
        return self.output.out_msgs

    @property
    def out_bytes(self) -> int:
        """Payload bytes delivered to this client."""
        return self.output.out_bytes

    cdef int _ok(self) except -1:
        return self.output.write(b"+OK\r\n")

    cdef int _error(self, str text) except -1:
        return self.output.write(b"-ERR '" + text.encode("utf-8", "replace") + b"'\r\n")


cdef str text(const char* p, Py_ssize_t n):
    return p[:n].decode("utf-8", "replace")
