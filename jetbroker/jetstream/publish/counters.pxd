"""The running totals of a stream whose messages are counters: each publish adds to the last message of its subject."""
from jetbroker.jetstream.publish.decimals cimport Decimal
from jetbroker.store.log.stream_log cimport StreamLog, SubjectState


cdef class Total:
    cdef bytes value                   # a whole number
    cdef dict sources                  # stream -> subject -> its total there, {}: nothing came from other streams

    # What comes from publishers is added.
    cdef int add(self, Decimal increment) except -1
    # A source's own total takes the place of the one it told before. Returns what that adds.
    cdef bytes add_source(self, bytes stream, bytes subject, Decimal sourced)
    cdef bytes body(self)


# That of a subject, 0 to begin with. Raises DecodeError when its last message does not tell one.
cdef Total last_total(StreamLog log, SubjectState state)
# The total that a counter's body tells. Raises DecodeError.
cdef bytes total_of(const char* body, Py_ssize_t n)
