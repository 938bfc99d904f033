"""Pull: requests that wait for messages, which of them is next (priority groups), and how they get them."""
cimport cython
from libc.stdint cimport int64_t, uint32_t

from jetbroker.jetstream.consumers.core cimport ConsumerCore, Delivery
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.subscription cimport Receiver
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
    cdef Router asker                  # of the account that the request comes from, None: of the consumer's own
    cdef bytes inbox                   # who asks listens on it there
    cdef Route heard                   # of that inbox
    cdef readonly int64_t left         # messages still wanted
    cdef readonly int64_t bytes_left   # of max_bytes
    cdef readonly bint bounded         # max_bytes was given
    cdef readonly bint no_wait
    cdef bint leads_inside             # it may lead into the stream: see Envelope.fill
    cdef readonly uint32_t delivered
    cdef int64_t expires_ns            # monotonic, 0: never
    cdef int64_t heartbeat_ns          # interval, 0: none
    cdef int64_t next_heartbeat_ns
    cdef DueState due                  # as WaitingQueue.take_due found it
    cdef WaitingRequest next
    cdef GroupTerms terms              # None: it names no priority group
    cdef TickTask watcher              # told when the interest in the reply subject changes

    cdef int level(self) noexcept
    cdef bint wanted(self, Router router) except -1       # does anybody listen for what it is to get?
    cdef bint find_asker(self, Router router) except -1   # False: nobody waits for what it is to get any more
    cdef Route _look(self, Router router, bytes subject)
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


cdef enum Verdict:
    """On one request."""
    VERDICT_SERVE
    VERDICT_SKIP
    VERDICT_WRONG_PIN


cdef enum Choice:
    CHOICE_NOBODY              # all who wait have to wait on
    CHOICE_HEAD                # the head of the queue
    CHOICE_LATER               # the search goes on in a later turn
    CHOICE_AGAIN               # requests ended, and what they were told may have changed everything


cdef enum:
    STEPS_A_TURN = 16384       # requests looked at, a third of a millisecond


cdef class PriorityPolicy:
    cdef int64_t due_ns                # monotonic; run_timers() has something to do then; 0: never
    cdef Py_ssize_t skipped            # requests passed over in a row
    cdef list ended                    # (request, status line): taken out by choose()

    # Bring the request for the next message to the head. `again`: that message is a redelivery. Choice
    cdef int choose(self, WaitingQueue queue, ConsumerCore core, bint again, Py_ssize_t* steps) except -1
    cdef int _expired_or_left(self, WaitingQueue queue, WaitingRequest request, int64_t now_ns) except -1
    cdef list take_ended(self)

    # --- what each policy does in its way ---
    cdef int prepare(self, ConsumerCore core, bint again) except -1
    cdef int judge(self, WaitingRequest request) except -1             # Verdict
    cdef int missed(self, WaitingRequest request) except -1            # chosen, but the message did not go to it
    cdef bytes refusal(self, GroupTerms terms, int64_t now_ns)         # of a new request, None: it is taken
    cdef int run_timers(self, int64_t now_ns) except -1
    cdef int unpin(self) except -1
    cdef dict state(self)


@cython.final
cdef class OverflowPolicy(PriorityPolicy):
    cdef int64_t ahead, unacked


@cython.final
cdef class PinnedClientPolicy(PriorityPolicy):
    cdef ConsumerCore core
    cdef int64_t timeout_ns
    cdef str pin                       # "": nobody is pinned
    cdef str group                     # in which it was given
    cdef int64_t since_ns              # wall clock
    cdef WaitingRequest newcomer       # was given the pin

    cdef int _assign(self, WaitingRequest request) except -1
    cdef int _touch(self, int64_t now_ns) except -1


cdef PriorityPolicy policy_for(object config, PriorityPolicy before, ConsumerCore core)
cdef int tell_unpinned(ConsumerCore core, str group, str reason) except -1
cdef dict group_state(PriorityPolicy policy)           # its part of ConsumerInfo's priority_groups


@cython.final
cdef class PullDelivery(Delivery):
    cdef WaitingQueue waiting
    cdef PriorityPolicy priority       # None: whoever is next in the queue
    cdef object limits                 # PullLimits
    cdef bytes asked                   # the body of the last request, None: another one is not the same
    cdef object wanted                 # what it says (PullRequest)
    cdef int64_t max_waiting
    cdef bint swept                    # in this turn those whose requester has left have made room
    cdef int64_t asked_for             # then: the messages that all others wait for

    cdef WaitingRequest _next_request(self)
    cdef int _choose(self, bint again, Py_ssize_t* steps) except -1
    cdef int _serve(self, WaitingRequest request, Py_ssize_t size) except -1
    cdef int _end(self, WaitingRequest request, str line) except -1
    cdef int _end_exhausted(self) except -1
    cdef int _sweep(self) except -1
    cdef bytes _no_wait(self, bint expires)


cdef class SilentReceiver(Receiver):
    """Takes API requests that mean nothing, so that they are met with silence; not pulls and direct gets."""
