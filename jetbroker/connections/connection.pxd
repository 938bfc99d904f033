"""One connection from its beginning to its end, whatever is spoken on it."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.connections.halves cimport ConnectionInput
from jetbroker.routing.router cimport Router


@cython.final
cdef class Pings:
    """When a peer is asked whether it is still there, and how long its answer takes."""
    cdef public double due_at          # loop time
    cdef double fresh_until            # loop time until which the last one measured the round trip; 0: none was sent
    cdef public int unanswered
    cdef int64_t asked_ns              # when what is not answered yet was sent, the first INFO or a PING; 0: all is
    cdef readonly int64_t rtt_ns       # 0: not known yet

    cdef void ask(self) noexcept
    cdef void answer(self) noexcept


cdef class Connection(ConnectionInput):
    cdef readonly Router router        # of its account
    cdef readonly uint64_t cid
    cdef readonly Pings pings
    cdef public object tls             # what the handshake said (connections.tls), None in clear
    cdef public object close_reason
    cdef int64_t closed_ns             # when it was closed, 0: it is not
    cdef public double opened_at       # loop time
    cdef public str peer               # address:port, of the client behind a proxy once that has told it

    # Of the kind of connection: it has begun; it is gone.
    cdef int opened(self) except -1
    cdef int lost(self, object error) except -1
    # A subscription was made or removed: a wildcard one has the cached routes looked through.
    cdef int _spend_on_interest(self, bytes subject) except -1
    cdef int _error(self, str text) except -1
