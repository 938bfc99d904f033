# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What nats-server's `index.db` says of deleted messages.

Blocks tell of most deletes themselves, but not of what a limit has removed. As in nats-server, an index that is damaged
or not known counts as none; what is beyond the limits is removed by them then.

The index: 11, version, then varints: messages, bytes, first sequence, first time, last sequence, last time; the number
of subjects, and for each its length, text and two or three numbers; the number of blocks, and for each: number, bytes,
first sequence, first time, last sequence, last time, how many between are deleted, from version 2 on how many have a
TTL, from 3 on how many are schedules, then the set of the deleted: 22, version, u32 nodes, u32 size, and for each node
a u64 sequence, 32 u64 (64 in version 1) whose bits are the sequences from there on, and u16. At the end stand another
number, a checksum of the last block, and HighwayHash of all.
"""
import hashlib

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.backup.archive.highway cimport (
    HighwayKey, HighwayState, highway_add, highway_begin, highway_end, highway_key,
)
from jetbroker.store.format.records cimport load_u32, load_u64
from jetbroker.store.log.stream_log cimport READ_MISSING, StoredMessage, StreamLog

cdef enum:
    MAGIC = 11
    SET_MAGIC = 22
    SET_HEAD = 10
    LEAST_BYTES = 32
    CHECKSUM = 8
    AT_ONCE = 64                       # messages removed between two looks at the clock


cdef class DeletedIndex:
    """What an index says of deleted messages."""
    cdef bytes data
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef int version
    cdef uint64_t blocks               # to come
    cdef uint64_t nodes                # to come of the set at hand
    cdef int words                     # of each
    cdef uint64_t next                 # of the sequences before a block, which are all gone
    cdef uint64_t last
    cdef uint64_t before               # the last sequence of the block before

    def __cinit__(self):
        self.next = 1                  # nothing is to be removed yet

    @staticmethod
    def read(bytes data not None, str stream not None):
        """None: it is damaged, or of another version or stream. May run in a thread."""
        cdef DeletedIndex index = DeletedIndex()
        cdef bytes key = hashlib.sha256(stream.encode()).digest()
        cdef HighwayKey words = highway_key(PyBytes_AS_STRING(key))
        cdef const char* p = PyBytes_AS_STRING(data)
        cdef bint good
        index.data = data
        index.end = PyBytes_GET_SIZE(data) - CHECKSUM
        if PyBytes_GET_SIZE(data) < LEAST_BYTES:
            return None
        with nogil:
            good = index._begin(p, &words)
        return index if good else None

    cdef bint _begin(self, const char* p, const HighwayKey* key) noexcept nogil:
        cdef HighwayState state
        cdef uint64_t number = 0
        cdef uint64_t subjects = 0
        cdef int _
        highway_begin(&state, key)
        highway_add(&state, p, self.end)
        if highway_end(&state) != load_u64(p + self.end):
            return False
        self.version = p[1]
        if p[0] != MAGIC or not 1 <= self.version <= 4:
            return False
        self.at = 2
        for _ in range(6):
            if not self._take(p, &number):
                return False
        if not self._take(p, &subjects):
            return False
        while subjects:
            subjects -= 1
            if not self._skip_subject(p):
                return False
        return self._take(p, &self.blocks)

    cdef bint _skip_subject(self, const char* p) noexcept nogil:
        cdef uint64_t length = 0
        cdef uint64_t total = 0
        cdef uint64_t block = 0
        if not self._take(p, &length):
            return False
        if length == 0:
            return True
        if length > <uint64_t>(self.end - self.at):
            return False
        self.at += length
        if not self._take(p, &total) or not self._take(p, &block):
            return False
        return self._take(p, &block) if total > 1 or self.version >= 4 else True

    cdef bint _take(self, const char* p, uint64_t* out) noexcept nogil:
        """A varint."""
        cdef int shift = 0
        cdef unsigned char byte
        out[0] = 0
        while self.at < self.end and shift < 64:
            byte = <unsigned char>p[self.at]
            self.at += 1
            out[0] |= <uint64_t>(byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return True
        return False

    def remove(self, StreamLog log not None, int64_t until_ns) -> bool:
        """Remove what it tells, until the time is over; True: there is more."""
        cdef const char* p = PyBytes_AS_STRING(self.data)
        while True:
            if self.next <= self.last:
                self._remove_run(log)
            elif self.nodes:
                self._remove_node(log, p)
            elif not self._next_block(p):
                return False
            if monotonic_ns() >= until_ns:
                return True

    cdef int _remove_run(self, StreamLog log) except -1:
        cdef StoredMessage message
        cdef int left = AT_ONCE
        while left:
            left -= 1
            if log.next_message(None, self.next, self.last, &message) == READ_MISSING:
                self.next = self.last + 1
                return 0
            self.next = message.seq + 1
            log.remove(message.seq, False)
        return 0

    cdef int _remove_node(self, StreamLog log, const char* p) except -1:
        cdef uint64_t base = load_u64(p + self.at)
        cdef uint64_t bits
        cdef int word
        cdef int bit
        if base <= log.last_seq and base + 64 * self.words > log.first_seq:
            for word in range(self.words):
                bits = load_u64(p + self.at + 8 + 8 * word)
                bit = 0
                while bits:
                    if bits & 1:
                        log.remove(base + 64 * word + bit, False)
                    bits >>= 1
                    bit += 1
        self.at += 10 + 8 * self.words
        self.nodes -= 1
        return 0

    cdef bint _next_block(self, const char* p) noexcept:
        """Go on to the next block; False: there is none, or the rest makes no sense."""
        cdef uint64_t[9] fields
        cdef int i
        if self.blocks == 0:
            return False
        self.blocks -= 1
        for i in range(7 + (self.version >= 2) + (self.version >= 3)):
            if not self._take(p, &fields[i]):
                self.blocks = 0
                return False
        # fields: number, bytes, first, its time, last, its time, deleted
        self.next = self.before + 1
        self.last = fields[2] - 1 if fields[2] else 0
        if fields[6] and not self._begin_set(p):
            self.blocks = 0
            return False
        self.before = fields[4]
        return True

    cdef bint _begin_set(self, const char* p) noexcept:
        if self.end - self.at < SET_HEAD or p[self.at] != SET_MAGIC or not 1 <= p[self.at + 1] <= 2:
            return False
        self.words = 64 if p[self.at + 1] == 1 else 32
        self.nodes = load_u32(p + self.at + 2)
        self.at += SET_HEAD
        if self.nodes > <uint64_t>((self.end - self.at) // (10 + 8 * self.words)):
            self.nodes = 0
            return False
        return True
