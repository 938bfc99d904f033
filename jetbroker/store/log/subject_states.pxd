"""What a log knows of its subjects: one SubjectState for each, the same object for as long as anybody keeps it."""
from jetbroker.store.log.stream_log cimport SubjectFilter, SubjectState


cdef class SubjectStates:
    cdef dict live                    # bytes -> SubjectState of a subject with messages
    cdef dict retired                 # bytes -> SubjectState with count 0 that somebody may still keep
    cdef Py_ssize_t retired_bound

    cdef SubjectState find(self, bytes subject)                # made when missing (count 0)
    cdef int revive(self, SubjectState state) except -1        # ahead of its first message
    cdef int retire(self, SubjectState state) except -1        # behind its last message
    cdef int retire_all(self) except -1
    cdef list matching(self, SubjectFilter filter)             # live ones
