"""Messages that are traced: the way of all others, through receivers that tell of it."""
from jetbroker.routing.links cimport LinkReceiver
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.subscription cimport Receiver, Subscription
from jetbroker.wire.message cimport Message


# As Router.publish and Router.publish_from_link. `trace`: see Receiver.deliver_traced.
cdef int publish_traced(Router router, Receiver skip, const Message* msg, object trace) except -1
cdef int publish_traced_from_link(Router router, LinkReceiver link, list queues, const Message* msg,
                                  object trace) except -1
# Give a message another header block; the caller keeps what is returned, for as long as the message is used.
cdef bytes with_block(Message* msg, bytes block)


cdef class TracedReceiver(Receiver):
    """Stands in the place of a subscription's receiver for one message."""
    cdef Subscription original
    cdef object trace


cdef class TracedLink(LinkReceiver):
    """The same of a link, or of what stands for it."""
    cdef LinkReceiver original
    cdef object trace
