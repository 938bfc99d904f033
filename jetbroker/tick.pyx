# cython: language_level=3, boundscheck=False, wraparound=False
"""The tick: what happens at the end of each batch of input, in a fixed order (see tick.pxd)."""
# A pass over the phases may give earlier phases work again (a delivery that is stored by another stream); after this
# many passes the rest waits for the next loop iteration, so that sockets are read in between.
cdef int MAX_PASSES = 8
# Each is a traceback in the log: whoever hits a bug with every message must not fill the disk.
cdef int MAX_REPORTS = 10
cdef double REPORT_SECONDS = 1.0


cdef class TickTask:
    """Something with work to do at the end of a tick."""

    cdef int run_tick(self) except -1:
        raise NotImplementedError(type(self).__name__)


cdef class Rest(TickTask):
    """Has nothing to do: it stands where something gone had its task."""

    cdef int run_tick(self) except -1:
        return 0


REST = Rest()


cdef class Tick:
    """The end-of-tick work of one event loop."""

    def __init__(self, loop: object) -> None:
        self.loop = loop
        self.phases = [[] for _ in range(PHASE_COUNT)]
        self.deferred = []
        self.reported_at = -REPORT_SECONDS

    cdef int schedule(self, int phase, TickTask task) except -1:
        if task.scheduled:
            return 0
        task.scheduled = True
        (<list>self.phases[phase]).append(task)
        if not self.running and not self.armed:
            self.armed = True
            self.loop.call_soon(self._run_armed)
        return 0

    cdef int defer(self, int phase, TickTask task) except -1:
        if task.scheduled:
            return 0
        task.scheduled = True
        if not self.deferred:
            self.loop.call_soon(self._release_deferred)
        self.deferred.append((phase, task))
        return 0

    cdef void begin(self) noexcept:
        self.running = True

    cdef bint put_off(self) except -1:
        cdef int phase
        for phase in range(PHASE_FLUSH):
            if self.phases[phase]:
                return False
        if len(<list>self.phases[PHASE_FLUSH]) > 1:
            return False
        self.running = False
        if not self.armed:
            self.armed = True
            self.loop.call_soon(self._run_armed)
        return True

    cpdef int run(self) except -1:
        """Run every scheduled task, phase by phase, until nothing is left or the pass bound is reached."""
        cdef int phase
        cdef list tasks
        cdef bint again = True
        self.running = True
        try:
            for _ in range(MAX_PASSES):
                if not again:
                    return 0
                again = False
                for phase in range(PHASE_COUNT):
                    tasks = <list>self.phases[phase]
                    if not tasks:
                        continue
                    self.phases[phase] = []
                    self._run_tasks(tasks)
                    again = True
        finally:
            self.running = False
        if again and any(self.phases) and not self.armed:
            self.armed = True
            self.loop.call_soon(self._run_armed)
        return 0

    cdef int _run_tasks(self, list tasks) except -1:
        cdef TickTask task
        for task in tasks:
            task.scheduled = False
            try:
                task.run_tick()
            except Exception as error:
                # our own bug: it is reported loudly, but one task must not take the others with it
                self.report(task, error)
        return 0

    cpdef int report(self, object task, object error) except -1:
        """Tell of a bug that cost `task` a piece of its work; of many within a second only of the first ones."""
        cdef double now = self.loop.time()
        if now - self.reported_at >= REPORT_SECONDS:
            self.reported_at = now
            self.reports = 0
        self.reports += 1
        if self.reports > MAX_REPORTS:
            self.withheld += 1
            return 0
        text = f"Internal error in {type(task).__name__}"
        if self.withheld:
            text += f" ({self.withheld} more were not told of)"
            self.withheld = 0
        self.loop.call_exception_handler({"message": text, "exception": error})
        return 0

    def _run_armed(self) -> None:
        self.armed = False
        self.run()

    def _release_deferred(self) -> None:
        cdef TickTask task
        waiting = self.deferred
        self.deferred = []
        for phase, task in waiting:
            (<list>self.phases[phase]).append(task)
        self.run()
