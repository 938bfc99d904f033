"""Push: where messages go, what slows them down, and how they are sent."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.core cimport Delivery
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.subscription cimport Receiver
from jetbroker.store.log.stream_log cimport StoredMessage
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message


@cython.final
cdef class FlowControl:
    """Bytes on the way to the subscriber and the answers that open the window."""
    cdef readonly int64_t window, outstanding
    cdef readonly bytes open_subject       # of the request that waits for its answer, None: none does
    cdef int64_t open_bytes                # what that answer will confirm
    cdef bytes prefix                      # $JS.FC.<stream>.<consumer>.

    cpdef bint stalled(self) noexcept
    cpdef void sent(self, int64_t n) noexcept
    cpdef bint wants_request(self) noexcept
    cpdef bytes open_request(self)
    cpdef bint answered(self, bytes subject) except -1
    cdef void reset(self) noexcept


@cython.final
cdef class RateLimit:
    """A token bucket of bytes; `burst` is its size."""
    cdef uint64_t bits_per_second
    cdef double bytes_per_ns
    cdef double burst, tokens
    cdef int64_t updated_ns
    # 0: n bytes may go now (and are taken); else the ns to wait.
    cpdef int64_t take(self, int64_t n, int64_t now_ns) noexcept


@cython.final
cdef class DeliverSubject:
    """The subject a push consumer delivers to, and whether somebody listens there."""
    cdef Router router
    cdef TickTask watcher                  # told when that may have changed
    cdef bytes subject, group
    cdef Route route
    cdef readonly bint watched             # the watcher hears of changes of the route
    cdef readonly bint heard
    cdef bint waits                        # everybody there is behind, and tells the watcher to go on

    cdef bint known(self) noexcept                         # has nothing changed since the last look?
    cdef int look(self, bint watch) except -1
    cdef bint has_to_wait(self) except -1                  # for those who are there to catch up
    cdef int leave(self) except -1


@cython.final
cdef class PushDelivery(Delivery):
    cdef DeliverSubject target
    cdef RateLimit rate                    # None: none is set
    cdef FlowControl flow                  # None: not asked for
    cdef bint acks_on_flow                 # ack policy flow_control: an answer to flow control acks all before it
    cdef int64_t heartbeat_ns              # 0: none
    cdef int64_t next_heartbeat_ns

    cdef bint _look(self) except -1
    cdef int64_t _held_back(self, StoredMessage* message) except? -1
    cdef int _after(self, Py_ssize_t size) except -1
    cdef int _request_flow(self) except -1
    cdef int flow_answer(self, const Message* msg) except -1
    cdef int _take_flow_ack(self, const Message* msg) except -1


cdef class FlowReceiver(Receiver):
    cdef PushDelivery delivery             # None: closed
