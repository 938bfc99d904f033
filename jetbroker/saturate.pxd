# cython: language_level=3
"""Sums and differences in C that end at the edge of their type instead of wrapping around (see bounds.py)."""
from libc.stdint cimport int64_t, uint64_t


cdef extern from *:
    """
    #include <stdint.h>
    static inline int64_t jb_add_int64(int64_t a, int64_t b) {
        int64_t sum;
        if (!__builtin_add_overflow(a, b, &sum)) return sum;
        return b < 0 ? INT64_MIN : INT64_MAX;
    }
    static inline int64_t jb_subtract_int64(int64_t a, int64_t b) {
        int64_t rest;
        if (!__builtin_sub_overflow(a, b, &rest)) return rest;
        return b < 0 ? INT64_MAX : INT64_MIN;
    }
    static inline int64_t jb_multiply_int64(int64_t a, int64_t b) {
        int64_t product;
        if (!__builtin_mul_overflow(a, b, &product)) return product;
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    }
    static inline uint64_t jb_add_uint64(uint64_t a, uint64_t b) {
        uint64_t sum;
        return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
    }
    static inline uint64_t jb_subtract_uint64(uint64_t a, uint64_t b) {
        return a > b ? a - b : 0;
    }
    """
    int64_t add_int64 "jb_add_int64"(int64_t a, int64_t b) noexcept nogil
    int64_t subtract_int64 "jb_subtract_int64"(int64_t a, int64_t b) noexcept nogil
    int64_t multiply_int64 "jb_multiply_int64"(int64_t a, int64_t b) noexcept nogil
    uint64_t add_uint64 "jb_add_uint64"(uint64_t a, uint64_t b) noexcept nogil
    uint64_t subtract_uint64 "jb_subtract_uint64"(uint64_t a, uint64_t b) noexcept nogil
