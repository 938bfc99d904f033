"""One link to another server: what it says, and what is sent over it."""
cimport cython

from jetbroker.auth.permissions cimport Permissions, Responses
from jetbroker.connections.connection cimport Connection
from jetbroker.connections.halves cimport ConnectionOutput
from jetbroker.leafnodes.interest cimport Ledger, LinkView
from jetbroker.leafnodes.subscriptions cimport LinkSubscriptions
from jetbroker.routing.links cimport LinkReceiver
from jetbroker.routing.router cimport Route
from jetbroker.wire.message cimport Message


@cython.final
cdef class LinkOutput(LinkReceiver):
    """What the router delivers to: LMSG and HMSG."""
    cdef ConnectionOutput output
    cdef LinkInterest told             # what it is told of has to go out before a message does; None: not live
    cdef Permissions allowed           # what may be sent, and asked for; None: everything
    cdef Permissions denied            # to queue groups, by their names; None: nothing
    cdef Responses responses           # replies that the other side may answer, None: it needs no leave
    cdef readonly bint isolated        # it is not told of what comes from other links
    cdef frozenset imported            # what it is told of, whatever is allowed
    cdef bint headers                  # the other side understands HMSG

    cdef char* _write(self, char* w, const Message* msg, bytes subject, list queues) noexcept
    cdef int _trace_sent(self, const char* line, Py_ssize_t n, Py_ssize_t headers_len) except -1
    cdef bint _may_send(self, const Message* msg, bytes subject) except -1


@cython.final
cdef class LinkInterest(LinkView):
    """What a link is told of its account's interest."""
    cdef LinkOutput receiver


@cython.final
cdef class Link(Connection):
    cdef readonly LinkOutput receiver
    cdef readonly Ledger ledger        # of its account's interest, None until it is live
    cdef Permissions accepts           # what may come; None: everything
    cdef public object remote          # leafnodes.peer.Peer: what is known of the other side
    cdef readonly Py_ssize_t most      # subjects that the other side may ask for, -1: any number
    cdef public str kind               # "nats" or "websocket"
    cdef Route last_route              # of the last message that may come and is mapped by nothing, or None
    cdef LinkSubscriptions subscriptions   # what the other side asks for, None until it is live

    cdef bint _goes_as_the_last(self, const Message* msg) noexcept
    cdef bint _is_let_in(self, const Message* msg) except -1
    cdef int _take_untraced(self, const Message* msg, list queues) except -1
    cdef int _take_traced(self, const Message* msg, list queues) except -1
    cdef int _follow(self, const Message* msg, list queues, object trace) except -1
    cdef bint _may_come(self, const Message* msg) except -1
    cdef int _refuse(self, str what, bytes subject) except -1
    cdef int _take(self, const Message* msg, list queues) except -1
    cdef int _take_delivery(self, const Message* msg, list queues, Py_ssize_t at) except -1
    cdef int _trace_message(self, const Message* msg) except -1
    cdef int _spend_on_message(self, int count, bint looked_up) except -1
