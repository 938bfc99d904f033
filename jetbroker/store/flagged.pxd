"""Finding messages by the flags of their records: what a restart rebuilds from a log without reading every message."""
from libc.stdint cimport uint16_t, uint64_t

from jetbroker.store.log cimport StoredMessage, StreamLog


# The first live message in start..limit whose record has `flag`; only messages with headers are considered. Looks at
# no more than `slots` slots: READ_MISSING leaves in out.seq where to go on (above limit: at the end).
cdef int next_flagged(StreamLog log, uint16_t flag, uint64_t start, uint64_t limit, Py_ssize_t slots,
                      StoredMessage* out) except -1
# Is there a live message of this sequence? Reads nothing from disk.
cdef bint is_stored(StreamLog log, uint64_t seq) except -1
