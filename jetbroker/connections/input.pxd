"""Input of a connection: read buffers, and turns that leave room for others."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.connections.output cimport ConnectionOutput, Shared
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.parser cimport CommandHandler, Parser


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
