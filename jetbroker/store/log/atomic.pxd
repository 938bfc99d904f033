"""Atomic batches in segment files: which are whole, found by walking the records in order."""
from libc.stdint cimport uint64_t


cdef class BatchWalk:
    cdef readonly uint64_t first_seq   # of the batch whose last record has not come yet, 0: none
    cdef readonly Py_ssize_t start     # where its first record stands
    cdef uint64_t last_seq             # of its records so far
    cdef list missing                  # [(first, last)] of its sequences that are damaged
    # [(first, last, missing)]: whole only when all of `missing` was deleted later; None: in no case
    cdef readonly list torn

    # The next message, with the sequence that was expected here; `damaged`: unreadable bytes lie in between.
    cdef int message(self, const char* record, uint64_t expected, Py_ssize_t at, bint damaged) except -1
    # Another record, which says that `seq` is the last sequence.
    cdef int other(self, uint64_t seq, uint64_t expected, bint damaged) except -1
    cdef int break_off(self, object missing) except -1
    cdef int close(self) except -1
