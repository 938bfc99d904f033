# cython: boundscheck=False, wraparound=False
"""What a log knows of its subjects (see subject_states.pxd)."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from jetbroker.hashing cimport hash_bytes
from jetbroker.slots cimport Slots, tag_of
from jetbroker.store.log.segment cimport Segment
from jetbroker.store.log.stream_log cimport SubjectFilter, SubjectState
from jetbroker.wire.subjects cimport has_wildcard


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


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)


cdef inline SubjectState made_state(bytes subject):
    cdef SubjectState state = SubjectState.__new__(SubjectState)
    state.subject = subject
    return state


cdef class SubjectStates:
    """The states of one log's subjects. Whoever keeps one sees the counts of later messages too."""

    def __cinit__(self):
        self.live = LiveSubjects()
        self.retired = {}
        self.retired_bound = 1024

    cdef SubjectState find(self, const char* subject, Py_ssize_t n):
        cdef SubjectState state = self.live.find(subject, n)
        return self.without_messages(subject, n) if state is None else state

    cdef SubjectState without_messages(self, const char* subject, Py_ssize_t n):
        cdef SubjectState state = self.newest
        cdef bytes name
        if (state is not None and PyBytes_GET_SIZE(state.subject) == n
                and memcmp(PyBytes_AS_STRING(state.subject), subject, n) == 0):
            return state
        name = PyBytes_FromStringAndSize(subject, n)
        state = <SubjectState>self.retired.get(name) if self.retired else None
        if state is None:
            if self.newest is not None:
                self.keep_retired(self.newest)
            self.newest = state = made_state(name)
        return state

    cdef int revive(self, SubjectState state) except -1:
        if state is self.newest:
            self.newest = None
        else:
            self.retired.pop(state.subject, None)
        return self.live.add(state)

    cdef int retire(self, SubjectState state) except -1:
        self.live.discard(state)
        return self.keep_retired(state)

    cdef int keep_retired(self, SubjectState state) except -1:
        cdef bytes subject
        self.retired[state.subject] = state
        if len(self.retired) > self.retired_bound:
            for subject in list(self.retired):
                # 2: the dict's own reference and nobody else's but this look-up
                if Py_REFCNT(<PyObject*>self.retired[subject]) <= 2 and self.retired[subject] is not state:
                    del self.retired[subject]
            self.retired_bound = 2 * len(self.retired) + 1024
        return 0

    cdef int retire_all(self) except -1:
        cdef SubjectState state
        cdef list states = self.live.states()
        self.live.clear()
        for state in states:
            state.count = 0
            # 2: the list, this loop's variable and nobody else
            if Py_REFCNT(<PyObject*>state) > 2:
                self.retired[state.subject] = state
        return 0

    cdef SubjectState found(self, bytes subject, uint64_t count, uint64_t first, uint64_t last):
        cdef SubjectState state = self.live.get(subject)
        if state is None:
            state = made_state(subject)
            state.first_hint = first
            self.live.add(state)
        state.count += count
        state.last = last
        return state

    cdef int count_segment(self, Segment segment) except -1:
        cdef Py_ssize_t slot
        cdef uint32_t i
        cdef uint64_t* counts
        cdef uint32_t* firsts
        cdef uint32_t* lasts
        cdef SubjectState state
        if segment.slots == 0:
            return 0
        counts = <uint64_t*>calloc(segment.subjects + 1, 16)
        if counts == NULL:
            raise MemoryError
        firsts = <uint32_t*>(counts + segment.subjects + 1)
        lasts = firsts + segment.subjects + 1
        try:
            slot = segment.next_live(0, segment.slots)
            while slot >= 0:
                i = segment.ids[slot]
                if counts[i] == 0:
                    firsts[i] = <uint32_t>slot
                counts[i] += 1
                lasts[i] = <uint32_t>slot
                slot = segment.next_live(slot + 1, segment.slots)
            for i in range(<uint32_t>segment.subjects):
                if counts[i]:
                    state = self.found(segment.subject_text(i)[:segment.subject_len(i)], counts[i],
                                       segment.first_seq + firsts[i], segment.first_seq + lasts[i])
                    state.segment_tag = segment.tag
                    state.subject_id = i
        finally:
            free(counts)
        return 0

    cdef int moved(self, Segment segment) except -1:
        cdef SubjectState state
        cdef uint32_t i
        for i in range(<uint32_t>segment.subjects):
            state = self.live.find(segment.subject_text(i), segment.subject_len(i))
            if state is not None:
                state.segment_tag = segment.tag
                state.subject_id = i
        return 0

    cdef list matching(self, SubjectFilter filter):
        cdef SubjectState state
        if not filter.patterns:
            return self.live.states()
        if not [p for p in filter.patterns if has_wildcard(p, len(p))]:
            states = [self.live.get(<bytes>pattern) for pattern in set(filter.patterns)]
            return [state for state in states if state is not None]
        return [state for state in self.live.states()
                if filter.matches(state.subject, PyBytes_GET_SIZE(state.subject))]
