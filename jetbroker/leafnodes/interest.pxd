"""What links are told: the interest of an account, each link's part in it, and what each link has been told of it."""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memchr

from jetbroker.routing.links cimport LinkReceiver, Links
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Subscription
from jetbroker.tick cimport TickTask
from jetbroker.wire.buffer cimport OutputBuffer


# CR ends a word in the lines of links, though not in those of clients: what has one would be read as others' words.
cdef inline bint is_word(const char* p, Py_ssize_t n) noexcept nogil:
    return memchr(p, c'\r', n) == NULL


cdef struct Entry:
    PyObject* subject                  # bytes, owned
    PyObject* queue                    # bytes, owned; NULL: plain interest
    # Over which links a part of `total` came. NULL: none, as for most. A LinkReceiver, or Sources. Owned.
    PyObject* sources
    int64_t total                      # subscriptions, or members of the queue group
    int64_t share                      # those of links
    uint32_t hash


cdef class Sources:
    """How much of an entry came over which links, where there are several of them."""
    cdef dict shares                   # by link
    cdef dict clusters                 # (is_spoke, cluster): the sum of its links
    cdef int64_t[2] sums               # by is_spoke

    cdef int add(self, LinkReceiver link, int64_t delta) except -1
    # How much came over links of a kind without this one, and those of its cluster.
    cdef int64_t of_others(self, bint is_spoke, LinkReceiver link) except? -1


cdef class LinkView(TickTask):
    """What one link sees of an account's interest, and what it has been told. Its owner makes a class of its own of it.

    hears, may_tell and write must not change any interest.
    """
    cdef readonly LinkReceiver link
    cdef Ledger ledger                 # None: before add() and after forget()
    cdef unsigned char* told           # a bit for each entry
    cdef size_t told_room              # entries there is room for
    cdef size_t cursor                 # entries below it are still to be looked at
    cdef object walker                 # the task that does so in turns, None for most
    cdef bint anew                     # what was told is looked at, too: it may have to be taken back
    cdef OutputBuffer lines            # to be written
    cdef uint64_t judged               # units of about 50 ns that permissions have taken

    # Is this link told of this subject when it came over links that this server is the spoke of (else: the hub)?
    cpdef bint hears(self, bint of_hubs, bytes subject) except -1
    # Do permissions allow to tell it? Adds what that takes to `judged`.
    cpdef bint may_tell(self, bytes subject) except -1
    # Does it have to send so much that the walk over all entries shall wait for resume()?
    cpdef bint is_behind(self) except -1
    # LS+ and LS- lines to send.
    cpdef int write(self, bytes lines) except -1
    # Write what is to be told. Before each message that goes over the link: who answers it must know where to.
    cdef int flush(self) except -1

    cdef bint sees(self, LinkReceiver source, bytes subject) except -1
    cdef int64_t visible(self, Entry* entry) except? -1
    cdef int reserve(self, size_t entries) except -1
    cdef int move(self, size_t origin, size_t target) noexcept
    cdef bint has_told(self, size_t at) noexcept
    cdef int note(self, size_t at, bint told) noexcept
    cdef int sync(self, size_t at, bint changed) except -1
    cdef int tell(self, Entry* entry, int64_t number) except -1
    cdef int walk(self) except -1
    cdef bint step(self) except -1


cdef class Ledger(Links):
    """The interest of an account, counted by subject and queue group."""
    cdef readonly Router router
    cdef Entry* entries
    cdef readonly size_t count
    cdef size_t room
    cdef uint32_t* index               # open addressing: number of an entry + 1, 0: free
    cdef size_t mask                   # number of places - 1; they are a power of two
    cdef list views
    cdef dict statics                  # subject: how often it was added

    # Take a link in: it is told everything it may see, at once when that is little, else in slices.
    cpdef int add(self, LinkView view) except -1
    # The link is gone. What came over it goes as its subscriptions go.
    cpdef int forget(self, LinkView view) except -1
    # What the link may be told, or hears, has changed: in slices, too.
    cpdef int retell(self, LinkView view) except -1
    # Interest without a subscription.
    cpdef int add_static(self, bytes subject) except -1
    cpdef int remove_static(self, bytes subject) except -1

    cdef int change(self, bytes subject, bytes queue, LinkReceiver link, int64_t delta) except -1
    cdef int share(self, Entry* entry, LinkReceiver link, int64_t delta) except -1
    cdef Py_ssize_t find(self, bytes subject, bytes queue, uint32_t h) noexcept
    cdef Py_ssize_t insert(self, bytes subject, bytes queue, uint32_t h) except? -1
    cdef int remove(self, size_t at) except -1
    cdef size_t place_of(self, size_t at) noexcept
    cdef int free_place(self, size_t place) noexcept
    cdef int resize(self, size_t room) except -1
