"""The thread in which a round's files are synced."""
from libc.stdint cimport int64_t

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.sync_figures cimport SyncFigures


cdef struct Step:
    int file       # to be synced; -1: a directory or a function
    int member     # whose step it is
    int64_t took   # nanoseconds of its sync; 0: there was none


cdef class Round:
    """What the thread works on. Its ends of the two pipes are closed with it."""
    cdef Disk disk
    cdef SyncFigures figures
    cdef Step* steps
    cdef Py_ssize_t count, capacity, files
    cdef int* codes            # errno for each member, 0: all went well so far
    cdef Py_ssize_t members, members_capacity
    cdef list targets          # of the steps
    cdef list levels           # of the steps: their places in their members' lists
    cdef list errors           # for each member: what a directory or a function raised, or None
    cdef dict directories      # (level, path): the outcome
    cdef int order_in, done_out

    cdef int plan(self, list work) except -1
    cdef list outcome(self)
    cdef int _add(self, Py_ssize_t member, Py_ssize_t level, object target) except -1
    cdef void _serve(self) noexcept nogil
    cdef void _run(self) noexcept nogil
    cdef int _sync_other(self, Py_ssize_t i) noexcept with gil
    cdef int _sync_target(self, object target, object level) except -1


cdef class SyncThread:
    cdef Round round
    cdef object thread
    cdef int order_out         # closed, it ends the thread
    cdef int done_in           # readable when a round is over
    cdef list drains           # futures that wait for the end of the round

    # Begin a round: the list of targets of each member, at least one.
    cdef int begin(self, list work) except -1
    # The outcome, once done_in is readable: for each member the exception, or None.
    cdef list finish(self)
    cdef int close(self) except -1
