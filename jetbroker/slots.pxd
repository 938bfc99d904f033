"""A hash table in two pieces of memory: what is needed of a table whose entries know their own names."""
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t


cdef inline uint32_t tag_of(uint64_t h) noexcept nogil:
    """What is kept of a hash: never 0."""
    return <uint32_t>h if <uint32_t>h else 1


cdef class Slots:
    """Open addressing. A look-up visits few places in memory (each costs more than all that is computed) and makes no
    Python object. The tags lie close together, so that what is not there is told without anything else, mostly from
    the processor's cache."""
    cdef uint32_t* tags         # 0: free. NULL as long as there never was an entry
    cdef PyObject** holders     # owned, where there is a tag
    cdef size_t mask            # number of slots - 1; they are a power of two
    cdef readonly size_t count

    # The next slot from `at` on that has this tag, beginning with `tag & mask`; -1: there is none. Others may have the
    # same tag: whoever asks compares names, and goes on with `at + 1`.
    cdef inline Py_ssize_t seek(self, uint32_t tag, size_t at) noexcept nogil:
        if self.tags == NULL:
            return -1
        at &= self.mask
        while self.tags[at]:
            if self.tags[at] == tag:
                return at
            at = (at + 1) & self.mask
        return -1

    cdef int put(self, uint64_t h, object holder) except -1    # one that is not there yet
    cdef int drop(self, size_t at) except -1
    # Drop a holder that was put with this hash; harmless when it is not there.
    cdef int discard_holder(self, uint64_t h, object holder) except -1
    cdef int clear(self) except -1
    cdef int resize(self, size_t capacity) except -1
