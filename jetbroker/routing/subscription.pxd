"""Who wants what: a `Subscription` says that `receiver` wants messages on `subject`, maybe as a member of `queue`."""
from libc.stdint cimport uint64_t

from jetbroker.tick cimport TickTask
from jetbroker.wire.message cimport Message


# What deliver() answers when nobody takes a message, and somebody who is there may not have it.
cdef enum:
    WITHHELD = -2


cdef class Receiver(TickTask):
    """Whoever can be given messages: a client's output, a stream's ingest, an ack handler, an API service."""
    # Deliver one message.  `slot` is this subscription's place in a cached route, or None on one-off look-ups;
    # a receiver may keep what it has worked out for this literal subject in slot.cache.
    # Returns what this costs, 1 for most, when the message was taken, and 0 (a closed receiver) or WITHHELD when it was
    # not: a queue group then tries its next member.  Must not publish into the router it is called from, nor change any
    # subscriptions, before it returns; schedule a tick task for that. The receivers of accounts/ publish into the
    # routers of other accounts: they bound how deep that goes, and whoever stands behind any receiver may be called
    # for a second message while a first one is on its way to others.
    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1
    # The same for a message that is traced: `trace` (tracing.trace.MessageTrace) is told what becomes of it here. It is not
    # delivered if it is only traced, and what would be is answered.
    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1
    # Is it behind with what it was given? Then `waiter.go_on()` is called once it has caught up, or is gone.
    cdef bint is_behind(self, object waiter) except -1


cdef class Subscription:
    cdef readonly Receiver receiver
    cdef readonly bytes subject
    cdef readonly bytes queue          # None for a plain subscription
    cdef readonly bytes sid            # as the client chose it; b"" for internal ones
    cdef public uint64_t delivered
    cdef public uint64_t max_deliveries   # 0: no limit
    cdef readonly bint closed
    cdef readonly int weight           # members of the queue group that stand behind it, see Router.weigh; 1 for most
    cdef public bytes filter           # as its client subscribed: what this matches is judged one by one; None for most
    cdef public object shadows         # what stands for it in the accounts its account imports streams from


cdef class RouteSlot:
    cdef readonly Subscription sub
    cdef bytes prefix                  # b"MSG <subject> <sid> ", made by client outputs on first use
    cdef object cache                  # for the receiver's own use
