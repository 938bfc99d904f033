"""Footers of packed segments, which are compressed too (see footers.pyx)."""


cdef bytes unpack_footer(bytes stored)     # None: damaged
