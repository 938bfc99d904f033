# cython: language_level=3
"""Links that keep what goes over them, and the calls of a router that only Cython can make."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from jetbroker.routing.links cimport LinkReceiver
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.wire.message cimport Message


cdef class RecordingLink(LinkReceiver):
    """`sent`: (subject on the wire, the stored subject of a consumer's delivery, queues) of each message.

    `replies`: their reply subjects.
    """
    cdef public list sent
    cdef public list replies
    cdef public int answer

    def __init__(self, cluster=None):
        self.sent = []
        self.replies = []
        self.answer = 1
        self.cluster = cluster

    def end(self):
        self.ended = True

    cdef int send(self, const Message* msg, bytes subject, list queues) except -1:
        own = msg.subject[:msg.subject_len]
        self.replies.append(msg.reply[:msg.reply_len])
        self.sent.append((own, None, queues) if subject is None else (subject, own, queues))
        return self.answer


cdef class RecordingReceiver(Receiver):
    """`got`: the subscription and the subject of each message."""
    cdef public list got
    cdef public int answer

    def __init__(self):
        self.got = []
        self.answer = 1

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        if self.answer > 0:
            self.got.append((sub, msg.subject[:msg.subject_len]))
        return self.answer


cdef Message message(bytes subject, bytes reply=None):
    cdef Message msg
    msg.subject = PyBytes_AS_STRING(subject)
    msg.subject_len = PyBytes_GET_SIZE(subject)
    msg.reply = msg.size_text = msg.tail = NULL
    msg.reply_len = msg.size_text_len = msg.tail_len = 0
    if reply is not None:
        msg.reply = PyBytes_AS_STRING(reply)
        msg.reply_len = PyBytes_GET_SIZE(reply)
    msg.body = b"x"
    msg.headers_len = 0
    msg.body_len = 1
    return msg


def publish(Router router, Receiver skip, bytes subject):
    cdef Message msg = message(subject)
    return router.publish(skip, &msg)


def publish_from_link(Router router, LinkReceiver link, list queues, bytes subject, bytes reply=None):
    cdef Message msg = message(subject, reply)
    return router.publish_from_link(link, queues, &msg)


def deliver_once(Router router, Receiver skip, bytes subject):
    cdef Message msg = message(subject)
    return router.deliver_once(skip, &msg)


def send(Router router, bytes target, bytes stored):
    """As a consumer: to whoever wants `target`."""
    cdef Message msg = message(stored)
    return router.send(router.route(PyBytes_AS_STRING(target), PyBytes_GET_SIZE(target)), &msg)


def reaches(Router router, bytes subject):
    """Does anybody get it, and does anybody ask for just this subject?"""
    cdef Route route = router.route(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
    return bool(route.reaches()), bool(route.has_listener())
