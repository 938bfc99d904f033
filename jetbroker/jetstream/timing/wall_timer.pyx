# cython: language_level=3
"""A timer for what is due at a time of the wall clock (see wall_timer.pxd)."""
from libc.stdint cimport int64_t

from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.saturate cimport subtract_int64
from jetbroker.tick cimport PHASE_EVENTS, Tick, TickTask

cdef int64_t SECOND_NS = 1_000_000_000
# The event loop follows the monotonic clock: a step of the wall clock is noticed after this long.
cdef int64_t MAX_SLEEP_NS = 30 * SECOND_NS


cdef class WallTimer:
    """Runs a task in PHASE_EVENTS when something is due, or earlier: the task looks what is, and sets it again."""

    def __init__(self, Tick tick not None, TickTask task not None) -> None:
        self.tick = tick
        self.task = task

    cdef int set(self, int64_t due_ns) except -1:
        cdef int64_t now
        if self.handle is not None:
            if due_ns and self.due_ns <= due_ns:
                return 0               # the task looks again then
            self.stop()
        if due_ns:
            now = wall_clock_ns()
            self.due_ns = min(due_ns, now + MAX_SLEEP_NS)
            self.handle = self.tick.loop.call_later(max(subtract_int64(self.due_ns, now), 0) / SECOND_NS, self._fire)
        return 0

    cdef int stop(self) except -1:
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None
        return 0

    def _fire(self) -> None:
        self.handle = None
        self.tick.schedule(PHASE_EVENTS, self.task)
