# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A hash table in one piece of memory (see slots.pxd).

Linear probing. A removal moves those behind it up, so there are no traces of what was removed.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libc.stdlib cimport free

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


cdef class Slots:
    """The entries; whoever derives from it compares names."""

    def __dealloc__(self) -> None:
        self.clear()

    cdef int put(self, uint64_t h, object holder) except -1:
        cdef size_t at
        if self.slots == NULL:
            self.resize(LEAST_SLOTS)
        elif self.count >= (self.mask + 1) // 4 * 3:
            self.resize((self.mask + 1) * 2)
        at = h & self.mask
        while self.slots[at].holder != NULL:
            at = (at + 1) & self.mask
        Py_INCREF(holder)
        self.slots[at].hash = h
        self.slots[at].holder = <PyObject*>holder
        self.count += 1
        return 0

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
        if self.mask >= LEAST_SLOTS and self.count < (self.mask + 1) // 8:
            self.resize((self.mask + 1) // 2)
        return 0

    cdef int clear(self) except -1:
        cdef Slot* slots = self.slots
        cdef size_t at
        if slots == NULL:
            return 0
        self.slots = NULL
        self.count = 0
        for at in range(self.mask + 1):
            if slots[at].holder != NULL:
                Py_DECREF(<object>slots[at].holder)
        free(slots)
        return 0

    cdef int resize(self, size_t capacity) except -1:
        cdef Slot* grown = <Slot*>make_slots(capacity * sizeof(Slot))
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
