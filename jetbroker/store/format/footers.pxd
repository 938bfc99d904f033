"""Footers: whether they are sound, and those of packed segments, which are compressed too (see footers.pyx)."""
from libc.stdint cimport uint64_t

cdef bytes unpack_footer(bytes stored)     # None: damaged; its columns may still say anything
cdef bytes sound_segment_footer(bytes stored, bint packed, uint64_t first_seq, uint64_t footer_at, Py_ssize_t slots)
