"""A binary heap of what is due when, in an array of the caller's: the earliest first."""
from libc.stdint cimport int64_t, uint64_t


cdef struct Due:
    int64_t when_ns
    uint64_t seq


# Of what is due at the same time the lower sequence comes first: what one tick delivered has one deadline, and only
# the last message of a subject leaves a marker.
cdef inline bint is_before(const Due* a, const Due* b) noexcept nogil:
    return a.when_ns < b.when_ns or (a.when_ns == b.when_ns and a.seq < b.seq)


# There must be room behind the `size` entries.
cdef inline void heap_add(Due* heap, Py_ssize_t size, int64_t when_ns, uint64_t seq) noexcept nogil:
    cdef Due added
    cdef Py_ssize_t at = size
    cdef Py_ssize_t parent
    added.when_ns = when_ns
    added.seq = seq
    # times mostly grow: the new entry usually stays where it is
    while at > 0:
        parent = (at - 1) >> 1
        if not is_before(&added, &heap[parent]):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = added


cdef inline void sift_down(Due* heap, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
    cdef Due moved = heap[at]
    cdef Py_ssize_t child = 2 * at + 1
    while child < size:
        if child + 1 < size and is_before(&heap[child + 1], &heap[child]):
            child += 1
        if not is_before(&heap[child], &moved):
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = moved


# Without its first entry; `size` counts those that are left.
cdef inline void heap_drop_first(Due* heap, Py_ssize_t size) noexcept nogil:
    if size > 0:
        heap[0] = heap[size]
        sift_down(heap, size, 0)


# From entries in any order.
cdef inline void heapify(Due* heap, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(size // 2 - 1, -1, -1):
        sift_down(heap, size, at)
