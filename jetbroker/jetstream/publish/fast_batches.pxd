"""Fast batches of one stream: messages are stored as they come, and one answer tells of many of them."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.jetstream.publish.ingest cimport FastPublishes, Ingest
from jetbroker.jetstream.publish.judge cimport Candidate, SubjectEntry
from jetbroker.wire.message cimport Message


cdef enum Operation:
    START
    APPEND
    COMMIT                             # and store this message
    END                                # this message is not stored
    PING


# What the reply subject of a message says: `<prefix>.<id>.<flow>.<gap mode>.<sequence>.<operation>.$FI`.
cdef struct Place:
    const char* id
    Py_ssize_t id_len
    uint32_t flow                      # tell of so many messages at once, at most
    bint gap_ok                        # messages may be missing
    uint64_t seq                       # in the batch, from 1 on
    Operation operation


cdef class FastBatch:
    """One that is under way."""
    cdef bytes id
    cdef bytes prefix                  # what the reply subjects of its messages begin with, up to their sequence
    cdef bytes reply                   # of the message that was answered last
    cdef bint gap_ok
    cdef uint64_t last                 # the highest sequence in the batch that has come
    cdef uint64_t stored               # the highest one that was stored; what has come and was refused is below it
    cdef uint64_t told                 # up to here its publisher knows
    cdef uint64_t first_seq            # of the first message in the stream, 0: none yet
    cdef uint64_t stream_seq           # of the last one
    cdef uint32_t every                # so many messages make an answer
    cdef uint32_t most                 # the publisher wants no more
    cdef int64_t heard_ns
    cdef object timer


cdef class FastBatches(FastPublishes):
    cdef Ingest ingest
    cdef object server                 # ServerReservations
    cdef dict batches                  # id -> FastBatch
    cdef FastBatch latest              # the one that the last message belonged to, None: it is over

    cdef bint _follows(self, const char* reply, Py_ssize_t n, Place* out) noexcept
    cdef object _refusal(self, SubjectEntry entry, const Message* msg, Place* place, bint understood)
    cdef FastBatch _known(self, const char* p, Py_ssize_t n)
    cdef object _begin(self, Place* place, const char* reply, Py_ssize_t reply_len)
    cdef int _put(self, FastBatch batch, Place* place, SubjectEntry entry, const Message* msg, bytes headers) except -1
    cdef bint _is_next(self, FastBatch batch, Place* place, const Message* msg) except -1
    cdef int _ping(self, FastBatch batch, Place* place, const Message* msg) except -1
    cdef object _store(self, FastBatch batch, SubjectEntry entry, const Message* msg, bytes headers, Candidate asked)
    cdef int _failed(self, FastBatch batch, Place* place, const Message* msg, object error, Candidate asked) except -1
    cdef bint _tell_if_due(self, FastBatch batch, const Message* msg) except -1
    cdef int _tell(self, FastBatch batch, uint64_t seq, const Message* msg) except -1
    cdef int _commit(self, FastBatch batch, const Message* msg) except -1
    cdef int _line(self, FastBatch batch, bytes reply, bytes line) except -1


# Is it the reply subject of a message in a fast batch, well-formed or not?
cdef bint read_place(const char* reply, Py_ssize_t n, Place* out) noexcept nogil
# Its end, `<sequence>.<operation>.$FI`, when it is that of a message that an open batch goes on with.
cdef bint read_step(const char* end, Py_ssize_t n, Place* out) noexcept nogil
