"""What one link asks for."""
cimport cython

from jetbroker.routing.links cimport LinkReceiver
from jetbroker.routing.router cimport Router


@cython.final
cdef class LinkSubscriptions:
    """Its subscriptions in the account's router, by subject and queue group."""
    cdef Router router
    cdef LinkReceiver link
    cdef public Py_ssize_t most        # negative: no limit
    cdef dict by_name                  # "subject" or "subject queue": Subscription

    # LS+; asked again, a group has another number of members. False: it has asked for too much already.
    cpdef bint add(self, bytes subject, bytes queue, int weight) except -1
    # LS-; harmless for what it did not ask for.
    cpdef int remove(self, bytes subject, bytes queue) except -1
    cpdef bint knows(self, bytes subject, bytes queue) except -1
    cpdef list list_all(self)
    # The link is gone: all of them go, in turns when they are many.
    cpdef int retire_all(self) except -1


# What it asks for as one word.
cdef bytes name_of(bytes subject, bytes queue)
