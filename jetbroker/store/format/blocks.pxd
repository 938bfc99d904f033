"""A few cached blocks of segment files, so that reading a log in order costs one pread per 256 KiB."""
from libc.stdint cimport uint64_t

from jetbroker.store.disk cimport Disk, FileMap

cdef enum:
    BLOCK_COUNT = 8
    BLOCK_BYTES = 262144        # when reading on behind a cached block
    PROBE_BYTES = 8192          # for a jump to somewhere else


cdef struct Block:
    char* data
    Py_ssize_t capacity
    Py_ssize_t length
    uint64_t tag                # of the segment; 0: unused
    uint64_t offset
    uint64_t used_at


cdef struct Jump:
    uint64_t tag
    uint64_t end                # behind what was read


cdef class BlockCache:
    cdef Block blocks[BLOCK_COUNT]
    cdef uint64_t clock
    cdef Block* recent
    cdef Jump[BLOCK_COUNT] jumps    # the newest ones
    cdef int next_jump
    cdef bint jumped                # the last get() did not read on behind an earlier one
    cdef char* record               # what was copied out of a map
    # n bytes at `offset` of the file, valid until the next call; NULL when the file ends before.
    # Bytes at or behind `end` are not read. `map`: of this file, or None.
    cdef const char* get(self, Disk disk, int fd, FileMap map, uint64_t tag, uint64_t offset, Py_ssize_t n,
                         uint64_t end) except? NULL
    cdef bint follows(self, uint64_t tag, uint64_t offset) noexcept
    cdef const char* mapped(self, FileMap map, uint64_t offset, Py_ssize_t n) except? NULL
    cdef void forget(self, uint64_t tag) noexcept
    cdef void clear(self) noexcept
