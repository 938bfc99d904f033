# cython: language_level=3, boundscheck=False, wraparound=False
"""A consumer's subscriptions: acks, pull requests, answers to flow control (see receivers.pxd)."""
from libc.string cimport memcmp

from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.routing.router cimport Receiver, RouteSlot, Subscription
from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message

from jetbroker import limits

cdef int ACK_UNITS = limits.JS_ACK_UNITS

cdef class ConsumerEvents(StreamConsumer):
    """Base of Consumer, so that the receivers need not know it."""

    cdef int on_ack(self, const char* numbers, Py_ssize_t n, const Message* msg) except -1:
        raise NotImplementedError

    cdef int on_request(self, const Message* msg) except -1:
        raise NotImplementedError

    cdef int on_flow_answer(self, const Message* msg) except -1:
        raise NotImplementedError

    cdef int on_interest_changed(self) except -1:
        raise NotImplementedError


cdef class ConsumerReceiver(Receiver):
    """Hands messages to one consumer until closed."""

    def __init__(self, ConsumerEvents consumer not None) -> None:
        self.consumer = consumer

    def close(self) -> None:
        """Take no message any more."""
        self.consumer = None


cdef class AckReceiver(ConsumerReceiver):
    """Acks in one of the two subject layouts."""

    def __init__(self, ConsumerEvents consumer not None, Py_ssize_t prefix_len) -> None:
        self.consumer = consumer
        self.prefix_len = prefix_len

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        if self.consumer is None:
            return 0
        self.consumer.on_ack(msg.subject + self.prefix_len, msg.subject_len - self.prefix_len, msg)
        return ACK_UNITS


cdef class RequestReceiver(ConsumerReceiver):
    """Pull requests."""

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        if self.consumer is None:
            return 0
        self.consumer.on_request(msg)
        return 1


cdef class FlowReceiver(ConsumerReceiver):
    """Answers to flow control requests."""

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        if self.consumer is None:
            return 0
        self.consumer.on_flow_answer(msg)
        return 1


cdef class InterestWatcher(TickTask):
    """Woken by the router when a watched route has changed."""

    def __init__(self, ConsumerEvents consumer not None) -> None:
        self.consumer = consumer

    def close(self) -> None:
        """Tell nobody any more."""
        self.consumer = None

    cdef int run_tick(self) except -1:
        return 0 if self.consumer is None else self.consumer.on_interest_changed()


cdef inline bint starts_with(const Message* msg, const char* prefix, Py_ssize_t n) noexcept nogil:
    return msg.subject_len >= n and memcmp(msg.subject, prefix, n) == 0


cdef class SilentReceiver(Receiver):
    """On `$JS.API.>`: with it a subject of the API never lacks a responder, as in nats-server.

    Pulls and direct gets are answered by consumers and streams themselves, and by 503 when there are none.
    """

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        return not (starts_with(msg, b"$JS.API.CONSUMER.MSG.NEXT.", 26) or starts_with(msg, b"$JS.API.DIRECT.GET.", 19))
