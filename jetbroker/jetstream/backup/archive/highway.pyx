# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""HighwayHash with 64 bits (see highway.pxd): a keyed hash over packets of 32 bytes, four lanes of 64 bits each.

There is no library for it that C code could call for each record. It is no protection against anybody: nats-server's
keys are the hashes of public names.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #if defined(__x86_64__)
    #include <immintrin.h>
    #include <stdint.h>
    __attribute__((target("avx2")))
    static inline __m256i jb_highway_zip(__m256i v) {
        return _mm256_shuffle_epi8(v, _mm256_set_epi64x(
            0x070806090D0A040BLL, 0x000F010E05020C03LL, 0x070806090D0A040BLL, 0x000F010E05020C03LL));
    }
    /* update() below, on all lanes at a time */
    __attribute__((target("avx2")))
    static void jb_highway_avx2(uint64_t *s0, uint64_t *s1, uint64_t *m0, uint64_t *m1, const char *p, size_t packets) {
        __m256i v0 = _mm256_loadu_si256((__m256i *)s0), v1 = _mm256_loadu_si256((__m256i *)s1);
        __m256i mul0 = _mm256_loadu_si256((__m256i *)m0), mul1 = _mm256_loadu_si256((__m256i *)m1);
        for (; packets; packets--, p += 32) {
            __m256i lanes = _mm256_loadu_si256((const __m256i *)p);
            v1 = _mm256_add_epi64(v1, _mm256_add_epi64(mul0, lanes));
            mul0 = _mm256_xor_si256(mul0, _mm256_mul_epu32(v1, _mm256_srli_epi64(v0, 32)));
            v0 = _mm256_add_epi64(v0, mul1);
            mul1 = _mm256_xor_si256(mul1, _mm256_mul_epu32(v0, _mm256_srli_epi64(v1, 32)));
            v0 = _mm256_add_epi64(v0, jb_highway_zip(v1));
            v1 = _mm256_add_epi64(v1, jb_highway_zip(v0));
        }
        _mm256_storeu_si256((__m256i *)s0, v0);
        _mm256_storeu_si256((__m256i *)s1, v1);
        _mm256_storeu_si256((__m256i *)m0, mul0);
        _mm256_storeu_si256((__m256i *)m1, mul1);
    }
    static int jb_highway_has_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }
    #else
    #define jb_highway_avx2(s0, s1, m0, m1, p, packets) ((void)0)
    static int jb_highway_has_avx2(void) { return 0; }
    #endif
    """
    void jb_highway_avx2(uint64_t*, uint64_t*, uint64_t*, uint64_t*, const char*, size_t) noexcept nogil
    int jb_highway_has_avx2() noexcept nogil

cdef bint has_avx2 = jb_highway_has_avx2()
cdef uint64_t[4] MUL0
cdef uint64_t[4] MUL1
MUL0[:] = [0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3]
MUL1[:] = [0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377]


cdef inline uint64_t half_turn(uint64_t word) noexcept nogil:
    return (word >> 32) | (word << 32)


cdef inline uint32_t turn(uint32_t word, uint32_t by) noexcept nogil:
    return (word << by) | (word >> ((32 - by) & 31)) if by else word


cdef inline uint64_t byte(int n) noexcept nogil:
    """The mask of one byte."""
    return <uint64_t>0xFF << (8 * n)


cdef inline void zip_into(uint64_t high, uint64_t low, uint64_t* add_high, uint64_t* add_low) noexcept nogil:
    """Mix the bytes of two lanes into two others."""
    add_low[0] += (((low & byte(3)) | (high & byte(4))) >> 24) | (((low & byte(5)) | (high & byte(6))) >> 16) \
        | (low & byte(2)) | ((low & byte(1)) << 32) | ((high & byte(7)) >> 8) | (low << 56)
    add_high[0] += (((high & byte(3)) | (low & byte(4))) >> 24) | (high & byte(2)) | ((high & byte(5)) >> 16) \
        | ((high & byte(1)) << 24) | ((low & byte(6)) >> 8) | ((high & byte(0)) << 48) | (low & byte(7))


cdef void update(HighwayState* s, const uint64_t* lanes) noexcept nogil:
    cdef int i
    for i in range(4):
        s.v1[i] += s.mul0[i] + lanes[i]
        s.mul0[i] ^= <uint64_t><uint32_t>s.v1[i] * (s.v0[i] >> 32)
        s.v0[i] += s.mul1[i]
        s.mul1[i] ^= <uint64_t><uint32_t>s.v0[i] * (s.v1[i] >> 32)
    zip_into(s.v1[1], s.v1[0], &s.v0[1], &s.v0[0])
    zip_into(s.v1[3], s.v1[2], &s.v0[3], &s.v0[2])
    zip_into(s.v0[1], s.v0[0], &s.v1[1], &s.v1[0])
    zip_into(s.v0[3], s.v0[2], &s.v1[3], &s.v1[2])


cdef inline void update_packet(HighwayState* s, const char* packet) noexcept nogil:
    cdef uint64_t[4] lanes
    memcpy(lanes, packet, 32)
    update(s, lanes)


cdef void update_packets(HighwayState* s, const char* p, size_t packets) noexcept nogil:
    cdef size_t i
    if s.wide:
        jb_highway_avx2(s.v0, s.v1, s.mul0, s.mul1, p, packets)
        return
    for i in range(packets):
        update_packet(s, p + 32 * i)


cdef HighwayKey highway_key(const char* key) noexcept nogil:
    cdef HighwayKey out
    memcpy(out.words, key, 32)
    return out


cdef void highway_begin(HighwayState* state, const HighwayKey* key) noexcept nogil:
    cdef int i
    for i in range(4):
        state.mul0[i] = MUL0[i]
        state.mul1[i] = MUL1[i]
        state.v0[i] = MUL0[i] ^ key.words[i]
        state.v1[i] = MUL1[i] ^ half_turn(key.words[i])
    state.held = 0
    state.wide = has_avx2


cdef void highway_add(HighwayState* state, const char* p, size_t n) noexcept nogil:
    cdef size_t part
    if state.held:
        part = min(32 - state.held, n)
        memcpy(state.packet + state.held, p, part)
        state.held += part
        p += part
        n -= part
        if state.held < 32:
            return
        update_packet(state, state.packet)
        state.held = 0
    part = n // 32
    update_packets(state, p, part)
    state.held = n - 32 * part
    memcpy(state.packet, p + 32 * part, state.held)


cdef void add_rest(HighwayState* s) noexcept nogil:
    """The last packet, which is shorter, tells its length in every lane."""
    cdef char[32] packet
    cdef uint32_t n = <uint32_t>s.held
    cdef uint32_t few = n & 3
    cdef const char* rest = s.packet + (n & ~<uint32_t>3)
    cdef int i
    for i in range(4):
        s.v0[i] += (<uint64_t>n << 32) + n
        s.v1[i] = <uint64_t>turn(<uint32_t>s.v1[i], n) | (<uint64_t>turn(<uint32_t>(s.v1[i] >> 32), n) << 32)
    memset(packet, 0, 32)
    memcpy(packet, s.packet, n - few)
    if n & 16:
        for i in range(4):
            packet[28 + i] = s.packet[n - 4 + i]
    elif few:
        packet[16] = rest[0]
        packet[17] = rest[few >> 1]
        packet[18] = rest[few - 1]
    update_packet(s, packet)


cdef uint64_t highway_end(HighwayState* state) noexcept nogil:
    cdef uint64_t[4] lanes
    cdef int _
    if state.held:
        add_rest(state)
    for _ in range(4):
        lanes[0] = half_turn(state.v0[2])
        lanes[1] = half_turn(state.v0[3])
        lanes[2] = half_turn(state.v0[0])
        lanes[3] = half_turn(state.v0[1])
        update(state, lanes)
    return state.v0[0] + state.v1[0] + state.mul0[0] + state.mul1[0]


def highway_hash(bytes key not None, bytes data not None, bint wide=True) -> bytes:
    """The hash of `data` as nats-server writes it, 8 bytes; the key has 32. `wide`: with AVX2, where there is any."""
    cdef HighwayState state
    cdef HighwayKey words
    if PyBytes_GET_SIZE(key) != 32:
        raise ValueError(f"a key of {len(key)} bytes")
    words = highway_key(PyBytes_AS_STRING(key))
    highway_begin(&state, &words)
    state.wide &= wide
    highway_add(&state, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return int(highway_end(&state)).to_bytes(8, "little")
