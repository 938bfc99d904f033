# cython: language_level=3
"""Who wants what (see subscription.pxd)."""
cimport cython

from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message


cdef class Receiver(TickTask):
    """Whoever can be given messages."""

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        raise NotImplementedError(type(self).__name__)

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        """The broker's own receivers have nothing to tell."""
        return 0 if trace.only else self.deliver(sub, None, msg)

    cdef bint is_behind(self, object waiter) except -1:
        return False


@cython.no_gc  # there may be a million of them: a full collection would stop the event loop for a second
cdef class Subscription:
    """`receiver` wants messages on `subject`, maybe as a member of `queue`."""


cdef class RouteSlot:
    """One subscription's place in a cached route."""
