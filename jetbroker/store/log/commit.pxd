"""Group commit: one round of fdatasync for everything that arrived meanwhile."""
from jetbroker.store.disk cimport Disk
from jetbroker.store.log.sync_figures cimport SyncFigures
from jetbroker.store.log.sync_thread cimport SyncThread
from jetbroker.tick cimport Tick


cdef class GroupCommit:
    cdef Tick tick
    cdef readonly Disk disk
    cdef readonly object interval     # None: every commit waits for its fdatasync; else seconds between rounds
    cdef SyncThread thread            # None until the first round
    cdef dict waiting                 # members of the next round (dict as an ordered set)
    cdef dict lazy                    # members that only want the next timed round
    cdef object timer
    cdef list round                   # the members of the round under way, or None
    cdef object collecting            # the member whose begin_sync runs, or None
    cdef bint closing
    cdef readonly object faults       # the members' failures that last
    cdef readonly SyncFigures figures

    cpdef int request(self, object member) except -1       # a round as soon as possible
    cpdef int request_later(self, object member) except -1  # with the next round, at the latest after the interval
