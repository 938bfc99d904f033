"""A client connection in two halves: ClientOutput is what others deliver to, ClientProtocol is what the client says."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.routing.router cimport Receiver, Route, Router
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.parser cimport Parser


cdef class Shared:
    """What all client connections of a broker share: the read buffer, the tick, limits and counters."""
    cdef readonly Tick tick
    cdef readonly object server        # the broker's side of a connection's events: see connections/server.py
    cdef char* read_buffer
    cdef Py_ssize_t read_capacity
    cdef object whole_view             # memoryview of the whole read buffer
    cdef public Py_ssize_t max_pending
    cdef public Py_ssize_t max_payload
    cdef public Py_ssize_t max_control_line
    cdef public Py_ssize_t max_subscriptions   # per connection, 0: no limit
    cdef ClientOutput congested        # a receiver that fell behind while this input was handled, or None
    cdef public uint64_t slow_consumers
    cdef readonly uint64_t stalls              # how often a publisher was slowed for a receiver


cdef class ClientOutput(Receiver):
    cdef Shared shared
    cdef object transport
    cdef readonly object protocol      # the ClientProtocol
    cdef int fd                        # plain TCP: sent to directly; -1: everything goes through the transport
    cdef OutputBuffer out
    cdef Py_ssize_t head               # bytes of `out` that are sent already
    cdef bint closed
    cdef bint blocked                  # the transport has bytes that the kernel does not take: wait for it
    cdef bint headers                  # the client understands HMSG
    cdef bint overflowed               # pending bytes passed max_pending: to be cut off
    cdef bint idle                     # nothing was sent since the last sweep
    cdef int64_t progress_ns           # when the kernel last took bytes (monotonic)
    cdef int64_t sent_ns               # when messages were last sent (monotonic)
    cdef uint64_t sent_msgs            # out_msgs at that time
    cdef list finished                 # subscriptions that reached their max, to be removed at the end of the tick
    cdef list stalled                  # ClientProtocols whose reading waits for this output to drain
    cdef readonly uint64_t out_msgs
    cdef readonly uint64_t out_bytes

    cdef int write(self, bytes data) except -1
    cdef int _send_pending(self) except -1
    cdef int _after_send(self) except -1
    cdef Py_ssize_t pending(self) noexcept


cdef class ClientProtocol(Parser):
    cdef Shared shared
    cdef readonly object transport
    cdef readonly ClientOutput output
    cdef readonly Router router
    cdef public object account         # accounts.Account, None before it is known
    cdef public object user            # name for the log and for monitoring, None without a login
    cdef readonly uint64_t cid
    cdef dict subscriptions            # sid -> Subscription
    cdef OutputBuffer unparsed         # the beginning of a command that is not whole yet
    cdef Py_ssize_t reused             # bytes of `unparsed` that stand in front of the shared read buffer
    cdef bint direct                   # this read goes straight into `unparsed`
    cdef bint verbose
    cdef bint pedantic
    cdef bint echo
    cdef bint no_responders
    cdef public bint connected         # CONNECT was seen
    cdef public bint greeted           # the second INFO was sent
    cdef public int protocol_level
    cdef bint parked                   # a login is being checked off the loop
    cdef bint paused                   # reading is paused
    cdef readonly bint closed
    cdef public object close_reason
    cdef Route last_route
    cdef public double opened_at       # loop time
    cdef public double last_ping_at
    cdef public int pings_out
    cdef bint heard                    # something arrived since the last sweep
    cdef int64_t heard_ns              # when a message or a change of interest last arrived (monotonic)
    cdef int64_t asked_ns              # when the PING that is not answered yet was sent; 0: none is out
    cdef readonly int64_t rtt_ns       # from the last PING, before the first from INFO to CONNECT; 0: not known yet
    cdef readonly uint64_t stalls
    cdef public str name
    cdef public str lang
    cdef public str version
    cdef readonly str peer
    cdef readonly uint64_t in_msgs
    cdef readonly uint64_t in_bytes

    cdef int _handle(self, const char* p, Py_ssize_t n) except -1
    cdef int _keep(self, const char* p, Py_ssize_t n) except -1
    cdef int _no_responders(self, const char* subject, Py_ssize_t n, const char* reply, Py_ssize_t reply_len) except -1
    cdef int _ok(self) except -1
    cdef int _error(self, str text) except -1
