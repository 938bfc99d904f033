"""A stream's way in: every publish on its subjects is checked, appended to the log, and acked once committed."""
from libc.stdint cimport int64_t, uint16_t, uint64_t

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.publish.dedup cimport DedupWindow
from jetbroker.jetstream.publish.pub_acks cimport Answers
from jetbroker.jetstream.publish.judge cimport Candidate, Judge, SubjectEntry
from jetbroker.jetstream.publish.headers cimport Text
from jetbroker.jetstream.publish.republish cimport Republisher
from jetbroker.jetstream.publish.room cimport Evictions, Interest, Quota, Removal, Room, Uncommitted
from jetbroker.jetstream.publish.ttl cimport TtlHeap
from jetbroker.routing.subscription cimport Receiver, RouteSlot
from jetbroker.routing.transform cimport Transform
from jetbroker.store.log.stream_log cimport StreamLog, SubjectFilter, SubjectState
from jetbroker.tick cimport Tick
from jetbroker.wire.message cimport Message


cdef class FastPublishes:
    """The part of Ingest that takes the messages of fast batches; FastBatches are all there are."""
    # One whose reply subject says that it belongs to one. `asked`: the reply subject that says so, None: msg.reply,
    # which is answered in any case. Returns what it took of the publisher's turn.
    cdef int take(self, SubjectEntry entry, const Message* msg, bytes asked) except -1
    # What was stored from first_lost on is gone.
    cdef int write_failed(self, uint64_t first_lost, object error) except -1
    # Forget all of them: the stream stops, or takes none any more.
    cdef int drop(self) except -1


cdef class Ingest(Receiver):
    cdef Host host
    cdef Tick tick
    cdef StreamLog log
    cdef bytes name
    cdef Answers answers
    cdef DedupWindow dedup
    cdef Judge judge
    cdef Interest interest
    cdef Evictions evictions
    cdef Removal removal
    cdef Room room
    cdef Quota quota
    cdef Uncommitted uncommitted
    cdef TtlHeap ttls                  # messages with a TTL; the Expiry of the stream removes them
    cdef Republisher republisher       # None for most streams
    cdef Transform transform           # of subjects before anything else looks at them, None for most streams
    cdef object schedules              # Schedules, None for most streams
    cdef object make_schedules         # of an Ingest
    cdef object batches                # AtomicBatches, None until the first message of one
    cdef object make_batches           # of an Ingest
    cdef FastPublishes fast_batches
    cdef object overdue                # Overdue, None until there is something to be removed in turns
    cdef object refusal                # the ApiError that the last store() refused with
    cdef object on_first_message       # called at the next append: set while the stream has no timer running
    cdef bint sealed
    cdef bint allow_atomic
    cdef bint allow_batched

    cdef int configure(self, object config, SubjectFilter own_subjects) except -1
    cdef int committed(self, uint64_t seq) except -1
    # Answers who waits; the sequences of messages that are back because what had replaced them is lost.
    cdef list write_failed(self, uint64_t first_lost, object error)
    # A message's time has come.
    cdef int remove_expired(self, uint64_t seq) except -1
    # The same for the only message of a subject, which leaves a delete marker. Raises StorageError.
    cdef int replace_by_marker(self, SubjectState state, bytes headers, int64_t ttl, int64_t now_ns) except -1

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
    # Message seq of this subject replaces what is older: of its subject, or of the stream.
    cdef int roll_up(self, SubjectState state, bint of_subject, uint64_t seq) except -1
    # There is more beyond the limits than one publish evicts.
    cdef int evict_later(self) except -1

    # Judge a message and answer a refusal, as for one that is stored: it is only traced.
    cdef int _try_out(self, SubjectEntry entry, const Message* msg) except -1
    # Returns what it took of the publisher's turn.
    cdef int _deliver_with_headers(self, SubjectEntry entry, const Message* msg) except -1
    cdef bint _count(self, SubjectEntry entry, const Message* msg, int64_t now_ns) except -1
    cdef int _store_plain(self, SubjectEntry entry, const Message* msg, const char* headers,
                          Py_ssize_t headers_len, int64_t now_ns) except -1
    cdef int _put_into_batch(self, SubjectEntry entry, const Message* msg, bytes block, Text batch_id) except -1
    cdef int _answer(self, const Message* msg, Candidate asked) except -1
    # The schedules stored on `subject` below `seq` (0: all of them) end.
    cdef int end_schedule(self, bytes subject, uint64_t seq) except -1
    # Store a message that a schedule has made; 0: refused.
    cdef uint64_t store_generated(self, bytes subject, bytes headers, bytes payload) except? 0
    cdef uint64_t use_up_sequence(self) except? 0
