# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The subjects of a log that have messages (see live_subjects.pxd)."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from jetbroker.hashing cimport hash_bytes
from jetbroker.slots cimport Slot, Slots
from jetbroker.store.log.stream_log cimport SubjectState

cdef extern from *:
    void fetch_line "__builtin_prefetch"(const void*) noexcept nogil

cdef uint64_t hash_seed = int.from_bytes(os.urandom(8), "little")
cdef uint64_t hash_factor = int.from_bytes(os.urandom(8), "little") | 1


cdef inline uint64_t hash_of(const char* subject, Py_ssize_t n) noexcept nogil:
    return hash_bytes(subject, n, hash_seed, hash_factor)


cdef class LiveSubjects(Slots):
    """What is known of each."""

    def __len__(self):
        return self.count

    cdef SubjectState find(self, const char* subject, Py_ssize_t n):
        cdef Slot* slot
        cdef PyObject* own
        cdef uint64_t h
        cdef size_t at
        if self.slots == NULL:
            return None
        h = hash_of(subject, n)
        at = h & self.mask
        while True:
            slot = self.slots + at
            if slot.holder == NULL:
                return None
            if slot.hash == h:
                own = <PyObject*>(<SubjectState>slot.holder).subject
                if (PyBytes_GET_SIZE(<bytes>own) == n
                        and memcmp(PyBytes_AS_STRING(<bytes>own), subject, n) == 0):
                    return <SubjectState>slot.holder
            at = (at + 1) & self.mask

    cdef SubjectState get(self, bytes subject):
        return self.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    cdef void expect(self, const char* subject, Py_ssize_t n) noexcept:
        if self.slots != NULL:
            fetch_line(&self.slots[hash_of(subject, n) & self.mask])

    cdef PyObject* candidate(self, const char* subject, Py_ssize_t n) noexcept:
        cdef uint64_t h = hash_of(subject, n)
        cdef size_t at = h & self.mask
        if self.slots == NULL:
            return NULL
        while self.slots[at].holder != NULL and self.slots[at].hash != h:
            at = (at + 1) & self.mask
        return self.slots[at].holder

    cdef int add(self, SubjectState state) except -1:
        return self.put(hash_of(PyBytes_AS_STRING(state.subject), PyBytes_GET_SIZE(state.subject)), state)

    cdef int discard(self, SubjectState state) except -1:
        cdef size_t at
        if self.slots == NULL:
            return 0
        at = hash_of(PyBytes_AS_STRING(state.subject), PyBytes_GET_SIZE(state.subject)) & self.mask
        while self.slots[at].holder != NULL:
            if self.slots[at].holder == <PyObject*>state:
                return self.drop(at)
            at = (at + 1) & self.mask
        return 0

    cdef list states(self):
        cdef list found = []
        cdef size_t at
        if self.slots != NULL:
            for at in range(self.mask + 1):
                if self.slots[at].holder != NULL:
                    found.append(<object>self.slots[at].holder)
        return found
