"""A subject transform: what a subject becomes (core-protocol: mapping and transforms)."""
from libc.stdint cimport int32_t

from jetbroker.wire.buffer cimport OutputBuffer


cdef struct Step:
    int kind                           # placeholders.Kind
    int32_t number
    int first                          # place of its first token in `tokens`
    int count                          # and how many it has
    const char* text                   # borrowed from `kept`
    Py_ssize_t text_len


# Does a subject fit a source? As nats-server: `*` in a published subject is an ordinary token, `>` fits only a `>`.
cdef bint fits_source(const char* subject, Py_ssize_t n, const char* source, Py_ssize_t m) noexcept nogil
# 32 bits of a generator for everything that is spread at random here.
cdef unsigned int random_bits() noexcept nogil


cdef class Transform:
    cdef readonly bytes source
    cdef readonly bytes destination
    cdef readonly bint is_random       # the same subject does not always become the same
    cdef bint is_constant              # the destination as it stands
    cdef bint open_ended               # source and destination end in '>'
    cdef int source_tokens
    cdef int step_count
    cdef Step* steps
    cdef int* tokens
    cdef list kept

    cdef bint fits(self, const char* subject, Py_ssize_t n) noexcept
    # What a subject that fits becomes. It may have empty tokens: such a message reaches nobody.
    cdef bytes map(self, const char* subject, Py_ssize_t n)
    cdef int _write(self, Step* step, OutputBuffer out, const char* subject, Py_ssize_t n) except -1
    cdef int _write_partition(self, Step* step, OutputBuffer out, const char* subject, Py_ssize_t n) except -1
