# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The on-disk format: checksums, segment header, records, footer and trailer; no I/O."""
import json
import sys
from dataclasses import dataclass

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from jetbroker.limits import SEGMENT_GAP_BYTES, SEGMENT_GAP_SLOTS, STREAM_LAST_SEQUENCE

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static uint32_t jb_crc_table[8][256];
    static void jb_crc_init(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0);
            jb_crc_table[0][i] = c;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int t = 1; t < 8; t++)
                jb_crc_table[t][i] = (jb_crc_table[t-1][i] >> 8) ^ jb_crc_table[0][jb_crc_table[t-1][i] & 255];
    }
    static uint32_t jb_crc_portable(uint32_t c, const char *s, size_t n) {
        const unsigned char *p = (const unsigned char *)s;
        c = ~c;
        while (n >= 8) {
            uint32_t a = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
            c = jb_crc_table[7][a & 255] ^ jb_crc_table[6][a >> 8 & 255] ^ jb_crc_table[5][a >> 16 & 255]
              ^ jb_crc_table[4][a >> 24] ^ jb_crc_table[3][p[4]] ^ jb_crc_table[2][p[5]]
              ^ jb_crc_table[1][p[6]] ^ jb_crc_table[0][p[7]];
            p += 8; n -= 8;
        }
        while (n--) c = (c >> 8) ^ jb_crc_table[0][(c ^ *p++) & 255];
        return ~c;
    }
    #if defined(__x86_64__)
    #include <nmmintrin.h>
    __attribute__((target("sse4.2")))
    static uint32_t jb_crc_sse(uint32_t seed, const char *p, size_t n) {
        uint64_t c = (uint32_t)~seed;
        while (n >= 8) { uint64_t v; memcpy(&v, p, 8); c = _mm_crc32_u64(c, v); p += 8; n -= 8; }
        while (n--) c = _mm_crc32_u8((uint32_t)c, (unsigned char)*p++);
        return ~(uint32_t)c;
    }
    static uint32_t (*jb_crc)(uint32_t, const char *, size_t) = jb_crc_portable;
    static void jb_crc_select(void) {
        jb_crc_init();
        if (__builtin_cpu_supports("sse4.2")) jb_crc = jb_crc_sse;
    }
    #else
    #define jb_crc jb_crc_portable
    static void jb_crc_select(void) { jb_crc_init(); }
    #endif
    """
    void jb_crc_select() nogil
    uint32_t jb_crc(uint32_t, const char*, size_t) noexcept nogil
    uint32_t jb_crc_portable(uint32_t, const char*, size_t) noexcept nogil

jb_crc_select()
if sys.byteorder != "little":
    raise ImportError("the store needs a little-endian machine")

SEGMENT_MAGIC = b"JBSEG\0\0\x01"
TRAILER_MAGIC = b"JBFOOTER"
FORMAT_VERSION = 2                # the highest one that is understood
PLAIN_VERSION = 1                 # of a segment of records
PACKED_VERSION = 2                # of a segment of frames, see frames.pyx
NO_SUBJECT = 0xFFFFFFFF
LOST_OFFSET = 0xFFFFFFFF
HEADERS_BIT = 0x80000000
MESSAGE = KIND_MESSAGE
DELETIONS = KIND_DELETIONS
CONFIG = KIND_CONFIG
RECORD_HEADER_BYTES = RECORD_HEADER
TRAILER_LENGTH = TRAILER_BYTES
PREVIOUS_WAS_SEALED = 0xFFFFFFFFFFFFFFFF
PREVIOUS_SEALED = 0xFFFFFFFFFFFFFFFFULL
cdef uint64_t LAST_SEQUENCE = STREAM_LAST_SEQUENCE
cdef uint64_t GAP_SLOTS = SEGMENT_GAP_SLOTS
cdef uint64_t GAP_BYTES = SEGMENT_GAP_BYTES


@dataclass(frozen=True)
class SegmentHeader:
    """What the head of a segment says. `valid_before` is PREVIOUS_WAS_SEALED or a byte count of the file before."""

    header_len: int
    stream_id: int
    first_seq: int
    created_ns: int
    previous_first_seq: int
    valid_before: int
    meta: dict
    packed: bool = False


@dataclass(frozen=True)
class Record:
    """One decoded record; `length` is its size in the file."""

    kind: int
    seq: int
    time_ns: int
    flags: int
    subject: bytes
    headers: bytes
    payload: bytes
    length: int


@dataclass(frozen=True)
class Footer:
    """The columns of a sealed segment as memoryviews of the decoded buffer."""

    first_seq: int
    last_seq: int
    offsets: memoryview
    times: memoryview
    sizes: memoryview
    subject_ids: memoryview
    subjects: list
    deletions: list
    msg_ids: int


cdef uint32_t crc32c_update(uint32_t seed, const char* p, size_t n) noexcept nogil:
    return jb_crc(seed, p, n)


def crc32c(const unsigned char[::1] data not None, uint32_t seed=0):
    """CRC-32C of `data`, continued from `seed` (the CRC of what came before)."""
    if data.shape[0] == 0:
        return seed
    return jb_crc(seed, <const char*>&data[0], data.shape[0])


def crc32c_portable(const unsigned char[::1] data not None, uint32_t seed=0):
    """As `crc32c`, by table: what a CPU without the instruction uses."""
    if data.shape[0] == 0:
        return seed
    return jb_crc_portable(seed, <const char*>&data[0], data.shape[0])


def seed_of(uint64_t stream_id):
    """The CRC seed of a stream's records."""
    return record_seed(stream_id)


cdef bint record_is_valid(const char* r, uint64_t available, uint32_t seed) noexcept nogil:
    if not record_is_sane(r, available):
        return False
    return jb_crc(seed, r + 8, record_length(r) - 8) == load_u32(r + 4)


cdef Py_ssize_t find_record(const char* data, Py_ssize_t n, Py_ssize_t start, uint32_t seed) noexcept nogil:
    cdef const char* p
    cdef Py_ssize_t at = start
    while at + RECORD_HEADER <= n:
        p = <const char*>memchr(data + at, 0xAB, n - at - RECORD_HEADER + 1)
        if p == NULL:
            return -1
        at = p - data
        if record_is_valid(p, n - at, seed):
            return at
        at += 1
    return -1


cdef uint32_t put_record(char* out, int kind, uint32_t seed, uint64_t seq, int64_t time_ns, uint16_t flags,
                         const char* subject, Py_ssize_t subject_len,
                         const char* headers, Py_ssize_t headers_len,
                         const char* payload, Py_ssize_t payload_len) noexcept nogil:
    cdef uint32_t length = <uint32_t>(RECORD_HEADER + subject_len + headers_len + payload_len)
    cdef char* w = out + RECORD_HEADER
    out[0] = <char>0xAB
    out[1] = c'J'
    out[2] = c'B'
    out[3] = <char>kind
    store_u32(out + 8, length)
    store_u16(out + 12, <uint16_t>subject_len)
    store_u16(out + 14, flags)
    store_u32(out + 16, <uint32_t>headers_len)
    store_u64(out + 20, seq)
    store_u64(out + 28, <uint64_t>time_ns)
    if subject_len:
        memcpy(w, subject, subject_len)
        w += subject_len
    if headers_len:
        memcpy(w, headers, headers_len)
        w += headers_len
    if payload_len:
        memcpy(w, payload, payload_len)
    store_u32(out + 4, jb_crc(seed, out + 8, length - 8))
    return length


def encode_record(int kind, uint64_t stream_id, uint64_t seq, int64_t time_ns, bytes subject=b"", bytes headers=b"",
                  bytes payload=b"", uint16_t flags=0):
    """One record as bytes."""
    cdef Py_ssize_t n = RECORD_HEADER + len(subject) + len(headers) + len(payload)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
    put_record(PyBytes_AS_STRING(out), kind, record_seed(stream_id), seq, time_ns, flags, subject, len(subject),
               headers, len(headers), payload, len(payload))
    return out


def encode_deletions(uint64_t stream_id, uint64_t last_seq, int64_t time_ns, ranges):
    """A `D` record of inclusive (first, last) ranges."""
    payload = b"".join(first.to_bytes(8, "little") + last.to_bytes(8, "little") for first, last in ranges)
    return encode_record(KIND_DELETIONS, stream_id, last_seq, time_ns, b"", b"", payload)


def decode_deletions(bytes payload):
    """The (first, last) ranges of a `D` record's payload."""
    cdef const char* p = payload
    cdef Py_ssize_t i
    return [(load_u64(p + i), load_u64(p + i + 8)) for i in range(0, len(payload) - 15, 16)]


def decode_record(const unsigned char[::1] data not None, Py_ssize_t offset, uint64_t stream_id):
    """The record at `offset`, or None when there is no whole and undamaged one."""
    cdef const char* r
    if offset < 0 or offset + RECORD_HEADER > data.shape[0]:
        return None
    r = <const char*>&data[offset]
    if not record_is_valid(r, data.shape[0] - offset, record_seed(stream_id)):
        return None
    return Record(record_kind(r), record_seq(r), record_time(r), record_flags(r),
                  record_subject(r)[:record_subject_len(r)], record_headers(r)[:record_headers_len(r)],
                  record_payload(r)[:record_payload_len(r)], record_length(r))


def find_next_record(const unsigned char[::1] data not None, Py_ssize_t start, uint64_t stream_id):
    """Offset of the first undamaged record at or behind `start`, -1: none."""
    if data.shape[0] == 0:
        return -1
    return find_record(<const char*>&data[0], data.shape[0], start, record_seed(stream_id))


def encode_header(uint64_t stream_id, uint64_t first_seq, int64_t created_ns, uint64_t previous_first_seq,
                  uint64_t valid_before, meta):
    """A segment header as bytes; `meta` is stored as JSON."""
    cdef bytes text = encode_json(meta)
    cdef Py_ssize_t n = (SEGMENT_HEADER_FIXED + len(text) + 7) & ~7
    out = bytearray(n)
    out[0:8] = SEGMENT_MAGIC
    out[12:16] = n.to_bytes(4, "little")
    for at, value in ((16, stream_id), (24, first_seq), (32, created_ns), (40, previous_first_seq),
                      (48, valid_before)):
        out[at:at + 8] = value.to_bytes(8, "little")
    out[56:60] = len(text).to_bytes(4, "little")
    out[60:60 + len(text)] = text
    out[8:12] = crc32c(bytes(out[12:])).to_bytes(4, "little")
    return bytes(out)


def decode_header(data):
    """The segment header at the start of `data`; None when it is damaged or `data` is too short to hold it.

    Raises ValueError when the header is sound but of another format version.
    """
    head = bytes(data[:SEGMENT_HEADER_FIXED])
    if len(head) < SEGMENT_HEADER_FIXED or head[:7] != SEGMENT_MAGIC[:7]:
        return None
    cdef const char* p = head
    cdef uint32_t header_len = load_u32(p + 12)
    cdef uint32_t meta_len = load_u32(p + 56)
    if header_len < SEGMENT_HEADER_FIXED + <uint64_t>meta_len or header_len > <uint64_t>len(data):
        return None
    whole = bytes(data[:header_len])
    if crc32c(whole[12:]) != load_u32(p + 8):
        return None
    if head[7] not in (PLAIN_VERSION, PACKED_VERSION):
        raise ValueError(f"segment format version {head[7]}")
    cdef int64_t created_ns = <int64_t>load_u64(p + 32)
    meta = decode_object(whole[60:60 + meta_len])
    if meta is None or created_ns < 0:
        return None
    return SegmentHeader(header_len, load_u64(p + 16), load_u64(p + 24), created_ns, load_u64(p + 40), load_u64(p + 48),
                         meta, head[7] == PACKED_VERSION)


cdef inline uint64_t align8(uint64_t n) noexcept nogil:
    return (n + 7) & ~<uint64_t>7


cdef bytes build_footer(uint64_t file_offset, uint64_t first_seq, uint64_t slots, const uint32_t* offsets,
                        const int64_t* times, const uint32_t* sizes, const uint32_t* subject_ids,
                        uint64_t subjects, const uint32_t* text_offsets, const char* text,
                        const uint64_t* ranges, uint64_t range_count, uint64_t msg_ids):
    """Footer and trailer; `file_offset` (a multiple of 8) is where the footer will start."""
    cdef uint64_t d = subjects
    cdef uint64_t text_len = text_offsets[subjects]
    cdef uint64_t length = (FOOTER_FIXED + 3 * align8(4 * slots) + 8 * slots + 8 + align8(4 * (d + 1))
                            + align8(text_len) + 8 + 16 * range_count + 8)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, length + TRAILER_BYTES)
    cdef char* base = PyBytes_AS_STRING(out)
    cdef char* w = base
    memset(base, 0, length + TRAILER_BYTES)
    store_u64(w, slots)
    store_u64(w + 8, first_seq)
    store_u64(w + 16, first_seq + slots - 1)
    w += FOOTER_FIXED
    memcpy(w, offsets, 4 * slots)
    w += align8(4 * slots)
    memcpy(w, times, 8 * slots)
    w += 8 * slots
    memcpy(w, sizes, 4 * slots)
    w += align8(4 * slots)
    memcpy(w, subject_ids, 4 * slots)
    w += align8(4 * slots)
    store_u64(w, d)
    w += 8
    memcpy(w, text_offsets, 4 * (d + 1))
    w += align8(4 * (d + 1))
    memcpy(w, text, text_len)
    w += align8(text_len)
    store_u64(w, range_count)
    memcpy(w + 8, ranges, 16 * range_count)
    w += 8 + 16 * range_count
    store_u64(w, msg_ids)
    w = base + length
    store_u64(w, file_offset)
    store_u64(w + 8, length)
    store_u32(w + 16, jb_crc(0, base, length))
    memcpy(w + 24, b"JBFOOTER", 8)
    return out


cdef uint64_t slots_bound(uint64_t at) noexcept nogil:
    return at // GAP_BYTES + GAP_SLOTS


cdef bint message_fits(const char* r, uint64_t first_seq, uint64_t expected, uint64_t at) noexcept nogil:
    cdef uint64_t seq = record_seq(r)
    return (at >= SEGMENT_HEADER_FIXED and at + record_length(r) < OFFSET_LOST and expected <= seq <= LAST_SEQUENCE
            and seq - first_seq < slots_bound(at))


cdef int parse_footer(const char* p, uint64_t n, FooterLayout* out) noexcept nogil:
    cdef uint64_t at = FOOTER_FIXED
    if n < FOOTER_FIXED + 24:
        return -1
    out.slots = load_u64(p)
    out.first_seq = load_u64(p + 8)
    out.last_seq = load_u64(p + 16)
    if out.slots > n // 20 or out.last_seq + 1 != out.first_seq + out.slots:
        return -1
    out.offsets_at = at
    at += align8(4 * out.slots)
    out.times_at = at
    at += 8 * out.slots
    out.sizes_at = at
    at += align8(4 * out.slots)
    out.subject_ids_at = at
    at += align8(4 * out.slots)
    if at + 8 > n:
        return -1
    out.subjects = load_u64(p + at)
    if out.subjects > n // 4:
        return -1
    at += 8
    out.subject_offsets_at = at
    at += align8(4 * (out.subjects + 1))
    if at > n:
        return -1
    out.subject_text_at = at
    at += align8(load_u32(p + out.subject_offsets_at + 4 * out.subjects))
    if at + 8 > n:
        return -1
    out.ranges = load_u64(p + at)
    if out.ranges > n // 16:
        return -1
    out.ranges_at = at + 8
    at += 8 + 16 * out.ranges
    if at + 8 != n:
        return -1
    out.msg_ids = load_u64(p + at)
    out.length = n
    return 0


cdef int sound_footer(const char* p, uint64_t n, uint64_t end, FooterLayout* out) noexcept nogil:
    if parse_footer(p, n, out) != 0 or out.msg_ids > out.slots or out.first_seq == 0 \
            or out.last_seq > LAST_SEQUENCE or out.last_seq + 1 < out.first_seq:
        return -1
    if not dictionary_is_sound(p, out) or not columns_are_sound(p, out, end):
        return -1
    return 0 if ranges_are_sound(p, out) else -1


cdef bint dictionary_is_sound(const char* p, const FooterLayout* f) noexcept nogil:
    """Subjects stand one behind the other, none longer than a record can have it."""
    cdef const char* ends = p + f.subject_offsets_at
    cdef uint32_t before = load_u32(ends)
    cdef uint32_t text_end
    cdef uint64_t i
    if before != 0:
        return False
    for i in range(1, f.subjects + 1):
        text_end = load_u32(ends + 4 * i)
        if text_end < before or text_end - before > 0xFFFF:
            return False
        before = text_end
    return True


cdef bint columns_are_sound(const char* p, const FooterLayout* f, uint64_t end) noexcept nogil:
    """Every slot is empty or has a record of its own, behind the one before and in front of `end`; times rise."""
    cdef const char* ends = p + f.subject_offsets_at
    cdef uint64_t record_end = SEGMENT_HEADER_FIXED
    cdef int64_t last_time = 0
    cdef int64_t time_ns
    cdef uint32_t offset
    cdef uint32_t subject
    cdef uint64_t slot
    for slot in range(f.slots):
        offset = load_u32(p + f.offsets_at + 4 * slot)
        subject = load_u32(p + f.subject_ids_at + 4 * slot)
        if offset == OFFSET_EMPTY or offset == OFFSET_LOST:
            if subject != SUBJECT_NONE:
                return False
            continue
        time_ns = <int64_t>load_u64(p + f.times_at + 8 * slot)
        if subject >= f.subjects or offset < record_end or time_ns < last_time:
            return False
        last_time = time_ns
        record_end = (<uint64_t>offset + RECORD_HEADER + (load_u32(p + f.sizes_at + 4 * slot) & SIZE_MASK)
                      + load_u32(ends + 4 * <uint64_t>subject + 4) - load_u32(ends + 4 * <uint64_t>subject))
        if record_end > end:
            return False
    return True


cdef bint ranges_are_sound(const char* p, const FooterLayout* f) noexcept nogil:
    """A segment tells of removals up to its own last sequence."""
    cdef const char* pair = p + f.ranges_at
    cdef const char* end = pair + 16 * f.ranges
    while pair < end:
        if load_u64(pair) > load_u64(pair + 8) or load_u64(pair + 8) > f.last_seq:
            return False
        pair += 16
    return True


def encode_trailer(uint64_t footer_at, bytes footer not None, uint32_t index_len):
    """The trailer of a footer that starts at `footer_at`, behind a frame index of `index_len` bytes."""
    cdef bytes out = bytes(TRAILER_BYTES - 8) + TRAILER_MAGIC
    cdef char* p = PyBytes_AS_STRING(out)
    store_u64(p, footer_at)
    store_u64(p + 8, len(footer))
    store_u32(p + 16, crc32c_update(0, PyBytes_AS_STRING(footer), len(footer)))
    store_u32(p + 20, index_len)
    return out


def decode_trailer(data):
    """(footer offset, footer length, footer CRC) of the last 32 bytes of a segment, or None when not sealed."""
    tail = bytes(data[-TRAILER_BYTES:])
    if len(tail) != TRAILER_BYTES or tail[24:] != TRAILER_MAGIC:
        return None
    cdef const char* p = tail
    return load_u64(p), load_u64(p + 8), load_u32(p + 16)


def decode_footer(data, uint32_t crc):
    """The footer in `data` (exactly its bytes), or None when it is damaged. `crc` comes from the trailer."""
    cdef const unsigned char[::1] view = data
    cdef FooterLayout f
    cdef const char* p
    cdef uint64_t i
    if view.shape[0] == 0:
        return None
    p = <const char*>&view[0]
    if jb_crc(0, p, view.shape[0]) != crc or sound_footer(p, view.shape[0], OFFSET_LOST, &f) != 0:
        return None
    whole = memoryview(data).cast("B")

    def column(start, width, code):
        return whole[start:start + width * f.slots].cast(code)

    return Footer(f.first_seq, f.last_seq, column(f.offsets_at, 4, "I"), column(f.times_at, 8, "q"),
                  column(f.sizes_at, 4, "I"), column(f.subject_ids_at, 4, "I"), footer_subjects(p, &f),
                  [(load_u64(p + f.ranges_at + 16 * i), load_u64(p + f.ranges_at + 16 * i + 8))
                   for i in range(f.ranges)], f.msg_ids)


cdef list footer_subjects(const char* p, const FooterLayout* f):
    """The subject dictionary as list[bytes]."""
    cdef list out = []
    cdef uint64_t i
    cdef uint32_t a
    cdef uint32_t b
    cdef const char* text = p + f.subject_text_at
    for i in range(f.subjects):
        a = load_u32(p + f.subject_offsets_at + 4 * i)
        b = load_u32(p + f.subject_offsets_at + 4 * i + 4)
        out.append(PyBytes_FromStringAndSize(text + a, b - a))
    return out


def encode_footer(uint64_t file_offset, uint64_t first_seq, offsets, times, sizes, subject_ids, list subjects,
                  deletions, uint64_t msg_ids=0):
    """Footer and trailer from lists or arrays (one entry per slot), for tools and tests."""
    from array import array
    cdef const unsigned int[::1] o = array("I", offsets or [0])
    cdef const long[::1] t = array("l", times or [0])
    cdef const unsigned int[::1] s = array("I", sizes or [0])
    cdef const unsigned int[::1] ids = array("I", subject_ids or [0])
    cdef const unsigned long[::1] r = array("L", [v for pair in deletions for v in pair] or [0])
    positions = array("I", [0])
    end = 0
    for subject in subjects:
        end += len(subject)
        positions.append(end)
    cdef const unsigned int[::1] text_offsets = positions
    cdef bytes text = b"".join(subjects)
    return build_footer(file_offset, first_seq, len(offsets), <const uint32_t*>&o[0], <const int64_t*>&t[0],
                        <const uint32_t*>&s[0], <const uint32_t*>&ids[0], len(subjects),
                        <const uint32_t*>&text_offsets[0], text, <const uint64_t*>&r[0], len(deletions), msg_ids)


def decode_object(data):
    """The JSON object that `data` is; None when it is anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def encode_json(value):
    """JSON as the store writes it: compact UTF-8."""
    return json.dumps(value, separators=(",", ":")).encode()
