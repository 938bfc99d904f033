"""What routing knows of links: connections to other servers, each with subscriptions of many who stand behind it."""
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.wire.message cimport Message


cdef class LinkReceiver(Receiver):
    """One link. However many of its subscriptions match, it gets a message once, with the queue groups that take it."""
    cdef public object cluster         # name of the peer's cluster: its links do not get each other's messages; or None
    cdef readonly bint ended           # its owner says so: it takes nothing any more

    # The link that is meant: itself, or the one that this stands for in another account's router.
    cdef LinkReceiver link(self)
    # Send one message once. `subject` None: msg.subject goes on the wire. Else it is where a consumer delivers to, and
    # msg.subject is the stored one. `queues`: the groups that shall take it, None for plain interest alone. Answers as
    # Receiver.deliver does.
    cdef int send(self, const Message* msg, bytes subject, list queues) except -1


cdef class Links:
    """Hears of each change of interest in an account: a router's `links`."""
    # After the change; the subscription's weight is what it counts for, and 0 where no link may be told of it.
    cdef int subscribed(self, Subscription sub) except -1
    cdef int unsubscribed(self, Subscription sub) except -1
    # Its weight was `before`.
    cdef int weighed(self, Subscription sub, int before) except -1
