# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The file that a log is writing (see active_file.pxd)."""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from jetbroker import limits

from jetbroker.store.disk cimport Disk
from jetbroker.store.format.records cimport (
    KIND_DELETIONS, OFFSET_EMPTY, RECORD_HEADER, put_record, record_flags, record_length,
)
from jetbroker.store.log.removals cimport PendingRemovals
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.log.stream_log cimport FLAG_BATCH, FLAG_BATCH_FIRST, FLAG_BATCH_LAST
from jetbroker.store.log.commit cimport Tail

# Ranges in one D record: 1 MiB
cdef Py_ssize_t RANGES_PER_RECORD = 65536


cdef class ActiveFile:
    """The segment that is appended to, and its write buffer."""

    def __init__(self, Disk disk not None, uint32_t seed):
        self.disk = disk
        self.seed = seed
        self.tail = Tail()

    cpdef int begin(self, FileSegment segment, bytes content) except -1:
        """Start with `content`, nothing of which is written yet."""
        self.segment = segment
        return self.tail.begin(content)

    cdef int go_on(self, FileSegment segment) except -1:
        self.segment = segment
        self.tail.go_on(segment.end)
        return 0

    cdef int put(self, int kind, uint64_t seq, int64_t time_ns, const char* payload, Py_ssize_t n) except -1:
        cdef Py_ssize_t length = RECORD_HEADER + n
        put_record(self.tail.extend(length), kind, self.seed, seq, time_ns, 0, NULL, 0, NULL, 0, payload, n)
        self.segment.end += length
        return 0

    cpdef int put_deletions(self, PendingRemovals removals, uint64_t seq, int64_t time_ns) except -1:
        """D records of what waits, as of this sequence and time."""
        cdef Ranges batch = removals.next_batch()
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t n
        if batch is None:
            return 0
        while at < batch.count:
            n = min(batch.count - at, RANGES_PER_RECORD)
            self.put(KIND_DELETIONS, seq, time_ns, <const char*>(batch.data + 2 * at), 16 * n)
            at += n
        return 0

    cpdef int write(self) except -1:
        """Write all of it. Raises OSError."""
        return self.tail.write(self.disk, self.segment.fd)

    cdef int record(self, PendingRemovals removals) except -1:
        self.segment.recorded.extend(removals.in_flight)
        if self.segment.recorded.count > 100_000:
            self.segment.recorded.normalize()
        return removals.written()

    cdef int probe(self) except -1:
        self.disk.write_all(self.segment.fd, bytes(limits.STORAGE_PROBE_BYTES), self.tail.end())
        return 0

    cpdef int cut_back(self, uint64_t end) except -1:
        """What is behind `end` is not going to be written."""
        self.tail.cut(end)
        self.segment.end = end
        return 0

    cdef int retain(self) except -1:
        self.segment.retained_at = self.tail.unsynced_from()
        self.segment.retained = self.tail.bytes_from(self.segment.retained_at)
        return 0

    cdef uint64_t erase(self, uint64_t start, uint64_t end) except? 0:
        self.tail.erase(start, end)
        return min(end, self.tail.written)

    cdef Py_ssize_t written_slots(self) except? -1:
        cdef Py_ssize_t written = self.segment.slots
        cdef Py_ssize_t slot
        for slot in range(self.segment.slots - 1, -1, -1):
            if self.segment.record_size(slot) == 0:
                continue               # skipped sequences go with the record in front of them
            if self.segment.offsets[slot] + <uint64_t>self.segment.record_size(slot) <= self.tail.written:
                break
            written = slot
        return self.whole_batches(written)

    cdef Py_ssize_t whole_batches(self, Py_ssize_t slots) except? -1:
        """How many of the first `slots` slots stay, when a batch goes as a whole."""
        cdef Py_ssize_t slot = slots
        cdef uint16_t flags
        while slot:
            slot -= 1
            if self.segment.record_size(slot) == 0:
                continue
            if self.segment.offsets[slot] < self.tail.base:
                break                      # written with an earlier group
            flags = record_flags(self.tail.at(self.segment.offsets[slot]))
            if not flags & FLAG_BATCH or flags & FLAG_BATCH_LAST:
                break
            if flags & FLAG_BATCH_FIRST:
                return slot
        return slots

    cpdef uint64_t written_boundary(self, Py_ssize_t slots) except? 0:
        """Where the last wholly written record ends, when so many message records are."""
        cdef uint64_t at = self.segment.header_len
        cdef uint64_t end = self.tail.written
        cdef Py_ssize_t slot
        for slot in range(slots, self.segment.slots):
            if self.segment.offsets[slot] != OFFSET_EMPTY:
                # the record behind may be whole, when its batch is not
                end = min(end, <uint64_t>self.segment.offsets[slot])
                break
        if slots and self.segment.record_size(slots - 1):
            at = self.segment.offsets[slots - 1] + <uint64_t>self.segment.record_size(slots - 1)
        if at < self.tail.base:
            at = self.tail.base
        if end < self.segment.header_len:
            # not even the header: the whole file is written again
            return self.segment.header_len
        while at + RECORD_HEADER <= end and at + record_length(self.tail.at(at)) <= end:
            at += record_length(self.tail.at(at))
        return at

    cdef bytes unsynced_records(self, list sealed):
        cdef FileSegment segment
        cdef list parts = []
        cdef uint64_t start
        for segment in sealed:
            start = max(segment.header_len, segment.retained_at)
            parts.append(segment.retained[start - segment.retained_at:])
        parts.append(self.tail.bytes_from(max(self.segment.header_len, self.tail.unsynced_from())))
        return b"".join(parts)
