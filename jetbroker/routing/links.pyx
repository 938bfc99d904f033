# cython: language_level=3, boundscheck=False, wraparound=False
"""What routing knows of links (see links.pxd)."""
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.wire.message cimport Message


cdef class LinkReceiver(Receiver):
    """One link."""

    cdef LinkReceiver link(self):
        return self

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        """For one subscription, when no other one of the link can match."""
        return self.send(msg, None, None if sub.queue is None else [sub.queue])

    cdef int send(self, const Message* msg, bytes subject, list queues) except -1:
        raise NotImplementedError(type(self).__name__)


cdef class Links:
    """Hears of each change of interest in an account."""

    cdef int subscribed(self, Subscription sub) except -1:
        raise NotImplementedError(type(self).__name__)

    cdef int unsubscribed(self, Subscription sub) except -1:
        raise NotImplementedError(type(self).__name__)

    cdef int weighed(self, Subscription sub, int before) except -1:
        raise NotImplementedError(type(self).__name__)
