"""The consumer: one consumer's life, and the turns in which its parts do their work."""
from libc.stdint cimport int64_t

from jetbroker.jetstream.consumers.acks cimport Acks
from jetbroker.jetstream.consumers.core cimport ConsumerAdvisories, ConsumerCore, ConsumerTurn, Delivery, Inactivity
from jetbroker.jetstream.consumers.dead_letters cimport DeadLetters
from jetbroker.jetstream.consumers.state cimport StateWriter
from jetbroker.jetstream.consumers.vigil cimport Vigil
from jetbroker.jetstream.models.interest cimport StreamConsumer


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
