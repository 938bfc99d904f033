# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What slows a push consumer down (see push.pxd)."""
import os

from libc.stdint cimport int64_t, uint64_t

cdef int64_t FIRST_WINDOW = 2 * 1024 * 1024     # nats-server's: a sixteenth of the largest
cdef int64_t LARGEST_WINDOW = 32 * 1024 * 1024
cdef bytes LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
cdef double LEAST_BURST = 64 * 1024             # bytes; a slow consumer still gets messages of this size in one go


cdef class FlowControl:
    """Bytes on the way to the subscriber and the answers that open the window."""

    def __init__(self, bytes prefix not None) -> None:
        self.prefix = prefix
        self.window = FIRST_WINDOW

    cdef bint stalled(self) noexcept:
        return self.outstanding > self.window

    cdef void sent(self, int64_t n) noexcept:
        self.outstanding += n

    cdef bint wants_request(self) noexcept:
        return self.open_subject is None and self.outstanding > self.window // 2

    cdef bytes open_request(self):
        """The subject whose answer confirms all that has been sent so far."""
        self.open_subject = self.prefix + bytes([LETTERS[b % 62] for b in os.urandom(4)])
        self.open_bytes = self.outstanding
        return self.open_subject

    cdef bint answered(self, bytes subject) except -1:
        """False: not the answer to the open request."""
        if self.open_subject is None or subject != self.open_subject:
            return False
        self.open_subject = None
        self.window = min(self.window * 2, LARGEST_WINDOW)
        self.outstanding = max(self.outstanding - self.open_bytes, 0)
        self.open_bytes = 0
        return True

    cdef void reset(self) noexcept:
        """The subscriber is another one now."""
        self.open_subject = None
        self.window = FIRST_WINDOW
        self.outstanding = 0
        self.open_bytes = 0


cdef class RateLimit:
    """A token bucket of bytes."""

    def __init__(self, uint64_t bits_per_second, int64_t now_ns) -> None:
        self.bytes_per_ns = bits_per_second / 8e9
        self.burst = max(bits_per_second / 8.0, LEAST_BURST)
        self.tokens = self.burst
        self.updated_ns = now_ns

    cdef int64_t take(self, int64_t n, int64_t now_ns) noexcept:
        cdef double missing
        self.tokens = min(self.burst, self.tokens + (now_ns - self.updated_ns) * self.bytes_per_ns)
        self.updated_ns = now_ns
        # a message larger than the bucket goes when the bucket is full
        missing = min(<double>n, self.burst) - self.tokens
        if missing > 0:
            return <int64_t>(missing / self.bytes_per_ns) + 1
        self.tokens -= n
        return 0
