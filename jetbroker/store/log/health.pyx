# cython: language_level=3
"""Whether the disk takes what a log writes (see health.pxd)."""

# Where each event leads from WORKS, UNSYNCED, REFUSING, TRYING, MOVING and PAUSED.
TRANSITIONS = {
    WriteEvent.REFUSED: (REFUSING, REFUSING, REFUSING, REFUSING, MOVING, PAUSED),
    WriteEvent.NOT_SYNCED: (UNSYNCED, UNSYNCED, REFUSING, REFUSING, MOVING, PAUSED),
    WriteEvent.MOVED: (MOVING, MOVING, MOVING, MOVING, MOVING, MOVING),
    WriteEvent.GIVEN_UP: (PAUSED, PAUSED, PAUSED, PAUSED, PAUSED, PAUSED),
    WriteEvent.TRIED: (WORKS, UNSYNCED, TRYING, TRYING, MOVING, TRYING),
    WriteEvent.COMMITTED: (WORKS, UNSYNCED, REFUSING, WORKS, WORKS, PAUSED),
    WriteEvent.SYNCED: (WORKS, WORKS, REFUSING, WORKS, WORKS, PAUSED),
}


cdef class Health:
    """The health of one log's writing; `retry` makes its tries, `faults` tells of what lasts."""

    def __init__(self, retry not None, faults not None, reserve=None):
        self.retry = retry
        self.faults = faults
        self.reserve = reserve

    cpdef int take(self, WriteEvent event) except -1:
        """Follow the table."""
        cdef Writing before = self.state
        self.state = TRANSITIONS[event][before]
        if self.state == WORKS and before != WORKS:
            self.failed = None
            self.retry.worked()
            self.faults.over(self)
        return 0

    def refuse(self, fault not None, error not None):
        """The disk did not take a write: appends fail with `error` until a try has worked."""
        self.failed = error
        self._tell(fault, WriteEvent.REFUSED)

    def doubt(self, fault not None):
        """An fdatasync failed, but appends go on."""
        self._tell(fault, WriteEvent.NOT_SYNCED)

    def _tell(self, fault, WriteEvent event):
        self.take(event)
        self.faults.begin(self, fault)
        self.retry.again()

    def try_later(self):
        """There is a next try, after a pause."""
        self.retry.again()

    @property
    def waits(self):
        """Is a next try to come?"""
        return self.retry.waits

    def has_reserve(self):
        """Is the space for removals kept (again)? Appends wait for that."""
        return self.reserve is None or self.reserve.restore()

    def use_reserve(self):
        """Give the space to a removal that must be written now."""
        if self.reserve is not None:
            self.reserve.free()

    def close(self):
        """The log is gone: no more tries, nothing to tell."""
        self.retry.end()
        self.faults.forget(self)
