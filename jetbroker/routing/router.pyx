# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Interest and delivery for one account (see router.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp

from jetbroker.routing.links cimport (
    LinkGroup,
    LinkMember,
    LinkReceiver,
    LinkRoute,
    LinkTarget,
    is_links,
    once_per_link,
    passes,
)
from jetbroker.routing.prefixes cimport parent_prefix, reply_prefix
from jetbroker.routing.sublist cimport Members, Sublist, hash_subject, is_alone, used_once
from jetbroker.routing.subscription cimport WITHHELD, Receiver, RouteSlot, Subscription
from jetbroker.slots cimport Slots, tag_of
from jetbroker.tick cimport PHASE_CONSUMERS, PHASE_EVENTS, Tick, TickTask
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard, pattern_matches

from jetbroker import limits

cdef uint32_t MAX_ROUTES = limits.ROUTE_CACHE_ENTRIES
cdef Py_ssize_t MAX_RECEIVERS = limits.ROUTE_CACHE_RECEIVERS
cdef long EVENT_UNITS = limits.EVENT_UNITS
cdef object current_origin = None


cdef void set_origin(object origin) noexcept:
    global current_origin
    current_origin = origin


cdef object get_origin():
    return current_origin


cdef int charge_publisher(long units) except -1:
    if current_origin is not None:
        current_origin.spend(units)
    return 0


cdef Py_ssize_t FEW_TRIES = 8          # receivers that do not take a message, before anybody looks what that takes


cdef inline int charge_tries(Py_ssize_t tried, int answer) except -1:
    """So many receivers were asked: those who did not take the message have taken time all the same."""
    if tried - answer > FEW_TRIES:
        charge_publisher(tried - max(answer, 0))
    return 0


cdef inline int together(int answer, int further) noexcept nogil:
    """What several receivers answer: what they cost, and WITHHELD only where nobody takes the message."""
    if further > 0:
        return answer + further if answer > 0 else further
    return answer if answer else further


cdef class Route:
    """Who gets a literal subject."""

    cdef bint reaches(self) noexcept:
        return PyList_GET_SIZE(self.plain) > 0 or self.parts

    cdef bint leads_inside(self) except -1:
        cdef RouteSlot slot
        cdef list slots
        for slots in [self.plain, *(self.queues or ())]:
            for slot in slots:
                if not slot.sub.sid:
                    return True
        return False

    cdef bint has_listener(self) except -1:
        cdef RouteSlot slot
        for slot in self.plain:
            if slot.sub.subject == self.subject:
                return True
        return self.links is not None and self.links.has_listener()

    cdef bint is_behind(self, bytes group, object waiter) except -1:
        cdef RouteSlot slot
        cdef list members
        if group is None:
            if not all_behind([slot for slot in self.plain if slot.sub.subject == self.subject], waiter):
                return False
            return self.links is None or self.links.is_behind(waiter)
        for members in self.queues or ():
            if (<RouteSlot>members[0]).sub.queue == group:
                return all_behind(members, waiter)
        return False  # its members are behind links, if there are any


cdef bint all_behind(list slots, object waiter) except -1:
    cdef RouteSlot slot
    for slot in slots:
        if not slot.sub.receiver.is_behind(waiter):
            return False
    return True


cdef class PrefixRoute:
    """Who gets the subjects below a prefix."""


cdef inline uint32_t hash_first(const char* p, Py_ssize_t n) noexcept nogil:
    """Of the first token."""
    cdef const char* dot = <const char*>memchr(p, c'.', n)
    return <uint32_t>hash_subject(p, n if dot == NULL else dot - p)


cdef Py_ssize_t FEW_NAMES = 8          # queue groups that a message names: more of them are looked up by hash
cdef int PREFIX_ROUTES = 64            # inboxes and consumers, or parents of subjects, that are busy at the same time


cdef inline Py_ssize_t place_of(uint64_t h) noexcept nogil:
    return <Py_ssize_t>(h % <uint64_t>PREFIX_ROUTES)


cdef inline bint is_current(PrefixRoute route, uint64_t generation, const char* prefix, Py_ssize_t n, int rest) noexcept:
    """Is it of this prefix, and of the interest of now?"""
    return (route is not None and route.generation == generation and route.rest == rest
            and PyBytes_GET_SIZE(route.prefix) == n and memcmp(PyBytes_AS_STRING(route.prefix), prefix, n) == 0)


cdef uint32_t[16384] seen_hashes  # of subjects and prefixes that were looked up while a cache was nearly full


cdef bint seen_lately(uint64_t h) noexcept nogil:
    """Was this subject looked up a short while ago? It is from now on."""
    cdef uint32_t place = <uint32_t>(h >> 32) & 0x3FFF
    cdef bint known = seen_hashes[place] == <uint32_t>h
    seen_hashes[place] = <uint32_t>h
    return known


cdef class Gone(Receiver):
    """In the place of a receiver of the broker's own that is no more: a whole stream may be behind it, and a client
    keeps the last route it has used."""

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        return 0


cdef Receiver GONE
GONE = Gone()


cdef class Router:
    """The interest table of one account."""

    def __init__(self, str account_name not None, Tick tick not None) -> None:
        self.account_name = account_name
        self.tick = tick
        self.sublist = Sublist()
        self.routes = Slots()
        self.random_state = 0x2545F4914F6CDD1DULL
        self.replies = [None] * PREFIX_ROUTES
        self.parents = [None] * PREFIX_ROUTES

    def __dealloc__(self) -> None:
        free(self.cached)

    cdef Route route(self, const char* subject, Py_ssize_t n):
        cdef uint64_t h = hash_subject(subject, n)
        cdef Route route = self._cached_route(subject, n, h)
        return self._new_route(subject, n, h) if route is None else route

    cdef Route frequent_route(self, const char* subject, Py_ssize_t n):
        cdef uint64_t h = hash_subject(subject, n)
        cdef Route route = self._cached_route(subject, n, h)
        if route is not None:
            return route
        if self.route_count >= MAX_ROUTES - MAX_ROUTES // 4 and not seen_lately(h):
            return None
        # a long route takes longer to make than one message takes along the trie
        if self.receivers >= MAX_RECEIVERS - MAX_RECEIVERS // 4 and self._random() & 15:
            return None
        return self._new_route(subject, n, h)

    cdef Route _cached_route(self, const char* subject, Py_ssize_t n, uint64_t h):
        cdef uint32_t tag = tag_of(h)
        cdef Py_ssize_t at = self.routes.seek(tag, tag)
        cdef Route route
        while at >= 0:
            route = <Route><object>self.routes.holders[at]
            if (PyBytes_GET_SIZE(route.subject) == n
                    and memcmp(PyBytes_AS_STRING(route.subject), subject, n) == 0):
                return route
            at = self.routes.seek(tag, at + 1)
        return None

    cdef Route _new_route(self, const char* subject, Py_ssize_t n, uint64_t h):
        cdef Route route
        route = self._build(subject, n)
        route.hash = h
        if self.route_count >= MAX_ROUTES or self.receivers + route.receivers > MAX_RECEIVERS:
            self._evict(route.receivers)
        self._remember(route)
        self.routes.put(h, route)
        return route

    cdef int _remember(self, Route route) except -1:
        cdef CachedRoute* grown
        if self.route_count == self.cached_capacity:
            grown = <CachedRoute*>realloc(self.cached, (self.cached_capacity * 2 + 64) * sizeof(CachedRoute))
            if grown == NULL:
                raise MemoryError()
            self.cached = grown
            self.cached_capacity = self.cached_capacity * 2 + 64
        self.cached[self.route_count].first = hash_first(PyBytes_AS_STRING(route.subject),
                                                         PyBytes_GET_SIZE(route.subject))
        self.cached[self.route_count].route = <PyObject*>route
        route.place = self.route_count
        self.route_count += 1
        self.receivers += route.receivers
        return 0

    cdef Route _build(self, const char* subject, Py_ssize_t n):
        cdef Route route = Route.__new__(Route)
        cdef list nodes = []
        cdef dict groups = {}
        cdef LinkRoute links = LinkRoute() if self.linked else None
        cdef Members node
        cdef Subscription sub
        cdef RouteSlot slot
        self.builds += 1
        route.subject = PyBytes_FromStringAndSize(subject, n)
        route.plain = []
        (<Sublist>self.sublist).match(subject, n, nodes)
        for node in nodes:
            for sub in node.plain_members():
                if links is not None and is_links(sub):
                    links.add(sub, route.subject)
                    continue
                slot = RouteSlot.__new__(RouteSlot)
                slot.sub = sub
                route.plain.append(slot)
            if node.queues is not None:
                for queue, members in node.queues.items():
                    for sub in members:
                        if links is not None and is_links(sub):
                            links.add(sub, route.subject)
                            continue
                        slot = RouteSlot.__new__(RouteSlot)
                        slot.sub = sub
                        groups.setdefault(queue, []).append(slot)
        if links is not None and links.targets:
            links.complete(groups)
            route.links = links
        route.receivers = len(route.plain)
        if groups:
            route.queues = list(groups.values())
            for members in route.queues:
                route.receivers += len(<list>members)
        route.parts = route.queues is not None or route.links is not None
        return route

    cdef bytes mapped(self, const char* subject, Py_ssize_t n):
        cdef bytes found = None
        if self.mappings is not None:
            found = self.mappings.map(subject, n)
        if found is None and self.domain is not None and n and subject[0] == c'$':
            found = self.domain.map(subject, n)
        return found

    cdef int publish(self, Receiver skip, const Message* msg) except -1:
        cdef Route route
        if used_once(msg.subject, msg.subject_len):
            return self._publish_once(skip, msg)
        route = self.frequent_route(msg.subject, msg.subject_len)
        return self.deliver_once(skip, msg) if route is None else self.deliver(route, skip, msg)

    cdef int send(self, Route route, const Message* msg) except -1:
        cdef int answer = 0
        cdef RouteSlot slot
        cdef Py_ssize_t i
        cdef Route before = self.sending
        self.sending = route
        try:
            # the slots' caches are made for route.subject, and msg.subject is another: deliver without them
            for i in range(PyList_GET_SIZE(route.plain)):
                slot = <RouteSlot>PyList_GET_ITEM(route.plain, i)
                answer = together(answer, slot.sub.receiver.deliver(slot.sub, None, msg))
            if route.queues is not None:
                for group in route.queues:
                    answer = together(answer, self._deliver_queue(<list>group, None, False, msg))
            if route.links is not None:
                answer = together(answer, self._deliver_links(route.links, None, None, route.subject, msg))
        finally:
            self.sending = before
        return 1 if answer == WITHHELD else answer

    cdef int deliver(self, Route route, Receiver skip, const Message* msg) except -1:
        cdef int answer = 0
        cdef RouteSlot slot
        cdef list plain = route.plain
        cdef Py_ssize_t i
        for i in range(PyList_GET_SIZE(plain)):
            slot = <RouteSlot>PyList_GET_ITEM(plain, i)
            if slot.sub.receiver is not skip:
                answer = together(answer, slot.sub.receiver.deliver(slot.sub, slot, msg))
        charge_tries(PyList_GET_SIZE(plain), answer)
        if route.parts:
            return self._deliver_parts(route, skip, answer, msg)
        return answer

    cdef int _deliver_parts(self, Route route, Receiver skip, int answer, const Message* msg) except -1:
        if route.queues is not None:
            for group in route.queues:
                answer = together(answer, self._deliver_queue(<list>group, skip, True, msg))
        if route.links is not None:
            answer = together(answer, self._deliver_links(route.links, skip, None, None, msg))
        return answer

    cdef int _deliver_links(self, LinkRoute links, Receiver skip, object named, bytes subject,
                            const Message* msg) except -1:
        cdef LinkReceiver source = <LinkReceiver>skip if isinstance(skip, LinkReceiver) else None
        cdef LinkGroup group
        cdef LinkMember member
        cdef LinkTarget target
        cdef dict chosen = None            # LinkTarget: [queue]
        cdef list queues = None
        cdef int answer = 0
        cdef int taken
        for group in links.groups:
            if named is not None and group.queue not in named:
                continue
            if group.here is not None:
                taken = self._deliver_queue(group.here, skip, subject is None, msg)
                answer = together(answer, taken)
                if taken > 0:
                    continue
            member = group.draw(source, self._random())
            if member is None:
                continue
            if member.target.link.withholding and member.is_denied(msg, subject):
                answer = together(answer, WITHHELD)
                continue
            if chosen is None:
                chosen = {}
            chosen.setdefault(member.target, []).append(group.queue)
        for target in links.targets:
            if chosen is not None:
                queues = <list>chosen.get(target)
            if queues is not None or (target.plain and passes(target.link, source)):
                answer = together(answer, target.receiver.send(msg, subject, queues))
        return answer + links.cost if answer > 0 else answer

    cdef int _deliver_queue(self, list group, Receiver skip, bint cached, const Message* msg) except -1:
        cdef Py_ssize_t n = PyList_GET_SIZE(group)
        cdef Py_ssize_t start = <Py_ssize_t>(self._random() % <uint64_t>n) if n > 1 else 0
        cdef Py_ssize_t i
        cdef RouteSlot slot
        cdef int answer = 0
        for i in range(n):
            slot = <RouteSlot>PyList_GET_ITEM(group, (start + i) % n)
            if slot.sub.receiver is not skip:
                answer = together(answer, slot.sub.receiver.deliver(slot.sub, slot if cached else None, msg))
                if answer > 0:
                    charge_tries(i + 1, 1)
                    return 1
        charge_tries(n, answer)
        return answer

    cdef int _publish_once(self, Receiver skip, const Message* msg) except -1:
        """For subjects that are used once: what is known of their prefix, else the trie."""
        cdef list subs = self._reply_subs(msg.subject, msg.subject_len)
        return self.deliver_once(skip, msg) if subs is None else self._deliver_plainly(subs, skip, msg)

    cdef int _deliver_plainly(self, list subs, Receiver skip, const Message* msg) except -1:
        cdef Subscription sub
        cdef int answer = 0
        for sub in subs:
            if sub.receiver is not skip:
                answer = together(answer, sub.receiver.deliver(sub, None, msg))
        charge_tries(PyList_GET_SIZE(subs), answer)
        return answer

    cdef int deliver_once(self, Receiver skip, const Message* msg) except -1:
        cdef Sublist sublist = <Sublist>self.sublist
        cdef PyObject** literal = sublist.literals.find(msg.subject, msg.subject_len)
        cdef list subs = None
        cdef Subscription sub
        if literal == NULL and not self.linked:
            subs = self._parent_subs(msg.subject, msg.subject_len)
            if subs is not None:
                return self._deliver_plainly(subs, skip, msg)
        self.builds += 1
        if literal != NULL and is_alone(literal[0]) and sublist.is_literal_only(msg.subject, msg.subject_len):
            sub = <Subscription><object>literal[0]
            if not (self.linked and is_links(sub)):
                return sub.receiver.deliver(sub, None, msg) if sub.receiver is not skip else 0
        return self._deliver_along_trie(skip, msg)

    cdef int _deliver_along_trie(self, Receiver skip, const Message* msg) except -1:
        cdef Sublist sublist = <Sublist>self.sublist
        cdef list nodes
        cdef Members node
        cdef Members grouped = None
        cdef Subscription sub
        cdef Py_ssize_t tried = 0
        cdef int answer = 0
        nodes = []
        sublist.match(msg.subject, msg.subject_len, nodes)
        for node in nodes:
            if node.queues is not None:
                if self.linked or grouped is not None:
                    # group names may span nodes, and links have members: the route knows how to merge them
                    return self.deliver(self._build(msg.subject, msg.subject_len), skip, msg)
                grouped = node
            if self.linked:
                for sub in node.plain_members():
                    if is_links(sub):  # maybe several of one link: the same
                        return self.deliver(self._build(msg.subject, msg.subject_len), skip, msg)
        for node in nodes:
            for sub in list(node.plain_members()):  # a receiver may answer with interest of its own
                tried += 1
                if sub.receiver is not skip:
                    answer = together(answer, sub.receiver.deliver(sub, None, msg))
        charge_tries(tried, answer)
        if grouped is not None:
            for members in [list(queue) for queue in grouped.queues.values()]:
                answer = together(answer, self._deliver_members(<list>members, skip, msg))
        return answer

    cdef int _deliver_members(self, list members, Receiver skip, const Message* msg) except -1:
        """To one of a queue group's subscriptions (see _deliver_queue, which has their slots)."""
        cdef Py_ssize_t n = PyList_GET_SIZE(members)
        cdef Py_ssize_t start = <Py_ssize_t>(self._random() % <uint64_t>n) if n > 1 else 0
        cdef Py_ssize_t i
        cdef Subscription sub
        cdef int answer = 0
        for i in range(n):
            sub = <Subscription>PyList_GET_ITEM(members, (start + i) % n)
            if sub.receiver is not skip:
                answer = together(answer, sub.receiver.deliver(sub, None, msg))
                if answer > 0:
                    charge_tries(i + 1, 1)
                    return 1
        charge_tries(n, answer)
        return answer

    cdef list _reply_subs(self, const char* subject, Py_ssize_t n):
        cdef int rest = 0
        cdef Py_ssize_t prefix_len = reply_prefix(subject, n, &rest)
        cdef uint64_t h
        cdef PrefixRoute known
        if prefix_len == 0:
            return None
        h = hash_subject(subject, prefix_len)
        known = <PrefixRoute>(<object>PyList_GET_ITEM(self.replies, place_of(h)))
        if is_current(known, self.generation, subject, prefix_len, rest):
            return known.subs
        return self._subs_below(self.replies, h, subject, prefix_len, rest)

    cdef list _parent_subs(self, const char* subject, Py_ssize_t n):
        cdef Py_ssize_t prefix_len = parent_prefix(subject, n)
        cdef uint64_t h
        cdef PrefixRoute known
        if prefix_len == 0:
            return None
        h = hash_subject(subject, prefix_len)
        known = <PrefixRoute>(<object>PyList_GET_ITEM(self.parents, place_of(h)))
        if is_current(known, self.generation, subject, prefix_len, 1):
            return known.subs
        # one message does not pay for it
        return self._subs_below(self.parents, h, subject, prefix_len, 1) if seen_lately(h) else None

    cdef list _subs_below(self, list routes, uint64_t h, const char* prefix, Py_ssize_t n, int rest):
        cdef PrefixRoute known = PrefixRoute.__new__(PrefixRoute)
        known.prefix = PyBytes_FromStringAndSize(prefix, n)
        known.rest = rest
        known.generation = self.generation
        known.subs = (<Sublist>self.sublist).match_below(prefix, n, rest)
        if self.linked and known.subs is not None:
            known.subs = once_per_link(known.subs)
        routes[place_of(h)] = known
        return known.subs

    cdef uint64_t _random(self) noexcept:
        """xorshift64*: only spreads load over queue members."""
        self.random_state ^= self.random_state >> 12
        self.random_state ^= self.random_state << 25
        self.random_state ^= self.random_state >> 27
        return (self.random_state * 0x2545F4914F6CDD1DULL) >> 16

    cdef bint has_interest(self, const char* subject, Py_ssize_t n) except -1:
        cdef list nodes = []
        cdef Members node
        (<Sublist>self.sublist).match(subject, n, nodes)
        for node in nodes:
            if node.single is not None or node.plain is not None or node.queues is not None:
                return True
        return False

    cpdef bint interested(self, bytes subject) except -1:
        """Would anybody get a message on this literal subject?"""
        return self.has_interest(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    cpdef bint has_queue_interest(self, bytes subject, bytes queue) except -1:
        """Is there a member of this queue group that has subscribed to just this literal subject?"""
        cdef list nodes = []
        cdef Members node
        cdef Subscription sub
        (<Sublist>self.sublist).match(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), nodes)
        for node in nodes:
            if node.queues is not None and queue in node.queues:
                for sub in node.queues[queue]:
                    if sub.subject == subject:
                        return True
        return False

    cdef int publish_from_link(self, LinkReceiver link, list queues, const Message* msg) except -1:
        cdef bint once = used_once(msg.subject, msg.subject_len)
        cdef list subs = self._reply_subs(msg.subject, msg.subject_len) if once else None
        cdef Subscription sub
        cdef int answer = 0
        if subs is not None:
            for sub in subs:
                if not is_links(sub) or passes(<LinkReceiver>sub.receiver, link):
                    answer = together(answer, sub.receiver.deliver(sub, None, msg))
            return answer
        if once:
            return self._pass_on(self._build(msg.subject, msg.subject_len), link, queues, None, msg)
        return self._pass_on(self.route(msg.subject, msg.subject_len), link, queues, None, msg)

    cdef int deliver_from_link(self, LinkReceiver link, list queues, Route route, const Message* msg) except -1:
        return self._pass_on(route, link, queues, None, msg)

    cdef int send_from_link(self, LinkReceiver link, list queues, Route route, const Message* msg) except -1:
        cdef Route before = self.sending
        self.sending = route
        try:
            return self._pass_on(route, link, queues, route.subject, msg)
        finally:
            self.sending = before

    cdef int _pass_on(self, Route route, LinkReceiver link, list queues, bytes subject, const Message* msg) except -1:
        """What came over a link; `subject` as of LinkReceiver.send."""
        cdef object named = ()
        cdef RouteSlot slot
        cdef int answer = 0
        if queues is not None:
            named = queues if len(queues) <= FEW_NAMES else frozenset(queues)
        for slot in route.plain:
            answer = together(answer, slot.sub.receiver.deliver(slot.sub, slot if subject is None else None, msg))
        charge_tries(PyList_GET_SIZE(route.plain), answer)
        if route.queues is not None and queues is not None:
            for group in route.queues:
                if (<RouteSlot>(<list>group)[0]).sub.queue in named:
                    answer = together(answer, self._deliver_queue(<list>group, None, subject is None, msg))
        if route.links is not None:
            answer = together(answer, self._deliver_links(route.links, link, named, subject, msg))
        return answer

    cpdef Subscription subscribe(self, Receiver receiver, bytes subject, bytes queue=None, bytes sid=b"",
                                 int weight=1):
        """Add interest. The subject must be valid (wire.subjects); the caller keeps the result to take it back."""
        cdef Subscription sub = Subscription.__new__(Subscription)
        sub.receiver = receiver
        sub.subject = subject
        sub.queue = queue
        sub.sid = sid
        sub.weight = weight
        (<Sublist>self.sublist).insert(sub)
        self.subscriptions += 1
        self.linked += is_links(sub)
        self._invalidate(subject)
        if self.links is not None:
            self.links.subscribed(sub)
        if self.imports is not None:
            sub.shadows = self.imports.subscribed(sub)
        return sub

    cpdef int unsubscribe(self, Subscription sub) except -1:
        """Take interest back; harmless when done already."""
        sub.closed = True
        if (<Sublist>self.sublist).remove(sub):
            self.subscriptions -= 1
            self.linked -= is_links(sub)
            self._invalidate(sub.subject)
            if self.links is not None:
                self.links.unsubscribed(sub)
            if self.imports is not None:
                self.imports.unsubscribed(sub)
        if not sub.sid and not is_links(sub):
            sub.receiver = GONE
        return 0

    cpdef int weigh(self, Subscription sub, int weight) except -1:
        """So many members of its queue group stand behind a link's subscription from now on."""
        cdef int before = sub.weight
        sub.weight = weight
        if self.imports is not None:
            self.imports.weighed(sub)
        if self.links is not None and not sub.closed:
            self.links.weighed(sub, before)
        return 0

    cdef int _invalidate(self, bytes subject) except -1:
        cdef const char* p = PyBytes_AS_STRING(subject)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(subject)
        cdef Route route
        self.generation += 1
        if self.route_count == 0:
            return 0
        if has_wildcard(p, n):
            return self._invalidate_matching(p, n)
        route = self._cached_route(p, n, hash_subject(p, n))
        return 0 if route is None else self._forget(route)

    cdef int _invalidate_matching(self, const char* p, Py_ssize_t n) except -1:
        """Drop the cached routes that a wildcard subject matches."""
        cdef bint of_any = p[0] == c'>' or (p[0] == c'*' and (n == 1 or p[1] == c'.'))
        cdef uint32_t first = hash_first(p, n)
        cdef uint32_t i = 0
        cdef Route route
        while i < self.route_count:
            if of_any or self.cached[i].first == first:
                route = <Route><object>self.cached[i].route
                if pattern_matches(PyBytes_AS_STRING(route.subject), PyBytes_GET_SIZE(route.subject), p, n):
                    self._forget(route)
                    continue  # another one stands in its place now
            i += 1
        return 0

    cdef int _forget(self, Route gone) except -1:
        gone.stale = True
        if gone.watchers is not None:
            self.watched -= 1
            for task in gone.watchers:
                self.tick.schedule(PHASE_CONSUMERS, <TickTask>task)
            gone.watchers = None
        self.route_count -= 1
        self.receivers -= gone.receivers
        self.cached[gone.place] = self.cached[self.route_count]
        (<Route><object>self.cached[gone.place].route).place = gone.place
        return self.routes.discard_holder(gone.hash, gone)

    cdef int _evict(self, Py_ssize_t receivers) except -1:
        """Make room for a route with so many receivers: drop the next routes in turn, an eighth of the cache at once.
        The newest, which came since the last time, stand at the end. They take the places of those that are dropped,
        and are not looked at before all others were."""
        cdef uint32_t older = self.route_count - self.route_count // 8
        cdef uint32_t target = MAX_ROUTES - MAX_ROUTES // 8
        cdef Py_ssize_t room = MAX_RECEIVERS - MAX_RECEIVERS // 8 - receivers
        cdef uint32_t left = self.route_count      # each is looked at once: some may be watched, and one may be too long
        cdef Route route
        while left and (self.route_count > target or self.receivers > room):
            left -= 1
            self.clock_hand = (self.clock_hand + 1) % min(older, self.route_count)
            route = <Route><object>self.cached[self.clock_hand].route
            if route.watchers is None:
                self._forget(route)
        return 0

    cdef bint watch(self, Route route, TickTask task) except -1:
        # never more than half of the cache, so that there is always something to evict
        if route.stale or (route.watchers is None and (
                self.watched >= MAX_ROUTES // 2 or self.receivers > MAX_RECEIVERS)):
            return False
        if route.watchers is None:
            route.watchers = []
            self.watched += 1
        route.watchers.append(task)
        return True

    cdef int unwatch(self, Route route, TickTask task) except -1:
        if route.watchers is None or task not in route.watchers:
            return 0
        route.watchers.remove(task)
        if not route.watchers:
            route.watchers = None
            self.watched -= 1
        return 0

    def fanout(self) -> tuple:
        """Over the cached routes: the most receivers of one, and those of all together. A queue group counts as one."""
        cdef Py_ssize_t most = 0, total = 0, receivers
        cdef uint32_t i
        cdef Route route
        for i in range(self.route_count):
            route = <Route><object>self.cached[i].route
            receivers = len(route.plain) + (len(route.queues) if route.queues is not None else 0)
            receivers += len(route.links.targets) if route.links is not None else 0
            most = max(most, receivers)
            total += receivers
        return most, total

    def subscription_list(self, Py_ssize_t offset, Py_ssize_t count) -> list:
        """`count` of the account's subscriptions behind the first `offset`, in an order that stays while they do."""
        cdef list found = []
        (<Sublist>self.sublist).collect(offset, offset + count, found)
        return found

    def close(self) -> None:
        """Nobody asks any more: all interest is taken back, and nothing that was looked up is kept.

        Python does not collect cycles through subscriptions, and a receiver may refer back to this.
        """
        for sub in self.subscription_list(0, self.subscriptions):
            self.unsubscribe(sub)
        self.replies = [None] * PREFIX_ROUTES
        self.parents = [None] * PREFIX_ROUTES

    def publish_for(self, object origin, bytes subject not None, bytes reply, bytes headers, bytes payload) -> int:
        """:meth:`publish_bytes` of what `origin` published some time ago: its work is charged to it."""
        set_origin(origin)
        try:
            return self.publish_bytes(subject, reply, headers, payload)
        finally:
            set_origin(None)

    def matching(self, bytes subject not None) -> list:
        """Every subscription a message on this literal subject may reach, all members of queue groups included."""
        cdef list nodes = []
        cdef list found = []
        cdef Members node
        (<Sublist>self.sublist).match(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), nodes)
        for node in nodes:
            found.extend(node.plain_members())
            for members in (node.queues or {}).values():
                found.extend(members)
        return found

    cpdef int publish_bytes(self, bytes subject, bytes reply, bytes headers, bytes payload) except -1:
        """Publish from Python; `headers` is a complete header block or b"", `reply` may be None."""
        cdef bytes body = headers + payload
        cdef Message msg
        msg.subject = PyBytes_AS_STRING(subject)
        msg.subject_len = PyBytes_GET_SIZE(subject)
        msg.reply = NULL
        msg.reply_len = 0
        if reply is not None:
            msg.reply = PyBytes_AS_STRING(reply)
            msg.reply_len = PyBytes_GET_SIZE(reply)
        msg.body = PyBytes_AS_STRING(body)
        msg.headers_len = PyBytes_GET_SIZE(headers)
        msg.body_len = PyBytes_GET_SIZE(body)
        msg.size_text = NULL
        msg.size_text_len = 0
        msg.tail = NULL
        msg.tail_len = 0
        return max(self.publish(None, &msg), 0)


cdef class CallbackReceiver(Receiver):
    """Hands each message to callback(subject, reply, headers, payload, origin) in the tick's event phase."""

    def __init__(self, Tick tick not None, object callback, object target=None) -> None:
        self.tick = tick
        self.callback = callback
        self.target = target
        self.queue = []

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        if sub.closed:
            return 0
        self.queue.append((
            msg.subject[:msg.subject_len],
            msg.reply[:msg.reply_len] if msg.reply != NULL else None,
            msg.body[:msg.headers_len],
            (msg.body + msg.headers_len)[:msg.body_len - msg.headers_len],
            current_origin,
        ))
        charge_publisher(EVENT_UNITS)
        self.tick.schedule(PHASE_EVENTS, self)
        return 1

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        if self.target is not None:
            subject = msg.subject[:msg.subject_len]
            target = self.target(subject)
            if target is not None:
                trace.asked(None, subject, target)
        return Receiver.deliver_traced(self, sub, msg, trace)

    cdef int run_tick(self) except -1:
        cdef list queue = self.queue
        self.queue = []
        for subject, reply, headers, payload, origin in queue:
            try:
                self.callback(subject, reply, headers, payload, origin)
            except Exception as error:
                self.tick.report(self, error)
        return 0
