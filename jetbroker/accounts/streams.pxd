"""Stream imports: what a subscription gets from the accounts that its own imports streams from."""
from jetbroker.routing.links cimport LinkReceiver
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.routing.transform cimport Transform
from jetbroker.wire.message cimport Message


# Say that what is published now came through a service import: it is not exported again as a part of a stream, as in
# nats-server. Returns what was said before.
cdef bint set_in_service(bint now) noexcept


cdef class ImportedSlot:
    """What a Shadow keeps in a cached route: the subject as the importer sees it, and the receiver's slot for that."""
    cdef bytes subject
    cdef RouteSlot slot


cdef class Shadow(Receiver):
    """Stands in the exporter's router for one subscription of the importer's."""
    cdef Router exporter
    cdef readonly Subscription original
    cdef Subscription own              # in the exporter's router: carries the original's sid and queue
    cdef Transform transform           # None: the subject is `local`, or stays when that is None too
    cdef bytes local
    cdef str importer                  # the account that is given the messages
    cdef bint traced                   # traces may tell of them there

    cdef ImportedSlot _remember(self, Subscription sub, const Message* msg)
    cdef bytes local_subject(self, const char* subject, Py_ssize_t n)


cdef class LinkShadow(LinkReceiver):
    """Stands there in the place of a Shadow for a subscription of a link's: the link gets a message once from there."""
    cdef Shadow shadow
