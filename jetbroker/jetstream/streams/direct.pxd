"""Direct get: messages straight from a stream's log to whoever asks, without the API's service."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.stream_log cimport StoredMessage, SubjectFilter, SubjectState
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer


cdef class DirectRequest:
    """What to send. Zero and None mean: not asked for. Times in nanoseconds since 1970, in 64 bits."""
    cdef readonly uint64_t seq
    cdef readonly bytes last_by_subject
    cdef readonly bytes next_by_subject
    cdef readonly int64_t batch
    cdef readonly int64_t max_bytes
    cdef readonly object start_time_ns
    cdef readonly tuple multi_last
    cdef readonly uint64_t up_to_seq
    cdef readonly object up_to_time_ns
    cdef readonly bint no_hdr

    # Does it ask for certain messages?
    cdef bint asks(self) noexcept


# The request behind a subject tail (None: none) and a body; `level`: the API level it requires, None: any. Raises
# DirectError.
cdef DirectRequest read_request(bytes subject, bytes body, bytes level)


cdef enum Stage:
    ASKED = 0                          # the request is still to be read
    FINDING = 1                        # the one message wanted, the next of a subject
    COLLECTING = 2                     # the last message of each matching subject
    COUNTING = 3                       # what a walk has before it
    SENDING = 4


cdef class DirectJob:
    """A request, worked on piece by piece."""
    cdef Stage stage
    cdef object client                 # cid of who asks, None: the broker itself
    cdef bytes subject                 # behind the stream's name, None: nothing; these three until the request is read
    cdef bytes body
    cdef bytes level                   # that it requires, None: any
    cdef Py_ssize_t size               # bytes it keeps while it waits
    cdef bytes reply
    cdef bint bare                     # no_hdr
    cdef bint single                   # collecting: only the last message of all is wanted
    cdef SubjectFilter matching        # with `next_seq`: a walk over the log; while collecting: the wildcards
    cdef uint64_t next_seq             # where it goes on; while collecting: the first one that is wanted
    cdef uint64_t counted_to           # counting: where it goes on, up to `count_end`
    cdef uint64_t count_end
    cdef bint met_any                  # the walk has met a message
    cdef set names                     # collecting: literal subjects that were asked for
    cdef list states                   # and what the log knows of those that may match, looked at up to `position`
    cdef set found                     # sequences
    cdef list sequences                # with `position`: multi_last's answer; else None
    cdef Py_ssize_t position
    cdef int64_t wanted                # the request's batch
    cdef int64_t pending               # messages that match and are not sent yet
    cdef int64_t left                  # messages still wanted
    cdef int64_t bytes_left
    cdef uint64_t last_seq             # sent last, 0: none yet
    cdef uint64_t up_to                # multi_last only
    cdef SubjectState newest           # with `single`: whose message is the last one, as far as is known


cdef class DirectGet(Receiver):
    cdef Tick tick
    cdef Router router
    cdef SegmentedLog log
    cdef bytes name
    cdef object server                 # ServerReservations
    cdef Py_ssize_t prefix_len         # of "$JS.API.DIRECT.GET.<stream>"
    cdef dict clients                  # cid -> deque[DirectJob]
    cdef object in_turn                # deque of the keys of `clients`
    cdef list asked                    # subjects whose last messages are wanted since the last tick
    cdef list refused                  # replies of requests that there was no room for
    cdef DirectJob collector           # the one that may hold a list of all subjects
    cdef Py_ssize_t waiting
    cdef int64_t waiting_bytes
    cdef int64_t sent                  # bytes, in this tick
    cdef int64_t ends_ns               # of this tick's turn
    cdef OutputBuffer out

    cdef int send_message(self, bytes reply, StoredMessage* stored, bint bare, DirectJob batch) except -1
    cdef int send_status(self, bytes reply, bytes status) except -1

    cdef int run_tick(self) except -1
    cdef int put(self, DirectJob job, bint first) except -1
    cdef DirectJob take(self)
    cdef bint _turn_is_over(self) noexcept
    cdef bint _advance(self, DirectJob job) except -1
    cdef bint _begin(self, DirectJob job, DirectRequest request) except -1
    cdef bint _begin_finding(self, DirectJob job, bytes subject, uint64_t start) except -1
    cdef bint _begin_walk(self, DirectJob job, DirectRequest request) except -1
    cdef bint _begin_collecting(self, DirectJob job, object patterns) except -1
    cdef bint _collect(self, DirectJob job) except -1
    cdef int _add(self, DirectJob job, SubjectState state) except -1
    cdef bint _collected(self, DirectJob job) except -1
    cdef bint _count(self, DirectJob job) except -1
    cdef bint _find(self, DirectJob job) except -1
    cdef bint _send(self, DirectJob job) except -1
    cdef int _next_of(self, DirectJob job, StoredMessage* stored) except -1
    cdef int _search(self, DirectJob job, StoredMessage* stored) except -1
    cdef int _send_one(self, DirectJob job, uint64_t seq) except -1
    cdef int _reply(self, bytes reply, bint bare, StoredMessage* stored, int result) except -1
    cdef int _send_end(self, DirectJob batch) except -1
    cdef int _publish(self, bytes reply, Py_ssize_t headers_len) except -1
