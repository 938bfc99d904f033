"""What routing knows of links: connections to other servers, each with subscriptions of many who stand behind it."""
from libc.stdint cimport uint64_t

from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.wire.message cimport Message


cdef enum:
    MOST_MEMBERS = 999_999_999         # of a queue group that stand behind a link: peers read no number with more digits


cdef class LinkReceiver(Receiver):
    """One link. However many of its subscriptions match, it gets a message once, with the queue groups that take it."""
    cdef public object cluster         # name of the peer's cluster: its links do not get each other's messages; or None
    cdef public bint is_spoke          # this server is the spoke of the link, the other one the hub
    cdef readonly bint ended           # its owner says so: no queue group chooses it any more
    cdef bint withholding              # some queue groups behind it may not get all that others may

    # The link that is meant: itself, or the one that this stands for in another account's router.
    cdef LinkReceiver link(self)
    # Send one message once. `subject` None: msg.subject goes on the wire. Else it is where a consumer delivers to, and
    # msg.subject is the stored one. `queues`: the groups that shall take it, None for plain interest alone. Answers as
    # Receiver.deliver does.
    cdef int send(self, const Message* msg, bytes subject, list queues) except -1
    # The same for a message that is traced. The server at the other end gets it also when it is only traced.
    cdef int send_traced(self, const Message* msg, bytes subject, list queues, object trace) except -1
    # Must this queue group not get the subject, although others behind the link may? Asked where it is `withholding`.
    cdef bint withholds(self, bytes queue, const char* subject, Py_ssize_t n) except -1


cdef class Links:
    """Hears of each change of interest in an account: a router's `links`."""
    # After the change; the subscription's weight is what it counts for, and 0 where no link may be told of it.
    cdef int subscribed(self, Subscription sub) except -1
    cdef int unsubscribed(self, Subscription sub) except -1
    # Its weight was `before`.
    cdef int weighed(self, Subscription sub, int before) except -1


cdef inline bint is_links(Subscription sub) noexcept:
    """Does it belong to a link?"""
    return isinstance(sub.receiver, LinkReceiver)


# May a message go over `link`? `source` is the link that it came over, or None.
cdef bint passes(LinkReceiver link, LinkReceiver source) except -1
# Those of these plain subscriptions that get a message, which is once for each link. None: that takes a route.
cdef list once_per_link(list subs)


cdef class LinkTarget:
    """One link among those who get a subject."""
    cdef LinkReceiver receiver         # the link, or what stands for it in this router
    cdef LinkReceiver link
    cdef bint plain                    # by a plain subscription, not only in queue groups
    cdef bint literal                  # a plain one to just this subject


cdef class LinkMember:
    """A link's subscription as a member of a queue group; its weight may change."""
    cdef Subscription sub
    cdef LinkTarget target

    # See LinkReceiver.withholds; `subject` as of its send.
    cdef bint is_denied(self, const Message* msg, bytes subject) except -1


cdef class LinkGroup:
    """A queue group with members behind links: those of this server come first."""
    cdef bytes queue
    cdef list here                     # [RouteSlot], None when there are none
    cdef list members                  # [LinkMember]

    # A member by weight, `random` decides; None when no link may get a message from `source`.
    cdef LinkMember draw(self, LinkReceiver source, uint64_t random)


cdef class LinkRoute:
    """The links that get a subject: the part of a Route that most of them do not have."""
    cdef list targets                  # [LinkTarget]
    cdef list groups                   # [LinkGroup]
    cdef int cost                      # of drawing from many members, in units of about 50 ns; 0 for few
    cdef dict targets_by_link          # while it is made
    cdef dict groups_by_queue

    cdef LinkTarget target(self, Subscription sub)
    cdef int add(self, Subscription sub, bytes subject) except -1
    # Everything is added: takes the groups it needs out of `groups` (queue: [RouteSlot]).
    cdef int complete(self, dict groups) except -1
    cdef bint has_listener(self) noexcept
    cdef bint is_behind(self, object waiter) except -1
