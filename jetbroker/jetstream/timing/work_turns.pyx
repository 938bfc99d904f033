# cython: language_level=3
"""Work of streams that nobody waits for, in turns (see work_turns.pxd)."""
from collections import deque

from libc.stdint cimport int64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.tick cimport PHASE_EVENTS, Tick, TickTask

from jetbroker import limits

cdef int64_t SLICE_NS = limits.JS_WORK_NS


cdef class Worker(TickTask):
    cdef int run_tick(self) except -1:
        return self.turns.add(self)

    cdef bint work(self, int64_t until_ns) except -1:
        raise NotImplementedError(type(self).__name__)


cdef class WorkTurns(TickTask):
    """Gives each worker its turn, one after the other."""

    def __init__(self, Tick tick not None) -> None:
        self.tick = tick
        self.workers = deque()

    cdef int add(self, Worker worker) except -1:
        if worker.waiting:
            return 0
        worker.waiting = True
        self.workers.append(worker)
        return self.tick.schedule(PHASE_EVENTS, self)

    cdef int run_tick(self) except -1:
        cdef Worker worker
        cdef int64_t began = monotonic_ns()
        cdef int64_t until = began + SLICE_NS - self.spent_ns
        try:
            while self.workers and monotonic_ns() < until:
                worker = self.workers.popleft()
                worker.waiting = False
                if worker.work(until):
                    worker.waiting = True
                    self.workers.append(worker)
        finally:
            if self.workers:
                self.tick.defer(PHASE_EVENTS, self)
            self.spent(monotonic_ns() - began)
        return 0

    cdef bint has_time(self) noexcept:
        return self.spent_ns < SLICE_NS

    cdef int spent(self, int64_t time_ns) except -1:
        self.spent_ns += time_ns
        if not self.counting:
            self.counting = True
            self.tick.loop.call_soon(self._begin_iteration)
        return 0

    def _begin_iteration(self) -> None:
        self.spent_ns = 0
        self.counting = False
