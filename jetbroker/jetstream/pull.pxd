"""Pull requests that wait for messages."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.routing.router cimport Route, Router
from jetbroker.tick cimport TickTask


cdef class WaitingRequest:
    cdef readonly bytes reply
    cdef Route route                   # of the reply subject; look it up again when stale
    cdef readonly int64_t left         # messages still wanted
    cdef readonly int64_t bytes_left   # of max_bytes
    cdef readonly bint bounded         # max_bytes was given
    cdef readonly bint no_wait
    cdef bint into_stream              # the reply subject is one of the stream's own: see ConsumerDelivery.prepare
    cdef readonly uint32_t delivered
    cdef int64_t expires_ns            # monotonic, 0: never
    cdef int64_t heartbeat_ns          # interval, 0: none
    cdef int64_t next_heartbeat_ns
    cdef WaitingRequest next

    cdef TickTask watcher              # told when the interest in the reply subject changes
    cdef bint wanted(self, Router router) except -1       # does anybody listen on the reply subject?
    cdef int release(self, Router router) except -1       # the request leaves the queue


cdef class WaitingQueue:
    """The ring of waiting requests: the head is served next."""
    cdef Router router
    cdef TickTask watcher
    cdef WaitingRequest head, tail
    cdef readonly Py_ssize_t count
    cdef readonly int64_t next_event_ns      # nothing expires and no heartbeat is due before; 0: nothing ever

    cdef int push(self, WaitingRequest request) except -1
    cdef WaitingRequest pop(self)
    cdef void append(self, WaitingRequest request) noexcept
    cdef WaitingRequest unlink(self)
    cdef void rotate(self) noexcept          # head to the end
    cdef void note_event(self, WaitingRequest request) noexcept
    # Take out what has expired (returned) and collect whose heartbeat is due; recomputes next_event_ns.
    cdef list take_expired(self, int64_t now_ns, list heartbeats)
    # Take out requests that ran into the end of the stream after at least one message, and asked not to wait.
    cdef list take_exhausted(self)
    cdef list take_unwanted(self, Router router)
    cdef list take_all(self)
    cdef int64_t wanted_messages(self) noexcept
    cdef list _take(self, set gone)
