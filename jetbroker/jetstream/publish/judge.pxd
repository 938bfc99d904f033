"""What may be stored: a message with headers the stream acts on, and the rules its headers have to pass.

Messages come from publishers, alone or in a batch, from mirrors and sources, or from schedules. All of them are
judged here; whoever asks decides on the order where nats-server has two.
"""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from jetbroker.jetstream.publish.counters cimport KnownTotal
from jetbroker.jetstream.publish.dedup cimport DedupWindow
from jetbroker.jetstream.publish.headers cimport PublishHeaders, Text
from jetbroker.store.log.stream_log cimport StreamLog, SubjectState

cdef enum Replaced:
    ROLL_UP_NOTHING
    ROLL_UP_SUBJECT
    ROLL_UP_ALL


cdef class SubjectEntry:
    """What ingest keeps of one literal subject in its route slot."""
    cdef SubjectState state            # of the subject it is stored with
    cdef bytes destination             # where it is published again, b"": nowhere, None: not worked out yet
    cdef uint32_t generation           # of the consumers that `interested` was worked out for
    cdef bint interested
    cdef KnownTotal known              # of a counter


cdef class Candidate:
    """A message with headers that may be stored, and what becomes of it."""
    cdef SubjectEntry entry
    cdef bytes headers                 # as they are stored
    cdef PublishHeaders found          # points into `headers`
    cdef const char* payload           # the caller keeps it, or `held` does
    cdef Py_ssize_t payload_len
    cdef bytes held
    cdef bint sourced                  # of a mirror, a source or a schedule: what a publisher must not say is allowed
    cdef bint mirrored                 # duplicates are its origin's affair
    # what its headers ask for
    cdef object prepared               # schedule_headers.Prepared, None: no schedule, or not looked at yet
    cdef bytes msg_id                  # None: none
    cdef int64_t ttl
    cdef Replaced roll_up
    cdef bytes ends                    # subject of the schedule that ends with it, None: none
    cdef uint16_t flags                # of its record
    # the outcome
    cdef object refusal                # ApiError, None: it is stored, or was before
    cdef bint duplicate                # it was stored before, as `seq`
    cdef bint unwanted                 # interest retention, and nobody is interested: it uses a sequence up only
    cdef uint64_t seq
    cdef uint64_t previous             # the last message of its subject before it, 0: none

    # Look for publish headers anew: `headers` are others.
    cdef bint scan(self) noexcept
    # Without what nobody but the server is meant to read.
    cdef int strip(self) except -1


cdef class Judge:
    cdef StreamLog log
    cdef bytes name                    # of the stream
    cdef DedupWindow dedup
    cdef object rules                  # schedule_headers.Rules
    cdef object server                 # ServerReservations
    cdef bint counts                   # the messages are counters
    cdef bint allow_ttl
    cdef bint allow_roll_up
    cdef int64_t least_ttl             # seconds; shorter ones are raised to it, 0: none
    cdef bytes last_id                 # of message last_id_seq; worked out from the log when that is not the last
    cdef uint64_t last_id_seq
    cdef uint32_t failures             # of the log's writes

    cdef int configure(self, object config, object rules) except -1
    # What forbids a message that comes alone, in nats-server's order; None: nothing, or it is a duplicate.
    cdef object judge(self, Candidate asked, int64_t now_ns)
    # The sum of a small increment and its counter's total, as the body that tells it; False: it has to be judged.
    cdef bint next_total(self, SubjectEntry entry, Py_ssize_t headers_len, int64_t increment,
                         char* body, Py_ssize_t* body_len) except -1
    # It is stored as message `seq`.
    cdef int counted(self, SubjectEntry entry, uint64_t seq) noexcept
    # A time to live that is shorter than the stream has them becomes that.
    cdef int raise_ttl(self, Candidate asked) except -1
    # It has got its sequence: its id is known from now on.
    cdef int remember(self, Candidate stored, int64_t now_ns) except -1
    # What was stored from first_lost on is gone.
    cdef int forget_from(self, uint64_t first_lost) except -1
    # The ids of a start are read: the one of the last message is known on, even if that goes before anybody asks.
    cdef int started(self) except -1
    # The Nats-Msg-Id of the last message, b"" when it has none.
    cdef bytes id_of_last(self)
    # Sequences without messages follow: the id that was asked for just before stays that of the last message.
    cdef int skipped(self) noexcept

    # The single rules: what forbids it, None: nothing. Each notes what the headers ask for.
    cdef object features(self, Candidate asked)
    cdef object time_to_live(self, Candidate asked)
    cdef object expected_subject(self, Candidate asked)
    cdef object schedule(self, Candidate asked, dict staged)
    cdef object message_id(self, Candidate asked, int64_t now_ns)
    cdef object last_message_id(self, Candidate asked)
    cdef object rolls_up(self, Candidate asked)
    # A counter's next total becomes its payload. `staged`: the totals of the same batch by subject, None: no batch.
    cdef object counter(self, Candidate asked, dict staged)
    cdef object _is_lone_increment(self, Candidate asked)


cdef Candidate candidate_of(SubjectEntry entry, bytes headers, const char* payload, Py_ssize_t payload_len)
# A sequence that is not the expected one.
cdef object wrong_sequence(Text expected, uint64_t last)
# The last sequence whose subject matches, 0: none. With wildcards the publisher's turn pays: every subject is looked at.
cdef uint64_t last_match(StreamLog log, bytes pattern) except? 0
# The publisher's turn pays for the time since then (monotonic).
cdef int charge_time_since(int64_t began_ns) except -1
