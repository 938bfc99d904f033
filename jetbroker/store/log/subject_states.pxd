"""What a log knows of its subjects: one SubjectState for each, the same object for as long as anybody keeps it."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from jetbroker.slots cimport Slots
from jetbroker.store.log.segment cimport Segment
from jetbroker.store.log.stream_log cimport SubjectFilter, SubjectState


cdef class LiveSubjects(Slots):
    """By subject. There may be many millions of them, and most messages are of another one than the message before."""
    # None: it has no message.
    cdef SubjectState find(self, const char* subject, Py_ssize_t n)
    cdef SubjectState get(self, bytes subject)
    cdef void expect(self, const char* subject, Py_ssize_t n) noexcept         # it is looked up soon
    # What find() may find, borrowed; no name is compared. NULL: nothing.
    cdef PyObject* candidate(self, const char* subject, Py_ssize_t n) noexcept
    cdef int add(self, SubjectState state) except -1           # one that is not there yet
    cdef int discard(self, SubjectState state) except -1       # harmless when it is not there
    cdef list states(self)                                     # all of them, in no order


cdef class SubjectStates:
    cdef LiveSubjects live
    cdef SubjectState newest          # the one made last, count 0: most get their first message at once; or None
    cdef dict retired                 # bytes -> SubjectState, the others with count 0 that somebody may still keep
    cdef Py_ssize_t retired_bound

    cdef SubjectState find(self, const char* subject, Py_ssize_t n)    # made when missing (count 0)
    cdef SubjectState without_messages(self, const char* subject, Py_ssize_t n)
    cdef int revive(self, SubjectState state) except -1        # ahead of its first message
    cdef int retire(self, SubjectState state) except -1        # behind its last message
    cdef int keep_retired(self, SubjectState state) except -1
    cdef int retire_all(self) except -1
    # A segment has so many live messages of a subject; segments come in order.
    cdef SubjectState found(self, bytes subject, uint64_t count, uint64_t first, uint64_t last)
    # Counts the live messages of a segment, which come behind all others.
    cdef int count_segment(self, Segment segment) except -1
    # The messages of the new active segment are counted already.
    cdef int moved(self, Segment segment) except -1
    cdef list matching(self, SubjectFilter filter)             # live ones
