# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One connection from its beginning to its end (see connection.pxd)."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from jetbroker.clock cimport monotonic_ns
from jetbroker.connections.halves cimport CLOSED, CLOSES, ConnectionInput, ConnectionOutput, Shared
from jetbroker.tick cimport PHASE_FLUSH
from jetbroker.wire.parser cimport Parser
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.addresses import of_socket
from jetbroker.connections.pacing import send_at_once
from jetbroker.connections.resets import reset_on_close

cdef Py_ssize_t IDLE_BYTES = limits.OUTPUT_IDLE_BYTES
cdef Py_ssize_t SOFT_PENDING = limits.SOFT_PENDING_BYTES
cdef long LOOK_UP_UNITS = limits.LOOK_UP_UNITS
cdef long WALKED_PER_UNIT = limits.ROUTES_PER_UNIT


@cython.final
cdef class Pings:
    """Whether a peer is still there."""

    cdef void ask(self) noexcept:
        self.asked_ns = monotonic_ns()

    cdef void answer(self) noexcept:
        if self.asked_ns:
            self.rtt_ns = monotonic_ns() - self.asked_ns
            self.asked_ns = 0

    def next_at(self, double now, double interval) -> None:
        """The peer is asked now, and again after the interval."""
        self.due_at = now + interval
        self.fresh_until = now + limits.ROUND_TRIP_SECONDS

    def put_off(self, double now, double due_at) -> None:
        """The peer was heard of: it needs no PING before `due_at`, unless the round trip was not measured for long."""
        if self.rtt_ns and now < self.fresh_until:
            self.due_at = max(self.due_at, due_at)


cdef class Connection(ConnectionInput):
    """asyncio BufferedProtocol: what clients and links have in common."""

    def __init__(self, Shared shared not None, Parser parser not None, ConnectionOutput output not None,
                 unsigned long long cid) -> None:
        self.shared = shared
        self.cid = cid
        self.parser = parser
        parser.max_control_line = shared.max_control_line
        parser.max_payload = shared.max_payload
        self.pings = Pings()
        self.output = output
        output.shared = shared
        output.soft_pending = min(SOFT_PENDING, shared.max_pending // 4 * 3)
        output.protocol = self

    # --- asyncio.BufferedProtocol ---

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.output.transport = transport
        transport.set_write_buffer_limits(high=0)
        self.peer = of_socket(transport.get_extra_info("peername"), "pipe")
        self.pings.ask()
        self.heard_ns = monotonic_ns()
        sock = transport.get_extra_info("socket")
        if sock is not None and transport.get_extra_info("sslcontext") is None:
            self.output.fd = sock.fileno()
            send_at_once(sock, self.peer)
        self.opened()

    def connection_lost(self, exc) -> None:
        self._happens(CLOSES)
        self.output.shut()
        self.output.fd = -1
        self.lost(exc)
        self.unparsed = None
        self.output.end()

    def use_transport(self, transport) -> None:
        """Go on through another transport over the same connection; what was written so far goes out before."""
        self.output.run_tick()
        self.transport = transport
        self.output.transport = transport
        self.output.fd = -1

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.output.blocked = True

    def resume_writing(self) -> None:
        self.output.blocked = False
        if not self.output.closed:
            self.shared.tick.schedule(PHASE_FLUSH, self.output)

    # --- for the broker ---

    def send(self, bytes data not None) -> None:
        """Queue protocol bytes for the peer."""
        self.output.write(data)

    def ping(self) -> None:
        """Send a PING; its answer gives the round trip time."""
        self.pings.unanswered += 1
        self.pings.ask()
        self.output.write(b"PING\r\n")

    def close(self, str reason not None, str text="", bint reset=False) -> None:
        """Send -ERR (when there is a text) behind what is queued, then close; with a reset if all could be sent."""
        if self.flow == CLOSED:
            return
        if text:
            self._error(text)
        if reset and self.output.fd >= 0 and not self.output.blocked:
            self.output._send_pending()
            if self.transport.get_write_buffer_size() == 0:
                reset_on_close(self.transport.get_extra_info("socket"))
        self._happens(CLOSES)
        self.close_reason = reason
        self.closed_ns = monotonic_ns()
        cdef ConnectionOutput output = self.output
        output.shut()
        if output.pending() and not self.transport.is_closing():
            self.transport.write(PyBytes_FromStringAndSize(output.out.data + output.head, output.pending()))
            output.head = output.out.size
        self.transport.close()

    def abort(self, str reason not None) -> None:
        """Cut off at once: what is queued is lost."""
        if self.flow == CLOSED:
            return
        self._happens(CLOSES)
        self.output.shut()
        self.close_reason = reason
        self.transport.abort()

    def sweep(self) -> bool:
        """Give idle memory back; True when something arrived since the last sweep."""
        cdef ConnectionOutput output = self.output
        cdef bint heard = self.heard
        self.heard = False
        if output.idle and output.pending() == 0 and output.out.capacity > IDLE_BYTES:
            output.out.release()
        output.idle = True
        return heard

    def set_max_control_line(self, Py_ssize_t max_control_line) -> None:
        """Bound of this connection's control lines in bytes."""
        self.parser.max_control_line = max_control_line

    def set_max_payload(self, Py_ssize_t max_payload) -> None:
        """Bound of this connection's messages in bytes; negative: none."""
        self.parser.max_payload = max_payload

    @property
    def payload_limit(self) -> int:
        """Bytes a message of this connection may have; 0: any."""
        return self.parser.max_payload

    @property
    def rtt_ns(self) -> int:
        """From the last PING to its answer, before the first one from INFO to CONNECT; 0: not known yet."""
        return self.pings.rtt_ns

    @property
    def active_ns(self) -> int:
        """When messages last came or went, or interest changed, on the monotonic clock: keep-alive does not count."""
        return max(self.heard_ns, self.output.sent_ns)

    @property
    def blocked_seconds(self) -> float:
        """For how long the peer has not taken a byte that waits for it; 0.0 when nothing waits."""
        return (monotonic_ns() - self.output.progress_ns) / 1e9 if self.output.blocked else 0.0

    @property
    def closed_for(self) -> float:
        """Seconds since it was closed; its last bytes may still be on their way."""
        return (monotonic_ns() - self.closed_ns) / 1e9 if self.closed_ns else 0.0

    @property
    def pending_bytes(self) -> int:
        """Bytes waiting to be sent to this connection."""
        return self.output.pending()

    @property
    def out_msgs(self) -> int:
        """Messages sent to the peer."""
        return self.output.out_msgs

    @property
    def out_bytes(self) -> int:
        """Payload bytes sent to the peer."""
        return self.output.out_bytes

    # --- for its kinds ---

    cdef int opened(self) except -1:
        raise NotImplementedError

    cdef int lost(self, object error) except -1:
        raise NotImplementedError

    cdef int _error(self, str text) except -1:
        return self.output.write(b"-ERR '" + text.encode("utf-8", "replace") + b"'\r\n")

    cdef int _spend_on_interest(self, bytes subject) except -1:
        cdef long units = LOOK_UP_UNITS
        if has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            units += <long>self.router.route_count // (1 if subject[:1] in (b"*", b">") else WALKED_PER_UNIT)
        return self._spend(units)
