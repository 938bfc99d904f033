# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Frames: the compressed form of a segment's records.

A packed segment holds the bytes of the plain form cut into frames, each compressed on its own, an index of them, and
the footer of the plain form.  Offsets in the footer, and everywhere else, are those of the plain form.  Each frame
says itself where its bytes belong, so that without the index all but damaged frames are found again.

zstandard is imported when the first frame is made or unpacked, since most brokers have none.
"""
import threading

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy, memset

from jetbroker.limits import SEGMENT_PLAIN_BYTES, ZSTD_WINDOW_BYTES

from jetbroker.store.disk cimport Disk
from jetbroker.store.format.records cimport TRAILER_BYTES, crc32c_update, load_u32, load_u64, store_u32, store_u64

# Raw bytes of a frame, unless one record alone has more.
FRAME_BYTES = 65536
# zstd's fastest regular level: on JSON it is within 3 % of the next ones' size.
LEVEL = 1
FRAME_MAGIC = b"\xabJBZ"
INDEX_MAGIC = b"\xabJBI"
# Unpacked bytes that a log keeps, unless one frame alone has more.
cdef Py_ssize_t CACHE_BYTES = 1024 * 1024
cdef uint64_t PLAIN_BYTES = SEGMENT_PLAIN_BYTES

_threads = threading.local()


def new_compressor():
    """What `encode_frame` compresses with; belongs to one thread."""
    from zstandard import ZstdCompressor
    return ZstdCompressor(level=LEVEL, write_checksum=False, write_content_size=False)


def _decompressor():
    try:
        return _threads.decompressor
    except AttributeError:
        from zstandard import ZstdDecompressor
        _threads.decompressor = ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        return _threads.decompressor


def decompress(packed, Py_ssize_t size):
    """What a compressor of this module was given; None when that is not `size` bytes, or cannot be unpacked."""
    from zstandard import ZstdError, frame_content_size
    try:
        if frame_content_size(packed) >= 0:
            # none of ours, and it would be believed before `size`
            return None
        raw = _decompressor().decompress(packed, max_output_size=size)
    except ZstdError:
        return None
    return raw if len(raw) == size else None


def encode_frame(bytes raw not None, uint64_t raw_at, uint32_t seed, compressor):
    """The frame of `raw`, which is at `raw_at` of the plain form. `seed` is that of the stream's records."""
    cdef bytes packed = compressor.compress(raw)
    cdef uint32_t codec = CODEC_ZSTD
    cdef bytes out
    cdef char* p
    if PyBytes_GET_SIZE(packed) >= PyBytes_GET_SIZE(raw):
        packed = raw
        codec = CODEC_STORED
    out = PyBytes_FromStringAndSize(NULL, FRAME_HEADER + PyBytes_GET_SIZE(packed))
    p = PyBytes_AS_STRING(out)
    memcpy(p, PyBytes_AS_STRING(<bytes>FRAME_MAGIC), 4)
    store_u32(p + 8, <uint32_t>PyBytes_GET_SIZE(out))
    store_u32(p + 12, codec)
    store_u64(p + 16, raw_at)
    store_u32(p + 24, <uint32_t>PyBytes_GET_SIZE(raw))
    store_u32(p + 28, 0)
    memcpy(p + FRAME_HEADER, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
    store_u32(p + 4, crc32c_update(seed, p + 8, PyBytes_GET_SIZE(out) - 8))
    return out


cdef bint frame_is_valid(const char* p, uint64_t available, uint32_t seed) noexcept nogil:
    cdef uint64_t length
    if available < FRAME_HEADER or memcmp(p, b"\xabJBZ", 4) != 0:
        return False
    length = load_u32(p + 8)
    return FRAME_HEADER <= length <= available and crc32c_update(seed, p + 8, length - 8) == load_u32(p + 4)


cdef bytes inflate(const char* p):
    """The raw bytes of a valid frame; None when they cannot be unpacked all the same."""
    cdef Py_ssize_t n = load_u32(p + 8) - FRAME_HEADER
    cdef Py_ssize_t raw_length = load_u32(p + 24)
    if load_u32(p + 12) == CODEC_STORED:
        return PyBytes_FromStringAndSize(p + FRAME_HEADER, n) if n == raw_length else None
    if load_u32(p + 12) != CODEC_ZSTD:
        return None
    return decompress(PyMemoryView_FromMemory(<char*>p + FRAME_HEADER, n, PyBUF_READ), raw_length)


def decode_frame(bytes data not None, uint64_t raw_at, uint32_t seed, uint64_t room):
    """The raw bytes of the frame at the start of `data`, `room` at most; None when it is damaged or of elsewhere."""
    cdef const char* p = PyBytes_AS_STRING(data)
    if not frame_is_valid(p, PyBytes_GET_SIZE(data), seed) or load_u64(p + 16) != raw_at or load_u32(p + 24) > room:
        return None
    return inflate(p)


def encode_index(list pairs not None, uint32_t seed):
    """The index of frames at `pairs` of (offset in the plain form, in the file); the last pair is the end."""
    cdef Py_ssize_t n = INDEX_HEADER + 16 * len(pairs)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
    cdef char* p = PyBytes_AS_STRING(out)
    cdef char* w = p + INDEX_HEADER
    memcpy(p, PyBytes_AS_STRING(<bytes>INDEX_MAGIC), 4)
    store_u32(p + 8, <uint32_t>n)
    store_u32(p + 12, <uint32_t>(len(pairs) - 1))
    for raw_at, file_at in pairs:
        store_u64(w, raw_at)
        store_u64(w + 8, file_at)
        w += 16
    store_u32(p + 4, crc32c_update(seed, p + 8, n - 8))
    return out


cdef class FrameIndex:
    """Where the frames of one file are."""

    @staticmethod
    def decode(bytes blob not None, uint32_t seed, uint64_t end):
        """From exactly the bytes of `encode_index`; None when they are damaged. The frames are in front of `end`."""
        cdef const char* p = PyBytes_AS_STRING(blob)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(blob)
        cdef Py_ssize_t i
        cdef FrameIndex index
        if n < INDEX_HEADER + 16 or memcmp(p, PyBytes_AS_STRING(<bytes>INDEX_MAGIC), 4) != 0 \
                or load_u32(p + 8) != <uint64_t>n or INDEX_HEADER + 16 * (<Py_ssize_t>load_u32(p + 12) + 1) != n \
                or crc32c_update(seed, p + 8, n - 8) != load_u32(p + 4):
            return None
        index = FrameIndex()
        index.blob = blob
        index.pairs = <const uint64_t*>(p + INDEX_HEADER)
        index.count = load_u32(p + 12)
        for i in range(index.count):
            if index.raw_at(i + 1) <= index.raw_at(i) or index.file_at(i) > index.file_at(i + 1) \
                    or index.file_at(i + 1) - index.file_at(i) < FRAME_HEADER:
                return None
        if index.raw_at(index.count) > PLAIN_BYTES or index.file_at(index.count) > end:
            return None
        return index

    @staticmethod
    def scan(bytes data not None, uint32_t seed):
        """From the undamaged frames of a whole file; `count` is 0 when there are none."""
        cdef const char* p = PyBytes_AS_STRING(data)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t at = 0
        cdef const char* found
        cdef list pairs = []
        cdef uint64_t raw_end = 0
        while at + FRAME_HEADER <= n:
            found = <const char*>memchr(p + at, 0xAB, n - at - FRAME_HEADER + 1)
            if found == NULL:
                break
            at = found - p
            if not frame_is_valid(found, n - at, seed) or load_u64(found + 16) < raw_end \
                    or load_u64(found + 16) > PLAIN_BYTES or load_u32(found + 24) == 0 \
                    or load_u64(found + 16) + load_u32(found + 24) > PLAIN_BYTES:
                at += 1
                continue
            pairs.append((load_u64(found + 16), at))
            raw_end = load_u64(found + 16) + load_u32(found + 24)
            at += load_u32(found + 8)
        pairs.append((raw_end, at if pairs else 0))
        return FrameIndex.decode(encode_index(pairs, seed), seed, n)

    def raw_start(self, Py_ssize_t i):
        """Where frame `i` (or the end: i = count) is in the plain form."""
        return self.raw_at(i)

    def file_start(self, Py_ssize_t i):
        """Where frame `i` (or the end: i = count) is in the file."""
        return self.file_at(i)

    cdef Py_ssize_t find(self, uint64_t offset) noexcept nogil:
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.count
        cdef Py_ssize_t middle
        if self.count == 0 or offset < self.pairs[0] or offset >= self.raw_at(self.count):
            return -1
        while low < high:
            middle = (low + high) >> 1
            if self.raw_at(middle) <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1


def load_index(Disk disk not None, int fd, uint64_t footer_at, uint32_t index_len, uint32_t seed):
    """The index of an open packed segment, from its frames when the index is damaged. Raises OSError."""
    cdef FrameIndex index = None
    if footer_at and index_len <= footer_at:
        index = FrameIndex.decode(disk.read(fd, index_len, footer_at - index_len), seed, footer_at)
    return index if index is not None else FrameIndex.scan(disk.read(fd, disk.size(fd), 0), seed)


cdef class FrameCache:
    """The frames of one log that were unpacked last."""

    def __cinit__(self):
        self.owners = [None] * CACHED_FRAMES

    cdef const char* get(self, Disk disk, int fd, uint32_t seed, FrameIndex index, uint64_t tag, uint64_t offset,
                         Py_ssize_t n) except? NULL:
        cdef CachedFrame* frame
        cdef Py_ssize_t i
        cdef uint64_t raw_at
        cdef bytes data
        cdef bytes raw
        self.clock += 1
        for i in range(CACHED_FRAMES):
            frame = &self.frames[i]
            if frame.tag == tag and frame.raw_at <= offset and offset + n <= frame.raw_at + frame.length:
                frame.used_at = self.clock
                return frame.data + (offset - frame.raw_at)
        i = index.find(offset)
        if i < 0:
            return NULL
        raw_at = index.raw_at(i)
        data = disk.read(fd, index.file_at(i + 1) - index.file_at(i), index.file_at(i))
        raw = decode_frame(data, raw_at, seed, index.raw_at(i + 1) - raw_at)
        if raw is None or offset + n > raw_at + PyBytes_GET_SIZE(raw):
            return NULL
        self.add(raw, tag, raw_at)
        return PyBytes_AS_STRING(raw) + (offset - raw_at)

    cdef int add(self, bytes raw, uint64_t tag, uint64_t raw_at) except -1:
        cdef Py_ssize_t size = PyBytes_GET_SIZE(raw)
        cdef Py_ssize_t i
        while self.held and self.held + size > CACHE_BYTES:
            self.drop(self.oldest(True))
        i = self.oldest(False)
        if self.frames[i].tag:
            self.drop(i)
        self.owners[i] = raw
        self.frames[i] = CachedFrame(PyBytes_AS_STRING(raw), size, tag, raw_at, self.clock)
        self.held += size
        return 0

    cdef Py_ssize_t oldest(self, bint in_use) noexcept:
        """The place used longest ago, which is a free one (used_at 0) unless only those in use are asked for."""
        cdef Py_ssize_t found = -1
        cdef Py_ssize_t i
        for i in range(CACHED_FRAMES):
            if (self.frames[i].tag or not in_use) and (found < 0
                                                       or self.frames[i].used_at < self.frames[found].used_at):
                found = i
        return found

    cdef int drop(self, Py_ssize_t i) except -1:
        self.held -= self.frames[i].length
        memset(&self.frames[i], 0, sizeof(CachedFrame))
        self.owners[i] = None
        return 0

    cdef int forget(self, uint64_t tag) except -1:
        cdef Py_ssize_t i
        for i in range(CACHED_FRAMES):
            if self.frames[i].tag == tag:
                self.drop(i)
        return 0


def index_of(const unsigned char[::1] data not None, uint32_t seed):
    """The index of a whole file; None when it is plain, or no frame in it can be found.

    A sound index says that it is packed. Without one the header's version spares a plain file the search for frames.
    """
    cdef Py_ssize_t n = data.shape[0]
    cdef const char* p
    cdef FrameIndex index = None
    cdef uint64_t footer_at
    cdef uint32_t index_len
    if n < FRAME_HEADER + TRAILER_BYTES:
        return None
    p = <const char*>&data[0]
    if memcmp(p + n - 8, b"JBFOOTER", 8) == 0:
        footer_at = load_u64(p + n - TRAILER_BYTES)
        index_len = load_u32(p + n - TRAILER_BYTES + 20)
        if footer_at <= <uint64_t>n and INDEX_HEADER <= index_len <= footer_at:
            index = FrameIndex.decode(PyBytes_FromStringAndSize(p + footer_at - index_len, index_len), seed, footer_at)
    if index is None and memcmp(p, b"JBSEG\0\0\x01", 8) != 0:
        index = FrameIndex.scan(PyBytes_FromStringAndSize(p, n), seed)
    return index if index is not None and index.count else None


cdef class RawImage:
    """The plain form of a packed segment in memory."""

    def __init__(self, const unsigned char[::1] data not None, FrameIndex index not None, uint32_t seed):
        cdef Py_ssize_t start
        self.view = data
        self.index = index
        self.seed = seed
        self.size = index.raw_at(index.count)
        # untouched pages of a large block cost nothing
        self.data = <char*>calloc(max(self.size, 1), 1)
        self.done = <char*>calloc(index.count + 1, 1)
        if self.data == NULL or self.done == NULL:
            raise MemoryError("no memory for a segment")
        if index.count:
            # the segment header stands in front of the first frame in both forms
            start = min(index.raw_at(0), index.file_at(0), <uint64_t>data.shape[0])
            memcpy(self.data, &data[0], start)

    def __dealloc__(self):
        free(self.data)
        free(self.done)

    cdef int need(self, uint64_t offset) except -1:
        cdef Py_ssize_t i = self.index.find(offset)
        if i >= 0 and not self.done[i]:
            self.unpack_frame(i)
        return 0

    cdef int unpack_frame(self, Py_ssize_t i) except -1:
        cdef uint64_t at = self.index.file_at(i)
        cdef uint64_t end = min(self.index.file_at(i + 1), <uint64_t>self.view.shape[0])
        cdef const char* p = <const char*>&self.view[0] + at
        cdef bytes raw
        self.done[i] = 1
        if at >= end or not frame_is_valid(p, end - at, self.seed) or load_u64(p + 16) != self.index.raw_at(i) \
                or load_u32(p + 24) > self.index.raw_at(i + 1) - self.index.raw_at(i):
            return 0
        raw = inflate(p)
        if raw is not None:
            memcpy(self.data + self.index.raw_at(i), PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
        return 0

    def unpack_all(self):
        """Unpack every frame."""
        cdef Py_ssize_t i
        for i in range(self.index.count):
            if not self.done[i]:
                self.unpack_frame(i)

    def content(self):
        """The plain form as bytes, with zeros where frames are damaged."""
        self.unpack_all()
        return PyBytes_FromStringAndSize(self.data, self.size)


def unpack(bytes data not None, uint32_t seed):
    """(plain form, index) of a whole packed file; None: see index_of. Zeros stand where frames are damaged."""
    cdef FrameIndex index = index_of(data, seed)
    return None if index is None else (RawImage(data, index, seed).content(), index)
