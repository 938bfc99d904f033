"""The on-disk format: offsets, inline readers and builders. docs/ARCHITECTURE.md describes the same in prose.

All integers are little-endian and unaligned; the readers below are for little-endian machines, which is checked when
the module is imported.
"""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    SEGMENT_HEADER_FIXED = 60      # bytes before the meta JSON
    RECORD_HEADER = 36             # bytes before the subject
    FOOTER_FIXED = 24              # u64 slots, first_seq, last_seq
    TRAILER_BYTES = 32

    KIND_MESSAGE = 77              # 'M'
    KIND_DELETIONS = 68            # 'D'
    KIND_CONFIG = 67               # 'C'

cdef enum:
    OFFSET_EMPTY = 0               # slot of a skipped sequence
    OFFSET_LOST = 0xFFFFFFFF       # the record was found damaged before the segment was sealed
    SUBJECT_NONE = 0xFFFFFFFF      # subject id of an empty or lost slot
    SIZE_HAS_HEADERS = 0x80000000  # bit of the size column; the other 31 bits are headers + payload
    SIZE_MASK = 0x7FFFFFFF

cdef uint64_t PREVIOUS_SEALED      # "the file before is valid up to": it was sealed


cdef struct FooterLayout:
    # byte positions are relative to the start of the footer
    uint64_t slots
    uint64_t first_seq
    uint64_t last_seq
    uint64_t offsets_at            # u32[slots]
    uint64_t times_at              # i64[slots]
    uint64_t sizes_at              # u32[slots], see SIZE_HAS_HEADERS
    uint64_t subject_ids_at        # u32[slots]
    uint64_t subjects              # entries in the dictionary
    uint64_t subject_offsets_at    # u32[subjects + 1], relative to subject_text_at
    uint64_t subject_text_at
    uint64_t ranges                # deletion ranges recorded in this segment
    uint64_t ranges_at             # (u64 first, u64 last)[ranges], inclusive
    uint64_t msg_ids               # messages with FLAG_MSG_ID
    uint64_t length


# CRC-32C of n bytes at p, continued from `seed` (the CRC so far; 0 to start).
cdef uint32_t crc32c_update(uint32_t seed, const char* p, size_t n) noexcept nogil


cdef inline uint16_t load_u16(const char* p) noexcept nogil:
    cdef uint16_t v = 0
    memcpy(&v, p, 2)
    return v


cdef inline uint32_t load_u32(const char* p) noexcept nogil:
    cdef uint32_t v = 0
    memcpy(&v, p, 4)
    return v


cdef inline uint64_t load_u64(const char* p) noexcept nogil:
    cdef uint64_t v = 0
    memcpy(&v, p, 8)
    return v


cdef inline void store_u16(char* p, uint16_t v) noexcept nogil:
    memcpy(p, &v, 2)


cdef inline void store_u32(char* p, uint32_t v) noexcept nogil:
    memcpy(p, &v, 4)


cdef inline void store_u64(char* p, uint64_t v) noexcept nogil:
    memcpy(p, &v, 8)


cdef inline uint32_t record_seed(uint64_t stream_id) noexcept nogil:
    """Where a stream's record CRCs start, so that a record of another stream never passes."""
    return <uint32_t>(stream_id ^ (stream_id >> 32))


cdef inline int record_kind(const char* r) noexcept nogil:
    return <unsigned char>r[3]


cdef inline uint32_t record_length(const char* r) noexcept nogil:
    return load_u32(r + 8)


cdef inline uint16_t record_subject_len(const char* r) noexcept nogil:
    return load_u16(r + 12)


cdef inline uint16_t record_flags(const char* r) noexcept nogil:
    return load_u16(r + 14)


cdef inline uint32_t record_headers_len(const char* r) noexcept nogil:
    return load_u32(r + 16)


cdef inline uint64_t record_seq(const char* r) noexcept nogil:
    return load_u64(r + 20)


cdef inline int64_t record_time(const char* r) noexcept nogil:
    return <int64_t>load_u64(r + 28)


cdef inline const char* record_subject(const char* r) noexcept nogil:
    return r + RECORD_HEADER


cdef inline const char* record_headers(const char* r) noexcept nogil:
    return r + RECORD_HEADER + record_subject_len(r)


cdef inline const char* record_payload(const char* r) noexcept nogil:
    return r + RECORD_HEADER + record_subject_len(r) + record_headers_len(r)


cdef inline Py_ssize_t record_payload_len(const char* r) noexcept nogil:
    return <Py_ssize_t>record_length(r) - RECORD_HEADER - record_subject_len(r) - record_headers_len(r)


cdef inline uint32_t record_size_entry(const char* r) noexcept nogil:
    """What the size column holds for this message."""
    cdef uint32_t size = record_length(r) - RECORD_HEADER - record_subject_len(r)
    return size | SIZE_HAS_HEADERS if record_headers_len(r) > 0 else size


cdef inline bint record_is_sane(const char* r, uint64_t available) noexcept nogil:
    """Magic, kind and lengths make sense within `available` bytes; says nothing of the CRC."""
    cdef uint64_t length
    if available < RECORD_HEADER:
        return False
    if <unsigned char>r[0] != 0xAB or r[1] != c'J' or r[2] != c'B':
        return False
    if r[3] != KIND_MESSAGE and r[3] != KIND_DELETIONS and r[3] != KIND_CONFIG:
        return False
    length = record_length(r)
    return length <= available and <uint64_t>RECORD_HEADER + record_subject_len(r) + record_headers_len(r) <= length


# The record at r is whole and undamaged.
cdef bint record_is_valid(const char* r, uint64_t available, uint32_t seed) noexcept nogil

# Position of the first valid record at or behind `start` in data[:n], -1: there is none.
cdef Py_ssize_t find_record(const char* data, Py_ssize_t n, Py_ssize_t start, uint32_t seed) noexcept nogil

# Build a record at `out` (room: RECORD_HEADER + all lengths); returns its length.
cdef uint32_t put_record(char* out, int kind, uint32_t seed, uint64_t seq, int64_t time_ns, uint16_t flags,
                         const char* subject, Py_ssize_t subject_len,
                         const char* headers, Py_ssize_t headers_len,
                         const char* payload, Py_ssize_t payload_len) noexcept nogil

# A message record at offset `at` fits behind the one before; `expected` is the next sequence. What is farther ahead than
# a gap in a segment may be would cost memory by a number in a file.
cdef bint message_fits(const char* r, uint64_t first_seq, uint64_t expected, uint64_t at) noexcept nogil

# The sequences that a segment with records up to `at` may have.
cdef uint64_t slots_bound(uint64_t at) noexcept nogil

# Where the parts of a footer of n bytes are; -1 when it cannot be one. Its columns may still say anything.
cdef int parse_footer(const char* p, uint64_t n, FooterLayout* out) noexcept nogil

# As parse_footer, and every number in it agrees with the others and with records in front of `end`.
cdef int sound_footer(const char* p, uint64_t n, uint64_t end, FooterLayout* out) noexcept nogil

# The subject dictionary of a parsed footer as list[bytes].
cdef list footer_subjects(const char* p, const FooterLayout* f)

# Footer and trailer of a segment. Columns have `slots` entries, text_offsets subjects + 1, ranges u64 pairs.
cdef bytes build_footer(uint64_t file_offset, uint64_t first_seq, uint64_t slots, const uint32_t* offsets,
                        const int64_t* times, const uint32_t* sizes, const uint32_t* subject_ids,
                        uint64_t subjects, const uint32_t* text_offsets, const char* text,
                        const uint64_t* ranges, uint64_t range_count, uint64_t msg_ids)
