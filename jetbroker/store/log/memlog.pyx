# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A stream's log in memory: the same log code over buffers instead of files."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from jetbroker.errors import StorageError

from jetbroker.store.format.records cimport RECORD_HEADER, SIZE_MASK
from jetbroker.store.log.segment cimport Segment, grow
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.tick cimport PHASE_LOGS, Tick

# Small, so that memory of removed messages comes back soon.
DEFAULT_MEMORY_SEGMENT_BYTES = 1024 * 1024


cdef class MemorySegment(Segment):
    """A segment and its bytes."""

    def __dealloc__(self):
        free(self.data)


cdef class MemoryLog(SegmentedLog):
    """A log that forgets everything when the broker stops. Everything accepted is committed at the end of the tick."""

    def __init__(self, Tick tick not None, uint64_t segment_bytes=DEFAULT_MEMORY_SEGMENT_BYTES):
        self.tick = tick
        self.segment_bytes = segment_bytes
        self.message_cost = 16
        self.headers_cost = 0
        self.active = MemorySegment(1)
        self.segments.append(self.active)

    cdef int ready(self) except -1:
        if self.closed:
            raise StorageError("the log is closed")
        return 0

    cdef int begin_batch(self, uint64_t size) except -1:
        self.ready()
        self.batch_seq = self.last_seq + 1
        return 0

    cdef int end_batch(self) except -1:
        self.batch_seq = 0
        return 0

    cdef int abort_batch(self) except -1:
        cdef uint64_t seq
        for seq in range(self.last_seq, self.batch_seq - 1, -1):
            self.remove(seq, False)
        self.batch_seq = 0
        return 0

    cdef int changed(self) except -1:
        if not self.scheduled:
            self.tick.schedule(PHASE_LOGS, self)
        return 0

    cdef int run_tick(self) except -1:
        self.written = self.synced = self.last_seq
        if self.committed != self.last_seq:
            self.committed = self.last_seq
            if self.observer is not None:
                self.observer.on_committed(self.committed)
        return 0

    async def commit(self):
        """Everything accepted is committed when this returns."""
        self.run_tick()

    async def close(self):
        """Free all memory."""
        self.closed = True
        self.account(-<int64_t>self.messages, -<int64_t>self.bytes)

    cdef char* room(self, uint32_t length, uint32_t* offset) except NULL:
        cdef MemorySegment segment = <MemorySegment>self.active
        cdef Py_ssize_t room
        if segment.size + length > <Py_ssize_t>self.segment_bytes and segment.slots:
            self.roll(self.last_seq + 1)
            segment = <MemorySegment>self.active
        if segment.size + length > segment.room:
            # a log that filled a segment fills the next one: no moves on the way, and pages cost when they are touched
            room = 2 * segment.room if len(self.segments) == 1 else <Py_ssize_t>self.segment_bytes
            self.resize(segment, max(room, segment.size + <Py_ssize_t>length, 4096))
        # 0 means an empty slot, so offsets count from 1
        offset[0] = <uint32_t>(segment.size + 1)
        segment.size += length
        return segment.data + segment.size - length

    cdef int resize(self, MemorySegment segment, Py_ssize_t room) except -1:
        segment.data = <char*>grow(segment.data, room)
        segment.room = room
        return 0

    cdef int roll(self, uint64_t first_seq) except -1:
        cdef MemorySegment old = <MemorySegment>self.active
        cdef MemorySegment new = MemorySegment(first_seq)
        new.last_time = self.last_time_ns
        old.sealed = True
        self.active = new
        self.segments.append(new)
        if old.live == 0:
            self.drop_dead_segments()
        elif old.live == old.slots:
            self.resize(old, old.size)
        else:
            self.compact(old)
        return 0

    cdef int drop(self, Segment segment) except -1:
        return 0

    cdef Py_ssize_t record_size(self, Segment segment, Py_ssize_t slot) noexcept:
        return RECORD_HEADER + segment.subject_len(segment.ids[slot]) + (segment.sizes[slot] & SIZE_MASK)

    cdef const char* fetch(self, Segment segment, Py_ssize_t slot) except? NULL:
        return (<MemorySegment>segment).data + segment.offsets[slot] - 1

    cdef int erase_slot(self, Segment segment, Py_ssize_t slot) except -1:
        cdef Py_ssize_t i
        for i in range(segment.offsets[slot] - 1, segment.offsets[slot] - 1 + self.record_size(segment, slot)):
            (<MemorySegment>segment).data[i] = 0
        return 0

    cdef int after_removal(self, Segment segment) except -1:
        # a cheap bound on what is alive: records are at least a header longer than their count of bytes says
        if segment.sealed and (<MemorySegment>segment).room > 4096 \
                and 2 * (segment.live_bytes + 36 * segment.live) < <uint64_t>(<MemorySegment>segment).size:
            self.compact(<MemorySegment>segment)
        return 0

    cdef int compact(self, MemorySegment segment) except -1:
        """Keep the bytes of live messages only; slots stay where they are."""
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t n
        cdef Py_ssize_t slot = segment.next_live(0, segment.slots)
        cdef char* data
        while slot >= 0:
            size += self.record_size(segment, slot)
            slot = segment.next_live(slot + 1, segment.slots)
        data = <char*>malloc(size + 1)
        if data == NULL:
            raise MemoryError
        slot = segment.next_live(0, segment.slots)
        while slot >= 0:
            n = self.record_size(segment, slot)
            memcpy(data + at, segment.data + segment.offsets[slot] - 1, n)
            segment.offsets[slot] = <uint32_t>(at + 1)
            at += n
            slot = segment.next_live(slot + 1, segment.slots)
        free(segment.data)
        segment.data = data
        segment.size = segment.room = size
        return 0
