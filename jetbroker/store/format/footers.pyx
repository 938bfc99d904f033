# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Footers of packed segments, which are compressed too: with small messages they would take half of the file.

Offsets are kept as what is left when the end of the record before is taken away, times as differences, and every
column as byte planes: all first bytes, then all second ones.  The rest of the footer is where it was.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.store.format.records cimport (
    OFFSET_EMPTY, OFFSET_LOST, RECORD_HEADER, SIZE_MASK, FooterLayout, load_u32, load_u64, parse_footer, sound_footer,
    store_u64,
)
from jetbroker.limits import SEGMENT_FOOTER_BYTES, SEGMENT_PLAIN_BYTES
from jetbroker.store.format.frames import decompress

cdef uint64_t FOOTER_BYTES = SEGMENT_FOOTER_BYTES
cdef uint64_t PLAIN_BYTES = SEGMENT_PLAIN_BYTES
cdef int LENGTH_BYTES = 8              # u64: bytes of the plain footer, in front


cdef void split_planes(const char* column, char* planes, Py_ssize_t n, int width) noexcept nogil:
    """Byte planes of a column of n numbers."""
    cdef Py_ssize_t i
    cdef int k
    cdef char* plane
    for k in range(width):
        plane = planes + k * n
        for i in range(n):
            plane[i] = column[i * width + k]


cdef void join_planes_4(const unsigned char* planes, uint32_t* column, Py_ssize_t n) noexcept nogil:
    """The reverse of split_planes, for u32."""
    cdef Py_ssize_t i
    for i in range(n):
        column[i] = (planes[i] | <uint32_t>planes[n + i] << 8 | <uint32_t>planes[2 * n + i] << 16
                     | <uint32_t>planes[3 * n + i] << 24)


cdef void join_planes_8(const unsigned char* planes, uint64_t* column, Py_ssize_t n) noexcept nogil:
    """The reverse of split_planes, for 64 bits."""
    cdef const unsigned char* high = planes + 4 * n
    cdef Py_ssize_t i
    for i in range(n):
        column[i] = (planes[i] | <uint64_t>planes[n + i] << 8 | <uint64_t>planes[2 * n + i] << 16
                     | <uint64_t>planes[3 * n + i] << 24 | <uint64_t>high[i] << 32 | <uint64_t>high[n + i] << 40
                     | <uint64_t>high[2 * n + i] << 48 | <uint64_t>high[3 * n + i] << 56)


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
    cdef bytes out = PyBytes_FromStringAndSize(PyBytes_AS_STRING(footer), n)
    cdef char* p = PyBytes_AS_STRING(work)
    cdef char* planes = PyBytes_AS_STRING(out)
    cdef char length[8]
    cdef FooterLayout f
    if parse_footer(p, n, &f) != 0:
        raise ValueError("the footer's parts do not fit each other")
    with nogil:
        take_differences(p, &f)
        split_planes(p + f.offsets_at, planes + f.offsets_at, f.slots, 4)
        split_planes(p + f.times_at, planes + f.times_at, f.slots, 8)
        split_planes(p + f.sizes_at, planes + f.sizes_at, f.slots, 4)
        split_planes(p + f.subject_ids_at, planes + f.subject_ids_at, f.slots, 4)
    store_u64(length, n)
    return length[:LENGTH_BYTES] + compressor.compress(out)


cdef bytes unpack_footer(bytes stored):
    cdef Py_ssize_t n
    cdef bytes work
    cdef bytes footer
    cdef const unsigned char* planes
    cdef char* p
    cdef FooterLayout f
    if PyBytes_GET_SIZE(stored) <= LENGTH_BYTES:
        return None
    n = min(load_u64(PyBytes_AS_STRING(stored)), FOOTER_BYTES + 1)
    if n > <Py_ssize_t>FOOTER_BYTES:
        return None
    work = decompress(stored[LENGTH_BYTES:], n)
    if work is None or parse_footer(PyBytes_AS_STRING(work), n, &f) != 0:
        return None
    planes = <const unsigned char*>PyBytes_AS_STRING(work)
    footer = PyBytes_FromStringAndSize(PyBytes_AS_STRING(work), n)
    p = PyBytes_AS_STRING(footer)
    join_planes_4(planes + f.offsets_at, <uint32_t*>(p + f.offsets_at), f.slots)
    join_planes_8(planes + f.times_at, <uint64_t*>(p + f.times_at), f.slots)
    join_planes_4(planes + f.sizes_at, <uint32_t*>(p + f.sizes_at), f.slots)
    join_planes_4(planes + f.subject_ids_at, <uint32_t*>(p + f.subject_ids_at), f.slots)
    add_differences(p, &f)
    return footer


cdef bytes sound_segment_footer(bytes stored, bint packed, uint64_t first_seq, uint64_t footer_at, Py_ssize_t slots):
    """The plain footer of a segment whose footer's CRC holds; None when any number in it is wrong.

    `slots` is how many it has to have, -1 when that is not known.
    """
    cdef bytes footer = unpack_footer(stored) if packed else stored
    cdef FooterLayout f
    if footer is None or sound_footer(PyBytes_AS_STRING(footer), PyBytes_GET_SIZE(footer),
                                      PLAIN_BYTES if packed else footer_at, &f) != 0:
        return None
    if f.first_seq != first_seq or (slots >= 0 and f.slots != <uint64_t>slots):
        return None
    return footer


def sound_footer_of(bytes stored not None, bint packed, uint64_t first_seq, uint64_t footer_at):
    """`sound_segment_footer` for Python callers."""
    return sound_segment_footer(stored, packed, first_seq, footer_at, -1)
