# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A hash table in two pieces of memory (see slots.pxd).

Linear probing. A removal moves those behind it up, so there are no traces of what was removed.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

cdef extern from *:
    """
    #include <stdlib.h>
    #include <sys/mman.h>
    #define HUGE_PAGE ((size_t) 2 << 20)
    /* Large tables in huge pages where there are such: a look-up would miss the TLB as well as the cache. */
    static void *make_places(size_t bytes) {
        void *made = NULL;
        if (bytes < HUGE_PAGE)
            return malloc(bytes);
        if (posix_memalign(&made, HUGE_PAGE, bytes) != 0)
            return NULL;
    #ifdef MADV_HUGEPAGE
        (void) madvise(made, bytes, MADV_HUGEPAGE);
    #endif
        return made;
    }
    """
    void* make_places(size_t bytes) noexcept nogil

cdef size_t LEAST_SLOTS = 16


cdef class Slots:
    """The entries; whoever derives from it compares names."""

    def __dealloc__(self) -> None:
        self.clear()

    cdef int put(self, uint64_t h, object holder) except -1:
        cdef uint32_t tag = tag_of(h)
        cdef size_t at
        if self.tags == NULL:
            self.resize(LEAST_SLOTS)
        elif self.count >= (self.mask + 1) // 4 * 3:
            self.resize((self.mask + 1) * 2)
        at = tag & self.mask
        while self.tags[at]:
            at = (at + 1) & self.mask
        Py_INCREF(holder)
        self.tags[at] = tag
        self.holders[at] = <PyObject*>holder
        self.count += 1
        return 0

    cdef int drop(self, size_t at) except -1:
        """Free a slot; those that stand further on than they would like move up."""
        cdef size_t behind = at
        cdef object holder = <object>self.holders[at]
        Py_DECREF(holder)
        self.count -= 1
        while True:
            behind = (behind + 1) & self.mask
            if not self.tags[behind]:
                break
            if ((behind - self.tags[behind]) & self.mask) >= ((behind - at) & self.mask):
                self.tags[at] = self.tags[behind]
                self.holders[at] = self.holders[behind]
                at = behind
        self.tags[at] = 0
        if self.mask >= LEAST_SLOTS and self.count < (self.mask + 1) // 8:
            self.resize((self.mask + 1) // 2)
        return 0

    cdef int discard_holder(self, uint64_t h, object holder) except -1:
        cdef uint32_t tag = tag_of(h)
        cdef Py_ssize_t at = self.seek(tag, tag)
        while at >= 0 and self.holders[at] != <PyObject*>holder:
            at = self.seek(tag, at + 1)
        return 0 if at < 0 else self.drop(at)

    cdef int clear(self) except -1:
        cdef uint32_t* tags = self.tags
        cdef PyObject** holders = self.holders
        cdef size_t at
        if tags == NULL:
            return 0
        self.tags = NULL
        self.holders = NULL
        self.count = 0
        for at in range(self.mask + 1):
            if tags[at]:
                Py_DECREF(<object>holders[at])
        free(tags)
        free(holders)
        return 0

    cdef int resize(self, size_t capacity) except -1:
        cdef uint32_t* tags = <uint32_t*>make_places(capacity * sizeof(uint32_t))
        cdef PyObject** holders = <PyObject**>make_places(capacity * sizeof(PyObject*))
        cdef size_t old, at
        if tags == NULL or holders == NULL:
            free(tags)
            free(holders)
            raise MemoryError()
        memset(tags, 0, capacity * sizeof(uint32_t))
        if self.tags != NULL:
            for old in range(self.mask + 1):
                if self.tags[old]:
                    at = self.tags[old] & (capacity - 1)
                    while tags[at]:
                        at = (at + 1) & (capacity - 1)
                    tags[at] = self.tags[old]
                    holders[at] = self.holders[old]
            free(self.tags)
            free(self.holders)
        self.tags = tags
        self.holders = holders
        self.mask = capacity - 1
        return 0
