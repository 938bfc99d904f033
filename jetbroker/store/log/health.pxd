"""Whether the disk takes what a log writes."""

cpdef enum Writing:
    WORKS = 0
    UNSYNCED = 1       # an fdatasync failed; appends go on, in a new file (sync_interval)
    REFUSING = 2       # a write failed: appends fail until a try has worked
    TRYING = 3         # the record of a try is on its way to the disk
    MOVING = 4         # an fdatasync failed: what it was for is in a new file, which waits for its own
    PAUSED = 5         # no file can be synced: nothing is written until the next try

cpdef enum WriteEvent:
    REFUSED = 0        # the disk did not take a write or a new file
    NOT_SYNCED = 1     # an fdatasync failed, and nothing is taken back for that
    MOVED = 2          # what could not be synced is in a new file
    GIVEN_UP = 3       # and that cannot be synced, or made, either
    TRIED = 4          # a try begins
    COMMITTED = 5      # everything that was written until now is committed
    SYNCED = 6         # a round worked (sync_interval)


cdef class Health:
    cdef readonly Writing state
    cdef readonly object failed        # the StorageError that makes appends fail; None: they do not
    cdef object retry                  # when the next try is
    cdef object faults                 # the store's, which tell of what lasts
    cdef object reserve                # disk space kept for removals; None: there is none

    cpdef int take(self, WriteEvent event) except -1
