# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Footers of packed segments, which are compressed too: with small messages they would take half of the file.

Offsets are kept as what is left when the end of the record before is taken away, times as differences, and every
column as byte planes: all first bytes, then all second ones.  The rest of the footer is where it was.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from jetbroker.store.format cimport (
    OFFSET_EMPTY, OFFSET_LOST, RECORD_HEADER, SIZE_MASK, FooterLayout, load_u32, load_u64, parse_footer, store_u64,
)
from jetbroker.store.frames import decompress

cdef int LENGTH_BYTES = 8              # u64: bytes of the plain footer, in front


cdef int split_planes(char* column, Py_ssize_t n, int width) except -1:
    """Make byte planes of a column, in place."""
    cdef char* planes = <char*>malloc(max(n * width, 1))
    cdef Py_ssize_t i
    cdef int k
    if planes == NULL:
        raise MemoryError
    with nogil:
        for k in range(width):
            for i in range(n):
                planes[k * n + i] = column[i * width + k]
        memcpy(column, planes, n * width)
    free(planes)
    return 0


cdef int join_planes(char* column, Py_ssize_t n, int width) except -1:
    """The reverse of split_planes."""
    cdef char* planes = <char*>malloc(max(n * width, 1))
    cdef Py_ssize_t i
    cdef int k
    if planes == NULL:
        raise MemoryError
    with nogil:
        memcpy(planes, column, n * width)
        for k in range(width):
            for i in range(n):
                column[i * width + k] = planes[k * n + i]
    free(planes)
    return 0


cdef uint32_t record_end(const char* p, const FooterLayout* f, Py_ssize_t slot, uint32_t offset) noexcept nogil:
    """Where the record of a slot ends; what it is without a record only has to be the same each time."""
    cdef uint32_t subject = load_u32(p + f.subject_ids_at + 4 * slot)
    if offset == OFFSET_EMPTY or offset == OFFSET_LOST or subject >= f.subjects:
        return 0
    return offset + RECORD_HEADER + (load_u32(p + f.sizes_at + 4 * slot) & SIZE_MASK) \
        + load_u32(p + f.subject_offsets_at + 4 * (subject + 1)) - load_u32(p + f.subject_offsets_at + 4 * subject)


cdef void take_differences(char* p, const FooterLayout* f) noexcept nogil:
    cdef uint32_t* offsets = <uint32_t*>(p + f.offsets_at)
    cdef uint64_t* times = <uint64_t*>(p + f.times_at)
    cdef uint32_t expected = 0
    cdef uint32_t offset
    cdef uint32_t end
    cdef uint64_t before = 0
    cdef uint64_t time
    cdef Py_ssize_t i
    for i in range(<Py_ssize_t>f.slots):
        offset = offsets[i]
        offsets[i] = offset - expected
        end = record_end(p, f, i, offset)
        if end:
            expected = end
        time = times[i]
        times[i] = time - before
        before = time


cdef void add_differences(char* p, const FooterLayout* f) noexcept nogil:
    cdef uint32_t* offsets = <uint32_t*>(p + f.offsets_at)
    cdef uint64_t* times = <uint64_t*>(p + f.times_at)
    cdef uint32_t expected = 0
    cdef uint32_t end
    cdef uint64_t before = 0
    cdef Py_ssize_t i
    for i in range(<Py_ssize_t>f.slots):
        offsets[i] += expected
        end = record_end(p, f, i, offsets[i])
        if end:
            expected = end
        times[i] += before
        before = times[i]


def pack_footer(bytes footer not None, compressor):
    """The footer of a plain segment as a packed one has it. `compressor` is one of frames.new_compressor."""
    cdef Py_ssize_t n = PyBytes_GET_SIZE(footer)
    cdef bytes work = PyBytes_FromStringAndSize(PyBytes_AS_STRING(footer), n)
    cdef char* p = PyBytes_AS_STRING(work)
    cdef char length[8]
    cdef FooterLayout f
    if parse_footer(p, n, &f) != 0:
        raise ValueError("the footer's parts do not fit each other")
    take_differences(p, &f)
    split_planes(p + f.offsets_at, f.slots, 4)
    split_planes(p + f.times_at, f.slots, 8)
    split_planes(p + f.sizes_at, f.slots, 4)
    split_planes(p + f.subject_ids_at, f.slots, 4)
    store_u64(length, n)
    return length[:LENGTH_BYTES] + compressor.compress(work)


cdef bytes unpack_footer(bytes stored):
    cdef Py_ssize_t n
    cdef bytes footer
    cdef char* p
    cdef FooterLayout f
    if PyBytes_GET_SIZE(stored) <= LENGTH_BYTES:
        return None
    n = load_u64(PyBytes_AS_STRING(stored))
    footer = decompress(stored[LENGTH_BYTES:], n)
    if footer is None:
        return None
    p = PyBytes_AS_STRING(footer)
    if parse_footer(p, n, &f) != 0:
        return None
    # nobody else has seen these bytes yet
    join_planes(p + f.offsets_at, f.slots, 4)
    join_planes(p + f.times_at, f.slots, 8)
    join_planes(p + f.sizes_at, f.slots, 4)
    join_planes(p + f.subject_ids_at, f.slots, 4)
    add_differences(p, &f)
    return footer


def plain_footer(bytes stored not None):
    """The plain footer of a packed segment's; None when it is damaged all the same."""
    return unpack_footer(stored)
