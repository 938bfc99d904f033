# cython: language_level=3, boundscheck=False, wraparound=False
"""Whether a consumer delivers what it could deliver (see vigil.pxd)."""
from libc.stdint cimport uint64_t

from jetbroker.jetstream.consumers.core cimport ConsumerCore, Delivery


cdef class Vigil:
    """Keeps what the last look has seen of one consumer."""

    def __init__(self, ConsumerCore core not None, Delivery delivery not None) -> None:
        self.core = core
        self.delivery = delivery

    cdef bint is_stalled(self, bint resting) except -1:
        cdef uint64_t delivered = self.core.tracker.delivered_cseq
        cdef bint owed_before = self.owed and delivered == self.delivered
        self.delivered = delivered
        self.owed = not resting and self.delivery.has_demand() and self.core.owes()
        return self.owed and owed_before

    cdef dict describe(self):
        return {
            "committed": self.core.log.committed,
            "last_seq": self.core.log.last_seq,
            "next_seq": self.core.cursor.next_seq,
            "redeliveries": self.core.tracker.redeliveries.size,
            "next_deadline_ns": self.core.tracker.pending.next_deadline() - self.core.turn.read(),
            "requests": len(self.delivery.requests),
            "looking_ahead": self.core.look_ahead.waiting,
        }
