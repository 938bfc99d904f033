"""A stream's log: the interface that file and memory logs share.

Positions, in messages: accepted (in memory) >= written (in the file) >= synced (on disk).  `committed` is the one
that acks and consumers wait for: synced in the default mode, written in `sync_interval` mode, accepted for memory.
Sequences are the stream's own (first message 1).  A log never enforces a stream's limits; the stream does.
"""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from jetbroker.tick cimport TickTask

cdef enum RecordFlag:
    FLAG_MSG_ID = 1        # the headers hold a Nats-Msg-Id: the dedup window is rebuilt from these only
    FLAG_TTL = 2           # the headers hold a Nats-TTL that is not empty: expiry is rebuilt from these only
    FLAG_SCHEDULE = 4      # the headers hold a Nats-Schedule: what is due when is rebuilt from these only
    # Messages of an atomic batch of two or more: all of them are there after a crash, or none.
    FLAG_BATCH = 8
    FLAG_BATCH_FIRST = 16
    FLAG_BATCH_LAST = 32

cdef enum ReadResult:
    READ_OK = 0
    READ_MISSING = 1       # deleted, evicted, or outside first_seq..last_seq
    READ_DAMAGED = 2       # was stored, but its record is damaged: never wrong bytes
    READ_LATER = 3         # of a search in pieces: not known yet, ask again


cdef struct StoredMessage:
    # pointers stay valid until the next read from, append to, or removal in the same log
    uint64_t seq
    int64_t time_ns
    const char* subject
    Py_ssize_t subject_len
    const char* headers
    Py_ssize_t headers_len
    const char* payload
    Py_ssize_t payload_len


cdef class SubjectState:
    """What a log knows of one subject. `first` and `last` are live sequences when count > 0."""
    cdef readonly bytes subject
    cdef readonly uint64_t count
    cdef readonly uint64_t last
    cdef uint64_t first_hint           # <= the first live sequence; StreamLog.first_of() makes it exact
    cdef uint64_t segment_tag          # which active segment `subject_id` belongs to
    cdef uint32_t subject_id


cdef class SubjectFilter:
    """A consumer's compiled filter: b"" matches everything. Keeps per-segment id sets between calls."""
    cdef readonly tuple patterns       # tuple[bytes], empty: match all
    cdef dict segment_sets             # owned by the log
    cdef bint matches(self, const char* subject, Py_ssize_t n) except -1


cdef class LogObserver:
    """How a log tells its owner; all calls come inside a tick or an event-loop callback that runs a tick after."""
    # Everything up to seq (for a StateLog: up to that position) is committed.
    cdef int on_committed(self, uint64_t seq) except -1
    # Appends from first_lost on were taken back because they could not be stored; error is a StorageError.
    cdef int on_write_failed(self, uint64_t first_lost, object error) except -1


cdef class CallbackObserver(LogObserver):
    """For Python owners and tests: committed(seq) and write_failed(first_lost, error)."""
    cdef object committed
    cdef object write_failed


cdef class StreamLog(TickTask):
    cdef public LogObserver observer
    cdef readonly uint64_t first_seq   # last_seq + 1 when empty (both 0 on a brand new stream)
    cdef readonly uint64_t last_seq    # accepted
    cdef readonly uint64_t written
    cdef readonly uint64_t synced
    cdef readonly uint64_t committed
    cdef readonly uint64_t messages    # live
    cdef readonly uint64_t bytes       # live, counted as nats-server does (jetstream-api section 5)
    cdef readonly int64_t last_time_ns

    # --- hot ---
    # Append; returns the sequence. `state` may be None (looked up or made) or a kept SubjectState of this subject;
    # a kept state whose count is 0 is still good. Timestamps are made non-decreasing. Raises StorageError when failed.
    cdef uint64_t append(self, const char* subject, Py_ssize_t subject_len,
                         const char* headers, Py_ssize_t headers_len,
                         const char* payload, Py_ssize_t payload_len,
                         int64_t time_ns, uint16_t flags, SubjectState state) except? 0
    # The appends between begin_batch and end_batch are written together; their records take `size` bytes at most.
    # No append in between raises StorageError. abort_batch takes them back.
    cdef int begin_batch(self, uint64_t size) except -1                          # raises StorageError when failed
    cdef int end_batch(self) except -1
    cdef int abort_batch(self) except -1
    cdef SubjectState subject_state(self, const char* subject, Py_ssize_t n)     # made when missing (count 0)
    cdef int read(self, uint64_t seq, StoredMessage* out) except -1              # ReadResult
    # First live message with seq >= start that matches; READ_MISSING when there is none up to last_seq.
    # A damaged record on the way is returned as READ_DAMAGED with out.seq set. `limit`: do not look beyond it.
    cdef int next_message(self, SubjectFilter filter, uint64_t start, uint64_t limit, StoredMessage* out) except -1

    # --- per event; callable from Python ---
    cpdef uint64_t first_of(self, SubjectState state) except? 0    # exact first live sequence of the subject, 0: none
    cpdef uint64_t count_from(self, SubjectFilter filter, uint64_t start) except? 0   # live matching messages >= start
    cpdef uint64_t seq_at_time(self, int64_t time_ns) except? 0    # first seq stored at or after; last_seq + 1: none
    cpdef int64_t time_of(self, uint64_t seq) except? -1           # 0 when there is no such message
    cpdef tuple get(self, uint64_t seq)         # (result, subject, headers, payload, time_ns)
    cpdef uint64_t last_by_subject(self, bytes pattern) except? 0          # last live seq matching a pattern, 0: none
    cpdef list matching_subjects(self, bytes pattern)              # [SubjectState] with count > 0, unsorted
    # [seq] of interior deletes between first_seq and last_seq, of damaged records; the first JS_DELETED_LISTED of them
    cpdef list deleted(self)
    cpdef list lost(self)
    cpdef uint64_t deleted_count(self) except? 0                   # how many there are
    cpdef uint64_t lost_count(self) except? 0

    # Removals are logged and become durable with the next commit (await commit()). Counts and SubjectStates are
    # exact at once.
    cpdef bint remove(self, uint64_t seq, bint erase=*) except -1  # False: was not there. erase: overwrite the bytes too
    cpdef uint64_t remove_before(self, uint64_t seq) except? 0     # evict everything < seq; returns messages removed
    cdef int evict_first(self) except -1                # drop the oldest live message (limits; hot when full)
    # purge as STREAM.PURGE: pattern b"" = all; below seq when seq > 0; keep the newest `keep`
    cpdef uint64_t purge(self, bytes pattern, uint64_t seq, uint64_t keep) except? 0
    # Jump ahead (first_seq of a config, mirrors): next append gets `seq`. Only forward. Raises SequenceError.
    cpdef int skip_to(self, uint64_t seq) except -1
