"""Publish acks that wait until their message is committed."""
from libc.stdint cimport uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.wire.buffer cimport OutputBuffer


cdef class PubAckQueue:
    """First in, first out; lives in C memory, so that a waiting ack costs its reply subject and 16 bytes."""
    cdef readonly Py_ssize_t count
    cdef Router router
    cdef OutputBuffer entries          # PendingAck headers, each followed by the reply subject
    cdef Py_ssize_t head               # offset of the oldest entry
    cdef OutputBuffer body             # `{"stream":"S","seq":` and room for the number
    cdef Py_ssize_t prefix_len

    cdef int push(self, uint64_t seq, const char* reply, Py_ssize_t reply_len, bint duplicate) except -1
    # The same with `text` behind the sequence: `,"batch":...`.
    cdef int push_text(self, uint64_t seq, bytes reply, bytes text) except -1
    # Send every ack up to the first one whose message is not committed yet.
    cdef int release(self, uint64_t committed) except -1
    # Take out the entries of messages from first_lost on; returns their reply subjects.
    cdef list fail_from(self, uint64_t first_lost)

    cdef char* _room(self, Py_ssize_t size) except NULL
    cdef void _rewind(self) noexcept
