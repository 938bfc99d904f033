# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Input of a connection: read buffers, and turns that leave room for others (see input.pxd).

All connections read into one shared buffer; only the beginning of an unfinished command is kept per connection. A
command larger than half of the shared buffer is read straight into memory of its own size.
"""
from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memmove

from jetbroker.clock cimport monotonic_ns
from jetbroker.connections.output cimport ConnectionOutput, Turn
from jetbroker.routing.router cimport set_origin
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.parser cimport CommandHandler

from jetbroker import limits
from jetbroker.errors import ProtocolError

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
        if behind.closed or behind is self.output or self.flow >= PARKED or behind.pending() <= behind.soft_pending:
            return False
        if (behind.pending() <= behind.shared.max_pending // 4 * 3
                and monotonic_ns() - behind.progress_ns > PROGRESS_NS):
            return False
        self._happens(STALLS)
        behind.call_when_drained(self)
        self.stalls += 1
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
