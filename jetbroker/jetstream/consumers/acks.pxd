"""Acks: what they say, and what a consumer makes of them."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.core cimport ConsumerAdvisories, ConsumerTurn, Delivery
from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.dead_letters cimport DeadLetters
from jetbroker.jetstream.consumers.tracker cimport AckTracker
from jetbroker.routing.subscription cimport Receiver

cdef enum AckKind:
    ACK_UNKNOWN = 0
    ACK_ACK = 1
    ACK_NAK = 2
    ACK_PROGRESS = 3
    ACK_NEXT = 4
    ACK_TERM = 5


cdef struct AckNumbers:
    uint64_t deliveries
    uint64_t stream_seq
    uint64_t consumer_seq


# From the tokens "<deliveries>.<stream seq>.<consumer seq>..." on. What is no number is beyond all numbers.
cdef int parse_ack_numbers(const char* p, Py_ssize_t n, AckNumbers* out) except -1
# The kind of an ack payload; rest[0:rest_len] is what follows the word (blanks stripped).
cdef AckKind parse_ack_kind(const char* p, Py_ssize_t n, const char** rest, Py_ssize_t* rest_len) noexcept nogil
# The delay of what follows "-NAK", ns; 0 when there is none or it is bad.
cdef int64_t parse_nak_delay(const char* p, Py_ssize_t n) except? -1


@cython.final
cdef class Acks:
    cdef AckTracker tracker
    cdef StreamCursor cursor
    cdef ConsumerTurn turn
    cdef ConsumerAdvisories advisories
    cdef DeadLetters letters           # None: there are none
    cdef public int sample_percent
    cdef readonly list replies                  # to be confirmed at the end of the turn
    # False: it is not confirmed, for nothing like it has been delivered.
    cdef bint take(self, AckKind kind, const AckNumbers* numbers, const char* rest, Py_ssize_t rest_len) except -1
    cdef int up_to(self, uint64_t seq, uint64_t cseq) except -1    # all up to there is acked
    # The reply waits for a dead letter.
    cdef bint owed_later(self, uint64_t seq, bytes reply) except -1
    cdef list take_replies(self)
    cdef bint _finish(self, const AckNumbers* numbers, bint sampled) except -1
    cdef bint _terminate(self, const AckNumbers* numbers, bytes reason) except -1
    cdef int _nak(self, const AckNumbers* numbers, const char* rest, Py_ssize_t rest_len) except -1
    cdef int _sample(self, const AckNumbers* numbers) except -1


cdef class AckReceiver(Receiver):
    cdef Acks acks                     # None: closed
    cdef Delivery delivery             # gets the requests that come with acks
    cdef Py_ssize_t prefix_len         # of the subject, in front of the numbers
