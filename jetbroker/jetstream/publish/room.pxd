"""The room a stream has: what still fits, and what has to go for the sake of new messages."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.jetstream.publish.judge cimport SubjectEntry
from jetbroker.store.log.segmented cimport StoreTotals
from jetbroker.store.log.stream_log cimport StreamLog, SubjectFilter, SubjectState
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer


cdef class Interest:
    """Who consumes a stream, and what is wanted of it."""
    cdef list consumers                # StreamConsumer; replaced, never changed in place
    cdef uint32_t generation           # counts changes of their interest
    cdef bint needed                   # interest retention: what nobody wants is not stored

    cdef int set_consumers(self, list consumers) except -1
    cdef bint wants(self, SubjectEntry entry) except -1
    cdef int removed(self, uint64_t seq, bytes subject, bint purged) except -1
    cdef int recount(self, bint purged) except -1
    cdef int purged(self, bytes pattern) except -1


cdef class Evictions:
    """What was removed for the sake of messages that are not committed: it comes back when they cannot be stored."""
    cdef StreamLog log
    cdef bint undoable                 # a file stream; memory is never lost while the broker runs
    cdef OutputBuffer pairs            # (last sequence at that time, removed sequence)

    # Message seq is removed for the sake of the last append.
    cdef int note(self, uint64_t seq) except -1
    # All of these below it are.
    cdef int note_matching(self, SubjectFilter subjects, uint64_t below) except -1
    cdef int committed(self, uint64_t seq) except -1
    # Messages from first_lost on were taken back: what had gone for them is in the log again. Returns its sequences.
    cdef list take_back(self, uint64_t first_lost)


cdef class Removal:
    """Removes what new messages replace: noted, so that it can come back, and the consumers hear of it."""
    cdef StreamLog log
    cdef Tick tick
    cdef Interest interest
    cdef Evictions evictions
    # (last sequence at that time, pattern): consumers go on behind what a roll-up replaces once it is committed
    cdef list untold

    cdef int one(self, uint64_t seq, bytes subject, bint purged=*) except -1
    cdef int first(self) except -1
    # Everything on this subject, or that matches the pattern, in front of message seq. What cannot be read stays.
    cdef int older(self, SubjectState state, uint64_t seq) except -1
    cdef int matching(self, bytes pattern, uint64_t seq) except -1
    # The log has committed everything up to seq.
    cdef int committed(self, uint64_t seq) except -1
    # Messages from first_lost on were taken back.
    cdef int lost(self, uint64_t first_lost) except -1
    cdef int _purged(self, bytes pattern) except -1


cdef class Room:
    """The limits of one stream. `max_msgs`, `max_bytes`, `max_per_subject`: 0 is unlimited."""
    cdef StreamLog log
    cdef Removal removal
    cdef int64_t max_msgs
    cdef int64_t max_bytes
    cdef int64_t max_per_subject
    cdef int64_t max_msg_size          # -1: unlimited
    cdef int64_t surely_fits           # no message of so many bytes is too large
    cdef uint64_t max_record           # what a message may add to the stream's bytes
    cdef uint32_t message_cost         # how a stored message counts against max_bytes beside its own bytes
    cdef uint32_t headers_cost         # and one with headers
    cdef bint is_limited               # by any of the first three
    cdef bint discard_new
    cdef bint discard_new_per_subject

    cdef int configure(self, object config) except -1
    # What a message adds to the stream's bytes.
    cdef uint64_t cost(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len) noexcept
    # ApiError of a message that is too large, None: it is not.
    cdef object check_size(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len)
    # The same, but whatever the stream's configuration says.
    cdef object check_record(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len)
    # Discard new: None when there is room for `size` bytes on top of `messages` and `size_before` of the same batch,
    # `of_subject` of them of this subject. A message that comes alone finds room in its own full subject.
    cdef object find(self, SubjectEntry entry, uint64_t size, bint rolls_up, bint alone, uint64_t messages=*,
                     uint64_t size_before=*, uint64_t of_subject=*)
    # Behind an append: remove what there is no room for; `previous`: the message of its subject before it. True: more
    # is beyond the limits than one publish evicts.
    cdef bint make(self, SubjectEntry entry, uint64_t previous) except -1
    cdef bint make_for_all(self, list candidates) except -1
    # Evict at most `left` messages beyond max_msgs and max_bytes; True: there are more.
    cdef bint evict(self, uint64_t left) except -1
    cdef int enforce(self) except -1
    cdef int _trim_subject(self, SubjectState state) except -1


cdef class Credit:
    """Bytes that surely fit into an account's storage: asked for in portions, as asking costs a walk."""
    cdef int64_t left


cdef class Quota:
    """The room in the account and on the server."""
    cdef object usage                  # AccountUsage
    cdef str storage
    cdef StoreTotals totals            # of all streams of this storage
    cdef int64_t server_bytes          # their limit, -1: none
    cdef int64_t account_bytes         # the account's limit, -1: none
    cdef Credit credit                 # of all the account's streams of this storage

    # Take the limits over: they have changed.
    cdef int follow(self) except -1
    # Why nobody may store anything more, in words for the publisher; the log is told, too. None: there is room.
    cdef object server_refusal(self)
    # May the account store `size` bytes more?
    cdef bint account_has(self, uint64_t size) except -1
    # The same, without using them up.
    cdef bint account_would_have(self, uint64_t size) except -1


cdef class Uncommitted:
    """Bytes that are accepted and not committed: they are bounded. Counters since the start."""
    cdef uint64_t accepted
    cdef uint64_t group                # accepted at the last commit
    cdef uint64_t done

    cdef bint is_full(self) noexcept
    # All that was accepted is committed, or what was before the last commit.
    cdef int committed(self, bint everything) noexcept
