"""What finds the messages of one subject in a segment without a look at those of all others."""
from libc.stdint cimport uint32_t

cdef enum:
    SLOT_NONE = 0xFFFFFFFF


cdef class SubjectTable:
    """The ids of a segment's subjects, by the hash of the subject: open addressing."""
    cdef uint32_t* ids                # SUBJECT_NONE: free
    cdef size_t mask                  # number of places - 1; they are a power of two
    cdef Py_ssize_t subjects          # so many of the dictionary are in it

    # Take in what the dictionary has got since; `offsets` and `text` are the dictionary's.
    cdef int cover(self, const uint32_t* offsets, const char* text, Py_ssize_t subjects) except -1
    # The newest id of the subject, SUBJECT_NONE: it has none.
    cdef uint32_t find(self, const uint32_t* offsets, const char* text, const char* subject,
                       Py_ssize_t n) noexcept nogil
    cdef size_t size(self) noexcept nogil      # bytes
    cdef size_t place(self, const uint32_t* offsets, const char* text, const char* subject,
                      Py_ssize_t n) noexcept nogil


cdef class SlotLinks:
    """For each slot of a segment the next one of the same subject, dead or not."""
    cdef uint32_t* following          # by slot; SLOT_NONE: no more up to `slots`
    cdef Py_ssize_t slots             # so many are linked
    cdef Py_ssize_t capacity
    cdef uint32_t* firsts             # by subject id; SLOT_NONE: none up to `slots`
    cdef uint32_t* lasts
    cdef Py_ssize_t subjects          # there is room for

    # Link what has come since: slot i is of subject ids[i], which is below `subjects` or SUBJECT_NONE.
    cdef int cover(self, const uint32_t* ids, Py_ssize_t slots, Py_ssize_t subjects) except -1
    cdef size_t size(self) noexcept nogil      # bytes
    cdef int make_room(self, Py_ssize_t slots, Py_ssize_t subjects) except -1
    # The next slot of the subject behind `slot`, one of its own, or the first one when that is -1; -1: none.
    cdef inline Py_ssize_t behind(self, uint32_t subject_id, Py_ssize_t slot) noexcept nogil:
        cdef uint32_t found = self.firsts[subject_id] if slot < 0 else self.following[slot]
        return -1 if found == SLOT_NONE else <Py_ssize_t>found
