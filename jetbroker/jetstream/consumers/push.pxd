"""What slows a push consumer down: flow control, rate limit, replay at the original pace."""
from libc.stdint cimport int64_t, uint64_t


cdef class FlowControl:
    """Bytes on the way to the subscriber and the answers that open the window."""
    cdef readonly int64_t window, outstanding
    cdef readonly bytes open_subject       # of the request that waits for its answer, None: none does
    cdef int64_t open_bytes                # what that answer will confirm
    cdef bytes prefix                      # $JS.FC.<stream>.<consumer>.

    cdef bint stalled(self) noexcept
    cdef void sent(self, int64_t n) noexcept
    cdef bint wants_request(self) noexcept
    cdef bytes open_request(self)
    cdef bint answered(self, bytes subject) except -1
    cdef void reset(self) noexcept


cdef class RateLimit:
    """A token bucket of bytes."""
    cdef double bytes_per_ns
    cdef double burst, tokens
    cdef int64_t updated_ns
    # 0: n bytes may go now (and are taken); else the ns to wait.
    cdef int64_t take(self, int64_t n, int64_t now_ns) noexcept
