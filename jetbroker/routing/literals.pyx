# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The subscriptions to literal subjects, by the hash of the whole subject (see literals.pxd)."""
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from jetbroker.routing.subscription cimport Subscription
from jetbroker.slots cimport Slot, Slots

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


cdef class Literals(Slots):
    """All subscriptions of an account to literal subjects."""

    cdef Slot* find(self, const char* subject, Py_ssize_t n) noexcept:
        cdef Slot* slot
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

    cdef Members members(self, const char* subject, Py_ssize_t n):
        cdef Slot* slot = self.find(subject, n)
        return None if slot == NULL else members_of(slot.holder)

    cdef int insert(self, Subscription sub) except -1:
        cdef const char* subject = PyBytes_AS_STRING(sub.subject)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(sub.subject)
        cdef Slot* slot = self.find(subject, n)
        cdef Literal literal
        if slot != NULL and not is_alone(slot.holder):
            return (<Literal><object>slot.holder).put_in(sub)
        if slot != NULL:
            literal = <Literal>members_of(slot.holder)
            Py_DECREF(literal.single)  # it has one of its own
            Py_INCREF(literal)
            slot.holder = <PyObject*>literal
            return literal.put_in(sub)
        if sub.queue is None:
            return self.put(hash_subject(subject, n), sub)
        literal = Literal.__new__(Literal)
        literal.subject = sub.subject
        literal.put_in(sub)
        return self.put(hash_subject(subject, n), literal)

    cdef bint remove(self, Subscription sub) except -1:
        cdef Slot* slot = self.find(PyBytes_AS_STRING(sub.subject), PyBytes_GET_SIZE(sub.subject))
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
        return True
