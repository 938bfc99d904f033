"""Reads of many subjects' last messages at once."""
from jetbroker.store.log.segmented cimport SegmentedLog

# Each of these subjects is about to be looked up, and its last message read: have the processor fetch what that needs.
# Nothing changes but the time it takes. One by one, each look-up would wait for memory several times.
cdef void warm(SegmentedLog log, list subjects) noexcept
