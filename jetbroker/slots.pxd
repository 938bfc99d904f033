"""A hash table in one piece of memory: what is needed of a table whose entries know their own names."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef struct Slot:
    uint64_t hash
    PyObject* holder            # owned; NULL: free


cdef class Slots:
    """Open addressing. A look-up visits few places in memory (each costs more than all that is computed) and makes no
    Python object. It starts at `hash & mask` and goes on to the next slot until one has the name, or is free."""
    cdef Slot* slots            # NULL as long as there never was an entry
    cdef size_t mask            # number of slots - 1; they are a power of two
    cdef readonly size_t count

    cdef int put(self, uint64_t h, object holder) except -1    # one that is not there yet
    cdef int drop(self, size_t at) except -1
    cdef int clear(self) except -1
    cdef int resize(self, size_t capacity) except -1
