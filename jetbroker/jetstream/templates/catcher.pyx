# cython: language_level=3, boundscheck=False, wraparound=False
"""Where a template hears of subjects that have no stream yet.

It gets every message of its subjects, also of those that have one: then it looks at nothing but its place in the route.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from jetbroker.jetstream.streams.stream cimport Stream
from jetbroker.routing.router cimport charge_publisher
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.tick cimport Tick
from jetbroker.wire.message cimport Message

from jetbroker import limits

cdef int CAUGHT_COST = limits.EVENT_UNITS


def stream_name(subject: bytes) -> str:
    """What nats-server calls the stream of a subject."""
    return subject.decode("utf-8", "surrogateescape").replace(".", "_")


cdef class Catcher(Receiver):
    """Gives `take(subject, reply, headers, payload)` the messages of subjects that have no stream.

    `streams` are the account's, by name. Subjects of servers and clients (`$…`, `_…`) only where the template names
    them: a wildcard must not make a stream of each inbox.
    """
    cdef Tick tick
    cdef dict streams
    cdef object take

    def __init__(self, Tick tick not None, dict streams not None, object take) -> None:
        self.tick = tick
        self.streams = streams
        self.take = take

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef const char* pattern = PyBytes_AS_STRING(sub.subject)
        cdef bytes subject
        cdef Stream stream
        if sub.closed:
            return 0
        if slot is not None and slot.cache is self:  # a stream's subject: a change of its streams makes a new route
            return 1
        if pattern[0] in (c'*', c'>') and msg.subject[0] in (c'$', c'_'):
            return 0
        subject = msg.subject[:msg.subject_len]
        stream = self.streams.get(stream_name(subject))
        if stream is not None:
            if slot is not None and subject in stream.subscriptions:
                slot.cache = self
            return 1
        charge_publisher(CAUGHT_COST)
        try:
            self.take(subject, msg.reply[:msg.reply_len] if msg.reply != NULL else None, msg.body[:msg.headers_len],
                      (msg.body + msg.headers_len)[:msg.body_len - msg.headers_len])
        except Exception as error:
            self.tick.report(self, error)
        return 1


def hand_over(Stream stream not None, bytes subject not None, list messages not None) -> None:
    """Give a stream that has just subscribed to `subject` what came before: (reply, headers, payload)."""
    cdef Subscription sub = stream.subscriptions[subject]
    cdef Message msg
    cdef bytes body, answer
    msg.subject = PyBytes_AS_STRING(subject)
    msg.subject_len = PyBytes_GET_SIZE(subject)
    msg.size_text = msg.tail = NULL
    msg.size_text_len = msg.tail_len = 0
    for reply, headers, payload in messages:
        answer = reply
        body = headers + payload
        msg.reply = NULL if answer is None else PyBytes_AS_STRING(answer)
        msg.reply_len = 0 if answer is None else PyBytes_GET_SIZE(answer)
        msg.body = PyBytes_AS_STRING(body)
        msg.headers_len = PyBytes_GET_SIZE(<bytes>headers)
        msg.body_len = PyBytes_GET_SIZE(body)
        stream.ingest.deliver(sub, None, &msg)
