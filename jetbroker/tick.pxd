"""The tick: what happens at the end of each batch of input, in a fixed order.

A task is anything that has work to do once per tick: a log with bytes to write, a consumer with messages to
deliver, a socket with output to send.  ``Tick.run`` walks the phases in order and repeats until nothing is left, so
that a message is appended, committed, delivered and sent in one pass without any Python object per message.
"""
from libc.stdint cimport uint64_t


cdef enum Phase:
    PHASE_EVENTS = 0         # queued Python callbacks (API requests)
    PHASE_LOGS = 1           # stream logs are written (and fsyncs requested)
    PHASE_CONSUMERS = 2      # consumers deliver what has been committed
    PHASE_STATE_LOGS = 3     # consumer state logs are written
    PHASE_FLUSH = 4          # sockets are flushed
    PHASE_COUNT = 5


cdef class TickTask:
    cdef bint scheduled
    # Called once per `Tick.schedule`; `scheduled` has been cleared before, so the task may schedule itself again.
    cdef int run_tick(self) except -1


cdef class Tick:
    cdef readonly object loop
    cdef list phases            # list[list[TickTask]], one list per Phase
    cdef list deferred          # (phase, task) for the next loop iteration
    cdef bint running
    cdef bint armed             # a loop.call_soon(self.run) is outstanding
    cdef double reported_at     # event loop's time of the first of these reports
    cdef int reports
    cdef uint64_t withheld      # since the last one that was told

    # Idempotent while the task is waiting. Outside of a running tick it arms loop.call_soon(self.run).
    cdef int schedule(self, int phase, TickTask task) except -1
    # As `schedule`, but for the next iteration of the event loop: lets sockets be read and flushed in between.
    cdef int defer(self, int phase, TickTask task) except -1
    # Input callbacks call begin() before and run() after handling a buffer.
    cdef void begin(self) noexcept
    cpdef int run(self) except -1
    # Instead of run() when more input is about to come: with nothing due but one socket's flush, that waits for the
    # next run(), at the latest in the next iteration of the loop. False: there is more to do, so run().
    cdef bint put_off(self) except -1
    # For a task that goes on with the rest of its work after an exception in one piece of it.
    cpdef int report(self, object task, object error) except -1
    cdef int _run_tasks(self, list tasks) except -1
