"""A direct get request: what a client may ask for, and the status it gets when that makes no sense."""
from libc.stdint cimport int64_t, uint64_t


cdef class DirectRequest:
    """What to send. Zero and None mean: not asked for. Times in nanoseconds since 1970, in 64 bits."""
    cdef readonly uint64_t seq
    cdef readonly bytes last_by_subject
    cdef readonly bytes next_by_subject
    cdef readonly int64_t batch
    cdef readonly int64_t max_bytes
    cdef readonly object start_time_ns
    cdef readonly tuple multi_last
    cdef readonly uint64_t up_to_seq
    cdef readonly object up_to_time_ns
    cdef readonly bint no_hdr

    # Is there anything in it beside no_hdr?
    cdef bint asks(self) noexcept


# The request behind a subject tail (None: none) and a body; `level`: the API level it requires, None: any. Raises
# DirectError.
cdef DirectRequest read_request(bytes subject, bytes body, bytes level)
