# cython: language_level=3
"""A hash of bytes from outside. With a random seed and factor nobody can choose bytes that meet in one place."""
from libc.stdint cimport uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    static inline unsigned long long fold_product(unsigned long long a, unsigned long long b) {
        unsigned __int128 product = (unsigned __int128) a * b;
        return (unsigned long long) product ^ (unsigned long long) (product >> 64);
    }
    """
    uint64_t fold_product(uint64_t a, uint64_t b) noexcept nogil


cdef inline uint64_t hash_bytes(const char* p, Py_ssize_t n, uint64_t seed, uint64_t factor) noexcept nogil:
    """`factor` is odd."""
    cdef uint64_t h = seed ^ <uint64_t>n
    cdef uint64_t word = 0
    cdef Py_ssize_t at = 0
    if n < 8:
        memcpy(&word, p, n)
        return fold_product(h ^ word, factor)
    while at < n - 8:
        memcpy(&word, p + at, 8)
        h = fold_product(h ^ word, factor)
        at += 8
    memcpy(&word, p + n - 8, 8)  # the last ones, some of them for a second time
    return fold_product(h ^ word, factor)
