"""A consumer's present state as one record."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.tracker cimport AckTracker

# `resume`: see state.pyx; the times are monotonic and wall clock.
cdef bytes encode_snapshot(AckTracker tracker, uint64_t resume, int64_t now_ns, int64_t wall_ns)
