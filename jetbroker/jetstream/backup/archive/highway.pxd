"""HighwayHash with 64 bits, the checksum of nats-server's files."""
from libc.stdint cimport uint64_t

cdef struct HighwayKey:
    uint64_t words[4]


cdef struct HighwayState:
    uint64_t v0[4]
    uint64_t v1[4]
    uint64_t mul0[4]
    uint64_t mul1[4]
    char packet[32]
    size_t held                        # bytes of `packet` that wait for more
    bint wide                          # all lanes at a time


cdef HighwayKey highway_key(const char* key) noexcept nogil        # 32 bytes
cdef void highway_begin(HighwayState* state, const HighwayKey* key) noexcept nogil
cdef void highway_add(HighwayState* state, const char* p, size_t n) noexcept nogil
cdef uint64_t highway_end(HighwayState* state) noexcept nogil
