"""Frames: the compressed form of a segment's records (see frames.pyx)."""
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.store.disk cimport Disk

cdef enum:
    FRAME_HEADER = 32
    CODEC_STORED = 0                   # the bytes as they are: they do not get smaller
    CODEC_ZSTD = 1
    CACHED_FRAMES = 8
    INDEX_HEADER = 16


cdef class FrameIndex:
    """Where the frames of one file are: a pair per frame, and one for the end of the last.

    Offsets in the plain form, and in the file; both rise.
    """
    cdef bytes blob                    # owns the pairs
    cdef const uint64_t* pairs
    cdef readonly Py_ssize_t count

    cdef Py_ssize_t find(self, uint64_t offset) noexcept nogil     # the frame for an offset of the plain form, -1: none
    cdef inline uint64_t raw_at(self, Py_ssize_t i) noexcept nogil:
        return self.pairs[2 * i]
    cdef inline uint64_t file_at(self, Py_ssize_t i) noexcept nogil:
        return self.pairs[2 * i + 1]


cdef struct CachedFrame:
    const char* data
    Py_ssize_t length
    uint64_t tag                       # of the segment; 0: unused
    uint64_t raw_at
    uint64_t used_at


cdef class FrameCache:
    """The frames of one log that were unpacked last."""
    cdef CachedFrame frames[CACHED_FRAMES]
    cdef list owners                   # bytes that `data` points into
    cdef uint64_t clock
    cdef Py_ssize_t held               # bytes
    # n bytes at `offset` of the plain form, valid until the next call; NULL: damaged
    cdef const char* get(self, Disk disk, int fd, uint32_t seed, FrameIndex index, uint64_t tag, uint64_t offset,
                         Py_ssize_t n) except? NULL
    cdef int add(self, bytes raw, uint64_t tag, uint64_t raw_at) except -1
    cdef Py_ssize_t oldest(self, bint in_use) noexcept
    cdef int drop(self, Py_ssize_t i) except -1
    cdef int forget(self, uint64_t tag) except -1


cdef class RawImage:
    """The plain form of a packed segment in memory, unpacked where it is asked for; damaged frames stay zero."""
    cdef const unsigned char[::1] view
    cdef FrameIndex index
    cdef uint32_t seed
    cdef char* data
    cdef readonly Py_ssize_t size
    cdef char* done                    # per frame

    cdef int need(self, uint64_t offset) except -1                 # the frame that holds this offset
    cdef int unpack_frame(self, Py_ssize_t i) except -1


cdef bint frame_is_valid(const char* p, uint64_t available, uint32_t seed) noexcept nogil
