"""The receiving half of a mirror or source: what comes from one origin is checked, put in order and stored."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.publish.judge cimport SubjectEntry
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver
from jetbroker.store.log.stream_log cimport StreamLog
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message


cdef struct Delivery:
    # what an ack subject says of the message it comes with
    uint64_t delivered
    uint64_t stream_seq
    uint64_t consumer_seq
    int64_t time_ns
    uint64_t pending


# False: not an ack subject.
cdef bint parse_delivery(const char* p, Py_ssize_t n, Delivery* out) noexcept nogil


cdef class OriginIngest(Receiver):
    cdef Ingest ingest
    cdef StreamLog log
    cdef Router router
    cdef Tick tick
    cdef object owner                  # Origin: told of broken connections and of new positions
    cdef readonly str index_name       # "" for a mirror
    cdef readonly bint is_mirror
    cdef list batch                    # of all origins of the stream: those with `moved`
    cdef readonly bint connected       # deliveries are taken
    cdef readonly uint64_t stream_seq  # the last message of the origin that is done with, 0: none
    cdef readonly uint64_t consumer_seq    # of the present connection
    cdef readonly uint64_t lag
    cdef int64_t heard_ns              # monotonic, 0: never
    cdef bytes header_start            # of the Nats-Stream-Source line, in front of and behind the sequence
    cdef bytes header_rest
    cdef list transforms               # Transform or None, by the subjects filtered for
    cdef bint cacheable                # the same subject always becomes the same
    cdef list cached_subjects          # as they came, direct mapped
    cdef list cached_entries
    cdef OutputBuffer block            # headers of the message at hand
    cdef list flow                     # (log sequence, reply, consumer sequence, stream sequence) to be answered
    cdef OutputBuffer marks            # (log sequence, stream sequence) of ticks that are not committed yet
    cdef uint64_t committed_log, committed_stream
    cdef bint moved                    # stream_seq has changed in this tick
    cdef bint broken
    cdef object refusal                # ApiError that broke it, None: a gap

    cdef int _take_status(self, const Message* msg) except -1
    cdef bint _in_order(self, Delivery* delivery) except -1
    cdef bint _keep(self, Delivery* delivery, const Message* msg) except -1
    cdef bint _store(self, Delivery* delivery, SubjectEntry entry, const Message* msg, bint has_server_headers) except -1
    cdef SubjectEntry _entry_of(self, const Message* msg)
    cdef bytes _transformed(self, const Message* msg)
    cdef bint _write_headers(self, Delivery* delivery, const Message* msg) except -1
    cdef int _break(self, object refusal) except -1
    cdef uint64_t _last_mark(self) noexcept
    cdef int _answer_flow(self) except -1
    cdef int run_tick(self) except -1
