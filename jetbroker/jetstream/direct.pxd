"""Direct get: messages straight from a stream's log to whoever asks, without the API's service."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.routing.router cimport Receiver, Router
from jetbroker.store.log cimport StoredMessage, StreamLog, SubjectFilter, SubjectState
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer


cdef class DirectBatch:
    """A request for many messages, answered some per tick."""
    cdef bytes reply
    cdef bint bare                     # no_hdr
    cdef SubjectFilter matching        # with `next_seq`: a walk over the log
    cdef uint64_t next_seq
    cdef list sequences                # with `position`: multi_last's answer; else None
    cdef Py_ssize_t position
    cdef int64_t pending               # messages that match and are not sent yet
    cdef int64_t left                  # messages still wanted
    cdef int64_t bytes_left
    cdef uint64_t last_seq             # sent last, 0: none yet
    cdef uint64_t up_to                # multi_last only


cdef class DirectGet(Receiver):
    cdef Tick tick
    cdef Router router
    cdef StreamLog log
    cdef bytes name
    cdef Py_ssize_t prefix_len         # of "$JS.API.DIRECT.GET.<stream>"
    cdef list requests                 # (subject or b"", reply, body, required level or None)
    cdef list batches                  # DirectBatch, in turn
    cdef OutputBuffer out

    cdef int send_message(self, bytes reply, StoredMessage* stored, bint bare, DirectBatch batch) except -1
    cdef int send_status(self, bytes reply, bytes status) except -1

    cdef int run_tick(self) except -1
    cdef int _answer(self, object request, bytes reply) except -1
    cdef int _reply(self, bytes reply, bint bare, StoredMessage* stored, int result) except -1
    cdef int _start_walk(self, object request, bytes reply) except -1
    cdef int _start_multi_last(self, object request, bytes reply) except -1
    cdef list _last_sequences(self, object patterns, uint64_t up_to)
    cdef uint64_t _last_before(self, SubjectState state, uint64_t up_to) except? 0
    cdef DirectBatch _new_batch(self, object request, bytes reply)
    cdef bint _advance(self, DirectBatch batch) except -1
    cdef bint _next_of(self, DirectBatch batch, StoredMessage* stored) except -1
    cdef int _send_end(self, DirectBatch batch) except -1
    cdef int _publish(self, bytes reply, Py_ssize_t headers_len) except -1
