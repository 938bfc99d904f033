"""The consumer engine: one consumer's life, timers, requests and state around its delivery."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.delivery cimport ConsumerDelivery


cdef class Consumer(ConsumerDelivery):
    cdef uint64_t reset_to                 # where the last reset made it begin, 0: none did
    cdef object search                     # for where it begins: see placing(); None: nothing is left to do
    cdef int deliver_all(self) except -1
    cdef int take_requests(self) except -1
    # Deliver nothing now: True while a pause lasts. Tells of its end.
    cdef bint paused(self) except -1
    cdef int stay_paused(self) except -1
    cdef int run_timers(self) except -1
    cdef int settle(self) except -1
    cdef bint settle_some(self) except -1
    cdef int write_state(self) except -1
    cdef int arm_timer(self) except -1
    cdef int64_t earliest(self) except? -1
