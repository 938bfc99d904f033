"""A stream's way in: every publish on its subjects is checked, appended to the log, and acked once committed."""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.publish.dedup cimport DedupWindow
from jetbroker.jetstream.publish.pub_acks cimport PubAckQueue
from jetbroker.jetstream.publish.judge cimport Candidate, Judge, SubjectEntry
from jetbroker.jetstream.publish.headers cimport Text
from jetbroker.jetstream.publish.republish cimport Republisher
from jetbroker.jetstream.publish.ttl cimport TtlHeap
from jetbroker.routing.router cimport Router
from jetbroker.routing.subscription cimport Receiver, RouteSlot
from jetbroker.routing.transform cimport Transform
from jetbroker.store.log.stream_log cimport StreamLog, SubjectFilter, SubjectState
from jetbroker.store.log.segmented cimport StoreTotals
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message


cdef class Ingest(Receiver):
    cdef Host host
    cdef Tick tick
    cdef Router router
    cdef StreamLog log
    cdef bytes name
    cdef PubAckQueue acks
    cdef DedupWindow dedup
    cdef Judge judge
    cdef OutputBuffer evictions        # (append, removed) pairs of sequences that are not committed yet
    cdef object refusal                # the ApiError that the last store() refused with
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
    cdef Transform transform           # of subjects before anything else looks at them, None for most streams
    cdef Republisher republisher       # None for most streams
    # messages with a TTL; the Expiry of the stream removes them
    cdef TtlHeap ttls
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
    cdef object on_first_message       # called at the next append: set while the stream has no timer running

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
    # Append and enforce the limits; 0: `refusal` says why not. `asked`: None when its headers ask for nothing.
    cdef uint64_t store(self, SubjectEntry entry, const char* headers, Py_ssize_t headers_len, const char* payload,
                        Py_ssize_t payload_len, Candidate asked, int64_t now_ns) except? 0
    # Judge, store and settle a message that does not come in a batch: asked.refusal, duplicate and seq tell the end.
    cdef int take(self, Candidate asked, int64_t now_ns) except -1
    # Into the log, whatever the limits say. Raises StorageError.
    cdef int append(self, Candidate asked, uint16_t batch_flags, int64_t now_ns) except -1
    # What a message that has got its sequence brings about: by being there, and by its headers.
    cdef int appended(self, SubjectEntry entry, uint64_t seq, uint64_t previous, const char* headers,
                      Py_ssize_t headers_len, const char* payload, Py_ssize_t payload_len) except -1
    cdef int settle(self, Candidate stored, int64_t now_ns) except -1
    cdef int ack(self, const Message* msg, uint64_t seq, bint duplicate) except -1
    cdef int refuse(self, const Message* msg, object error) except -1

    # Returns what it took of the publisher's turn.
    cdef int _deliver_with_headers(self, SubjectEntry entry, const Message* msg) except -1
    cdef int _store_plain(self, SubjectEntry entry, const Message* msg, const char* headers,
                          Py_ssize_t headers_len, int64_t now_ns) except -1
    cdef int _put_into_batch(self, SubjectEntry entry, const Message* msg, bytes block, Text batch_id) except -1
    cdef int _answer(self, const Message* msg, Candidate asked) except -1
    # The schedules stored on `subject` below `seq` (0: all of them) end.
    cdef int end_schedule(self, bytes subject, uint64_t seq) except -1
    # Store a message that a schedule has made; 0: refused.
    cdef uint64_t store_generated(self, bytes subject, bytes headers, bytes payload) except? 0
    cdef object _check_size(self, Py_ssize_t headers_len, Py_ssize_t payload_len)
    # Discard new: None when there is room for `size` bytes on top of `messages` and `size_before` of the same batch,
    # `of_subject` of them of this subject. A message that comes alone finds room in its own full subject.
    cdef object find_room(self, SubjectEntry entry, uint64_t size, bint rolls_up, bint alone, uint64_t messages=*,
                          uint64_t size_before=*, uint64_t of_subject=*)
    cdef uint64_t cost(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len) noexcept
    cdef bint account_has_room(self, uint64_t size) except -1
    cdef bint has_interest(self, SubjectEntry entry) except -1
    cdef uint64_t use_up_sequence(self) except? 0
    cdef int _make_room(self, SubjectEntry entry, uint64_t previous) except -1
    cdef int evict(self) except -1
    # Evict at most `left` messages beyond max_msgs and max_bytes; True: there are more.
    cdef bint evict_some(self, uint64_t left) except -1
    cdef object _overdue(self)
    cdef int _note_eviction(self, uint64_t seq) except -1
    cdef int _note_replaced(self, SubjectFilter subjects, uint64_t below) except -1
    cdef list _evicted_for(self, uint64_t first_lost)
    cdef int _forget_evictions(self, uint64_t committed) except -1
    cdef int trim_subject(self, SubjectState state) except -1
    cdef int _remove_one(self, uint64_t seq, bytes subject) except -1
    # Message seq of this subject replaces what is older: of its subject, or of the stream.
    cdef int roll_up(self, SubjectState state, bint of_subject, uint64_t seq) except -1
    cdef int _remove_older(self, SubjectState state, uint64_t seq) except -1
    cdef int _replace(self, bytes pattern, uint64_t seq) except -1
    cdef int _refuse_reply(self, bytes reply, object error) except -1
    cdef int run_tick(self) except -1
