"""The last message that a publish expects, by a pattern of its publisher's choice."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.stream_log cimport StreamLog


# The last sequence whose subject matches, 0: none. With wildcards the publisher's turn pays: every subject is looked at.
cdef uint64_t last_match(StreamLog log, bytes pattern) except? 0
