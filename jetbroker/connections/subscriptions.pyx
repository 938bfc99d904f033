# cython: language_level=3, boundscheck=False, wraparound=False
"""The subscriptions of one client (see subscriptions.pxd)."""
cimport cython
from cpython.dict cimport PyDict_Size
from libc.stdint cimport int64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Subscription

from jetbroker import limits

cdef int64_t RETIRE_NS = limits.RETIRE_NS


@cython.final
cdef class ClientSubscriptions:
    """By sid."""

    def __len__(self) -> int:
        return self.count()

    cdef Py_ssize_t count(self) noexcept:
        return 0 if self.by_sid is None else PyDict_Size(self.by_sid)

    cdef Subscription find(self, bytes sid):
        return None if self.by_sid is None else <Subscription>self.by_sid.get(sid)

    cdef bint full(self) noexcept:
        return 0 <= self.most <= self.count()

    cdef int add(self, Subscription sub) except -1:
        if self.by_sid is None:
            self.by_sid = {}
        self.by_sid[sub.sid] = sub
        return 0

    cdef int release(self, Subscription sub) except -1:
        if self.find(sub.sid) is sub:
            del self.by_sid[sub.sid]
        return 0

    cdef list list_all(self):
        return [] if self.by_sid is None else list(self.by_sid.values())

    cdef list take_all(self):
        cdef list taken = self.list_all()
        self.by_sid = None
        return taken


cpdef int retire(Router router, list gone, Py_ssize_t start) except -1:
    cdef Py_ssize_t i
    cdef int64_t end = monotonic_ns() + RETIRE_NS
    for i in range(start, len(gone)):
        router.unsubscribe(<Subscription>gone[i])
        if monotonic_ns() > end:
            router.tick.loop.call_soon(retire, router, gone, i + 1)
            return 0
    return 0
