"""Pull requests that wait for messages."""
cimport cython
from libc.stdint cimport int64_t, uint32_t

from jetbroker.routing.router cimport Route, Router
from jetbroker.tick cimport TickTask


cdef enum DueState:
    """What a request is to be told now."""
    DUE_NOTHING
    DUE_HEARTBEAT
    DUE_NO_MESSAGES
    DUE_TIMEOUT


cdef enum:
    LEVELS = 11                # of priority: 0 to 9, and the last one for requests that say none


@cython.final
cdef class GroupTerms:
    """What a pull request says of its priority group, which it names."""
    cdef readonly str group
    cdef public str pin                # the id of the pin it was told of, or that it was given; "": none
    cdef int64_t min_pending, min_ack_pending      # 0 or less: none
    cdef int level


@cython.final
cdef class WaitingRequest:
    cdef readonly bytes reply
    cdef Route route                   # of the reply subject; look it up again when stale
    cdef readonly int64_t left         # messages still wanted
    cdef readonly int64_t bytes_left   # of max_bytes
    cdef readonly bint bounded         # max_bytes was given
    cdef readonly bint no_wait
    cdef bint into_stream              # the reply subject is one of the stream's own: see Envelope.fill
    cdef readonly uint32_t delivered
    cdef int64_t expires_ns            # monotonic, 0: never
    cdef int64_t heartbeat_ns          # interval, 0: none
    cdef int64_t next_heartbeat_ns
    cdef DueState due                  # as WaitingQueue.take_due found it
    cdef WaitingRequest next
    cdef GroupTerms terms              # None: it names no priority group
    cdef TickTask watcher              # told when the interest in the reply subject changes

    cdef int level(self) noexcept
    cdef bint wanted(self, Router router) except -1       # does anybody listen on the reply subject?
    cdef bint exhausted(self) noexcept                    # asked not to wait, and has no more to expect
    cdef DueState state_at(self, int64_t now_ns, bint blocked) noexcept
    cdef int release(self, Router router) except -1       # the request leaves the queue


@cython.final
cdef class WaitingQueue:
    """The ring of waiting requests: the head is served next. With levels, the lower ones come first."""
    cdef Router router
    cdef TickTask watcher
    cdef WaitingRequest head, tail
    cdef list tails                          # the last request of each level; None: one line for all
    cdef readonly Py_ssize_t count
    cdef readonly int64_t next_event_ns      # nothing expires and no heartbeat is due before; 0: nothing ever

    cdef int push(self, WaitingRequest request) except -1
    cdef WaitingRequest pop(self)
    cdef void append(self, WaitingRequest request) noexcept
    cdef WaitingRequest unlink(self)
    cdef void rotate(self) noexcept          # head to the end, of its level where there are levels
    cdef int sort_by_level(self, bint wanted) except -1
    cdef void _insert(self, WaitingRequest request) noexcept
    cdef void note_event(self, WaitingRequest request) noexcept
    # When something is due by its time: all that are to be told something (WaitingRequest.due), in the queue's order.
    # While the consumer is `blocked` by max_ack_pending, those that asked not to wait end then too, as in nats-server.
    # Ended ones are taken out; recomputes next_event_ns.
    cdef list take_due(self, int64_t now_ns, bint blocked)
    cdef int _find_next_event(self) except -1
    # Take out requests that ran into the end of the stream, and asked not to wait.
    cdef list take_exhausted(self)
    cdef list take_unwanted(self, Router router)
    cdef list take_all(self)
    cdef int64_t wanted_messages(self) noexcept
    cdef list _take(self, set gone)
    cdef list _unlink_all(self)
