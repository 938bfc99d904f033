"""The consumer: one consumer's life, and the turns in which its parts do their work."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.acks cimport Acks
from jetbroker.jetstream.consumers.core cimport ConsumerAdvisories, ConsumerCore, ConsumerTurn, Delivery, Inactivity
from jetbroker.jetstream.consumers.dead_letters cimport DeadLetters
from jetbroker.jetstream.consumers.state cimport StateWriter
from jetbroker.jetstream.models.interest cimport StreamConsumer


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
