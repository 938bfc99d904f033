# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What routing knows of links (see links.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t

from jetbroker.routing.subscription cimport WITHHELD, Receiver, RouteSlot, Subscription
from jetbroker.wire.message cimport Message

cdef enum:
    DRAW_UNITS = 2                     # a member that may be drawn, in units of about 50 ns
    FEW_DRAWS_UNITS = 16               # part of what each message costs


cdef class LinkReceiver(Receiver):
    """One link."""

    cdef LinkReceiver link(self):
        return self

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        """For one subscription, when no other one of the link can match."""
        if sub.queue is None:
            return self.send(msg, None, None)
        if self.link().withholding and self.withholds(sub.queue, msg.subject, msg.subject_len):
            return WITHHELD
        return self.send(msg, None, [sub.queue])

    cdef int send(self, const Message* msg, bytes subject, list queues) except -1:
        raise NotImplementedError(type(self).__name__)

    cdef int send_traced(self, const Message* msg, bytes subject, list queues, object trace) except -1:
        raise NotImplementedError(type(self).__name__)

    cdef bint withholds(self, bytes queue, const char* subject, Py_ssize_t n) except -1:
        raise NotImplementedError(type(self).__name__)


cdef class Links:
    """Hears of each change of interest in an account."""

    cdef int subscribed(self, Subscription sub) except -1:
        raise NotImplementedError(type(self).__name__)

    cdef int unsubscribed(self, Subscription sub) except -1:
        raise NotImplementedError(type(self).__name__)

    cdef int weighed(self, Subscription sub, int before) except -1:
        raise NotImplementedError(type(self).__name__)


cdef bint passes(LinkReceiver link, LinkReceiver source) except -1:
    if link.ended:
        return False
    if source is None:
        return True
    return link is not source and (source.cluster is None or source.cluster != link.cluster)


cdef list once_per_link(list subs):
    cdef list kept = []
    cdef set seen = set()
    cdef Subscription sub
    cdef LinkReceiver receiver
    for sub in subs:
        if is_links(sub):
            receiver = <LinkReceiver>sub.receiver
            if receiver.link() is not receiver:
                return None
            if receiver in seen:
                continue
            seen.add(receiver)
        kept.append(sub)
    return kept


cdef class LinkTarget:
    """One link among those who get a subject."""


cdef class LinkMember:
    """A link's subscription as a member of a queue group."""

    cdef bint is_denied(self, const Message* msg, bytes subject) except -1:
        cdef LinkReceiver receiver = self.target.receiver
        if subject is None:
            return receiver.withholds(self.sub.queue, msg.subject, msg.subject_len)
        return receiver.withholds(self.sub.queue, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))


cdef class LinkGroup:
    """A queue group with members behind links."""

    cdef LinkMember draw(self, LinkReceiver source, uint64_t random):
        cdef LinkMember member
        cdef uint64_t total = 0
        cdef uint64_t point
        for member in self.members:
            if passes(member.target.link, source):
                total += max(member.sub.weight, 1)
        if total == 0:
            return None
        point = random % total
        for member in self.members:
            if passes(member.target.link, source):
                if point < <uint64_t>max(member.sub.weight, 1):
                    return member
                point -= max(member.sub.weight, 1)
        return None


cdef class LinkRoute:
    """The links that get a subject."""

    def __init__(self) -> None:
        self.targets = []
        self.groups = []
        self.targets_by_link = {}
        self.groups_by_queue = {}

    cdef LinkTarget target(self, Subscription sub):
        """That of the subscription's link; the first one that matches stands for the others."""
        cdef LinkReceiver link = (<LinkReceiver>sub.receiver).link()
        cdef LinkTarget target = <LinkTarget>self.targets_by_link.get(link)
        if target is None:
            target = LinkTarget.__new__(LinkTarget)
            target.receiver = <LinkReceiver>sub.receiver
            target.link = link
            self.targets_by_link[link] = target
            self.targets.append(target)
        return target

    cdef int add(self, Subscription sub, bytes subject) except -1:
        cdef LinkTarget target = self.target(sub)
        cdef LinkMember member
        cdef LinkGroup group
        if sub.queue is None:
            target.plain = True
            target.literal = target.literal or sub.subject == subject
            return 0
        group = <LinkGroup>self.groups_by_queue.get(sub.queue)
        if group is None:
            group = LinkGroup.__new__(LinkGroup)
            group.queue = sub.queue
            group.members = []
            self.groups_by_queue[sub.queue] = group
            self.groups.append(group)
        member = LinkMember.__new__(LinkMember)
        member.sub = sub
        member.target = target
        group.members.append(member)
        return 0

    cdef int complete(self, dict groups) except -1:
        cdef LinkGroup group
        for group in self.groups:
            group.here = groups.pop(group.queue, None)
            self.cost += len(group.members) * DRAW_UNITS
        self.cost = max(self.cost - FEW_DRAWS_UNITS, 0)
        self.targets_by_link = None
        self.groups_by_queue = None
        return 0

    cdef bint has_listener(self) noexcept:
        """Does a plain subscription ask for just this subject?"""
        cdef LinkTarget target
        for target in self.targets:
            if target.literal:
                return True
        return False

    cdef bint is_behind(self, object waiter) except -1:
        """Is every link behind over which a plain subscription asks for just this subject?"""
        cdef LinkTarget target
        for target in self.targets:
            if target.literal and not target.receiver.is_behind(waiter):
                return False
        return True
