"""A stream's way in: every publish on its subjects is checked, appended to the log, and acked once committed."""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.publish.dedup cimport DedupWindow
from jetbroker.jetstream.publish.pub_acks cimport PubAckQueue
from jetbroker.jetstream.publish.headers cimport PublishHeaders, Text
from jetbroker.jetstream.publish.republish cimport Republisher
from jetbroker.jetstream.publish.ttl cimport TtlHeap
from jetbroker.routing.router cimport Receiver, Router, RouteSlot
from jetbroker.routing.transform cimport Transform
from jetbroker.store.log.stream_log cimport StreamLog, SubjectFilter, SubjectState
from jetbroker.store.log.segmented cimport StoreTotals
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message


cdef class SubjectEntry:
    """What ingest keeps of one literal subject in its route slot."""
    cdef SubjectState state            # of the subject it is stored with
    cdef bytes destination             # where it is published again, b"": nowhere, None: not worked out yet
    cdef uint32_t generation           # of the consumers that `interested` was worked out for
    cdef bint interested


cdef class Ingest(Receiver):
    cdef Host host
    cdef Tick tick
    cdef Router router
    cdef StreamLog log
    cdef bytes name
    cdef PubAckQueue acks
    cdef DedupWindow dedup
    cdef bytes last_msg_id             # of message last_msg_id_seq; worked out from the log when that is not the last
    cdef uint64_t last_msg_id_seq
    cdef OutputBuffer evictions        # (append, removed) pairs of sequences that are not committed yet
    cdef object last_refusal           # the ApiError that the last refused message was refused for
    cdef list refusals                 # (reply, headers, body) of error acks, sent in the event phase
    cdef list consumers                # StreamConsumer; replaced, never changed in place
    cdef uint32_t generation           # counts changes of the consumers' interest
    # what is accepted and not committed is bounded; counters since start
    cdef uint64_t accepted_bytes
    cdef uint64_t group_bytes          # accepted_bytes at the last commit
    cdef uint64_t committed_bytes
    # from the configuration
    cdef int64_t max_msgs              # 0: unlimited, here and below
    cdef int64_t max_bytes
    cdef int64_t max_per_subject
    cdef int64_t max_msg_size          # -1: unlimited
    cdef uint32_t message_cost         # how a stored message counts against max_bytes beside its own bytes
    cdef uint32_t headers_cost         # and one with headers
    cdef bint discard_new
    cdef bint discard_new_per_subject
    cdef bint sealed
    cdef bint no_ack
    cdef bint allow_rollup
    cdef Transform transform           # of subjects before anything else looks at them, None for most streams
    cdef Republisher republisher       # None for most streams
    # messages with a TTL; the Expiry of the stream removes them
    cdef TtlHeap ttls
    cdef bint allow_ttl
    cdef int64_t least_ttl             # seconds; shorter ones are raised to it, 0: none
    cdef bytes marker_headers          # of delete markers
    cdef object batches                # AtomicBatches, None until the first message of one
    cdef bint allow_atomic
    cdef object overdue                # Overdue, None until there is something to be removed in turns
    cdef object schedules              # Schedules, None for most streams
    # room in the account and on the server
    cdef object usage                  # AccountUsage
    cdef str storage
    cdef StoreTotals totals            # of all streams of this storage
    cdef int64_t server_bytes          # their limit, -1: none
    cdef int64_t account_bytes         # the account's limit, -1: none
    cdef int64_t account_credit        # bytes that surely fit: asked for in portions, as asking costs a walk
    cdef bint undoable                 # a file stream: a failed write gives back what the lost message evicted
    cdef bint interest_only            # interest retention: without an interested consumer nothing is stored
    # called at the next append, and at the next one with a Nats-Msg-Id: set while the stream has no timer running
    cdef object on_first_message
    cdef object on_first_id

    cdef int configure(self, object config, SubjectFilter own_subjects) except -1
    cdef int set_consumers(self, list consumers) except -1
    cdef int committed(self, uint64_t seq) except -1
    # Answers who waits; the sequences of messages that are back because what had replaced them is lost.
    cdef list write_failed(self, uint64_t first_lost, object error)
    # A message's time has come.
    cdef int remove_expired(self, uint64_t seq) except -1
    # The same for the only message of a subject, which leaves a delete marker. Raises StorageError.
    cdef int replace_by_marker(self, SubjectState state, int64_t ttl, int64_t now_ns) except -1
    cdef int enforce_limits(self) except -1

    # What is known of msg.subject, which is stored as it stands; and of a subject that is transformed first (the
    # message is then stored with entry.state.subject).
    cdef SubjectEntry entry_of(self, RouteSlot slot, const Message* msg)
    cdef SubjectEntry transformed_entry(self, RouteSlot slot, const Message* msg)
    # For every message that is appended, right after it: it is published again once it is committed. `previous`: the
    # last message of its subject before it, 0: none. Call it only when there is a `republisher`.
    cdef int republish(self, SubjectEntry entry, uint64_t seq, uint64_t previous, const char* headers,
                       Py_ssize_t headers_len, const char* payload, Py_ssize_t payload_len) except -1
    cdef uint64_t store(self, SubjectEntry entry, const Message* msg, const char* headers, Py_ssize_t headers_len,
                        uint16_t flags, int64_t now_ns) except? 0
    cdef int store_checked(self, SubjectEntry entry, const Message* msg, bytes block,
                           PublishHeaders* found, int64_t now_ns) except -1
    cdef int _store_answered(self, SubjectEntry entry, const Message* msg, bytes block,
                             PublishHeaders* found, int64_t now_ns) except -1
    cdef int ack(self, const Message* msg, uint64_t seq, bint duplicate) except -1
    cdef int refuse(self, const Message* msg, object error) except -1

    # Returns what it took of the publisher's turn.
    cdef int _deliver_with_headers(self, SubjectEntry entry, const Message* msg) except -1
    cdef int _put_into_batch(self, const Message* msg, bytes block, Text batch_id) except -1
    cdef object _check_features(self, PublishHeaders* found, int64_t ttl)
    # The Verdict on a publish with schedule headers (schedule_headers.py); `staged`: of its batch, or None;
    # `prepared`: what is known of it already, or None.
    cdef object judge_schedule(self, bytes subject, bytes block, dict staged, object prepared)
    # The schedules stored on `subject` below `seq` (0: all of them) end.
    cdef int end_schedule(self, bytes subject, uint64_t seq) except -1
    # Store a message that a schedule has made; 0: refused.
    cdef uint64_t store_generated(self, bytes subject, bytes headers, bytes payload) except? 0
    cdef uint64_t _store_judged(self, SubjectEntry entry, const Message* msg, bytes stored, PublishHeaders* found,
                                bytes msg_id, int64_t ttl, uint16_t flags, int64_t now_ns) except? 0
    cdef object _check_size(self, Py_ssize_t headers_len, Py_ssize_t payload_len)
    cdef object _check_expectations(self, SubjectEntry entry, PublishHeaders* found)
    cdef object _check_last_msg_id(self, PublishHeaders* found)
    cdef bytes _last_msg_id(self)
    cdef object _check_rollup(self, Text rollup)
    cdef object _find_room(self, SubjectEntry entry, const Message* msg, uint64_t size)
    cdef object _check_room(self, SubjectEntry entry, const Message* msg, Py_ssize_t headers_len,
                            Py_ssize_t payload_len)
    cdef uint64_t _cost(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len) noexcept
    cdef bint _account_has_room(self, uint64_t size) except -1
    cdef bint _has_interest(self, SubjectEntry entry, const Message* msg) except -1
    cdef uint64_t _use_up_for(self, const Message* msg) except? 0
    cdef uint64_t _use_up_sequence(self) except? 0
    cdef int _make_room(self, SubjectEntry entry, uint64_t previous) except -1
    cdef int _evict(self) except -1
    # Evict at most `left` messages beyond max_msgs and max_bytes; True: there are more.
    cdef bint evict_some(self, uint64_t left) except -1
    cdef object _overdue(self)
    cdef int _note_eviction(self, uint64_t seq) except -1
    cdef int _note_replaced(self, SubjectFilter subjects, uint64_t below) except -1
    cdef list _evicted_for(self, uint64_t first_lost)
    cdef int _forget_evictions(self, uint64_t committed) except -1
    cdef int _trim_subject(self, SubjectState state) except -1
    cdef int _remove_one(self, uint64_t seq, bytes subject) except -1
    # Message seq of this subject replaces what is older: of its subject, or of the stream.
    cdef int roll_up(self, SubjectState state, bint of_subject, uint64_t seq) except -1
    cdef int _remove_older(self, SubjectState state, uint64_t seq) except -1
    cdef int _replace(self, bytes pattern, uint64_t seq) except -1
    cdef int _refuse_reply(self, bytes reply, object error) except -1
    cdef int run_tick(self) except -1


# The block with this Nats-TTL at its end instead of its own.
cdef bytes with_ttl(bytes block, int64_t seconds)
