"""Priority groups: which of the waiting requests the next message goes to."""
cimport cython
from libc.stdint cimport int64_t

from jetbroker.jetstream.consumers.core cimport ConsumerCore
from jetbroker.jetstream.consumers.waiting cimport GroupTerms, WaitingQueue, WaitingRequest


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
