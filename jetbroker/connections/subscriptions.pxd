"""The subscriptions of one client, by the sids that it chose."""
cimport cython

from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Subscription


@cython.final
cdef class ClientSubscriptions:
    cdef dict by_sid                   # sid -> Subscription, oldest first; None when there are none
    cdef public Py_ssize_t most        # there may be; negative: any number

    cdef Subscription find(self, bytes sid)
    cdef Py_ssize_t count(self) noexcept
    cdef bint full(self) noexcept
    cdef int add(self, Subscription sub) except -1
    # The sid is free again, if it still belongs to this subscription.
    cdef int release(self, Subscription sub) except -1
    cdef list list_all(self)
    # All of them; there are none afterwards.
    cdef list take_all(self)


# Take closed subscriptions out of the trie, as many as there is time for in one iteration of the event loop.
cpdef int retire(Router router, list gone, Py_ssize_t start) except -1
