# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The subscriptions to literal subjects, by the hash of the whole subject (see literals.pxd)."""
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

from jetbroker.routing.subscription cimport Subscription
from jetbroker.slots cimport Slots, tag_of

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

    cdef PyObject** find(self, const char* subject, Py_ssize_t n) noexcept:
        cdef uint32_t tag = tag_of(hash_subject(subject, n))
        cdef Py_ssize_t at = self.seek(tag, tag)
        cdef PyObject* own
        while at >= 0:
            if is_alone(self.holders[at]):
                own = <PyObject*>(<Subscription><object>self.holders[at]).subject
            else:
                own = <PyObject*>(<Literal><object>self.holders[at]).subject
            if (PyBytes_GET_SIZE(<bytes><object>own) == n
                    and memcmp(PyBytes_AS_STRING(<bytes><object>own), subject, n) == 0):
                return self.holders + at
            at = self.seek(tag, at + 1)
        return NULL

    cdef Members members(self, const char* subject, Py_ssize_t n):
        cdef PyObject** found = self.find(subject, n)
        return None if found == NULL else members_of(found[0])

    cdef int insert(self, Subscription sub) except -1:
        cdef const char* subject = PyBytes_AS_STRING(sub.subject)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(sub.subject)
        cdef PyObject** found = self.find(subject, n)
        cdef Literal literal
        if found != NULL and not is_alone(found[0]):
            return (<Literal><object>found[0]).put_in(sub)
        if found != NULL:
            literal = <Literal>members_of(found[0])
            Py_DECREF(literal.single)  # it has one of its own
            Py_INCREF(literal)
            found[0] = <PyObject*>literal
            return literal.put_in(sub)
        if sub.queue is None:
            return self.put(hash_subject(subject, n), sub)
        literal = Literal.__new__(Literal)
        literal.subject = sub.subject
        literal.put_in(sub)
        return self.put(hash_subject(subject, n), literal)

    cdef bint remove(self, Subscription sub) except -1:
        cdef PyObject** found = self.find(PyBytes_AS_STRING(sub.subject), PyBytes_GET_SIZE(sub.subject))
        cdef Literal literal
        if found == NULL:
            return False
        if is_alone(found[0]):
            if found[0] != <PyObject*>sub:
                return False
        else:
            literal = <Literal><object>found[0]
            if not literal.take_out(sub):
                return False
            if literal.has_members():
                return True
        self.drop(found - self.holders)
        return True
