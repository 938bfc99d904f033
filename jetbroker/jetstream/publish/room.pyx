# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The room a stream has (see room.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport UINT64_MAX, int64_t, uint64_t
from libc.string cimport memmove

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.jetstream.publish.judge cimport Candidate, SubjectEntry, charge_time_since
from jetbroker.store.log.flagged cimport next_stored
from jetbroker.store.log.segmented cimport StoreTotals
from jetbroker.store.log.stream_log cimport READ_OK, StoredMessage, StreamLog, SubjectFilter, SubjectState
from jetbroker.tick cimport Tick
from jetbroker.wire.buffer cimport OutputBuffer

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.jetstream.models.errors import api_error
from jetbroker.store.log.slices import beyond_newest, next_piece

cdef Py_ssize_t MAX_HEADER_BYTES = limits.JS_HEADER_BYTES
cdef uint64_t MAX_RECORD_BYTES = limits.JS_RECORD_BYTES
cdef uint64_t MAX_UNCOMMITTED_BYTES = limits.JS_UNCOMMITTED_BYTES
# What one publish evicts; the rest is removed in turns.
cdef uint64_t EVICTED_AT_ONCE = limits.JS_EVICTED_AT_ONCE
# Bytes an account may store before its usage is looked at again: by so much what is not published may overrun a limit.
cdef int64_t MAX_ACCOUNT_CREDIT = 64 * 1024
cdef uint64_t SLOTS_AT_ONCE = 65_536     # of a log that is walked over before anybody is served
cdef Py_ssize_t PAIR = 2 * sizeof(uint64_t)


cdef class Interest:
    """Nobody consumes it to begin with."""

    def __init__(self) -> None:
        self.consumers = []
        self.generation = 1

    cdef int set_consumers(self, list consumers) except -1:
        self.consumers = consumers
        self.generation += 1
        return 0

    cdef bint wants(self, SubjectEntry entry) except -1:
        cdef StreamConsumer consumer
        cdef SubjectFilter subject_filter
        cdef bytes subject = entry.state.subject
        if not self.needed:
            return True
        if entry.generation != self.generation:
            entry.interested = False
            for consumer in self.consumers:
                subject_filter = consumer.interest()
                if subject_filter is None or subject_filter.matches(
                        PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
                    entry.interested = True
                    break
            entry.generation = self.generation
        return entry.interested

    cdef int removed(self, uint64_t seq, bytes subject, bint purged) except -1:
        cdef StreamConsumer consumer
        for consumer in self.consumers:
            consumer.on_removed(seq, subject, purged)
        return 0

    cdef int recount(self, bint purged) except -1:
        cdef StreamConsumer consumer
        for consumer in self.consumers:
            consumer.on_changed(purged)
        return 0

    cdef int purged(self, bytes pattern) except -1:
        cdef StreamConsumer consumer
        for consumer in self.consumers:
            consumer.on_purged(pattern)
        return 0


cdef class Evictions:
    """Of one log."""

    def __init__(self, StreamLog log not None, bint undoable) -> None:
        self.log = log
        self.undoable = undoable
        self.pairs = OutputBuffer()

    cdef int note(self, uint64_t seq) except -1:
        cdef uint64_t* pair
        if self.undoable:
            pair = <uint64_t*>self.pairs.reserve(PAIR)
            pair[0] = self.log.last_seq
            pair[1] = seq
            self.pairs.size += PAIR
        return 0

    cdef int note_matching(self, SubjectFilter subjects, uint64_t below) except -1:
        cdef uint64_t seq
        if self.undoable:
            seq = next_stored(self.log, subjects, self.log.first_seq, below - 1)
            while seq:
                self.note(seq)
                seq = next_stored(self.log, subjects, seq + 1, below - 1)
        return 0

    cdef int committed(self, uint64_t seq) except -1:
        cdef uint64_t* pair = <uint64_t*>self.pairs.data
        cdef Py_ssize_t size = self.pairs.size
        cdef Py_ssize_t at = 0
        while at < size and pair[0] <= seq:
            at += PAIR
            pair += 2
        if at == size:
            self.pairs.rest()
        elif at:
            memmove(self.pairs.data, self.pairs.data + at, size - at)
            self.pairs.size -= at
        return 0

    cdef list take_back(self, uint64_t first_lost):
        cdef uint64_t* pairs = <uint64_t*>self.pairs.data
        cdef Py_ssize_t count = self.pairs.size // PAIR
        cdef Py_ssize_t i
        cdef list removed = [pairs[2 * i + 1] for i in range(count)
                             if pairs[2 * i] >= first_lost > pairs[2 * i + 1]]
        self.pairs.release()
        if removed:
            self.log.restore(removed)
        return removed


cdef class Removal:
    """Removes messages of one stream."""

    def __init__(self, StreamLog log not None, Tick tick not None, Interest interest not None,
                 Evictions evictions not None) -> None:
        self.log = log
        self.tick = tick
        self.interest = interest
        self.evictions = evictions
        self.untold = []

    cdef int one(self, uint64_t seq, bytes subject, bint purged=False) except -1:
        self.evictions.note(seq)
        self.log.remove(seq, False)
        return self.interest.removed(seq, subject, purged)

    cdef int first(self) except -1:
        self.evictions.note(self.log.first_seq)
        self.log.evict_first()
        return 0

    cdef int older(self, SubjectState state, uint64_t seq) except -1:
        cdef uint64_t first
        cdef bint several = state.count > 2        # with the new one; one alone counts as deleted
        try:
            first = self.log.first_of(state)
            while first and first < seq:
                self.one(first, state.subject, several)
                first = self.log.first_of(state)
        except StorageError as error:
            self.tick.report(self, error)      # as in matching()
        return self._purged(state.subject)

    cdef int matching(self, bytes pattern, uint64_t seq) except -1:
        """Its publisher's turn pays for the time this takes."""
        cdef int64_t began = monotonic_ns()
        cdef uint64_t removed = 2
        try:
            self.evictions.note_matching(SubjectFilter(pattern), seq)
            removed = self.log.purge(pattern, seq, 0)
        except StorageError as error:
            # the message is stored and gets its ack; what cannot be read now goes with the next one that replaces it
            self.tick.report(self, error)
        if removed:
            self.interest.recount(removed > 1)
        self._purged(pattern)
        return charge_time_since(began)

    cdef int _purged(self, bytes pattern) except -1:
        if not self.evictions.undoable or self.log.committed >= self.log.last_seq:
            return self.interest.purged(pattern)
        self.untold.append((self.log.last_seq, pattern))
        return 0

    cdef int committed(self, uint64_t seq) except -1:
        cdef Py_ssize_t told = 0
        for last, pattern in self.untold:
            if <uint64_t>last > seq:
                break
            told += 1
            self.interest.purged(pattern)
        self.untold = self.untold[told:]
        return 0

    cdef int lost(self, uint64_t first_lost) except -1:
        self.untold = [(last, pattern) for last, pattern in self.untold if <uint64_t>last < first_lost]
        return 0


cdef class Room:
    """Nothing is limited before `configure`."""

    def __init__(self, StreamLog log not None, Removal removal not None) -> None:
        self.log = log
        self.removal = removal
        self.max_msg_size = -1
        self.max_record = UINT64_MAX

    cdef int configure(self, object config) except -1:
        in_memory = config.storage == "memory"
        self.max_msgs = max(config.max_msgs, 0)
        self.max_bytes = max(config.max_bytes, 0)
        self.max_per_subject = max(config.max_msgs_per_subject, 0)
        self.is_limited = self.max_msgs > 0 or self.max_bytes > 0 or self.max_per_subject > 0
        self.max_msg_size = config.max_msg_size if config.max_msg_size > 0 else -1
        self.max_record = UINT64_MAX if in_memory else MAX_RECORD_BYTES
        # half of a record: neither subject nor headers need to be looked at
        self.surely_fits = min(MAX_RECORD_BYTES // 2, <uint64_t>self.max_msg_size)
        self.message_cost = 16 if in_memory else 30
        self.headers_cost = 0 if in_memory else 4
        self.discard_new = config.discard == "new"
        self.discard_new_per_subject = config.discard_new_per_subject
        return 0

    # --- what fits ---

    cdef uint64_t cost(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len) noexcept:
        return self.message_cost + subject_len + headers_len + payload_len + (self.headers_cost if headers_len else 0)

    cdef object check_size(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len):
        cdef object refusal
        if headers_len + payload_len > self.surely_fits:
            refusal = self.check_record(subject_len, headers_len, payload_len)
            if refusal is not None:
                return refusal
            if 0 <= self.max_msg_size < headers_len + payload_len:
                return api_error("stream_message_exceeds_maximum")
        if headers_len > MAX_HEADER_BYTES:
            return api_error("stream_header_exceeds_maximum")
        return None

    cdef object check_record(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len):
        if self.cost(subject_len, headers_len, payload_len) > self.max_record:
            return api_error("stream_store_failed", err="message too large")
        return None

    cdef object find(self, SubjectEntry entry, uint64_t size, bint rolls_up, bint alone, uint64_t messages=0,
                     uint64_t size_before=0, uint64_t of_subject=0):
        cdef StoredMessage oldest
        cdef bint subject_full = self.max_per_subject and entry.state.count + of_subject >= <uint64_t>self.max_per_subject
        cdef bint refused = subject_full and self.discard_new_per_subject and not rolls_up
        if refused and alone:
            return api_error("stream_store_failed", err="maximum messages per subject exceeded")
        if self.max_msgs and self.log.messages + messages >= <uint64_t>self.max_msgs and not (alone and subject_full):
            return api_error("stream_store_failed", err="maximum messages exceeded")
        if self.max_bytes and self.log.bytes + size_before + size > <uint64_t>self.max_bytes:
            # a full subject makes room for its own next message, if that is not larger
            if not (alone and subject_full and self.log.read(self.log.first_of(entry.state), &oldest) == READ_OK
                    and self.cost(oldest.subject_len, oldest.headers_len, oldest.payload_len) >= size):
                return api_error("stream_store_failed", err="maximum bytes exceeded")
        return api_error("stream_store_failed", err="maximum messages per subject exceeded") if refused else None

    # --- what has to go ---

    cdef bint make(self, SubjectEntry entry, uint64_t previous) except -1:
        try:
            if self.max_per_subject and entry.state.count > <uint64_t>self.max_per_subject:
                if entry.state.count == 2:         # a key-value bucket without history: no search for the oldest
                    self.removal.one(previous, entry.state.subject)
                else:
                    self._trim_subject(entry.state)
            return self.evict(EVICTED_AT_ONCE)
        except StorageError as error:
            # the message is stored and gets its ack; what cannot be read now goes with a later one
            self.removal.tick.report(self, error)
        return False

    cdef bint make_for_all(self, list candidates) except -1:
        cdef Candidate stored
        try:
            if self.max_per_subject:
                for stored in candidates:
                    self._trim_subject(stored.entry.state)
            return self.evict(EVICTED_AT_ONCE)
        except StorageError as error:
            self.removal.tick.report(self, error)  # as in make()
        return False

    cdef int _trim_subject(self, SubjectState state) except -1:
        # two at most: a lower limit is being enforced otherwise, and no publish pays for that
        cdef int left = 2
        while left and state.count > <uint64_t>self.max_per_subject:
            left -= 1
            self.removal.one(self.log.first_of(state), state.subject)
        return 0

    cdef bint evict(self, uint64_t left) except -1:
        if self.discard_new:
            return False
        while self.log.messages and (
                (self.max_msgs and self.log.messages > <uint64_t>self.max_msgs)
                or (self.max_bytes and self.log.bytes > <uint64_t>self.max_bytes)):
            if not left:
                return True
            left -= 1
            self.removal.first()
        return False

    cdef int enforce(self) except -1:
        """Stricter limits at once; with discard new only those of subjects: otherwise what is stored stays."""
        cdef uint64_t start = 0
        piece = next_piece(self.log, start, self.log.last_seq, SLOTS_AT_ONCE) if self.max_per_subject else None
        while piece is not None:
            self.trim_piece(*piece)
            start = piece[1] + 1
            piece = next_piece(self.log, start, self.log.last_seq, SLOTS_AT_ONCE)
        self.evict(self.log.messages)
        return 0

    def trim_piece(self, uint64_t first, uint64_t last) -> None:
        """Remove of a piece of the log what is beyond the limit of its subject; the piece before comes first."""
        if not self.max_per_subject:
            return
        for seq in beyond_newest(self.log, self.max_per_subject, first, last):
            self.removal.evictions.note(seq)
            self.log.remove(seq)

    def evict_up_to(self, uint64_t last, int64_t max_msgs, int64_t max_bytes) -> bool:
        """Evict up to message `last` what is beyond these limits. True: more is.

        Until it is not, what is there now is the limit, so that no publish pays for the rest.
        """
        if self.discard_new:
            return False
        while self._beyond(max_msgs, max_bytes) and self.log.first_seq <= last:
            self.removal.first()
        self.max_msgs = max(max_msgs, <int64_t>self.log.messages) if max_msgs > 0 else 0
        self.max_bytes = max(max_bytes, <int64_t>self.log.bytes) if max_bytes > 0 else 0
        return self._beyond(max_msgs, max_bytes)

    def _beyond(self, int64_t max_msgs, int64_t max_bytes) -> bool:
        return self.log.messages > 0 and (0 < max_msgs < <int64_t>self.log.messages
                                          or 0 < max_bytes < <int64_t>self.log.bytes)


cdef class Credit:
    """None, to begin with."""


cdef class Quota:
    """Of one storage. `usage`: the account's."""

    def __init__(self, object usage, str storage not None, StoreTotals totals) -> None:
        self.usage = usage
        self.storage = storage
        self.totals = totals
        self.credit = usage.credits.setdefault(storage, Credit())
        self.follow()

    cdef int follow(self) except -1:
        self.account_bytes, self.server_bytes = self.usage.limits_of(self.storage)
        self.credit.left = 0
        return 0

    cdef object server_refusal(self):
        if self.server_bytes < 0 or <int64_t>self.totals.bytes <= self.server_bytes:
            return None
        self.usage.server.tell_exceeded(self.storage)
        return api_error("insufficient_resources")

    cdef bint account_would_have(self, uint64_t size) except -1:
        return self.account_bytes < 0 or <int64_t>(self.usage.used_bytes(self.storage) + size) <= self.account_bytes

    cdef bint account_has(self, uint64_t size) except -1:
        cdef int64_t room
        if self.account_bytes < 0:
            return True
        if <int64_t>size > self.credit.left:
            room = self.account_bytes - <int64_t>self.usage.used_bytes(self.storage)
            if <int64_t>size > room:
                return False
            self.credit.left = max(<int64_t>size, min(room, MAX_ACCOUNT_CREDIT))
        self.credit.left -= size
        return True


cdef class Uncommitted:
    """Nothing, to begin with."""

    cdef bint is_full(self) noexcept:
        return self.accepted - self.done > MAX_UNCOMMITTED_BYTES

    cdef int committed(self, bint everything) noexcept:
        # a group holds what was accepted before the commit of the group in front of it
        self.done = self.accepted if everything else self.group
        self.group = self.accepted
        return 0
