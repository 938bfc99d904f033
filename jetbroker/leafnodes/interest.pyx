# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What links are told (see interest.pxd).

Every subscription of an account counts in one entry for its subject and queue group. A link is told of an entry when
there is something in it that it may see: the first time with LS+, then with LS- when that is gone, and of a queue group
at each change of its number. For each link a bit says which entries it was told of. So telling it an entry a second
time does nothing, and a walk over all of them may meet changes that are told meanwhile: it goes from the end to the
beginning, new entries stand at the end, and the last one takes the place of one that goes.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memset

from jetbroker.routing.links cimport MOST_MEMBERS, LinkReceiver, Links, is_links
from jetbroker.routing.sublist cimport hash_subject
from jetbroker.routing.router cimport Router, charge_publisher
from jetbroker.routing.subscription cimport Subscription
from jetbroker.tick cimport PHASE_EVENTS, TickTask
from jetbroker.wire.buffer cimport OutputBuffer, format_uint

from jetbroker import limits
from jetbroker.turns import in_turns

cdef size_t AT_ONCE = limits.INTEREST_AT_ONCE
cdef Py_ssize_t LINES_BYTES = limits.INTEREST_LINES_BYTES
cdef size_t STEP = 64                  # entries looked at between two looks at the clock
cdef uint64_t STEP_UNITS = 4096        # or so much of what permissions take, in units of about 50 ns
cdef long TOLD_UNITS = 8               # a link is told of a change
cdef size_t FIRST_ROOM = 64


cdef inline uint32_t hash_entry(bytes subject, bytes queue) noexcept:
    cdef uint32_t h = <uint32_t>hash_subject(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
    if queue is not None:
        h = h * 31 + <uint32_t>hash_subject(PyBytes_AS_STRING(queue), PyBytes_GET_SIZE(queue))
    return h


cdef inline bint is_same(PyObject* kept, bytes asked) noexcept:
    if kept == NULL or asked is None:
        return kept == NULL and asked is None
    return (<PyObject*>asked == kept or (
        PyBytes_GET_SIZE(<bytes>kept) == PyBytes_GET_SIZE(asked)
        and memcmp(PyBytes_AS_STRING(<bytes>kept), PyBytes_AS_STRING(asked), PyBytes_GET_SIZE(asked)) == 0))


cdef inline PyObject* owned(object value) noexcept:
    if value is None:
        return NULL
    Py_INCREF(value)
    return <PyObject*>value


cdef inline int disown(PyObject* value) noexcept:
    if value != NULL:
        Py_DECREF(<object>value)
    return 0


cdef class Sources:
    """How much of an entry came over which links."""

    def __cinit__(self) -> None:
        self.shares = {}
        self.clusters = {}

    cdef int add(self, LinkReceiver link, int64_t delta) except -1:
        change_count(self.shares, link, delta)
        self.sums[link.is_spoke] += delta
        if link.cluster is not None:
            change_count(self.clusters, (link.is_spoke, link.cluster), delta)
        return 0

    cdef int64_t of_others(self, bint is_spoke, LinkReceiver link) except? -1:
        cdef int64_t number = self.sums[is_spoke]
        if number and link.cluster is not None:
            return number - <int64_t>self.clusters.get((is_spoke, link.cluster), 0)
        if number and link.is_spoke == is_spoke:
            return number - <int64_t>self.shares.get(link, 0)
        return number


cdef inline int change_count(dict counts, object key, int64_t delta) except -1:
    number = counts.get(key, 0) + delta
    if number:
        counts[key] = number
    else:
        del counts[key]
    return 0


cdef class LinkView(TickTask):
    """What one link sees of an account's interest, and what it has been told."""

    def __init__(self, LinkReceiver link not None) -> None:
        self.link = link
        self.lines = OutputBuffer()

    def __dealloc__(self) -> None:
        free(self.told)

    @property
    def is_walking(self) -> bool:
        """Is there something that this link has not been told yet?"""
        return self.cursor > 0

    cpdef bint hears(self, bint of_hubs, bytes subject) except -1:
        """Is this link told of interest that came over other links?"""
        return True

    cpdef bint may_tell(self, bytes subject) except -1:
        """Do permissions allow to tell it?"""
        return True

    cpdef int write(self, bytes lines) except -1:
        """Send these LS+ and LS- lines."""
        raise NotImplementedError(type(self).__name__)

    cpdef bint is_behind(self) except -1:
        """Does it have to send so much that it shall not be told more of what is there? resume() goes on with that."""
        return False

    cdef bint sees(self, LinkReceiver source, bytes subject) except -1:
        return (source is not self.link and (source.cluster is None or source.cluster != self.link.cluster)
                and self.hears(source.is_spoke, subject))

    cdef int64_t visible(self, Entry* entry) except? -1:
        """How much of the entry this link may see."""
        cdef int64_t number = entry.total - entry.share
        cdef int64_t others
        cdef int is_spoke
        if entry.sources == NULL:
            return number
        sources = <object>entry.sources
        subject = <bytes>entry.subject
        if not isinstance(sources, Sources):
            return entry.total if self.sees(<LinkReceiver>sources, subject) else number
        for is_spoke in range(2):
            others = (<Sources>sources).of_others(is_spoke, self.link)
            if others and self.hears(is_spoke, subject):
                number += others
        return number

    # --- what was told ---

    cdef int reserve(self, size_t entries) except -1:
        cdef unsigned char* grown
        if entries <= self.told_room:
            return 0
        grown = <unsigned char*>realloc(self.told, (entries + 7) // 8)
        if grown == NULL:
            raise MemoryError()
        memset(grown + self.told_room // 8, 0, (entries + 7) // 8 - self.told_room // 8)
        self.told = grown
        self.told_room = (entries + 7) // 8 * 8
        return 0

    cdef bint has_told(self, size_t at) noexcept:
        return self.told[at // 8] >> (at % 8) & 1

    cdef int note(self, size_t at, bint told) noexcept:
        if told:
            self.told[at // 8] |= <unsigned char>(1 << (at % 8))
        else:
            self.told[at // 8] &= <unsigned char>~(1 << (at % 8))
        return 0

    cdef int move(self, size_t origin, size_t target) noexcept:
        """An entry takes the place of one that is gone."""
        self.note(target, self.has_told(origin))
        self.note(origin, False)
        self.cursor = min(self.cursor, origin)
        return 0

    # --- telling ---

    cdef int sync(self, size_t at, bint changed) except -1:
        """Tell this link of an entry what it does not know yet. `changed`: the number, too, if it is of a group."""
        cdef Entry* entry = &self.ledger.entries[at]
        cdef bint told = self.has_told(at)
        cdef int64_t number = self.visible(entry)
        if number > 0 and (not told or self.anew) and not self.may_tell(<bytes>entry.subject):
            number = 0
        if number > 0:
            if told and not (changed and entry.queue != NULL):
                return 0
        elif not told:
            return 0
        self.note(at, number > 0)
        return self.tell(entry, number)

    cdef int tell(self, Entry* entry, int64_t number) except -1:
        cdef OutputBuffer lines = self.lines
        cdef bytes subject = <bytes>entry.subject
        cdef bytes queue
        cdef char* digits
        if lines.size == 0:
            self.ledger.router.tick.schedule(PHASE_EVENTS, self)
        lines.append("LS+ " if number > 0 else "LS- ", 4)
        lines.append(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if entry.queue != NULL:
            queue = <bytes>entry.queue
            lines.append(" ", 1)
            lines.append(PyBytes_AS_STRING(queue), PyBytes_GET_SIZE(queue))
            if number > 0:
                lines.append(" ", 1)
                digits = lines.reserve(20)
                lines.size += format_uint(digits, min(number, <int64_t>MOST_MEMBERS))
        lines.append("\r\n", 2)
        return self.flush() if lines.size >= LINES_BYTES else 0

    cdef int flush(self) except -1:
        cdef bytes lines
        if self.lines.size == 0:
            return 0
        lines = PyBytes_FromStringAndSize(self.lines.data, self.lines.size)
        self.lines.clear()
        return self.write(lines)

    cdef int run_tick(self) except -1:
        return self.flush()

    cdef int walk(self) except -1:
        """Tell it everything that it does not know yet: a few at once, the others in turns."""
        cdef size_t _slice
        cdef uint64_t judged = self.judged
        for _slice in range(0, AT_ONCE, STEP):
            if self.is_behind() or not self.step():
                return 0
            if self.judged - judged > STEP_UNITS:
                break
        if self.walker is None:
            self.walker = self.ledger.router.tick.loop.create_task(in_turns(self._steps()))
        return 0

    def _steps(self):
        while not self.is_behind() and self.step():
            yield
        self.walker = None

    cdef bint step(self) except -1:
        """Look at some more entries; False when that was all."""
        cdef size_t _entry
        cdef uint64_t judged = self.judged
        for _entry in range(STEP):
            if self.judged - judged > STEP_UNITS:
                break
            if self.cursor == 0:
                self.anew = False
                return False
            self.cursor -= 1
            try:
                self.sync(self.cursor, self.anew)
            except Exception as error:
                self.ledger.router.tick.report(self, error)
        return True

    def resume(self) -> None:
        """It is no longer behind."""
        if self.cursor and self.walker is None:
            self.walk()


cdef class Ledger(Links):
    """The interest of an account. It hears of each change, and the router's subscriptions of before count, too."""

    def __init__(self, Router router not None) -> None:
        self.router = router
        self.views = []
        self.statics = {}
        self.resize(FIRST_ROOM)
        for sub in router.subscription_list(0, router.subscriptions):
            self.subscribed(<Subscription>sub)
        router.links = self

    def __dealloc__(self) -> None:
        cdef size_t at
        for at in range(self.count):
            disown(self.entries[at].subject)
            disown(self.entries[at].queue)
            disown(self.entries[at].sources)
        free(self.entries)
        free(self.index)

    # --- links ---

    cpdef int add(self, LinkView view) except -1:
        view.reserve(self.room)
        view.ledger = self
        self.views.append(view)
        view.cursor = self.count
        return view.walk()

    cpdef int forget(self, LinkView view) except -1:
        if view.ledger is None:
            return 0
        self.views.remove(view)
        view.ledger = None
        view.cursor = 0
        if view.walker is not None:
            view.walker.cancel()
            view.walker = None
        view.lines.release()
        free(view.told)
        view.told = NULL
        view.told_room = 0
        return 0

    cpdef int retell(self, LinkView view) except -1:
        if view.ledger is None:
            return 0
        view.anew = True
        view.cursor = self.count
        return 0 if view.walker is not None else view.walk()

    # --- interest ---

    cpdef int add_static(self, bytes subject) except -1:
        self.statics[subject] = self.statics.get(subject, 0) + 1
        return self.change(subject, None, None, 1)

    cpdef int remove_static(self, bytes subject) except -1:
        """Harmless when there is none."""
        times = self.statics.pop(subject, 0)
        if times == 0:
            return 0
        if times > 1:
            self.statics[subject] = times - 1
        return self.change(subject, None, None, -1)

    cdef int subscribed(self, Subscription sub) except -1:
        return self.change(sub.subject, sub.queue, link_of(sub), part_of(sub, sub.weight))

    cdef int unsubscribed(self, Subscription sub) except -1:
        return self.change(sub.subject, sub.queue, link_of(sub), -part_of(sub, sub.weight))

    cdef int weighed(self, Subscription sub, int before) except -1:
        return self.change(sub.subject, sub.queue, link_of(sub), part_of(sub, sub.weight) - part_of(sub, before))

    cdef int change(self, bytes subject, bytes queue, LinkReceiver link, int64_t delta) except -1:
        cdef uint32_t h = hash_entry(subject, queue)
        cdef Py_ssize_t at
        cdef LinkView view
        cdef uint64_t judged = 0
        if delta == 0 or not is_word(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return 0
        if queue is not None and not is_word(PyBytes_AS_STRING(queue), PyBytes_GET_SIZE(queue)):
            return 0
        at = self.find(subject, queue, h)
        if at < 0:
            at = self.insert(subject, queue, h)
        self.entries[at].total += delta
        if link is not None:
            self.share(&self.entries[at], link, delta)
        for view in self.views:
            judged -= view.judged
            try:
                # what it was told may come from when it saw more
                if link is None or view.anew or view.sees(link, subject):
                    view.sync(at, True)
            except Exception as error:
                self.router.tick.report(view, error)
            judged += view.judged
        if self.views:
            charge_publisher(len(self.views) * TOLD_UNITS + <long>judged)
        if self.entries[at].total <= 0:
            self.remove(at)
        return 0

    cdef int share(self, Entry* entry, LinkReceiver link, int64_t delta) except -1:
        """A link's part in an entry has changed."""
        cdef Sources several
        entry.share += delta
        if entry.sources == NULL:
            entry.sources = owned(link)
            return 0
        sources = <object>entry.sources
        if sources is link:
            if entry.share == 0:
                entry.sources = NULL
                disown(<PyObject*>link)
            return 0
        if not isinstance(sources, Sources):
            several = Sources()
            several.add(<LinkReceiver>sources, entry.share - delta)
            disown(entry.sources)
            entry.sources = owned(several)
            sources = several
        (<Sources>sources).add(link, delta)
        if not (<Sources>sources).shares:
            disown(entry.sources)
            entry.sources = NULL
        return 0

    # --- the table ---

    cdef Py_ssize_t find(self, bytes subject, bytes queue, uint32_t h) noexcept:
        cdef size_t place = h & self.mask
        cdef Entry* entry
        while self.index[place]:
            entry = &self.entries[self.index[place] - 1]
            if entry.hash == h and is_same(entry.subject, subject) and is_same(entry.queue, queue):
                return self.index[place] - 1
            place = (place + 1) & self.mask
        return -1

    cdef Py_ssize_t insert(self, bytes subject, bytes queue, uint32_t h) except? -1:
        cdef size_t place = h & self.mask
        cdef Entry* entry
        cdef LinkView view
        if self.count == self.room:
            for view in self.views:
                view.reserve(self.room + self.room // 2)
            self.resize(self.room + self.room // 2)
            place = h & self.mask
        while self.index[place]:
            place = (place + 1) & self.mask
        entry = &self.entries[self.count]
        entry.subject = owned(subject)
        entry.queue = owned(queue)
        entry.sources = NULL
        entry.total = 0
        entry.share = 0
        entry.hash = h
        self.count += 1
        self.index[place] = <uint32_t>self.count
        return self.count - 1

    cdef int remove(self, size_t at) except -1:
        """Nobody wants it any more, and everybody was told."""
        cdef Entry gone = self.entries[at]
        cdef size_t last = self.count - 1
        cdef LinkView view
        self.free_place(self.place_of(at))
        if at != last:
            self.index[self.place_of(last)] = <uint32_t>at + 1
            self.entries[at] = self.entries[last]
        for view in self.views:
            view.move(last, at)
        self.count = last
        disown(gone.subject)
        disown(gone.queue)
        disown(gone.sources)
        if self.room > FIRST_ROOM and self.count < self.room // 4:
            self.resize(max(self.room // 2, FIRST_ROOM))
        return 0

    cdef size_t place_of(self, size_t at) noexcept:
        cdef size_t place = self.entries[at].hash & self.mask
        while self.index[place] != at + 1:
            place = (place + 1) & self.mask
        return place

    cdef int free_place(self, size_t place) noexcept:
        """Those behind it move up, so that each is found from where its hash points."""
        cdef size_t further = place
        cdef size_t home
        while True:
            self.index[place] = 0
            while True:
                further = (further + 1) & self.mask
                if self.index[further] == 0:
                    return 0
                home = self.entries[self.index[further] - 1].hash & self.mask
                # it may stand at `place` unless its home lies behind that
                if (further - home) & self.mask >= (further - place) & self.mask:
                    break
            self.index[place] = self.index[further]
            place = further

    cdef int resize(self, size_t room) except -1:
        cdef size_t places = 1
        cdef size_t at, place
        cdef uint32_t* index
        cdef Entry* entries = <Entry*>realloc(self.entries, room * sizeof(Entry))
        if entries == NULL:
            raise MemoryError()
        self.entries = entries
        self.room = room
        while places < room + room // 3:
            places *= 2
        if self.index != NULL and places == self.mask + 1:
            return 0
        index = <uint32_t*>calloc(places, sizeof(uint32_t))
        if index == NULL:
            raise MemoryError()
        free(self.index)
        self.index = index
        self.mask = places - 1
        for at in range(self.count):
            place = self.entries[at].hash & self.mask
            while index[place]:
                place = (place + 1) & self.mask
            index[place] = <uint32_t>at + 1
        return 0


cdef inline LinkReceiver link_of(Subscription sub):
    """The link that a subscription came over, None when it is of this server."""
    return (<LinkReceiver>sub.receiver).link() if is_links(sub) else None


cdef inline int64_t part_of(Subscription sub, int weight) noexcept:
    """What it counts for with this weight."""
    return weight if sub.queue is not None else weight > 0
