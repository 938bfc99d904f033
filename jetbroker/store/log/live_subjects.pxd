"""The subjects of a log that have messages."""
from cpython.object cimport PyObject

from jetbroker.slots cimport Slots
from jetbroker.store.log.stream_log cimport SubjectState


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
