"""A client connection: what the client says. Its other half, what others deliver to it, is ClientOutput."""
cimport cython
from jetbroker.auth.permissions cimport Permissions
from jetbroker.connections.connection cimport Connection
from jetbroker.connections.halves cimport ClientOutput
from jetbroker.connections.subscriptions cimport ClientSubscriptions
from jetbroker.routing.mapping cimport Mappings
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.subscription cimport Receiver, Subscription
from jetbroker.wire.message cimport Message


cpdef enum Stage:
    """How far a connection has come."""
    LOGIN_DUE = 0        # it has to log in
    SILENT = 1           # nobody asks for a login, and it has not said CONNECT
    LET_IN = 2           # it began without CONNECT, and is in as `no_auth_user`
    CONNECTED = 3        # its CONNECT was accepted
    LET_IN_GREETED = 4   # as these two, and its first PING was answered
    GREETED = 5


cpdef enum StageEvent:
    ACCEPTED = 0         # a CONNECT
    ADMITTED = 1         # without one
    PINGED = 2


# How a client is served: what its CONNECT asked for, and what makes its publishes need a closer look.
cdef enum:
    VERBOSE = 1
    PEDANTIC = 2
    NO_RESPONDERS = 4
    TRACED = 8                         # its traffic is logged
    MAPPED = 16                        # its account has mappings
    FOLLOWED = 32                      # the message at hand is traced, or its headers are changed: `followed`
    CLOSELY = PEDANTIC | TRACED | MAPPED


@cython.final
cdef class ClientProtocol(Connection):
    cdef readonly ClientOutput receiver   # its output, as its subscriptions deliver to it
    cdef public object account         # accounts.Account, None before it is known
    cdef readonly object identity      # connections.identity.Identity: who it is by its login
    cdef readonly Permissions permissions   # None: everything is allowed; set by _set_permissions
    cdef Mappings mappings             # of what it publishes in this read, None: there are none
    cdef int modes
    cdef readonly ClientOutput unheard  # its own output when it asked for no echo of what it publishes, else None
    cdef public str kind               # "nats" or "websocket"
    cdef public object upgrade         # connections.upgrade.Upgrade of a WebSocket, else None
    cdef readonly ClientSubscriptions subscriptions
    cdef Stage stage
    cdef public int protocol_level
    cdef Route last_route              # of a subject that may be published to, not reserved and not mapped
    cdef public str name
    cdef public str lang
    cdef public str version
    cdef public str proxy              # address:port of the proxy in front of it, "" when none told who the client is
    cdef object followed               # tracing.asked.Arrival of the message at hand, see FOLLOWED
    cdef public object arrival         # what goes before the first command (connections.listener), None once it may come

    cdef int _advance(self, StageEvent event) except -1
    cdef void _set_mode(self, int mode, bint on) noexcept
    cdef int _publish_closely(self, const Message* msg) except -1
    cdef int _publish_as(self, bytes subject, const Message* msg) except -1
    cdef int _publish_judged(self, const Message* msg) except -1
    cdef bint _may_publish(self, const Message* msg) except -1
    cdef bint _may_subscribe(self, bytes subject, bytes queue) except -1
    cdef bint _is_reserved(self, const Message* msg) except -1
    cdef bint _is_answer(self, const Message* msg) except -1
    cdef int _refuse_publish(self, const Message* msg) except -1
    cdef int _refuse(self, str text, str logged) except -1
    cdef int _refuse_reply(self, const Message* msg) except -1
    cdef int _refuse_subscription(self, bytes subject, bytes queue, bytes sid) except -1
    cdef int _set_permissions(self, Permissions permissions) except -1
    cdef int _look_at(self, Subscription sub) except -1
    cdef int _drop_subscriptions(self) except -1
    cdef int _nobody_took(self, const Message* msg) except -1
    cdef int _ok(self) except -1


# A message that may ask for a trace, from its arrival; and its delivery. Named here they are no part of the way of others:
# the compiler would put what is called once where it is called.
cdef int publish_followed(ClientProtocol client, const Message* msg) except -1
cdef int deliver_followed(ClientProtocol client, Receiver skip, const Message* msg) except -1
