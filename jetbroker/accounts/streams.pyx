# cython: language_level=3, boundscheck=False, wraparound=False
"""Stream imports (see streams.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from jetbroker.routing.links cimport LinkReceiver
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.routing.transform cimport Transform, fits_source
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard

cdef bint in_service = False


cdef bint set_in_service(bint now) noexcept:
    global in_service
    cdef bint before = in_service
    in_service = now
    return before


cdef class ImportedSlot:
    """What a Shadow keeps in a cached route."""


cdef class Shadow(Receiver):
    """Stands in the exporter's router for one subscription of the importer's."""

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef Receiver receiver = self.original.receiver
        cdef ImportedSlot known = None
        cdef Message local
        cdef bytes subject
        if sub.closed or self.original.closed or in_service:
            return 0
        sub.filter = self.original.filter
        if self.exporter.sending is not None:
            # a consumer's delivery: it shows the stored subject, which is nobody's to rewrite
            return receiver.deliver(sub, None, msg)
        if slot is None:
            subject = self.local_subject(msg.subject, msg.subject_len)
        else:
            if slot.cache is None:
                slot.cache = self._remember(sub, msg)
            known = <ImportedSlot>slot.cache
            subject = known.subject
        local = msg[0]
        local.subject = PyBytes_AS_STRING(subject)
        local.subject_len = PyBytes_GET_SIZE(subject)
        return receiver.deliver(sub, known.slot if known is not None else None, &local)

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        cdef Message local = msg[0]
        cdef bytes subject
        if sub.closed or self.original.closed or in_service:
            return 0
        sub.filter = self.original.filter
        subject = self.local_subject(msg.subject, msg.subject_len)
        trace.exported(self.importer, subject)
        local.subject = PyBytes_AS_STRING(subject)
        local.subject_len = PyBytes_GET_SIZE(subject)
        if self.traced:
            return self.original.receiver.deliver_traced(sub, &local, trace)
        return 1 if trace.only else self.original.receiver.deliver(sub, None, &local)

    cdef bint is_behind(self, object waiter) except -1:
        return self.original.receiver.is_behind(waiter)

    cdef ImportedSlot _remember(self, Subscription sub, const Message* msg):
        cdef ImportedSlot known = ImportedSlot.__new__(ImportedSlot)
        known.subject = self.local_subject(msg.subject, msg.subject_len)
        known.slot = RouteSlot.__new__(RouteSlot)
        known.slot.sub = sub
        return known

    cdef bytes local_subject(self, const char* subject, Py_ssize_t n):
        if self.transform is not None:
            return self.transform.map(subject, n)
        if self.local is not None:
            return self.local
        return PyBytes_FromStringAndSize(subject, n)


cdef class LinkShadow(LinkReceiver):
    """Stands there in the place of a Shadow for a subscription of a link's.

    Links get what came through a service, too, as in nats-server; and the delivery subject is rewritten, not the stored
    one: it decides who gets the message at the other end.
    """

    cdef LinkReceiver link(self):
        return <LinkReceiver>self.shadow.original.receiver

    cdef bint is_behind(self, object waiter) except -1:
        return self.shadow.is_behind(waiter)

    cdef int send(self, const Message* msg, bytes subject, list queues) except -1:
        cdef Subscription original = self.shadow.original
        cdef LinkReceiver link = <LinkReceiver>original.receiver
        cdef Message local
        if original.closed:
            return 0
        if subject is not None:
            subject = self.shadow.local_subject(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
            return link.send(msg, subject, queues)
        subject = self.shadow.local_subject(msg.subject, msg.subject_len)
        local = msg[0]
        local.subject = PyBytes_AS_STRING(subject)
        local.subject_len = PyBytes_GET_SIZE(subject)
        return link.send(&local, None, queues)

    cdef int send_traced(self, const Message* msg, bytes subject, list queues, object trace) except -1:
        """What a client or a link publishes: nothing that a consumer delivers is traced."""
        cdef Message local = msg[0]
        cdef bytes shown
        if self.shadow.original.closed:
            return 0
        shown = self.shadow.local_subject(msg.subject, msg.subject_len)
        local.subject = PyBytes_AS_STRING(shown)
        local.subject_len = PyBytes_GET_SIZE(shown)
        return (<LinkReceiver>self.shadow.original.receiver).send_traced(&local, subject, queues, trace)

    cdef bint withholds(self, bytes queue, const char* subject, Py_ssize_t n) except -1:
        cdef bytes local = self.shadow.local_subject(subject, n)
        return self.link().withholds(queue, PyBytes_AS_STRING(local), PyBytes_GET_SIZE(local))


def add_shadow(Router exporter not None, Subscription original not None, bytes subject not None,
               object stream, str importer not None) -> Shadow:
    """Put a shadow for `original` into the exporter's router; remove_shadow() takes it back. `importer`: its account."""
    cdef Shadow shadow = Shadow.__new__(Shadow)
    cdef LinkShadow of_link
    cdef Receiver receiver = shadow
    shadow.exporter = exporter
    shadow.original = original
    shadow.importer = importer
    shadow.traced = stream.traced
    shadow.transform = stream.transform
    if stream.transform is None and not is_pattern(stream.subject):
        shadow.local = stream.local
    if isinstance(original.receiver, LinkReceiver):
        receiver = of_link = LinkShadow.__new__(LinkShadow)
        of_link.shadow = shadow
    shadow.own = exporter.subscribe(receiver, subject, original.queue, original.sid, original.weight)
    return shadow


def weigh_shadow(Shadow shadow not None) -> None:
    """The weight of the subscription it stands for has changed."""
    shadow.exporter.weigh(shadow.own, shadow.original.weight)


def remove_shadow(Shadow shadow not None) -> None:
    """Take its subscription back. Nobody asks it any more: Python does not collect cycles through subscriptions."""
    shadow.exporter.unsubscribe(shadow.own)
    shadow.own = None


def shadow_subject(bytes subscribed not None, object stream) -> bytes | None:
    """What to subscribe to in the exporter's account for a local subscription; None: it gets nothing from there."""
    cdef Transform undo = stream.undo
    cdef bytes local = stream.local
    cdef bytes narrowed
    if subscribed == local:
        return stream.subject
    if is_subset(subscribed, local):
        narrowed = subscribed
    elif not is_pattern(subscribed):
        return None
    elif is_subset(local, subscribed):
        return stream.subject
    else:
        narrowed = narrow(subscribed, local)
        if not is_subset(narrowed, local):
            return None
    if undo is not None:
        return undo.map(PyBytes_AS_STRING(narrowed), PyBytes_GET_SIZE(narrowed))
    if stream.transform is not None:
        return None  # what it makes of subjects has wildcards in it: nothing narrower can match
    # without a transform either both are the same, or the exporter's is a literal
    return narrowed if stream.subject == local else stream.subject


cdef bytes narrow(bytes subscribed, bytes local):
    """The subscription with its wildcards filled from the import, where that is more definite."""
    cdef list tokens = subscribed.split(b".")
    cdef list own = local.split(b".")
    cdef Py_ssize_t i, last
    for i in range(min(len(tokens), len(own))):
        if tokens[i] == b"*" and own[i] != b">":
            tokens[i] = own[i]
    last = len(tokens) - 1
    if tokens[last] == b">" and len(own) >= len(tokens):
        tokens[last:] = own[last:]
    return b".".join(tokens)


cdef bint is_subset(bytes subject, bytes pattern) except -1:
    """A wildcard of the subject fits only a wildcard of the pattern, as a token of a published subject would."""
    return fits_source(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject),
                       PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern))


cdef bint is_pattern(bytes subject) except -1:
    return has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
