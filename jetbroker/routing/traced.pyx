# cython: language_level=3, boundscheck=False, wraparound=False
"""Messages that are traced (see traced.pxd).

A route of its own is made for each of them, and those it leads to are wrapped: who gets a message is decided in one
place, the router, which knows nothing of traces.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from jetbroker.routing.links cimport LinkGroup, LinkReceiver, LinkTarget
from jetbroker.routing.router cimport Route, Router, charge_publisher
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.wire.message cimport Message

from jetbroker import limits

cdef long EVENT_UNITS = limits.EVENT_UNITS


cdef class TracedReceiver(Receiver):
    """Has the receiver tell."""

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        charge_publisher(EVENT_UNITS)
        return self.original.receiver.deliver_traced(self.original, msg, self.trace)


cdef class TracedLink(LinkReceiver):
    """Has the link tell."""

    cdef int send(self, const Message* msg, bytes subject, list queues) except -1:
        charge_publisher(EVENT_UNITS)
        return self.original.send_traced(msg, subject, queues, self.trace)

    cdef bint withholds(self, bytes queue, const char* subject, Py_ssize_t n) except -1:
        return self.original.withholds(queue, subject, n)


cdef int wrap(list slots, object trace) except -1:
    cdef RouteSlot slot
    cdef TracedReceiver receiver
    cdef Subscription told
    for slot in slots:
        receiver = TracedReceiver.__new__(TracedReceiver)
        receiver.original = slot.sub
        receiver.trace = trace
        told = Subscription.__new__(Subscription)
        told.receiver = receiver
        told.subject = slot.sub.subject
        told.queue = slot.sub.queue
        slot.sub = told
    return 0


cdef Route traced_route(Router router, const Message* msg, object trace):
    cdef Route route = router._build(msg.subject, msg.subject_len)
    cdef LinkTarget target
    cdef LinkGroup group
    cdef TracedLink link
    wrap(route.plain, trace)
    for slots in route.queues or ():
        wrap(slots, trace)
    if route.links is not None:
        for target in route.links.targets:
            link = TracedLink.__new__(TracedLink)
            link.original = target.receiver
            link.trace = trace
            target.receiver = link
        for group in route.links.groups:
            if group.here is not None:
                wrap(group.here, trace)
    return route


cdef int publish_traced(Router router, Receiver skip, const Message* msg, object trace) except -1:
    if msg.subject_len == 0:  # lost in a mapping
        return 0
    return router.deliver(traced_route(router, msg, trace), skip, msg)


cdef int publish_traced_from_link(Router router, LinkReceiver link, list queues, const Message* msg,
                                  object trace) except -1:
    return router.deliver_from_link(link, queues, traced_route(router, msg, trace), msg)


cdef bytes with_block(Message* msg, bytes block):
    cdef bytes body = block + msg.body[msg.headers_len:msg.body_len]
    msg.body = PyBytes_AS_STRING(body)
    msg.body_len = PyBytes_GET_SIZE(body)
    msg.headers_len = PyBytes_GET_SIZE(block)
    msg.size_text = NULL
    msg.size_text_len = 0
    msg.tail = NULL
    msg.tail_len = 0
    return body
