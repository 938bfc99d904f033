# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What all connections share, and the two halves of one (see halves.pxd).

All connections read into one shared buffer; only the beginning of an unfinished command is kept per connection. A
command larger than half of the shared buffer is read straight into memory of its own size.

Deliveries are appended to the output buffer and sent with one send(2) at the end of the tick. Where the kernel takes
less, a small piece goes through the transport, whose drain tells when to go on.
"""
cimport cython
from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy, memmove

from jetbroker.auth.permissions cimport Permissions
from jetbroker.clock cimport monotonic_ns
from jetbroker.routing.router cimport charge_publisher, set_origin
from jetbroker.routing.subscription cimport WITHHELD, Receiver, RouteSlot, Subscription
from jetbroker.tick cimport PHASE_FLUSH, Tick
from jetbroker.wire.buffer cimport OutputBuffer, format_uint
from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport CommandHandler
from jetbroker.wire.subjects cimport subject_matches

from jetbroker import limits
from jetbroker.connections.trace import INTERNAL, SENT
from jetbroker.errors import ProtocolError

cdef extern from "sys/socket.h" nogil:
    ssize_t c_send "send"(int fd, const void* data, size_t n, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

# A receiver this far behind slows its publishers while it is still taking bytes: the data stays in the CPU's caches.
cdef Py_ssize_t SOFT_PENDING = limits.SOFT_PENDING_BYTES
cdef Py_ssize_t PROBE_BYTES = limits.TRANSPORT_PROBE_BYTES
cdef Py_ssize_t LAYER_BYTES = limits.TRANSPORT_LAYER_BYTES

# What a trace says of messages that were not delivered.
cdef str NO_ECHO = "Not delivered because of no echo"
cdef str DENIED = "Not delivered because subscription denies this subject"
cdef str GONE = "Not delivered because client is closed"
cdef str SLOW = "Not delivered because fast producer not stalled and consumer is slow"


cdef class Turn:
    """The input that is being handled."""


cdef class Shared:
    """What all connections of one kind share."""

    def __cinit__(self, Tick tick not None, object server, Turn turn=None) -> None:
        self.tick = tick
        self.turn = Turn() if turn is None else turn
        self.server = server
        self.max_pending = limits.MAX_PENDING_BYTES
        self.max_payload = limits.MAX_PAYLOAD_BYTES
        self.stall = True
        self.set_control_line(limits.MAX_CONTROL_LINE_BYTES)

    def __dealloc__(self) -> None:
        free(self.read_buffer)

    def set_control_line(self, Py_ssize_t max_control_line) -> None:
        """Bound of one control line; the read buffer is made to hold several. Not while input is handled."""
        cdef Py_ssize_t capacity = max(<Py_ssize_t>limits.READ_BUFFER_BYTES, max_control_line * 4)
        cdef char* data
        self.max_control_line = max_control_line
        if capacity <= self.read_capacity:
            return
        data = <char*>malloc(capacity)
        if data == NULL:
            raise MemoryError()
        free(self.read_buffer)
        self.read_buffer = data
        self.read_capacity = capacity
        self.whole_view = PyMemoryView_FromMemory(data, capacity, PyBUF_WRITE)


cdef class ConnectionOutput(Receiver):
    """Bytes on their way to a peer."""

    def __cinit__(self) -> None:
        self.fd = -1
        self.out = OutputBuffer()

    cdef Py_ssize_t pending(self) noexcept:
        return self.out.size - self.head

    cdef void shut(self) noexcept:
        self.closed = True
        self.look |= LOOK_CLOSED

    cdef int write(self, bytes data) except -1:
        """Append protocol bytes of our own (PONG, +OK, -ERR, INFO). They count as messages do: whoever asks takes them."""
        if self.closed:
            return 0
        self.out.append(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        if self.out.size - self.head > self.shared.max_pending:
            self.overflowed = True
        self.shared.tick.schedule(PHASE_FLUSH, self)
        return 0

    cdef int added(self, Py_ssize_t payload_len) except -1:
        self.out_msgs += 1
        self.out_bytes += payload_len
        if not self.scheduled:
            self.shared.tick.schedule(PHASE_FLUSH, self)
        if self.out.size - self.head > self.soft_pending:
            self._congested()
        return 0

    cdef int end(self) except -1:
        cdef dict stalled = self.stalled
        self.out.release()
        self.protocol = None  # a cycle less: the memory is free now, not at the next full collection
        self.stalled = None
        for waiter in stalled or ():
            waiter.go_on()
        return 0

    cdef bint is_behind(self, object waiter) except -1:
        if self.closed or self.out.size - self.head <= self.soft_pending:
            return False
        self.call_when_drained(waiter)
        return True

    cdef int call_when_drained(self, object waiter) except -1:
        if self.stalled is None:
            self.stalled = {}
        self.stalled[waiter] = None
        return 0

    cdef int _congested(self) except -1:
        """The peer falls behind."""
        cdef Py_ssize_t pending = self.out.size - self.head
        if pending > self.shared.max_pending:
            self.overflowed = True
        if self.shared.stall:
            self.shared.turn.congested = self
        elif pending > self.shared.max_pending // 4 * 3:
            self.look |= LOOK_FULL
        return 0

    cdef int run_tick(self) except -1:
        if self.closed:
            return 0
        if not self.blocked:
            self._send_pending()
        if self.overflowed and self.out.size - self.head > self.shared.max_pending:
            self.shared.slow_consumers += 1
            self.protocol.abort("Slow Consumer (Pending Bytes)")
        self.overflowed = False
        return 0

    cdef int _send_pending(self) except -1:
        cdef Py_ssize_t n
        cdef Py_ssize_t size = self.out.size - self.head
        if size == 0:
            return 0
        self.idle = False
        if self.out_msgs != self.sent_msgs:
            self.sent_msgs = self.out_msgs
            self.sent_ns = monotonic_ns()
        if self.fd >= 0:
            with nogil:
                n = c_send(self.fd, self.out.data + self.head, size, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n > 0:
                self.head += n
                size -= n
        if size:
            # the transport reports a broken socket as well as a full one
            n = min(size, PROBE_BYTES if self.fd >= 0 else LAYER_BYTES)
            self.transport.write(PyBytes_FromStringAndSize(self.out.data + self.head, n))
            self.head += n
            if self.transport.get_write_buffer_size() > 0:
                self.blocked = True
                self.progress_ns = monotonic_ns()
            elif self.head < self.out.size:
                self.shared.tick.schedule(PHASE_FLUSH, self)
        return self._after_send()

    cdef int _after_send(self) except -1:
        cdef dict stalled
        cdef Py_ssize_t rest = self.out.size - self.head
        if self.look & LOOK_FULL and rest <= self.shared.max_pending // 4 * 3:
            self.look &= ~LOOK_FULL
        if rest == 0:
            self.out.clear()
            self.head = 0
        else:
            self.progress_ns = monotonic_ns()
            if self.head > SOFT_PENDING and self.head > rest:
                memmove(self.out.data, self.out.data + self.head, rest)
                self.out.size = rest
                self.head = 0
        if self.stalled is not None and rest < self.soft_pending // 2:
            stalled = self.stalled
            self.stalled = None
            for waiter in stalled:
                waiter.go_on()
        return 0


@cython.final
cdef class ClientOutput(ConnectionOutput):
    """What others deliver to: subscriptions' messages and the answers to the client's own commands."""

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef char* start
        cdef char* w
        cdef Py_ssize_t payload_len, prefix_len
        cdef int verdict
        if sub.closed or self.look:
            verdict = self._look_first(sub, msg)
            if verdict <= 0:
                return verdict
        if slot is not None and msg.tail != NULL and (msg.headers_len == 0 or self.headers):
            if slot.prefix is None:
                slot.prefix = b"MSG %b %b " % (msg.subject[:msg.subject_len], sub.sid)
            prefix_len = PyBytes_GET_SIZE(slot.prefix)
            start = self.out.reserve(prefix_len + 1 + msg.tail_len)
            w = start
            if msg.headers_len:
                w[0] = c'H'
                w += 1
            memcpy(w, PyBytes_AS_STRING(slot.prefix), prefix_len)
            w += prefix_len
            memcpy(w, msg.tail, msg.tail_len)
            w += msg.tail_len
            payload_len = msg.body_len
        else:
            start = self.out.reserve(msg.subject_len + PyBytes_GET_SIZE(sub.sid) + msg.reply_len + msg.body_len + 64)
            w = write_message(start, sub.sid, msg, self.headers)
            payload_len = msg.body_len if self.headers else msg.body_len - msg.headers_len
        self.out.size += w - start
        self.out_msgs += 1
        self.out_bytes += payload_len
        sub.delivered += 1
        if sub.max_deliveries and sub.delivered >= sub.max_deliveries:
            self._finish(sub)
        if not self.scheduled:
            self.shared.tick.schedule(PHASE_FLUSH, self)
        if self.out.size - self.head > self.soft_pending:
            self._congested()
        if self.look:
            self._look_back(sub, msg, start, w - start)
        return 1

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        cdef int verdict
        cdef str error = ""
        if sub.closed or self.protocol is None:  # it has got its last message
            return 0
        if trace.unheard is self:
            verdict = 0
            error = NO_ECHO
        elif trace.only:
            verdict = self._judge(sub, msg) if self.look & LOOK_DENIED else 1
        else:
            verdict = self.deliver(sub, None, msg)
        if verdict <= 0 and not error:
            error = GONE if self.look & LOOK_CLOSED else SLOW if self.look & LOOK_FULL and verdict == 0 else DENIED
        trace.delivered(self.protocol, sub, error)
        return verdict

    cdef int _finish(self, Subscription sub) except -1:
        """It got its last message: its sid is free at once, its interest goes at the end of the tick."""
        sub.closed = True
        if self.finished is None:
            self.finished = []
        self.finished.append(sub)
        self.protocol.release(sub)
        if self.shared.server.log.debug_enabled:
            self.shared.server.client_finished(self.protocol, sub.sid, sub.max_deliveries)
        return 0

    cdef int _look_first(self, Subscription sub, const Message* msg) except -1:
        """The checks that most clients need not have. 1: deliver; else what deliver() answers."""
        cdef int verdict
        if sub.closed or self.look & LOOK_CLOSED:
            return 0
        if self.look & LOOK_DENIED:
            verdict = self._judge(sub, msg)
            if verdict <= 0:
                return verdict
        return not (self.look & LOOK_FULL and self.shared.turn.publishing)

    cdef int _judge(self, Subscription sub, const Message* msg) except -1:
        """By what its user may receive; what is not remembered takes of the publisher's turn. As _look_first."""
        cdef Permissions permissions = self.permissions
        cdef uint64_t units = permissions.units
        cdef int verdict = 1
        if permissions.denies(msg.subject, msg.subject_len, sub.queue):
            verdict = WITHHELD
        elif sub.filter is not None and subject_matches(msg.subject, msg.subject_len, sub.filter):
            verdict = permissions.may_receive(msg.subject, msg.subject_len, sub.queue)
        if permissions.units != units:
            charge_publisher(permissions.units - units)
        return verdict

    cdef int _look_back(self, Subscription sub, const Message* msg, const char* line, Py_ssize_t n) except -1:
        """A message was delivered: the reply it may be answered on, its line in the log."""
        cdef const char* body
        cdef uint64_t units
        if self.look & LOOK_REPLIES and msg.reply != NULL:
            units = self.permissions.units
            self.responses.note(msg.reply, msg.reply_len, monotonic_ns())
            charge_publisher(self.permissions.units - units)
        if self.look & LOOK_TRACE and self.shared.tracer is not None:
            body = <const char*>memchr(line, c'\n', n) + 1
            self.shared.tracer.line(self.protocol, SENT, line[:body - line - 2])
            self.shared.tracer.payload(self.protocol, SENT, body[:n - (body - line) - 2],
                                       msg.headers_len if self.headers else 0)
            if sub.closed:
                self.shared.tracer.line(self.protocol, INTERNAL, b"DELSUB " + sub.sid)
        return 0

    cdef int run_tick(self) except -1:
        cdef Subscription sub
        if self.finished is not None:
            for sub in self.finished:
                self.protocol.forget(sub)
            self.finished = None
        return ConnectionOutput.run_tick(self)


cdef char* write_message(char* w, bytes sid, const Message* msg, bint headers) noexcept:
    """MSG or HMSG from its parts; the caller has made room. Returns the end."""
    cdef Py_ssize_t payload_len = msg.body_len - msg.headers_len
    cdef bint with_headers = headers and msg.headers_len > 0
    if with_headers:
        w[0] = c'H'
        w += 1
    memcpy(w, b"MSG ", 4)
    w += 4
    memcpy(w, msg.subject, msg.subject_len)
    w += msg.subject_len
    w[0] = c' '
    memcpy(w + 1, PyBytes_AS_STRING(sid), PyBytes_GET_SIZE(sid))
    w += 1 + PyBytes_GET_SIZE(sid)
    w[0] = c' '
    w += 1
    if msg.reply != NULL:
        memcpy(w, msg.reply, msg.reply_len)
        w += msg.reply_len
        w[0] = c' '
        w += 1
    if with_headers:
        w += format_uint(w, msg.headers_len)
        w[0] = c' '
        w += 1
        w += format_uint(w, msg.body_len)
    elif msg.headers_len == 0 and msg.size_text != NULL:
        memcpy(w, msg.size_text, msg.size_text_len)
        w += msg.size_text_len
    else:
        w += format_uint(w, payload_len)
    w[0] = c'\r'
    w[1] = c'\n'
    w += 2
    if with_headers:
        memcpy(w, msg.body, msg.body_len)
        w += msg.body_len
    else:
        memcpy(w, msg.body + msg.headers_len, payload_len)
        w += payload_len
    w[0] = c'\r'
    w[1] = c'\n'
    return w + 2


cdef Py_ssize_t IDLE_BYTES = limits.OUTPUT_IDLE_BYTES
cdef int PUT_OFF_READS = limits.PUT_OFF_READS
cdef int64_t PROGRESS_NS = limits.RECEIVER_PROGRESS_NS
cdef double STALL_SECONDS = limits.PUBLISHER_STALL_SECONDS
cdef long TURN_UNITS = limits.TURN_UNITS


# What an event makes of the input; what is not named here changes nothing.
FLOWS = {
    (READING, SPENT): OVER,
    (READING, STALLS): STALLED,
    (STALLED, SPENT): OVER_STALLED,
    (STALLED, CAUGHT_UP): READING,
    (OVER, STALLS): OVER_STALLED,
    (OVER, TURN): READING,
    (OVER_STALLED, CAUGHT_UP): OVER,
    (OVER_STALLED, TURN): READING,
    (PARKED, UNPARKS): OVER,
    **{(flow, PARKS): PARKED for flow in (READING, STALLED, OVER, OVER_STALLED)},
    **{(flow, CLOSES): CLOSED for flow in (READING, STALLED, OVER, OVER_STALLED, PARKED)},
}


cdef class ConnectionInput(CommandHandler):
    """What a connection reads, as the parser can take it."""

    cdef int _happens(self, FlowEvent event) except -1:
        self.flow = <Flow><int>FLOWS.get((self.flow, event), self.flow)
        self.parser.stopped = self.flow >= OVER
        return 0

    @property
    def closed(self) -> bool:
        """Is it over, whether or not its last bytes are on their way still?"""
        return self.flow == CLOSED

    def get_buffer(self, Py_ssize_t sizehint):
        cdef OutputBuffer unparsed = self.unparsed
        cdef Py_ssize_t room
        self.direct = False
        self.reused = 0
        if unparsed is None or unparsed.size == 0:
            return self.shared.whole_view
        if max(self.parser.need, unparsed.size) > self.shared.read_capacity // 2:
            self.direct = True
            room = self.parser.need - unparsed.size
            if room <= 0:
                room = self.shared.read_capacity
            return PyMemoryView_FromMemory(unparsed.reserve(room), room, PyBUF_WRITE)
        memcpy(self.shared.read_buffer, unparsed.data, unparsed.size)
        self.reused = unparsed.size
        return PyMemoryView_FromMemory(self.shared.read_buffer + self.reused,
                                       self.shared.read_capacity - self.reused, PyBUF_WRITE)

    def buffer_updated(self, Py_ssize_t nbytes) -> None:
        self.heard = True
        if self.flow == CLOSED:
            return
        if self.direct:
            self.parser.kept = self.unparsed.size
            self.unparsed.size += nbytes
            if self.unparsed.size >= self.parser.need:
                self._handle(self.unparsed.data, self.unparsed.size)
            return
        self.parser.kept = self.reused
        self._handle(self.shared.read_buffer, self.reused + nbytes)

    cdef int begin_read(self) except -1:
        return 0

    cdef int failed(self, object error) except -1:
        raise NotImplementedError

    cdef int has_to_wait(self) except -1:
        raise NotImplementedError

    cdef int keeps(self, Py_ssize_t size) except -1:
        return 0

    cdef int _handle(self, const char* p, Py_ssize_t n) except -1:
        """What was read, behind what was kept."""
        cdef double now = self.shared.tick.loop.time()
        self.begin_read()
        if now != self.turn_at:  # the same within one iteration of the event loop
            self.turn_at = now
            self.budget = TURN_UNITS
        return self._turn(p, n)

    cdef int _turn(self, const char* p, Py_ssize_t n) except -1:
        cdef Py_ssize_t used
        cdef uint64_t in_msgs = self.in_msgs
        cdef Turn turn = self.shared.turn
        self.shared.tick.begin()
        turn.congested = None
        turn.publishing = True
        set_origin(self)
        try:
            used = self.parser.parse(self, p, n)
            if self.in_msgs != in_msgs:
                self.heard_ns = monotonic_ns()
            self._keep(p + used, n - used)
        except ProtocolError as error:
            self.failed(error)
        finally:
            set_origin(None)
            turn.publishing = False
            self._end_batch(n == self.shared.read_capacity)
        return self._after_turn()

    cdef int _end_batch(self, bint more) except -1:
        """Do what the input has made due. A full buffer has more behind it (`more`): one flush may serve both."""
        if more and self.put_off < PUT_OFF_READS and self.shared.tick.put_off():
            self.put_off += 1
            return 0
        self.put_off = 0
        return self.shared.tick.run()

    cdef int _after_turn(self) except -1:
        """Pause when a receiver has to catch up, or when others have to have their turn first. 1: reading waits."""
        cdef ConnectionOutput behind = self.shared.turn.congested
        cdef bint stalled = False
        if behind is not None:
            self.shared.turn.congested = None
            stalled = self._maybe_stall(behind)
        if not (stalled or self.flow == OVER or self.flow == OVER_STALLED):
            return 0
        if not self.paused:
            self.paused = True
            self.transport.pause_reading()
        if stalled:
            self.has_to_wait()
            self.shared.tick.loop.call_later(STALL_SECONDS, self.go_on)
        else:
            self.shared.tick.loop.call_soon(self.next_turn)
        return 1

    cdef int _spend(self, long units) except -1:
        """The work of a command, known when it is done. Who has had his turn goes on after the others."""
        self.budget -= units
        if self.budget < 0 and not self.parser.stopped:
            self._happens(SPENT)
        return 0

    def spend(self, long units) -> None:
        """What was published makes work that the tick does later: that belongs to this turn."""
        self._spend(units)

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
        if self.parser.login_due:
            self.counted = n > 0
            self.keeps(unparsed.capacity if n else 0)
        elif self.counted:
            self.counted = False
            self.keeps(0)
        return 0

    def _maybe_stall(self, ConnectionOutput behind) -> bool:
        """Slow this publisher down: its receiver is nearly full, or falls behind while it still takes bytes."""
        cdef ConnectionInput receiver
        if behind.closed or behind is self.output or self.flow >= PARKED or behind.pending() <= behind.soft_pending:
            return False
        if (behind.pending() <= behind.shared.max_pending // 4 * 3
                and monotonic_ns() - behind.progress_ns > PROGRESS_NS):
            return False
        self._happens(STALLS)
        behind.call_when_drained(self)
        receiver = behind.protocol
        if receiver is not None:
            receiver.stalls += 1
        self.shared.stalls += 1
        return True

    def go_on(self) -> None:
        """Read again after a stall."""
        if not self.paused or self.flow >= PARKED:
            return
        self._happens(CAUGHT_UP)
        if self.flow == OVER:
            self.shared.tick.loop.call_soon(self.next_turn)  # not right now: this may be within somebody else's
            return
        self.paused = False
        self.transport.resume_reading()

    def next_turn(self) -> None:
        """Go on with the input that was left when the last turn was over."""
        cdef bint waits = False
        if self.flow != OVER and self.flow != OVER_STALLED:
            return
        self._happens(TURN)
        self.budget = TURN_UNITS
        if self.unparsed is not None and self.unparsed.size:
            waits = self._turn(self.unparsed.data, self.unparsed.size)
        if not waits:
            self.go_on()

    def park(self) -> None:
        """Handle nothing more until unpark(): a login is being checked off the loop."""
        self._happens(PARKS)
        self.paused = True
        self.transport.pause_reading()

    @property
    def says_no_more(self) -> bool:
        """Of a parked connection: has nothing but a PING come behind what it waits for?"""
        cdef OutputBuffer left = self.unparsed
        return left is None or left.size == 0 or left.data[:left.size].strip().upper() == b"PING"

    def unpark(self) -> None:
        """Go on with what has arrived meanwhile."""
        if self.flow == PARKED:
            self._happens(UNPARKS)
            self.next_turn()
