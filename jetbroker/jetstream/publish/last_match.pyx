# cython: language_level=3, cdivision=True
"""The last message that a publish expects, by a pattern of its publisher's choice (see last_match.pxd)."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.timing.work_turns cimport monotonic_ns
from jetbroker.routing.router cimport charge_publisher
from jetbroker.store.log.stream_log cimport StreamLog
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits

cdef int64_t UNIT_NS = limits.TURN_NS // limits.TURN_UNITS


cdef uint64_t last_match(StreamLog log, bytes pattern) except? 0:
    cdef int64_t began
    cdef uint64_t last
    if not has_wildcard(<const char*>pattern, len(pattern)):
        return log.last_by_subject(pattern)
    began = monotonic_ns()
    last = log.last_by_subject(pattern)
    charge_publisher((monotonic_ns() - began) // UNIT_NS)
    return last
