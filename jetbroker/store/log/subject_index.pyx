# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What finds the messages of one subject in a segment (see subject_index.pxd)."""
import os

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memset

from jetbroker.hashing cimport hash_bytes
from jetbroker.store.format.records cimport SUBJECT_NONE

cdef uint64_t hash_seed = int.from_bytes(os.urandom(8), "little")
cdef uint64_t hash_factor = int.from_bytes(os.urandom(8), "little") | 1


cdef class SubjectTable:
    """The ids of a segment's subjects."""

    def __dealloc__(self) -> None:
        free(self.ids)

    cdef int cover(self, const uint32_t* offsets, const char* text, Py_ssize_t subjects) except -1:
        cdef size_t places = self.mask + 1
        cdef uint32_t* ids
        cdef Py_ssize_t i
        if self.ids == NULL or <size_t>subjects * 2 > places:
            while places < <size_t>subjects * 4:
                places *= 2
            ids = <uint32_t*>malloc(places * 4)
            if ids == NULL:
                raise MemoryError
            free(self.ids)
            self.ids = ids
            self.mask = places - 1
            self.subjects = 0
            memset(ids, 0xFF, places * 4)
        for i in range(self.subjects, subjects):
            self.ids[self.place(offsets, text, text + offsets[i], offsets[i + 1] - offsets[i])] = <uint32_t>i
        self.subjects = subjects
        return 0

    cdef size_t place(self, const uint32_t* offsets, const char* text, const char* subject,
                      Py_ssize_t n) noexcept nogil:
        """Where the subject stands, or would stand."""
        cdef size_t at = hash_bytes(subject, n, hash_seed, hash_factor) & self.mask
        cdef uint32_t i = self.ids[at]
        while i != SUBJECT_NONE and (offsets[i + 1] - offsets[i] != <uint32_t>n
                                     or memcmp(text + offsets[i], subject, n) != 0):
            at = (at + 1) & self.mask
            i = self.ids[at]
        return at

    cdef uint32_t find(self, const uint32_t* offsets, const char* text, const char* subject,
                       Py_ssize_t n) noexcept nogil:
        return self.ids[self.place(offsets, text, subject, n)]

    cdef size_t size(self) noexcept nogil:
        return 4 * (self.mask + 1)


cdef uint32_t* resized(uint32_t* slots, Py_ssize_t count) except NULL:
    cdef uint32_t* made = <uint32_t*>realloc(slots, (count if count else 1) * 4)
    if made == NULL:
        raise MemoryError
    return made


cdef class SlotLinks:
    """The next slot of the same subject, for each slot of a segment."""

    def __dealloc__(self) -> None:
        free(self.following)
        free(self.firsts)
        free(self.lasts)

    cdef int make_room(self, Py_ssize_t slots, Py_ssize_t subjects) except -1:
        cdef Py_ssize_t i
        # a sealed segment gets what it needs, an active one grows further
        if slots > self.capacity:
            slots += slots // 2 if self.capacity else 0
            self.following = resized(self.following, slots)
            self.capacity = slots
        if subjects > self.subjects:
            subjects += subjects // 2 if self.subjects else 0
            self.firsts = resized(self.firsts, subjects)
            self.lasts = resized(self.lasts, subjects)
            for i in range(self.subjects, subjects):
                self.firsts[i] = SLOT_NONE
            self.subjects = subjects
        return 0

    cdef size_t size(self) noexcept nogil:
        return 4 * (self.capacity + 2 * self.subjects)

    cdef int cover(self, const uint32_t* ids, Py_ssize_t slots, Py_ssize_t subjects) except -1:
        cdef Py_ssize_t slot
        cdef uint32_t subject
        if slots == self.slots:
            return 0
        self.make_room(slots, subjects)
        for slot in range(self.slots, slots):
            subject = ids[slot]
            self.following[slot] = SLOT_NONE
            if subject == SUBJECT_NONE:
                continue
            if self.firsts[subject] == SLOT_NONE:
                self.firsts[subject] = <uint32_t>slot
            else:
                self.following[self.lasts[subject]] = <uint32_t>slot
            self.lasts[subject] = <uint32_t>slot
        self.slots = slots
        return 0
