"""Whether a consumer delivers what it could deliver."""
cimport cython
from libc.stdint cimport uint64_t

from jetbroker.jetstream.consumers.core cimport ConsumerCore, Delivery


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
