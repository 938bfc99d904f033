# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Message blocks as nats-server keeps them: its records, one behind the other.

A record is: u32 length of all of it (its highest bit: there are headers), u64 sequence, i64 time, u16 length of the
subject, subject, (u32 length of the headers, headers,) payload, u64 checksum. Little-endian. The highest bit of a
sequence: nothing was stored, or it was erased. The next bit: the message of that sequence was deleted.
The checksum is HighwayHash of sequence, time, subject, headers and payload; its key is the SHA-256 of the stream's name
and the block's number.

Messages are read from their file in a thread, as far as that goes; the event loop's thread copies the others out of the
log, and appends those that come to one. Checksums are the business of a thread.
"""
import hashlib

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from jetbroker import limits
from jetbroker.errors import SequenceError

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.backup.archive.highway cimport (
    HighwayKey, HighwayState, highway_add, highway_begin, highway_end, highway_key,
)
from jetbroker.jetstream.backup.archive.s2 cimport S2Writer
from jetbroker.jetstream.publish.headers cimport PublishHeaders, scan_publish_headers
from jetbroker.store.format.records cimport load_u16, load_u32, load_u64, store_u16, store_u32, store_u64
from jetbroker.store.log.filelog cimport FileLog
from jetbroker.store.log.runs cimport Run
from jetbroker.store.log.stream_log cimport (
    FLAG_MSG_ID, FLAG_SCHEDULE, FLAG_TTL, READ_DAMAGED, READ_MISSING, READ_OK, StoredMessage, StreamLog,
)
from jetbroker.wire.subjects cimport is_valid_literal

cdef enum:
    HEAD = 22                          # bytes before the subject
    CHECKSUM = 8
    EMPTY_RECORD = HEAD + CHECKSUM
    AT_ONCE = 64                       # records between two looks at the clock
    BYTES_AT_ONCE = 65_536             # at most, with those of empty slots
    SLOT_BYTES = 20                    # of an empty one, in memory and in a footer

cdef uint32_t HAS_HEADERS = 0x80000000
cdef uint64_t ERASED = <uint64_t>1 << 63
cdef uint64_t TOMBSTONE = <uint64_t>1 << 62
cdef Py_ssize_t BLOCK_BYTES = limits.JS_ARCHIVE_BLOCK_BYTES
cdef uint32_t RECORD_BYTES = limits.JS_RECORD_BYTES
cdef Py_ssize_t GAPS = limits.JS_ARCHIVE_GAPS
cdef uint64_t EMPTY_SLOTS = limits.STREAM_EMPTY_SLOTS


class ArchiveError(Exception):
    """The archive cannot be taken; the text says why."""


cdef HighwayKey block_key(str stream, index):
    cdef bytes key = hashlib.sha256(f"{stream}-{index}".encode()).digest()
    return highway_key(PyBytes_AS_STRING(key))


cdef uint64_t checksum_of(const char* record, uint32_t length, const HighwayKey* key) noexcept nogil:
    """Of a record whose lengths are known to fit."""
    cdef HighwayState state
    cdef uint16_t subject_len = load_u16(record + 20)
    cdef uint32_t body = HEAD + subject_len
    highway_begin(&state, key)
    highway_add(&state, record + 4, 16)
    highway_add(&state, record + HEAD, subject_len)
    if load_u32(record) & HAS_HEADERS:
        body += 4
    highway_add(&state, record + body, length - CHECKSUM - body)
    return highway_end(&state)


cdef class BlockWriter:
    """Message blocks of one stream, one after the other."""
    cdef FileLog log
    cdef Run run
    cdef str stream
    cdef char* data
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t room
    cdef readonly uint64_t last_seq    # of the message written last

    def __init__(self, FileLog log not None, str stream not None) -> None:
        self.log = log
        self.run = Run()
        self.stream = stream

    def __dealloc__(self):
        free(self.data)

    @property
    def full(self) -> bool:
        return self.size >= BLOCK_BYTES

    def plan(self, uint64_t start, uint64_t last) -> bool:
        """Choose messages from `start` on that `read` finds in their file. False: the next one has to be copied."""
        return self.run.plan(self.log, start, last, BLOCK_BYTES - self.size)

    def read(self) -> tuple[int, bool]:
        """Read what was planned, in a thread; the next sequence, and False when that one has to be copied."""
        cdef StoredMessage message
        cdef int found
        with nogil:
            found = self.run.next(&message)
            while found == READ_OK:
                self._put(&message)
                found = self.run.next(&message)
        return self.run.reached(), found == READ_MISSING

    def copy(self, uint64_t start, uint64_t last, int64_t until_ns) -> int:
        """Copy messages from `start` to `last` until the block is full or the time is over; returns the next one.

        One that is damaged counts as lost from then on.
        """
        cdef StoredMessage message
        cdef int found
        cdef int left = AT_ONCE
        while start <= last and self.size < BLOCK_BYTES:
            found = self.log.next_message(None, start, last, &message)
            if found == READ_MISSING:
                return last + 1
            start = message.seq + 1
            if found != READ_DAMAGED:
                self._put(&message)
            left -= 1
            if left == 0:
                if monotonic_ns() >= until_ns:
                    break
                left = AT_ONCE
        return start

    def end_at(self, uint64_t seq, int64_t time_ns) -> None:
        """The stream goes up to a sequence whose message is gone."""
        cdef char* out = self._extend(EMPTY_RECORD)
        store_u32(out, EMPTY_RECORD)
        store_u64(out + 4, seq | ERASED)
        store_u64(out + 12, <uint64_t>time_ns)
        store_u16(out + 20, 0)

    cdef int _put(self, const StoredMessage* message) except -1 nogil:
        cdef uint32_t length = <uint32_t>(
            EMPTY_RECORD + message.subject_len + message.payload_len
            + (4 + message.headers_len if message.headers_len else 0))
        cdef char* out = self._extend(length)
        store_u32(out, length | HAS_HEADERS if message.headers_len else length)
        store_u64(out + 4, message.seq)
        store_u64(out + 12, <uint64_t>message.time_ns)
        store_u16(out + 20, <uint16_t>message.subject_len)
        out += HEAD
        memcpy(out, message.subject, message.subject_len)
        out += message.subject_len
        if message.headers_len:
            store_u32(out, <uint32_t>message.headers_len)
            memcpy(out + 4, message.headers, message.headers_len)
            out += 4 + message.headers_len
        memcpy(out, message.payload, message.payload_len)
        self.last_seq = message.seq
        return 0

    def forget(self) -> None:
        """Only what is lost was looked for."""
        self.size = 0

    cdef char* _extend(self, Py_ssize_t n) except NULL nogil:
        cdef Py_ssize_t room
        cdef char* data
        if self.size + n > self.room:
            room = max(self.size + n, min(2 * self.room, BLOCK_BYTES + BLOCK_BYTES // 4), <Py_ssize_t>65536)
            data = <char*>realloc(self.data, room)
            if data == NULL:
                with gil:
                    raise MemoryError
            self.data = data
            self.room = room
        self.size += n
        return self.data + self.size - n

    def finish(self, index: int, S2Writer out not None) -> None:
        """Write the block with its checksums; the next one begins. May run in a thread."""
        cdef HighwayKey key = block_key(self.stream, index)
        with nogil:
            self._seal(&key)
        out.add(self.data, self.size)
        self.size = 0

    cdef void _seal(self, const HighwayKey* key) noexcept nogil:
        cdef Py_ssize_t at = 0
        cdef uint32_t length
        while at < self.size:
            length = load_u32(self.data + at) & ~HAS_HEADERS
            store_u64(self.data + at + length - CHECKSUM, checksum_of(self.data + at, length, key))
            at += length


cdef class BlockReader:
    """Message blocks of one stream, one after the other, into its log."""
    cdef str stream
    cdef object index
    cdef HighwayKey key
    cdef bytearray pieces
    cdef Py_ssize_t at                 # what is in front has been stored
    cdef Py_ssize_t checked            # and up to here there are sound records
    cdef Py_ssize_t gaps               # that took a new segment
    cdef readonly uint64_t written     # bytes that the log has taken, with those of empty slots

    def __init__(self, str stream not None) -> None:
        self.stream = stream
        self.pieces = bytearray()

    def begin(self, index: int) -> None:
        """A block begins."""
        self.index = index
        self.key = block_key(self.stream, index)

    @property
    def unchecked(self) -> int:
        """Bytes that wait for `check`."""
        return len(self.pieces) - self.checked

    def feed(self, data: bytes | memoryview) -> None:
        """The next piece of it."""
        if self.at:
            del self.pieces[:self.at]
            self.checked -= self.at
            self.at = 0
        self.pieces += data

    def check(self) -> None:
        """Check what has come. May run in a thread. Raises ArchiveError."""
        cdef const char* p = PyByteArray_AS_STRING(self.pieces)
        cdef Py_ssize_t n = len(self.pieces)
        cdef bint good
        with nogil:
            good = self._check(p, n)
        if not good:
            raise ArchiveError(f"message block {self.index} is damaged")

    cdef bint _check(self, const char* p, Py_ssize_t n) noexcept nogil:
        cdef uint32_t length
        cdef uint32_t body
        while self.checked + EMPTY_RECORD <= n:
            length = load_u32(p + self.checked)
            body = HEAD + load_u16(p + self.checked + 20) + CHECKSUM
            if length & HAS_HEADERS:
                body += 4
                length &= ~HAS_HEADERS
            if length < body or length > RECORD_BYTES:
                return False
            if self.checked + length > n:
                return True
            if load_u64(p + self.checked + length - CHECKSUM) != checksum_of(p + self.checked, length, &self.key):
                return False
            self.checked += length
        return True

    def end(self) -> None:
        """The block ends. Raises ArchiveError when a record does not."""
        if self.checked != len(self.pieces):
            raise ArchiveError(f"message block {self.index} ends in a record")

    def store(self, StreamLog log not None, int64_t until_ns) -> bool:
        """Append what was checked, until the time is over; True: there is more. Raises ArchiveError, StorageError."""
        cdef const char* p = PyByteArray_AS_STRING(self.pieces)
        cdef uint64_t looked_at = self.written
        cdef uint32_t length
        cdef int left = AT_ONCE
        while self.at < self.checked:
            self._take(log, p + self.at)
            length = load_u32(p + self.at) & ~HAS_HEADERS
            self.at += length
            self.written += length
            left -= 1
            if left == 0 or self.written - looked_at >= BYTES_AT_ONCE:
                if monotonic_ns() >= until_ns:
                    break
                left = AT_ONCE
                looked_at = self.written
        return self.at < self.checked

    cdef int _take(self, StreamLog log, const char* record) except -1:
        cdef uint64_t seq = load_u64(record + 4)
        if seq & TOMBSTONE and not seq & ERASED:
            seq &= ~TOMBSTONE
            if seq <= log.last_seq:
                log.remove(seq, False)
                return 0
            return self._skip_to(log, seq + 1)
        if seq & ERASED:
            seq &= ~ERASED
            return self._skip_to(log, seq + 1) if seq > log.last_seq else 0
        if seq <= log.last_seq:
            return 0                   # as nats-server: sequences only grow
        self._skip_to(log, seq)
        return self._append(log, record)

    cdef int _skip_to(self, StreamLog log, uint64_t seq) except -1:
        if seq - log.last_seq > EMPTY_SLOTS:
            self.gaps += 1
            if self.gaps > GAPS:
                raise ArchiveError(f"more than {GAPS} large gaps between messages")
        else:
            self.written += (seq - log.last_seq - 1) * SLOT_BYTES
        try:
            log.skip_to(seq)
        except SequenceError as error:
            raise ArchiveError(str(error)) from None
        return 0

    cdef int _append(self, StreamLog log, const char* record) except -1:
        cdef uint32_t length = load_u32(record)
        cdef bint has_headers = length & HAS_HEADERS != 0
        cdef uint16_t subject_len = load_u16(record + 20)
        cdef const char* headers = record + HEAD + subject_len
        cdef Py_ssize_t headers_len = 0
        cdef Py_ssize_t rest = (length & ~HAS_HEADERS) - EMPTY_RECORD - subject_len
        if has_headers:
            headers_len = load_u32(headers)
            headers += 4
            rest -= 4
        if headers_len > rest:
            raise ArchiveError(f"message block {self.index} is damaged")
        if not is_valid_literal(record + HEAD, subject_len):
            raise ArchiveError(f"message {load_u64(record + 4)} has no valid subject")
        log.append(record + HEAD, subject_len, headers, headers_len, headers + headers_len, rest - headers_len,
                   <int64_t>load_u64(record + 12), flags_of(headers, headers_len), None)
        return 0


cdef uint16_t flags_of(const char* headers, Py_ssize_t n) noexcept nogil:
    """What a start must find again without reading every header."""
    cdef PublishHeaders found
    if n == 0 or not scan_publish_headers(headers, n, &found):
        return 0
    return ((FLAG_MSG_ID if found.msg_id.n else 0) | (FLAG_TTL if found.ttl.n else 0)
            | (FLAG_SCHEDULE if found.schedule.n else 0))
