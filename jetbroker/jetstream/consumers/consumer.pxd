"""The consumer: one consumer's life, its acks, and the turns in which its parts do their work."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.core cimport ConsumerAdvisories, ConsumerCore, ConsumerTurn, Delivery, Inactivity
from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.dead_letters cimport DeadLetters
from jetbroker.jetstream.consumers.state cimport StateWriter
from jetbroker.jetstream.consumers.tracker cimport AckTracker
from jetbroker.jetstream.models.interest cimport StreamConsumer
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
    cdef object log                    # Logger, None: nothing is told
    cdef str who                       # the consumer, as the log names it
    cdef public int sample_percent
    cdef readonly list replies                  # to be confirmed at the end of the turn
    cdef bint heard                    # since the last turn
    # False: it is not confirmed, for nothing like it has been delivered.
    cdef bint take(self, AckKind kind, const AckNumbers* numbers, const char* rest, Py_ssize_t rest_len) except -1
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


@cython.final
cdef class Vigil:
    cdef ConsumerCore core
    cdef Delivery delivery
    cdef uint64_t delivered            # consumer sequence at the last look
    cdef bint owed                     # it could have delivered something then

    # Could it deliver now and at the last look, and has not? `resting`: it must not deliver.
    cdef bint is_stalled(self, bint resting) except -1
    # What tells why, beside what info() shows.
    cdef dict describe(self)


cdef class Consumer(StreamConsumer):
    cdef readonly object stream
    cdef readonly object config            # ConsumerConfig
    cdef readonly str name
    cdef readonly int64_t created_ns       # wall clock
    cdef readonly bint running
    cdef public object on_inactive         # callback(consumer): inactive_threshold has passed
    cdef ConsumerTurn turn
    cdef ConsumerCore core
    cdef Acks acks
    cdef Delivery delivery
    cdef ConsumerAdvisories advisories
    cdef Inactivity idle
    cdef readonly DeadLetters letters
    cdef Vigil vigil
    cdef StateWriter writer
    cdef object search                     # for where it begins: see placing(); None: nothing is left to do
    cdef int64_t paused_until_ns           # wall clock; 0: not paused
    cdef dict subscriptions                # Subscription -> its receiver

    # Deliver nothing now: True while a pause lasts. Tells of its end.
    cdef bint _paused(self) except -1
    cdef int _settle(self) except -1
    cdef bint _settle_some(self) except -1
    cdef int _write_state(self) except -1
    cdef int _give_up_dead(self) except -1
    cdef int64_t _earliest(self) except? -1
