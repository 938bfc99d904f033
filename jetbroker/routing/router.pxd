"""Interest and delivery for one account.

A `Route` is the result of matching one literal subject, kept in a bounded cache.  `Router.publish` is the hot path.
"""
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.routing.links cimport LinkReceiver, LinkRoute, Links
from jetbroker.routing.mapping cimport Mappings
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.slots cimport Slots
from jetbroker.tick cimport Tick, TickTask
from jetbroker.wire.message cimport Message


# Whose input is being handled: a connection says so before it parses and takes it back (None) after.
cdef void set_origin(object origin) noexcept
# What a message costs beyond its delivery is taken from the turn of the client that publishes it, if one does.
cdef int charge_publisher(long units) except -1
# The same, asked: the connection, or None for messages of the broker itself.
cdef object get_origin()


cdef class Route:
    """Who gets a literal subject.  Check `stale` before reusing a kept route; look it up again when set."""
    cdef readonly bytes subject
    cdef uint64_t hash
    cdef readonly bint stale
    cdef bint parts                    # there are queues or links
    cdef list plain                    # list[RouteSlot]
    cdef list queues                   # list[list[RouteSlot]], None when there are none
    cdef LinkRoute links               # and which links, with the queue groups of those; None for most
    cdef uint32_t place                # in the router's list of all cached routes
    cdef Py_ssize_t receivers          # RouteSlots in `plain` and `queues`
    cdef list watchers                 # TickTasks to wake when this route goes stale, None when there are none

    # Does anybody get it?
    cdef bint reaches(self) noexcept
    # Is one of those the broker itself, which may store a message while it is delivered to it?
    cdef bint leads_inside(self) except -1
    # Does somebody outside of queue groups ask for just this subject?
    cdef bint has_listener(self) except -1
    # Is everybody behind who asks for just this subject, or is in this queue group? See Receiver.is_behind.
    cdef bint is_behind(self, bytes group, object waiter) except -1


cdef struct CachedRoute:
    uint32_t first                     # hash of its first token
    PyObject* route                    # borrowed: the table holds it


cdef class PrefixRoute:
    """Who gets the subjects below a prefix, of those that no Route is made for: `_INBOX.<id>.`,
    `$JS.ACK.<stream>.<consumer>.`, or all but the last token of a subject that is new while the cache is full."""
    cdef bytes prefix
    cdef int rest                      # tokens behind the prefix
    cdef list subs                     # [Subscription], None: cannot be said for all of them
    cdef uint64_t generation


cdef class Router:
    cdef readonly str account_name
    cdef public Mappings mappings      # of what clients publish; None: there are none
    cdef public Mappings domain        # of the names JetStream has by its domain, behind those; None: there are none
    cdef public object imports         # accounts.Imports: streams and services of other accounts, None: none
    cdef public object traces          # config.TraceOptions: where messages with a traceparent are traced to; None: nowhere
    cdef public Links links            # hears of each change of interest, None: no links to other servers
    cdef public object jetstream       # the account's JetStream, None when it has none
    cdef readonly Tick tick
    cdef object sublist                # the trie (routing/sublist.pyx)
    cdef Slots routes                  # of Route, by the hash of the subject: one that is not there costs one look
    cdef readonly uint32_t route_count
    cdef readonly Py_ssize_t receivers  # of all of them together
    cdef CachedRoute* cached           # all of them, close together: what a wildcard subscription looks through
    cdef uint32_t cached_capacity
    cdef uint32_t clock_hand           # where eviction goes on
    cdef uint64_t random_state
    cdef readonly uint64_t generation  # grows with every change of interest: subscriptions made and taken back
    cdef readonly uint64_t builds      # routes worked out because the cache did not hold them
    cdef list replies                  # PrefixRoute or None, direct mapped: of subjects that are used once
    cdef list parents                  # the same of those without a route
    cdef readonly uint64_t subscriptions
    cdef uint64_t linked               # those of them that belong to links
    cdef uint32_t watched              # cached routes with watchers: these are not evicted
    cdef Route sending                 # set during send(): its subject is where the message goes, msg.subject is shown

    # Schedule `task` in PHASE_CONSUMERS once the interest in this route's subject has changed (`route` is stale then:
    # look it up and watch it again). False: there are too many watched routes already, or `route` is stale.
    cdef bint watch(self, Route route, TickTask task) except -1
    # Take one watch() back; harmless when the route has gone stale.
    cdef int unwatch(self, Route route, TickTask task) except -1
    # The cached route of a literal subject. The caller may keep it (see Route.stale).
    cdef Route route(self, const char* subject, Py_ssize_t n)
    # What a published subject becomes before anybody judges it; None: it stays; b"": the message is lost.
    cdef bytes mapped(self, const char* subject, Py_ssize_t n)
    # Match msg.subject and deliver. Returns what the deliveries cost, 1 for most; 0 or WITHHELD when nobody took it.
    # `skip` is a receiver that must not get it (the publisher's own, when it asked for echo:false), or None.
    cdef int publish(self, Receiver skip, const Message* msg) except -1
    # The same for a route the caller has at hand.
    cdef int deliver(self, Route route, Receiver skip, const Message* msg) except -1
    cdef int _publish_once(self, Receiver skip, const Message* msg) except -1
    # Who gets a one-off subject, from what is known of its prefix; None: match it by itself.
    cdef list _reply_subs(self, const char* subject, Py_ssize_t n)
    # The same of a subject that has no literal subscription; where its neighbours are published now and then only: None.
    cdef list _parent_subs(self, const char* subject, Py_ssize_t n)
    # The same of each subject with this prefix, whose hash is `h`, and `rest` tokens: worked out, and remembered.
    cdef list _subs_below(self, list routes, uint64_t h, const char* prefix, Py_ssize_t n, int rest)
    cdef int _deliver_plainly(self, list subs, Receiver skip, const Message* msg) except -1
    cdef int _deliver_along_trie(self, Receiver skip, const Message* msg) except -1
    cdef int _deliver_queue(self, list group, Receiver skip, bint cached, const Message* msg) except -1
    cdef int _deliver_members(self, list members, Receiver skip, const Message* msg) except -1
    # What goes to queue groups and over links; `answer` is that of the others.
    cdef int _deliver_parts(self, Route route, Receiver skip, int answer, const Message* msg) except -1
    # What goes over links, and to the groups with members behind them. `skip` may be the link that it came over,
    # `named` are the groups that get it then (None: all), and `subject` is where a consumer delivers to, or None.
    cdef int _deliver_links(self, LinkRoute links, Receiver skip, object named, bytes subject,
                            const Message* msg) except -1
    cdef int _remember(self, Route route) except -1
    cdef int _invalidate_matching(self, const char* p, Py_ssize_t n) except -1
    cdef Route _build(self, const char* subject, Py_ssize_t n)
    cdef int _evict(self, Py_ssize_t receivers) except -1
    cdef int _forget(self, Route gone) except -1
    cdef int _invalidate(self, bytes subject) except -1
    cdef uint64_t _random(self) noexcept
    # Deliver msg to those who match `route`, whatever msg.subject says (consumers: the route is the inbox). Who is
    # there but may not have it counts: it will not get it later either, and must not hold up what follows.
    cdef int send(self, Route route, const Message* msg) except -1
    # Is anybody there for this literal subject?
    cdef bint has_interest(self, const char* subject, Py_ssize_t n) except -1
    # As has_interest but members of this queue group only (push consumers with a deliver_group).
    cpdef bint has_queue_interest(self, bytes subject, bytes queue) except -1
    cpdef bint interested(self, bytes subject) except -1

    # A message that came over a link: to plain subscriptions, to other links, and to the queue groups that `queues`
    # names, None for no group. Where mappings have changed its subject, groups are not named: publish() it with the
    # link as `skip`.
    cdef int publish_from_link(self, LinkReceiver link, list queues, const Message* msg) except -1
    # The same for a route the caller has at hand.
    cdef int deliver_from_link(self, LinkReceiver link, list queues, Route route, const Message* msg) except -1
    # The same of what a consumer of the other server delivers: `route` is where it goes, msg.subject is shown.
    cdef int send_from_link(self, LinkReceiver link, list queues, Route route, const Message* msg) except -1
    cdef int _pass_on(self, Route route, LinkReceiver link, list queues, bytes subject, const Message* msg) except -1

    # `weight`: 0 keeps links from being told of it.
    cpdef Subscription subscribe(self, Receiver receiver, bytes subject, bytes queue=*, bytes sid=*, int weight=*)
    cpdef int unsubscribe(self, Subscription sub) except -1
    # So many members stand behind a link's subscription in a queue group from now on.
    cpdef int weigh(self, Subscription sub, int weight) except -1
    # The route of a literal subject that is known or asked for often; None: the cache is nearly full, and one message
    # does not pay for a route (deliver_once).
    cdef Route frequent_route(self, const char* subject, Py_ssize_t n)
    cdef Route _cached_route(self, const char* subject, Py_ssize_t n, uint64_t h)
    cdef Route _new_route(self, const char* subject, Py_ssize_t n, uint64_t h)
    # Match msg.subject and deliver along the trie, without making a route.
    cdef int deliver_once(self, Receiver skip, const Message* msg) except -1
    # Publish from Python; `headers` is a complete header block or b"". Arms the tick by itself. Nobody took it: 0.
    cpdef int publish_bytes(self, bytes subject, bytes reply, bytes headers, bytes payload) except -1


cdef class CallbackReceiver(Receiver):
    """Hands each message to callback(subject, reply, headers, payload, origin) in the tick's event phase.

    All arguments but the last are bytes (reply is None when missing); origin is what set_origin() was told when the
    message was published: the client's protocol, None for messages of the broker itself.
    """
    cdef Tick tick
    cdef object callback
    cdef object target                 # what a subject is called as a service of the system account, None: it is none
    cdef list queue
