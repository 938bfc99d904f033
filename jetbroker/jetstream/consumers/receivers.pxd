"""A consumer's subscriptions: acks, pull requests, answers to flow control."""
from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.routing.router cimport Receiver
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message


cdef class ConsumerEvents(StreamConsumer):
    """What the receivers call, while the message that caused it is still being delivered."""
    # `numbers` is the ack subject from the delivered count on.
    cdef int on_ack(self, const char* numbers, Py_ssize_t n, const Message* msg) except -1
    cdef int on_request(self, const Message* msg) except -1
    cdef int on_flow_answer(self, const Message* msg) except -1
    # Somebody came to, or left, a subject this consumer delivers to.
    cdef int on_interest_changed(self) except -1


cdef class ConsumerReceiver(Receiver):
    cdef ConsumerEvents consumer       # None: closed


cdef class AckReceiver(ConsumerReceiver):
    """One per layout: the part in front of the numbers has a fixed length in each."""
    cdef Py_ssize_t prefix_len


cdef class RequestReceiver(ConsumerReceiver):
    pass


cdef class FlowReceiver(ConsumerReceiver):
    pass


cdef class InterestWatcher(TickTask):
    cdef ConsumerEvents consumer       # None: closed


cdef class SilentReceiver(Receiver):
    """Takes API requests that mean nothing, so that they are met with silence; not pulls and direct gets."""
