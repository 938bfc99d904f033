# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The subjects of a log that have messages (see live_subjects.pxd)."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

from jetbroker.hashing cimport hash_bytes
from jetbroker.slots cimport Slots, tag_of
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
        cdef uint32_t tag = tag_of(hash_of(subject, n))
        cdef Py_ssize_t at = self.seek(tag, tag)
        cdef PyObject* own
        while at >= 0:
            own = <PyObject*>(<SubjectState>self.holders[at]).subject
            if PyBytes_GET_SIZE(<bytes>own) == n and memcmp(PyBytes_AS_STRING(<bytes>own), subject, n) == 0:
                return <SubjectState>self.holders[at]
            at = self.seek(tag, at + 1)
        return None

    cdef SubjectState get(self, bytes subject):
        return self.find(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    cdef void expect(self, const char* subject, Py_ssize_t n) noexcept:
        cdef size_t at
        if self.tags != NULL:
            at = tag_of(hash_of(subject, n)) & self.mask
            fetch_line(&self.tags[at])
            fetch_line(&self.holders[at])

    cdef PyObject* candidate(self, const char* subject, Py_ssize_t n) noexcept:
        cdef uint32_t tag = tag_of(hash_of(subject, n))
        cdef Py_ssize_t at = self.seek(tag, tag)
        return NULL if at < 0 else self.holders[at]

    cdef int add(self, SubjectState state) except -1:
        return self.put(hash_of(PyBytes_AS_STRING(state.subject), PyBytes_GET_SIZE(state.subject)), state)

    cdef int discard(self, SubjectState state) except -1:
        return self.discard_holder(hash_of(PyBytes_AS_STRING(state.subject), PyBytes_GET_SIZE(state.subject)), state)

    cdef list states(self):
        cdef list found = []
        cdef size_t at
        if self.tags != NULL:
            for at in range(self.mask + 1):
                if self.tags[at]:
                    found.append(<object>self.holders[at])
        return found
