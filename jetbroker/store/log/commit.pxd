"""The way to the disk: the end of a growing file, who waits for it, and group commit with its figures."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.store.disk cimport Disk
from jetbroker.tick cimport Tick


cdef class Tail:
    """The end of a growing file that is still in memory: what is to be written, and what was lately."""
    # All positions are file offsets; the bytes are those of [base, end()).
    cdef char* data
    cdef readonly uint64_t base
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t capacity
    cdef readonly uint64_t written
    cdef uint64_t synced

    cdef int reserve(self, Py_ssize_t n) except -1
    cdef int begin(self, bytes content) except -1      # of a new file, of which nothing is written
    cdef void go_on(self, uint64_t end) noexcept       # behind what is in the file already
    cdef int write(self, Disk disk, int fd) except -1  # all that is not written; raises OSError
    cdef void cut(self, uint64_t end) noexcept         # what is behind `end` is taken back
    cdef void forget_written(self) noexcept
    cdef void drop_before(self, uint64_t offset) noexcept
    cdef int trim(self) except -1
    cdef void give_back(self) noexcept
    cdef void erase(self, uint64_t start, uint64_t end) noexcept

    cdef inline uint64_t end(self) noexcept:
        return self.base + self.size

    cdef inline char* at(self, uint64_t offset) noexcept:
        return self.data + (offset - self.base)

    # Where the bytes begin that are not known to be on disk.
    cdef inline uint64_t unsynced_from(self) noexcept:
        return max(self.synced, self.base)

    cdef inline bytes bytes_from(self, uint64_t offset):
        return self.at(offset)[:self.end() - offset]

    # Room for n more bytes, to be filled at once.
    cdef inline char* extend(self, Py_ssize_t n) except NULL:
        if self.size + n > self.capacity:
            self.reserve(n)
        self.size += n
        return self.data + (self.size - n)


cdef class Waiters:
    cdef list waiting                 # [(position, future)]

    cdef object add(self, object loop, uint64_t position)      # a future, done once `position` is committed
    cdef int release(self, uint64_t position) except -1        # all up to it are committed
    cdef int fail(self, object error) except -1                # none of them will be


cdef class Changes:
    """Every append and every removal is a change; commits are counted in them."""
    cdef readonly uint64_t accepted
    cdef readonly uint64_t written
    cdef readonly uint64_t synced
    cdef uint64_t at_rest             # accepted at the last call of rests()
    cdef Waiters waiters

    cdef bint rests(self, bint is_synced) noexcept    # nothing was accepted since the last call, and all is stored


cdef enum:
    MAX_BUCKETS = 16


cdef class Histogram:
    cdef double[MAX_BUCKETS] bounds
    cdef uint64_t[MAX_BUCKETS] counts     # the last one: of what is above all bounds
    cdef int size                         # of both
    cdef readonly double sum

    cdef int observe(self, double value) except -1


cdef class SyncFigures:
    cdef readonly Histogram seconds       # that an fdatasync took
    cdef readonly Histogram changes       # that a round has put on disk; rounds of consumers' states alone have none
    cdef readonly uint64_t failures       # members of rounds that could not be synced
    cdef uint64_t covered                 # changes of the logs whose round is ending

    cdef int failed(self) except -1
    cdef int cover(self, uint64_t changes) except -1
    cdef int end_round(self) except -1


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
