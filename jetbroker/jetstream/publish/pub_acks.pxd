"""What publishers are told: acks that wait until their message is committed, and refusals."""
from libc.stdint cimport uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.store.log.stream_log cimport StreamLog
from jetbroker.tick cimport Tick, TickTask
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message


cdef class PubAckQueue:
    """First in, first out; lives in C memory, so that a waiting ack costs its reply subject and 16 bytes."""
    cdef readonly Py_ssize_t count
    cdef Router router
    cdef OutputBuffer entries          # PendingAck headers, each followed by the reply subject
    cdef Py_ssize_t head               # offset of the oldest entry
    cdef OutputBuffer body             # `{"stream":"S","seq":` and room for the number
    cdef Py_ssize_t prefix_len

    # With `text` behind the sequence: `,"batch":...`.
    cdef int push(self, uint64_t seq, const char* reply, Py_ssize_t reply_len,
                  const char* text, Py_ssize_t text_len) except -1
    cdef int push_text(self, uint64_t seq, bytes reply, bytes text) except -1
    # An answer that is all `text`.
    cdef int push_line(self, uint64_t seq, bytes reply, bytes text) except -1
    # Send every ack up to the first one whose message is not committed yet.
    cdef int release(self, uint64_t committed) except -1
    # Take out the entries of messages from first_lost on; returns the reply subjects of their acks.
    cdef list fail_from(self, uint64_t first_lost)

    cdef int _push(self, uint64_t seq, bytes reply, bytes text, bint whole) except -1
    cdef char* _room(self, Py_ssize_t size) except NULL
    cdef void _rewind(self) noexcept


cdef class Answers(TickTask):
    """The answers of one stream; sent in the event phase, nothing publishes while a message is being delivered."""
    cdef Tick tick
    cdef Router router
    cdef StreamLog log
    cdef bytes name                    # of the stream
    cdef PubAckQueue acks
    cdef list others                   # (reply, headers, body)
    cdef bint silent                   # the stream answers nobody
    cdef list refused                  # takes what the message at hand is refused for, while it is traced; else None

    cdef int ack(self, const Message* msg, uint64_t seq, bint duplicate) except -1
    # With `text` behind the sequence.
    cdef int ack_more(self, const Message* msg, uint64_t seq, const char* text, Py_ssize_t text_len) except -1
    # Of a batch, or one whose ack was held: `text` stands behind the sequence.
    cdef int ack_text(self, uint64_t seq, bytes reply, bytes text) except -1
    # An answer of other words, in its place among the acks and not before message `seq` is committed.
    cdef int line(self, uint64_t seq, bytes reply, bytes text) except -1
    # The JSON of an error ack.
    cdef bytes error_body(self, object error)
    # Queue an error ack (an ApiError).
    cdef int refuse(self, const Message* msg, object error) except -1
    # The same by its reply subject, None: nobody waits. Without an error: an empty answer.
    cdef int answer(self, bytes reply, object error) except -1
    # All who wait for messages from first_lost on are refused.
    cdef int fail_from(self, uint64_t first_lost, list held, object error) except -1
