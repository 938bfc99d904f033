"""Work of streams that nobody waits for, in turns: a bounded time of each iteration of the event loop."""
from libc.stdint cimport int64_t

from jetbroker.tick cimport Tick, TickTask


cdef class Worker(TickTask):
    """A part of a stream that has such work; scheduling it in the tick asks for a turn."""
    cdef WorkTurns turns
    cdef bint waiting

    # Work until the monotonic clock shows `until_ns`, a little longer at most; True: there is more to do.
    cdef bint work(self, int64_t until_ns) except -1


cdef class WorkTurns(TickTask):
    cdef Tick tick
    cdef object workers                # deque of those who wait
    cdef int64_t spent_ns              # in this iteration
    cdef bint counting                 # the end of this iteration will be heard of

    cdef int add(self, Worker worker) except -1
    # For work that cannot wait for a turn: is there time left in this iteration, and what it took of it.
    cdef bint has_time(self) noexcept
    cdef int spent(self, int64_t time_ns) except -1
