# cython: language_level=3, boundscheck=False, wraparound=False
"""What one link asks for (see subscriptions.pxd)."""
cimport cython

from jetbroker.connections.subscriptions cimport retire
from jetbroker.routing.links cimport MOST_MEMBERS, LinkReceiver
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Subscription


@cython.final
cdef class LinkSubscriptions:
    """Its subscriptions in the account's router."""

    def __init__(self, Router router not None, LinkReceiver link not None, Py_ssize_t most) -> None:
        self.router = router
        self.link = link
        self.most = most
        self.by_name = {}

    def __len__(self) -> int:
        return len(self.by_name)

    cpdef bint add(self, bytes subject, bytes queue, int weight) except -1:
        cdef bytes name = name_of(subject, queue)
        cdef Subscription sub = <Subscription>self.by_name.get(name)
        weight = max(1, min(weight, MOST_MEMBERS)) if queue is not None else 1
        if sub is not None:
            if sub.weight != weight:
                self.router.weigh(sub, weight)
            return True
        if 0 <= self.most <= len(self.by_name):
            return False
        self.by_name[name] = self.router.subscribe(self.link, subject, queue, b"", weight)
        return True

    cpdef int remove(self, bytes subject, bytes queue) except -1:
        sub = self.by_name.pop(name_of(subject, queue), None)
        return self.router.unsubscribe(<Subscription>sub) if sub is not None else 0

    cpdef bint knows(self, bytes subject, bytes queue) except -1:
        return name_of(subject, queue) in self.by_name

    cpdef list list_all(self):
        """Oldest first."""
        return list(self.by_name.values())

    cpdef int retire_all(self) except -1:
        cdef list gone = self.list_all()
        self.by_name = {}
        return retire(self.router, gone, 0)


cdef bytes name_of(bytes subject, bytes queue):
    return subject if queue is None else subject + b" " + queue
