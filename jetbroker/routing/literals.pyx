# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The subscriptions to literal subjects, by the hash of the whole subject (see literals.pxd).

Linear probing. A removal moves those behind it up, so there are no traces of what was removed.
"""
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from jetbroker.routing.subscription cimport Subscription

cdef extern from *:
    """
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #define HUGE_PAGE ((size_t) 2 << 20)
    /* Zeroed. Large tables in huge pages where there are such: a look-up would miss the TLB as well as the cache. */
    static void *make_slots(size_t bytes) {
        void *made = NULL;
        if (bytes < HUGE_PAGE)
            return calloc(1, bytes);
        if (posix_memalign(&made, HUGE_PAGE, bytes) != 0)
            return NULL;
    #ifdef MADV_HUGEPAGE
        (void) madvise(made, bytes, MADV_HUGEPAGE);
    #endif
        return memset(made, 0, bytes);
    }
    """
    void* make_slots(size_t bytes) noexcept nogil

cdef size_t LEAST_SLOTS = 16

hash_seed = int.from_bytes(os.urandom(8), "little")
hash_factor = int.from_bytes(os.urandom(8), "little") | 1


@cython.no_gc  # as Subscription
cdef class Members:
    """The subscriptions to one subject."""

    cdef bint has_members(self) noexcept:
        return self.single is not None or self.plain is not None or self.queues is not None

    cdef object plain_members(self):
        if self.plain is not None:
            return self.plain
        return () if self.single is None else (self.single,)

    cdef int put_in(self, Subscription sub) except -1:
        if sub.queue is not None:
            if self.queues is None:
                self.queues = {}
            (<dict>self.queues.setdefault(sub.queue, {}))[sub] = None
        elif self.plain is not None:
            self.plain[sub] = None
        elif self.single is None:
            self.single = sub
        else:
            self.plain = {self.single: None, sub: None}
            self.single = None
        return 0

    cdef bint take_out(self, Subscription sub) except -1:
        cdef dict members
        if sub.queue is None:
            if self.single is sub:
                self.single = None
                return True
            if self.plain is None or sub not in self.plain:
                return False
            del self.plain[sub]
            if not self.plain:
                self.plain = None
            return True
        members = None if self.queues is None else <dict>self.queues.get(sub.queue)
        if members is None or sub not in members:
            return False
        del members[sub]
        if not members:
            del self.queues[sub.queue]
            if not self.queues:
                self.queues = None
        return True


@cython.no_gc
cdef class Literal(Members):
    """The subscriptions to a literal subject."""


cdef class Literals:
    """All subscriptions of an account to literal subjects."""

    def __dealloc__(self) -> None:
        cdef size_t at
        if self.slots == NULL:
            return
        for at in range(self.mask + 1):
            if self.slots[at].holder != NULL:
                Py_DECREF(<object>self.slots[at].holder)
        free(self.slots)

    cdef LiteralSlot* find(self, const char* subject, Py_ssize_t n) noexcept:
        cdef LiteralSlot* slot
        cdef PyObject* own
        cdef uint64_t h
        cdef size_t at
        if self.slots == NULL:
            return NULL
        h = hash_subject(subject, n)
        at = h & self.mask
        while True:
            slot = self.slots + at
            if slot.holder == NULL:
                return NULL
            if slot.hash == h:
                if is_alone(slot.holder):
                    own = <PyObject*>(<Subscription><object>slot.holder).subject
                else:
                    own = <PyObject*>(<Literal><object>slot.holder).subject
                if (PyBytes_GET_SIZE(<bytes><object>own) == n
                        and memcmp(PyBytes_AS_STRING(<bytes><object>own), subject, n) == 0):
                    return slot
            at = (at + 1) & self.mask

    cdef Subscription alone(self, const char* subject, Py_ssize_t n):
        cdef LiteralSlot* slot = self.find(subject, n)
        if slot == NULL or not is_alone(slot.holder):
            return None
        return <Subscription><object>slot.holder

    cdef Members members(self, const char* subject, Py_ssize_t n):
        cdef LiteralSlot* slot = self.find(subject, n)
        return None if slot == NULL else members_of(slot.holder)

    cdef int insert(self, Subscription sub) except -1:
        cdef const char* subject = PyBytes_AS_STRING(sub.subject)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(sub.subject)
        cdef LiteralSlot* slot = self.find(subject, n)
        cdef Literal literal
        cdef size_t at
        if slot != NULL and not is_alone(slot.holder):
            return (<Literal><object>slot.holder).put_in(sub)
        if slot != NULL:
            literal = <Literal>members_of(slot.holder)
            Py_DECREF(literal.single)  # it has one of its own
            Py_INCREF(literal)
            slot.holder = <PyObject*>literal
            return literal.put_in(sub)
        if self.slots == NULL:
            self.resize(LEAST_SLOTS)
        elif self.count >= (self.mask + 1) // 4 * 3:
            self.resize((self.mask + 1) * 2)
        at = hash_subject(subject, n) & self.mask
        while self.slots[at].holder != NULL:
            at = (at + 1) & self.mask
        if sub.queue is None:
            holder = sub
        else:
            literal = Literal.__new__(Literal)
            literal.subject = sub.subject
            literal.put_in(sub)
            holder = literal
        Py_INCREF(holder)
        self.slots[at].hash = hash_subject(subject, n)
        self.slots[at].holder = <PyObject*>holder
        self.count += 1
        return 0

    cdef bint remove(self, Subscription sub) except -1:
        cdef LiteralSlot* slot = self.find(PyBytes_AS_STRING(sub.subject), PyBytes_GET_SIZE(sub.subject))
        cdef Literal literal
        if slot == NULL:
            return False
        if is_alone(slot.holder):
            if slot.holder != <PyObject*>sub:
                return False
        else:
            literal = <Literal><object>slot.holder
            if not literal.take_out(sub):
                return False
            if literal.has_members():
                return True
        self.drop(slot - self.slots)
        if self.mask >= LEAST_SLOTS and self.count < (self.mask + 1) // 8:
            self.resize((self.mask + 1) // 2)
        return True

    cdef int drop(self, size_t at) except -1:
        """Free a slot; those that stand further on than they would like move up."""
        cdef size_t behind = at
        cdef size_t wanted
        cdef object holder = <object>self.slots[at].holder
        Py_DECREF(holder)
        self.count -= 1
        while True:
            behind = (behind + 1) & self.mask
            if self.slots[behind].holder == NULL:
                break
            wanted = self.slots[behind].hash & self.mask
            if ((behind - wanted) & self.mask) >= ((behind - at) & self.mask):
                self.slots[at] = self.slots[behind]
                at = behind
        self.slots[at].holder = NULL
        return 0

    cdef int resize(self, size_t capacity) except -1:
        cdef LiteralSlot* grown = <LiteralSlot*>make_slots(capacity * sizeof(LiteralSlot))
        cdef size_t old, at
        if grown == NULL:
            raise MemoryError()
        if self.slots != NULL:
            for old in range(self.mask + 1):
                if self.slots[old].holder != NULL:
                    at = self.slots[old].hash & (capacity - 1)
                    while grown[at].holder != NULL:
                        at = (at + 1) & (capacity - 1)
                    grown[at] = self.slots[old]
            free(self.slots)
        self.slots = grown
        self.mask = capacity - 1
        return 0
