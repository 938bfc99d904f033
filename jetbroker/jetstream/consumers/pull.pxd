"""Pull: requests that wait for messages, and how they get them."""
cimport cython
from libc.stdint cimport int64_t

from jetbroker.jetstream.consumers.core cimport Delivery
from jetbroker.jetstream.consumers.priority cimport PriorityPolicy
from jetbroker.jetstream.consumers.waiting cimport WaitingQueue, WaitingRequest
from jetbroker.routing.subscription cimport Receiver
from jetbroker.store.log.stream_log cimport SubjectFilter


@cython.final
cdef class PullDelivery(Delivery):
    cdef WaitingQueue waiting
    cdef PriorityPolicy priority       # None: whoever is next in the queue
    cdef object limits                 # PullLimits
    cdef int64_t max_waiting
    cdef SubjectFilter own_subjects    # of the stream: a message that goes there is copied first

    cdef WaitingRequest _next_request(self)
    cdef int _choose(self, bint again, Py_ssize_t* steps) except -1
    cdef int _serve(self, WaitingRequest request, Py_ssize_t size) except -1
    cdef int _end(self, WaitingRequest request, str line) except -1
    cdef int _end_exhausted(self) except -1
    cdef bytes _no_wait(self, bint expires)


cdef class SilentReceiver(Receiver):
    """Takes API requests that mean nothing, so that they are met with silence; not pulls and direct gets."""
