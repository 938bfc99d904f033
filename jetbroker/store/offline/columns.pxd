"""One segment, read for its columns (see columns.pyx)."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.store.log.atomic cimport BatchWalk
from jetbroker.store.format.frames cimport RawImage
from jetbroker.store.offline.text_columns cimport HeaderColumn, TextColumn


cdef class SlotArrays:
    """The slots of an active segment, gathered by walking its records."""
    cdef uint32_t* offsets
    cdef int64_t* times
    cdef uint32_t* sizes
    cdef Py_ssize_t count, capacity
    cdef int begin(self, Py_ssize_t slots) except -1
    cdef int put(self, Py_ssize_t slot, uint32_t offset, int64_t time_ns, uint32_t size) except -1


cdef class SegmentColumns:
    cdef const unsigned char[::1] view     # the file
    cdef bytes footer                      # of a packed file
    cdef RawImage image                    # of a packed file; None: it is plain
    cdef const char* data                  # the plain form: of the file, or of the image
    cdef readonly Py_ssize_t size
    cdef uint32_t seed
    cdef readonly uint64_t first_seq
    cdef readonly uint64_t last_seq        # first_seq - 1 when there is no slot
    cdef readonly bint sealed
    cdef readonly Py_ssize_t valid_end     # records end here
    cdef readonly bytes deletions          # every range recorded in this segment: pairs of u64, as written
    cdef readonly list damaged             # [(first_seq, last_seq)] not readable, as far as known by now
    cdef BatchWalk batches                 # of an active segment

    # slot i is sequence first_seq + i; offset 0: no message
    cdef const uint32_t* offsets
    cdef const int64_t* times
    cdef const uint32_t* sizes
    cdef const uint32_t* subject_ids       # NULL while the segment is active
    cdef Py_ssize_t slots
    cdef SlotArrays walked
    cdef int64_t last_time                 # of the messages walked so far
    cdef bint unsure                       # what comes next may change what the last records mean
    cdef Py_ssize_t subjects
    cdef const uint32_t* subject_offsets
    cdef const char* subject_text
    cdef bint ascii_subjects

    cdef uint32_t* rows                    # the slots chosen by select()
    cdef readonly Py_ssize_t row_count
    cdef TextColumn subject_column
    cdef HeaderColumn header_column

    cdef bint _use_footer(self) except -1
    cdef int _need(self, Py_ssize_t start, Py_ssize_t count) except -1
    cdef bint _is_at(self, uint64_t seq, Py_ssize_t offset, Py_ssize_t limit) noexcept nogil
    cdef bint _only_erased(self) except -1
    cdef int _walk(self, Py_ssize_t limit) except -1
    cdef int _walk_message(self, Py_ssize_t pos, bint after_damage) except -1
    cdef int _walk_other(self, Py_ssize_t pos, bint after_damage, list deletions) except -1
    cdef Py_ssize_t _resume(self, Py_ssize_t pos, Py_ssize_t limit) noexcept nogil
    cdef bint _readable(self, Py_ssize_t slot) noexcept nogil
    cdef bytes _wanted_subjects(self, bytes pattern)
    cdef bint _matches(self, Py_ssize_t slot, const char* ids, const char* pattern, Py_ssize_t n) noexcept nogil
    cdef int _note_damaged(self, Py_ssize_t slot) except -1 with gil
    cdef int _add_subjects(self, const uint32_t* good, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t _stretch(self, Py_ssize_t start, Py_ssize_t max_rows, Py_ssize_t* data_bytes) noexcept nogil
    cdef Py_ssize_t _decode(self, Py_ssize_t start, Py_ssize_t count, uint32_t* good, int want, char* data,
                            int* data_ends, bint check) except? -1 nogil
