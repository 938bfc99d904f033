# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""S2 streams, the compression of nats-server's archives: Snappy's framing, with larger blocks that may repeat offsets.

Decoders for Snappy do not know repeats, and no kept library for Python reads S2. What is written here is plain Snappy
in small chunks, which every reader of S2 and of Snappy takes.
"""
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from jetbroker.store.format.records cimport crc32c_update, load_u16, load_u32, store_u16, store_u32

cdef enum:
    CHUNK_COMPRESSED = 0x00
    CHUNK_PLAIN = 0x01
    CHUNK_SKIPPABLE = 0x80             # and those above, padding too
    CHUNK_BEGIN = 0xFF
    CHUNK_HEAD = 4                     # type and length
    CHECKSUM = 4
    BLOCK_BYTES = 4 * 1024 * 1024      # the largest block that S2 has
    WRITTEN_BYTES = 65536              # the largest that Snappy has
    TABLE_BITS = 14

cdef bytes BEGIN = b"\xff\x06\x00\x00sNaPpY"
cdef tuple MAGIC = (b"sNaPpY", b"S2sTwO")


class S2Error(Exception):
    """The stream cannot be read."""


cdef inline uint32_t masked(const char* p, size_t n) noexcept nogil:
    cdef uint32_t crc = crc32c_update(0, p, n)
    return ((crc >> 15) | (crc << 17)) + <uint32_t>0xA282EAD8


# --- reading ---

cdef Py_ssize_t read_varint(const unsigned char* p, Py_ssize_t n, uint64_t* out) noexcept nogil:
    """The bytes that it takes; 0: there is none of 32 bits."""
    cdef Py_ssize_t i
    out[0] = 0
    for i in range(min(n, 5)):
        out[0] |= <uint64_t>(p[i] & 0x7F) << (7 * i)
        if not p[i] & 0x80:
            if out[0] >> 32:
                return 0
            return i + 1
    return 0


cdef struct Copy:
    Py_ssize_t length
    Py_ssize_t offset


cdef Py_ssize_t read_literal(const unsigned char* p, Py_ssize_t n, Py_ssize_t* length) noexcept nogil:
    """How many bytes the tag of a literal takes; 0: it does not end."""
    cdef Py_ssize_t more = (p[0] >> 2) - 59
    cdef Py_ssize_t i
    if more <= 0:
        length[0] = (p[0] >> 2) + 1
        return 1
    if 1 + more > n:
        return 0
    length[0] = 1
    for i in range(more):
        length[0] += <Py_ssize_t>p[1 + i] << (8 * i)
    return 1 + more


cdef Py_ssize_t read_repeat(const unsigned char* p, Py_ssize_t n, Copy* out) noexcept nogil:
    """A copy of one byte's offset, and offset 0, repeats the offset before, for any length."""
    cdef int code = (p[0] >> 2) & 7
    cdef Py_ssize_t more = code - 4 if code > 4 else 0
    cdef Py_ssize_t i
    if 2 + more > n:
        return 0
    out.length = code + 4
    if more:
        out.length = 8 if more == 1 else 260 if more == 2 else 65540
        for i in range(more):
            out.length += <Py_ssize_t>p[2 + i] << (8 * i)
    return 2 + more


cdef Py_ssize_t read_copy(const unsigned char* p, Py_ssize_t n, Copy* out) noexcept nogil:
    """How many bytes the tag of a copy takes; 0: it does not end. `out` holds the offset before."""
    cdef int kind = p[0] & 3
    if kind == 1:
        if n < 2:
            return 0
        if (p[0] >> 5) == 0 and p[1] == 0:
            return read_repeat(p, n, out)
        out.length = ((p[0] >> 2) & 7) + 4
        out.offset = (<Py_ssize_t>(p[0] >> 5) << 8) | p[1]
        return 2
    out.length = (p[0] >> 2) + 1
    if kind == 2:
        if n < 3:
            return 0
        out.offset = load_u16(<const char*>p + 1)
        return 3
    if n < 5:
        return 0
    out.offset = load_u32(<const char*>p + 1)
    return 5


cdef inline void copy_within(char* to, Py_ssize_t offset, Py_ssize_t length) noexcept nogil:
    """Bytes that were written `offset` before; what is copied may be part of it."""
    cdef Py_ssize_t part
    while length:
        part = min(offset, length)
        memcpy(to, to - offset, part)
        to += part
        length -= part
        offset += part


cdef bint unpack(const unsigned char* p, Py_ssize_t n, char* out, Py_ssize_t room) noexcept nogil:
    """Unpack a block's tags into exactly `room` bytes; False: it does not fit."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t taken
    cdef Py_ssize_t length = 0
    cdef Copy copied
    copied.length = copied.offset = 0
    while at < n:
        if p[at] & 3 == 0:
            taken = read_literal(p + at, n - at, &length)
            if taken == 0 or length > n - at - taken or length > room - done:
                return False
            memcpy(out + done, p + at + taken, length)
            at += taken + length
            done += length
            continue
        taken = read_copy(p + at, n - at, &copied)
        if taken == 0 or copied.offset == 0 or copied.offset > done or copied.length > room - done:
            return False
        copy_within(out + done, copied.offset, copied.length)
        at += taken
        done += copied.length
    return done == room


cdef class S2Reader:
    """Blocks out of a stream that comes in pieces. Its methods take no lock: one thread at a time."""
    cdef bytearray pieces
    cdef Py_ssize_t at                 # what is in front has been read
    cdef Py_ssize_t skip               # bytes of a chunk that says nothing
    cdef bint begun

    def __cinit__(self):
        self.pieces = bytearray()

    def feed(self, bytes data not None) -> None:
        """The next piece."""
        if self.at:
            del self.pieces[:self.at]
            self.at = 0
        self.pieces += data

    @property
    def held(self) -> int:
        """Bytes that wait."""
        return len(self.pieces) - self.at + self.skip

    def next_block(self):
        """The next block; None: not there yet. Raises S2Error."""
        cdef const unsigned char* p
        cdef Py_ssize_t n
        cdef Py_ssize_t part
        while True:
            part = min(self.skip, len(self.pieces) - self.at)
            self.skip -= part
            self.at += part
            if self.skip or len(self.pieces) - self.at < CHUNK_HEAD:
                return None
            p = <const unsigned char*>PyByteArray_AS_STRING(self.pieces) + self.at
            n = load_u32(<const char*>p) >> 8
            if p[0] >= CHUNK_SKIPPABLE and p[0] != CHUNK_BEGIN:
                self._take(CHUNK_HEAD)
                self.skip = n
                continue
            self._check_head(p[0], n)
            if len(self.pieces) - self.at < CHUNK_HEAD + n:
                return None
            self._take(CHUNK_HEAD + n)
            if p[0] == CHUNK_BEGIN:
                self._begin(p + CHUNK_HEAD, n)
                continue
            return self._unpacked(p[0], p + CHUNK_HEAD, n)

    def _take(self, Py_ssize_t n):
        self.at += n

    def _check_head(self, int kind, Py_ssize_t n):
        if kind == CHUNK_BEGIN:
            if n != 6:
                raise S2Error("s2: corrupt input")
            return
        if not self.begun:
            raise S2Error("s2: corrupt input")
        if kind != CHUNK_COMPRESSED and kind != CHUNK_PLAIN:
            raise S2Error("s2: unsupported input")
        if not CHECKSUM <= n <= BLOCK_BYTES + CHECKSUM:
            raise S2Error("s2: corrupt input")

    cdef int _begin(self, const unsigned char* p, Py_ssize_t n) except -1:
        if (<const char*>p)[:n] not in MAGIC:
            raise S2Error("s2: unsupported input")
        self.begun = True
        return 0

    cdef bytes _unpacked(self, int kind, const unsigned char* p, Py_ssize_t n):
        cdef uint32_t checksum = load_u32(<const char*>p)
        cdef uint64_t size = n - CHECKSUM
        cdef Py_ssize_t taken = 0
        cdef bytes out
        cdef char* to
        cdef bint good
        p += CHECKSUM
        n -= CHECKSUM
        if kind == CHUNK_COMPRESSED:
            taken = read_varint(p, n, &size)
            if taken == 0 or size > BLOCK_BYTES:
                raise S2Error("s2: corrupt input")
        out = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(out)
        with nogil:
            good = True
            if kind == CHUNK_COMPRESSED:
                good = unpack(p + taken, n - taken, to, size)
            else:
                memcpy(to, p, size)
            good = good and masked(to, size) == checksum
        if not good:
            raise S2Error("s2: corrupt input")
        return out


# --- writing ---

cdef char* put_literal(char* out, const char* p, Py_ssize_t n) noexcept nogil:
    if n == 0:
        return out
    if n <= 60:
        out[0] = <char>((n - 1) << 2)
        out += 1
    elif n <= 256:
        out[0] = <char>(60 << 2)
        out[1] = <char>(n - 1)
        out += 2
    else:
        out[0] = <char>(61 << 2)
        store_u16(out + 1, <unsigned short>(n - 1))
        out += 3
    memcpy(out, p, n)
    return out + n


cdef char* put_copy(char* out, Py_ssize_t offset, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t part
    while n:
        part = n if n <= 64 else 64 if n >= 68 else 60       # no rest is shorter than 4
        out[0] = <char>(((part - 1) << 2) | 2)
        store_u16(out + 1, <unsigned short>offset)
        out += 3
        n -= part
    return out


cdef Py_ssize_t pack(const char* p, Py_ssize_t n, char* out) noexcept nogil:
    """Pack up to 64 KiB as a block of Snappy; 0: it does not get smaller. `out` has room for `n` bytes."""
    cdef unsigned short[1 << TABLE_BITS] table
    cdef char* begin = out
    cdef char* end = out + n - n // 8
    cdef Py_ssize_t at = 1
    cdef Py_ssize_t literal = 0
    cdef Py_ssize_t found
    cdef Py_ssize_t length
    cdef Py_ssize_t misses = 32
    cdef uint32_t word
    memset(table, 0, sizeof(table))
    found = n
    while found >= 0x80:
        out[0] = <char>(found | 0x80)
        out += 1
        found >>= 7
    out[0] = <char>found
    out += 1
    while at + 4 <= n:
        word = load_u32(p + at)
        found = table[(word * <uint32_t>0x1E35A7BD) >> (32 - TABLE_BITS)]
        table[(word * <uint32_t>0x1E35A7BD) >> (32 - TABLE_BITS)] = <unsigned short>at
        if load_u32(p + found) != word:
            at += misses >> 5          # what does not repeat is passed over faster and faster
            misses += 1
            continue
        length = 4
        while at + length < n and p[found + length] == p[at + length]:
            length += 1
        if out + (at - literal) + 8 + 3 * (length // 60 + 1) > end:
            return 0
        out = put_literal(out, p + literal, at - literal)
        out = put_copy(out, at - found, length)
        at += length
        literal = at
        misses = 32
    if out + (n - literal) + 8 > end:
        return 0
    return put_literal(out, p + literal, n - literal) - begin


cdef Py_ssize_t put_chunk(char* out, const char* p, Py_ssize_t n) noexcept nogil:
    """A chunk of up to 64 KiB; returns what it takes, `n` and 8 bytes at most."""
    cdef Py_ssize_t size = pack(p, n, out + CHUNK_HEAD + CHECKSUM)
    cdef int kind = CHUNK_COMPRESSED
    if size == 0:
        kind = CHUNK_PLAIN
        size = n
        memcpy(out + CHUNK_HEAD + CHECKSUM, p, n)
    store_u32(out, <uint32_t>((size + CHECKSUM) << 8) | kind)
    store_u32(out + CHUNK_HEAD, masked(p, n))
    return CHUNK_HEAD + CHECKSUM + size


cdef class S2Writer:
    """Chunks of a stream, in memory that the next ones take again."""

    def __dealloc__(self):
        free(self.data)

    cdef char* _extend(self, Py_ssize_t n) except NULL:
        """Room for `n` more bytes."""
        cdef Py_ssize_t room
        cdef char* data
        if self.size + n > self.room:
            room = max(self.size + n, self.room + self.room // 2)
            data = <char*>realloc(self.data, room)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.room = room
        return self.data + self.size

    cdef int add(self, const char* p, Py_ssize_t n) except -1:
        """These bytes as chunks of up to 64 KiB; the lock of the interpreter is free meanwhile."""
        cdef Py_ssize_t chunks = (n + WRITTEN_BYTES - 1) // WRITTEN_BYTES
        cdef char* out = self._extend(n + chunks * (CHUNK_HEAD + CHECKSUM))
        cdef char* to = out
        cdef Py_ssize_t at = 0
        with nogil:
            while at < n:
                to += put_chunk(to, p + at, min(<Py_ssize_t>WRITTEN_BYTES, n - at))
                at += WRITTEN_BYTES
        self.size += to - out
        return 0

    def begin(self) -> None:
        """What stands in front of a stream's first chunk."""
        memcpy(self._extend(len(BEGIN)), PyBytes_AS_STRING(BEGIN), len(BEGIN))
        self.size += len(BEGIN)

    def write(self, bytes data not None) -> None:
        """These bytes as chunks. May run in a thread."""
        self.add(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def read(self, Py_ssize_t start, Py_ssize_t n) -> bytes:
        """Up to `n` bytes of what was written, from there on."""
        if start < 0 or n < 0:
            raise ValueError("not written")
        start = min(start, self.size)
        return self.data[start:start + min(n, self.size - start)] if self.data != NULL else b""

    def clear(self) -> None:
        """The next chunks are written over these."""
        self.size = 0
