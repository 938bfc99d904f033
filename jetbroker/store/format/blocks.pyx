# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A few cached blocks of segment files (see blocks.pxd)."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from jetbroker.store.disk cimport Disk, FileMap


cdef class BlockCache:
    """The blocks of one log."""

    def __cinit__(self):
        self.recent = &self.blocks[0]

    def __dealloc__(self):
        self.clear()

    cdef const char* get(self, Disk disk, int fd, FileMap map, uint64_t tag, uint64_t offset, Py_ssize_t n,
                         uint64_t end) except? NULL:
        cdef Block* block = self.recent
        cdef Block* oldest
        cdef Block* before = NULL
        cdef const char* record
        cdef Py_ssize_t i
        cdef Py_ssize_t want
        self.jumped = False
        if offset + n > end:
            return NULL
        if block.tag == tag and block.offset <= offset and offset + n <= block.offset + block.length:
            return block.data + (offset - block.offset)
        oldest = &self.blocks[0]
        self.clock += 1
        for i in range(BLOCK_COUNT):
            block = &self.blocks[i]
            if block.used_at < oldest.used_at:
                oldest = block
            if block.tag != tag or offset < block.offset:
                continue
            if offset + n <= block.offset + block.length:
                self.recent = block
                block.used_at = self.clock
                return block.data + (offset - block.offset)
            # a little further than this block: somebody reads in order
            if offset <= block.offset + block.length + PROBE_BYTES:
                before = block
        self.jumped = before == NULL and not self.follows(tag, offset)
        want = n
        if self.jumped:
            # maybe for this record alone
            self.jumps[self.next_jump] = Jump(tag, offset + n)
            self.next_jump = (self.next_jump + 1) % BLOCK_COUNT
            record = self.mapped(map, offset, n)
            if record != NULL:
                return record
        else:
            want = max(n, PROBE_BYTES if before == NULL or before.length < PROBE_BYTES else BLOCK_BYTES)
        block = before if before != NULL else oldest
        if offset + want > end:
            want = end - offset
        if block.capacity < want or (block.capacity > 4 * BLOCK_BYTES and want <= BLOCK_BYTES):
            free(block.data)
            block.capacity = 0
            block.length = 0
            block.tag = 0
            block.data = <char*>malloc(want)
            if block.data == NULL:
                raise MemoryError
            block.capacity = want
        block.tag = 0
        block.length = disk.read_at(fd, block.data, want, offset)
        block.tag = tag
        block.offset = offset
        block.used_at = self.clock
        self.recent = block
        return block.data if block.length >= n else NULL

    cdef bint follows(self, uint64_t tag, uint64_t offset) noexcept:
        cdef int i
        for i in range(BLOCK_COUNT):
            if self.jumps[i].tag == tag and self.jumps[i].end <= offset <= self.jumps[i].end + PROBE_BYTES:
                return True
        return False

    cdef const char* mapped(self, FileMap map, uint64_t offset, Py_ssize_t n) except? NULL:
        if map is None or n > PROBE_BYTES:
            return NULL
        if self.record == NULL:
            self.record = <char*>malloc(PROBE_BYTES)
            if self.record == NULL:
                raise MemoryError
        return self.record if map.copy(self.record, offset, n) else NULL

    cdef void forget(self, uint64_t tag) noexcept:
        cdef Py_ssize_t i
        for i in range(BLOCK_COUNT):
            if self.blocks[i].tag == tag:
                self.blocks[i].tag = 0

    cdef void clear(self) noexcept:
        cdef Py_ssize_t i
        for i in range(BLOCK_COUNT):
            free(self.blocks[i].data)
            self.blocks[i].data = NULL
            self.blocks[i].capacity = self.blocks[i].length = 0
            self.blocks[i].tag = 0
        free(self.record)
        self.record = NULL
