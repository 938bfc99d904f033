"""What connections share, and the halves of one: what it reads in turns, and what others deliver to."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.auth.permissions cimport Permissions, Responses
from jetbroker.routing.subscription cimport Receiver, Subscription
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport CommandHandler, Parser


# Why a delivery needs a closer look; none of them for most connections.
cdef enum:
    LOOK_CLOSED = 1                    # the connection is closed
    LOOK_FULL = 2                      # far behind, and publishers are not to be slowed: their messages are dropped
    LOOK_DENIED = 4                    # a subscription overlaps what its user may not receive
    LOOK_REPLIES = 8                   # the replies it receives may be answered
    LOOK_TRACE = 16                    # its traffic is logged


cdef class Turn:
    """The input that is being handled: one for all connections of a broker, whatever they speak."""
    cdef bint publishing               # a connection's input is being handled right now
    cdef ConnectionOutput congested    # a receiver that fell behind while this input was handled, or None


cdef class Shared:
    """What all connections of one kind share: the read buffer, the tick, limits and counters."""
    cdef readonly Tick tick
    cdef readonly object server        # the broker's side of a connection's events: see connections/events.py
    cdef readonly Turn turn
    cdef char* read_buffer
    cdef Py_ssize_t read_capacity
    cdef object whole_view             # memoryview of the whole read buffer
    cdef public Py_ssize_t max_pending
    cdef public Py_ssize_t max_payload
    cdef public Py_ssize_t max_control_line
    cdef public Py_ssize_t max_subscriptions   # per connection, 0: no limit
    cdef public int max_sub_tokens     # of a subscription's subject, 0: no limit
    cdef public bint stall             # slow publishers down for receivers that fall behind
    cdef public object tracer          # connections.trace.Tracer, None: traffic is not logged
    cdef public uint64_t slow_consumers
    cdef readonly uint64_t stalls              # how often a publisher was slowed for a receiver


cdef class ConnectionOutput(Receiver):
    """Bytes on their way to a peer, and what is done when it does not take them."""
    cdef Shared shared
    cdef object transport
    cdef readonly object protocol      # the connection it is a half of; None once that is gone
    cdef int fd                        # plain TCP: sent to directly; -1: everything goes through the transport
    cdef OutputBuffer out
    cdef Py_ssize_t head               # bytes of `out` that are sent already
    cdef int look                      # LOOK_* flags
    cdef Py_ssize_t soft_pending       # bytes: further behind, it slows its publishers (or loses their messages)
    cdef bint closed
    cdef bint blocked                  # the transport has bytes that the kernel does not take: wait for it
    cdef bint overflowed               # pending bytes passed max_pending: to be cut off
    cdef bint idle                     # nothing was sent since the last sweep
    cdef int64_t progress_ns           # when the kernel last took bytes (monotonic)
    cdef int64_t sent_ns               # when messages were last sent (monotonic)
    cdef uint64_t sent_msgs            # out_msgs at that time
    cdef dict stalled                  # who waits for this output to drain: keys with go_on(); None: nobody
    cdef readonly uint64_t out_msgs
    cdef readonly uint64_t out_bytes

    # For those who write messages to `out`: one is there as a whole.
    cdef int added(self, Py_ssize_t payload_len) except -1
    cdef int write(self, bytes data) except -1
    # Nothing is delivered from now on.
    cdef void shut(self) noexcept
    # The connection is gone: give back what this held, let those go on who wait for it.
    cdef int end(self) except -1
    # Call `waiter.go_on()`, once, when this has drained or is gone.
    cdef int call_when_drained(self, object waiter) except -1
    cdef int _congested(self) except -1
    cdef int _send_pending(self) except -1
    cdef int _after_send(self) except -1
    cdef Py_ssize_t pending(self) noexcept


@cython.final
cdef class ClientOutput(ConnectionOutput):
    """What a client's subscriptions deliver to: MSG and HMSG."""
    cdef Permissions permissions       # as the client's, None: everything is allowed
    cdef Responses responses           # with LOOK_REPLIES
    cdef bint headers                  # the client understands HMSG
    cdef list finished                 # subscriptions that reached their max, to be removed at the end of the tick

    cdef int _look_first(self, Subscription sub, const Message* msg) except -1
    cdef int _judge(self, Subscription sub, const Message* msg) except -1
    cdef int _look_back(self, Subscription sub, const Message* msg, const char* line, Py_ssize_t n) except -1
    cdef int _finish(self, Subscription sub) except -1


cpdef enum Flow:
    """What becomes of the input of a connection. From OVER on nothing more is handled."""
    READING = 0
    STALLED = 1          # a receiver has to catch up
    OVER = 2             # it has had its turn: the rest waits for the next one
    OVER_STALLED = 3     # both
    PARKED = 4           # a login is being checked off the loop
    CLOSED = 5


cpdef enum FlowEvent:
    SPENT = 0            # its turn is used up
    STALLS = 1           # a receiver has fallen behind
    CAUGHT_UP = 2        # the receiver has caught up, or has had time enough to
    TURN = 3             # its next turn comes
    PARKS = 4            # a login is to be checked
    UNPARKS = 5          # it is checked
    CLOSES = 6


cdef class ConnectionInput(CommandHandler):
    cdef Shared shared
    cdef readonly object transport
    cdef readonly ConnectionOutput output
    cdef Parser parser                 # of what is spoken here
    cdef OutputBuffer unparsed         # the beginning of a command that is not whole yet
    cdef Py_ssize_t reused             # bytes of `unparsed` that stand in front of the shared read buffer
    cdef bint direct                   # this read goes straight into `unparsed`
    cdef bint counted                  # `unparsed` is part of what the unauthenticated keep
    cdef Flow flow
    cdef bint paused                   # the transport was told not to read
    cdef int put_off                   # full reads in a row whose flush waits for the next one
    cdef long budget                   # of this turn, in units of about 50 ns
    cdef double turn_at                # loop time of this turn
    cdef bint heard                    # something arrived since the last sweep
    cdef int64_t heard_ns              # when a message or a change of interest last arrived (monotonic)
    cdef readonly uint64_t stalls
    cdef readonly uint64_t in_msgs
    cdef readonly uint64_t in_bytes

    # Of the kind of connection: its input is no protocol; it has to wait for a receiver; it keeps bytes of a command
    # before its login.
    cdef int failed(self, object error) except -1
    cdef int has_to_wait(self) except -1
    cdef int keeps(self, Py_ssize_t size) except -1
    cdef int _happens(self, FlowEvent event) except -1
    # A read is about to be handled; for subclasses.
    cdef int begin_read(self) except -1
    # A command has done so much work, in units of about 50 ns: who has had his turn goes on after the others.
    cdef int _spend(self, long units) except -1
    cdef int _handle(self, const char* p, Py_ssize_t n) except -1
    cdef int _turn(self, const char* p, Py_ssize_t n) except -1
    cdef int _end_batch(self, bint more) except -1
    cdef int _after_turn(self) except -1
    cdef int _keep(self, const char* p, Py_ssize_t n) except -1
