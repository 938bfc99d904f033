"""What file and memory logs have in common: a list of segments, per-subject states and every query over them.

Where the bytes live is left to the subclasses, through the methods marked as hooks.
"""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from jetbroker.store.format.records cimport (
    record_headers, record_headers_len, record_payload, record_payload_len, record_subject, record_subject_len,
)
from jetbroker.store.log.stream_log cimport StoredMessage, StreamLog, SubjectFilter, SubjectState
from jetbroker.store.log.segment cimport Segment, SubjectSet
from jetbroker.store.log.gaps cimport Gaps
from jetbroker.store.log.subject_states cimport LiveSubjects, SubjectStates


cdef inline void point_into(const char* record, StoredMessage* out) noexcept nogil:
    """Subject, headers and payload of a message are those of this record."""
    out.subject = record_subject(record)
    out.subject_len = record_subject_len(record)
    out.headers = record_headers(record)
    out.headers_len = record_headers_len(record)
    out.payload = record_payload(record)
    out.payload_len = record_payload_len(record)


cdef class StoreTotals:
    """What all logs of one kind of storage hold together, counted as nats-server does."""
    cdef readonly int64_t messages
    cdef readonly int64_t bytes


cdef class SegmentedLog(StreamLog):
    cdef list segments                # list[Segment], by first_seq; the last one is active
    cdef Segment active
    cdef Segment recent               # where the last look-up ended
    cdef SubjectStates states
    cdef LiveSubjects subjects        # those of `states` that have messages
    cdef Gaps gaps                    # sequences of missing segments
    cdef uint32_t message_cost        # bytes counted per message beside subject, headers and payload
    cdef uint32_t headers_cost        # and for one with headers
    cdef uint32_t seed                # of record CRCs
    cdef uint64_t segment_bytes
    cdef uint64_t clock
    cdef public StoreTotals totals    # shared by the logs of one kind of storage
    cdef public uint64_t stream_id
    cdef uint64_t batch_seq           # first sequence of the batch that is being appended, 0: none

    # --- hooks ---
    # The record of a slot whose columns are loaded; NULL: damaged. Raises StorageError when it cannot be read.
    cdef const char* fetch(self, Segment segment, Py_ssize_t slot) except? NULL
    cdef int load(self, Segment segment) except -1                     # make the columns available
    cdef int ready(self) except -1                                     # raises StorageError when appends must fail
    cdef char* room(self, uint32_t length, uint32_t* offset) except NULL   # space for one record; may start a segment
    cdef int roll(self, uint64_t first_seq) except -1                  # seal the active segment, start a new one
    cdef int drop(self, Segment segment) except -1                     # a segment without a live message
    cdef int note_removed(self, uint64_t first, uint64_t last) except -1   # to be logged
    cdef int changed(self) except -1                                   # schedule the write
    cdef int erase_slot(self, Segment segment, Py_ssize_t slot) except -1
    cdef int after_removal(self, Segment segment) except -1            # memory: compaction

    # --- shared ---
    cdef Py_ssize_t index_of(self, uint64_t seq) noexcept              # last segment with first_seq <= seq, -1: none
    cdef Segment segment_of(self, uint64_t seq)                        # the one with a slot for seq, or None
    cdef uint64_t cost_of(self, Segment segment, Py_ssize_t slot) noexcept nogil
    cdef int fill(self, Segment segment, Py_ssize_t slot, StoredMessage* out) except -1
    # What of a segment's subjects matches. At most so many more are judged than have been: then `known` tells how far.
    cdef SubjectSet subject_set(self, SubjectFilter filter, Segment segment, Py_ssize_t at_most=*)
    # As next_message, but READ_LATER when more than so many subjects of a segment would have to be judged first.
    cdef int next_within(self, SubjectFilter filter, uint64_t start, uint64_t limit, Py_ssize_t subjects,
                         StoredMessage* out) except -1
    cdef Py_ssize_t next_lost(self, Segment segment, SubjectSet ids, Py_ssize_t slot, Py_ssize_t end) except? -1
    cdef SubjectSet loaded_set(self, SubjectFilter filter, Segment segment, SubjectSet ids)
    cdef int count_segment(self, Segment segment) except -1
    cdef void counted(self, Segment segment) noexcept
    cdef int recount(self) except -1
    cdef bint revive_message(self, uint64_t seq) except -1
    cdef int forget_message(self, Segment segment, Py_ssize_t slot) except -1
    cdef uint64_t find_previous(self, bytes subject, uint64_t below) except? 0
    cdef uint64_t count_between(self, SubjectFilter filter, uint64_t start, uint64_t limit) except? 0
    cdef int found_damaged(self, Segment segment, Py_ssize_t slot) except -1
    cdef int advance_first(self) except -1
    cdef int drop_dead_segments(self) except -1
    cdef uint64_t forget_all(self) except? 0
    cdef uint64_t forget_run(self, Segment segment, Py_ssize_t end) except? 0
    cdef uint64_t purge_subject(self, bytes pattern, uint64_t seq, uint64_t keep) except? 0
    cdef uint64_t keep_newest(self, uint64_t keep) except? 0
    cdef inline void account(self, int64_t messages, int64_t bytes) noexcept:
        self.totals.messages += messages
        self.totals.bytes += bytes
