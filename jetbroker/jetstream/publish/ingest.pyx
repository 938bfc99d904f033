# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A stream's way in (see ingest.pxd).

A publish without headers the stream acts on makes no Python object: its bytes go from the socket's buffer into the
log, its reply subject into the queue of acks.  Checks run in nats-server's order, because clients see which comes
first.
"""
import orjson

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.string cimport memmove

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.publish.dedup cimport DedupWindow
from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.jetstream.publish.judge cimport (
    ROLL_UP_NOTHING, ROLL_UP_SUBJECT, Candidate, Judge, SubjectEntry, candidate_of, charge_time_since,
)
from jetbroker.jetstream.publish.pub_acks cimport PubAckQueue
from jetbroker.jetstream.publish.headers cimport (
    PublishHeaders, Text, has_schedule_headers, scan_publish_headers, without_status,
)
from jetbroker.jetstream.publish.republish cimport Republisher
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.publish.ttl cimport TTL_INVALID, TtlHeap, expiry_ns
from jetbroker.jetstream.timing.work_turns cimport monotonic_ns
from jetbroker.routing.router cimport charge_publisher
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.routing.transform cimport Transform
from jetbroker.store.log.flagged cimport next_stored
from jetbroker.store.log.stream_log cimport (
    FLAG_SCHEDULE, FLAG_TTL, READ_OK, StoredMessage, StreamLog, SubjectFilter, SubjectState,
)
from jetbroker.store.log.slices cimport subject_of
from jetbroker.tick cimport PHASE_EVENTS
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gojson import dumps
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.publish.schedule_headers import NO_SCHEDULES
from jetbroker.store.log.slices import beyond_newest, next_piece

cdef extern from "string.h":
    void* memmem(const void* haystack, size_t n, const void* needle, size_t m) noexcept nogil

cdef Py_ssize_t MAX_HEADER_BYTES = limits.JS_HEADER_BYTES
cdef uint64_t MAX_UNCOMMITTED_BYTES = limits.JS_UNCOMMITTED_BYTES
# What judging headers takes of the publisher's turn, as so many deliveries.
cdef int JUDGED_COST = limits.JUDGED_PUBLISH_UNITS
cdef int SCHEDULE_COST = limits.SCHEDULE_UNITS
# What one publish evicts, and how large a stream is whose roll-ups are done with it; the rest is removed in turns.
cdef uint64_t EVICTED_AT_ONCE = limits.JS_EVICTED_AT_ONCE
cdef uint64_t REPLACED_AT_ONCE = limits.JS_REPLACED_AT_ONCE
# A subject with at most so many messages loses them one by one: its own are found without a walk over the others.
cdef uint64_t FEW = 64
# Bytes a stream may store before it looks at its account's usage again: by so much a limit may be overrun per stream.
cdef int64_t MAX_ACCOUNT_CREDIT = 64 * 1024
cdef int64_t SECOND_NS = 1_000_000_000
cdef uint64_t SLOTS_AT_ONCE = 65_536     # of a log that is walked over before anybody is served
cdef uint64_t SLOTS_PER_UNIT = 4         # of a publisher's turn, when a roll-up walks over them later
cdef bytes TOO_MANY_REQUESTS = b"NATS/1.0 429 Too Many Requests\r\n\r\n"


cdef class Ingest(Receiver):
    """The receiver behind a stream's subscriptions."""

    def __init__(self, Host host not None, object usage, StreamLog log not None, object config) -> None:
        cdef str name = config.name
        cdef str domain = host.server_info.domain
        self.host, self.usage = host, usage
        self.router = host.router
        self.tick = host.tick
        self.log = log
        self.name = name.encode()
        self.storage = config.storage
        self.totals = log.totals
        self.account_bytes, self.server_bytes = usage.limits_of(config.storage)
        ack = orjson.dumps({"stream": name, "domain": domain} if domain else {"stream": name})
        self.acks = PubAckQueue(self.router, ack.removesuffix(b"}") + b',"seq":')
        self.dedup = DedupWindow(log, host.turns, config.duplicate_window)
        self.ttls = TtlHeap(log)
        self.judge = Judge(log, self.name, self.dedup)
        self.refusals = []
        self.evictions = OutputBuffer()
        self.consumers = []
        self.generation = 1

    cdef int configure(self, object config, SubjectFilter own_subjects) except -1:
        """Take the limits of a StreamConfig over; they hold from the next publish on."""
        self.max_msgs = max(config.max_msgs, 0)
        self.max_bytes = max(config.max_bytes, 0)
        self.max_per_subject = max(config.max_msgs_per_subject, 0)
        self.max_msg_size = config.max_msg_size if config.max_msg_size > 0 else -1
        in_memory = config.storage == "memory"
        self.message_cost = 16 if in_memory else 30
        self.headers_cost = 0 if in_memory else 4
        self.undoable = not in_memory
        self.discard_new = config.discard == "new"
        self.discard_new_per_subject = config.discard_new_per_subject
        self.sealed = config.sealed
        self.no_ack = config.no_ack
        self.allow_atomic = config.allow_atomic
        if self.batches is not None and not self.allow_atomic:
            self.batches.drop()
        if config.allow_msg_schedules and self.schedules is None:
            from jetbroker.jetstream.publish.schedules import Schedules
            self.schedules = Schedules(self)
        if self.schedules is not None:
            self.schedules.configure(config, own_subjects)
        self.judge.configure(config, NO_SCHEDULES if self.schedules is None else self.schedules.rules)
        # a subject that keeps one message only never shows an older one when the newest is gone
        self.least_ttl = config.subject_delete_marker_ttl // SECOND_NS if config.max_msgs_per_subject != 1 else 0
        self.interest_only = config.retention == "interest"
        transform = config.subject_transform
        self.transform = None
        if transform is not None and transform.dest:
            self.transform = Transform(transform.src.encode(), transform.dest.encode())
        if config.republish is not None and self.republisher is None:
            self.republisher = Republisher(self.router, self.name, self.host.log)
        if self.republisher is not None:
            self.republisher.configure(config.republish)
        self.dedup.resize(config.duplicate_window)
        return 0

    cdef int set_consumers(self, list consumers) except -1:
        self.consumers = consumers
        self.generation += 1
        return 0

    # --- publishes ---

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef SubjectEntry entry
        if sub.closed:
            return 0
        if slot is not None and slot.cache is not None:
            entry = <SubjectEntry>slot.cache
        else:
            entry = self.transformed_entry(slot, msg)
        if self.sealed:
            self.refuse(msg, api_error("stream_sealed"))
        elif msg.headers_len:
            return self._deliver_with_headers(entry, msg)
        else:
            self._store_plain(entry, msg, NULL, 0, wall_clock_ns())
        return 1

    cdef SubjectEntry entry_of(self, RouteSlot slot, const Message* msg):
        cdef SubjectEntry entry = SubjectEntry.__new__(SubjectEntry)
        entry.state = self.log.subject_state(msg.subject, msg.subject_len)
        if slot is not None:
            slot.cache = entry
        return entry

    cdef SubjectEntry transformed_entry(self, RouteSlot slot, const Message* msg):
        cdef Message renamed
        cdef bytes subject
        if self.transform is None or not self.transform.fits(msg.subject, msg.subject_len):
            return self.entry_of(slot, msg)
        subject = self.transform.map(msg.subject, msg.subject_len)
        if not subject:
            return self.entry_of(slot, msg)
        renamed.subject = PyBytes_AS_STRING(subject)
        renamed.subject_len = PyBytes_GET_SIZE(subject)
        return self.entry_of(None if self.transform.is_random else slot, &renamed)

    cdef int republish(self, SubjectEntry entry, uint64_t seq, uint64_t previous, const char* headers,
                       Py_ssize_t headers_len, const char* payload, Py_ssize_t payload_len) except -1:
        if entry.destination is None or self.republisher.is_random():
            entry.destination = self.republisher.destination_of(entry.state.subject)
        if entry.destination:
            # what is kept for it counts against the bound of what is not committed
            self.accepted_bytes += self.republisher.stored(
                entry.destination, entry.state.subject, seq, previous, self.log.last_time_ns,
                headers, headers_len, payload, payload_len)
        return 0

    cdef int _deliver_with_headers(self, SubjectEntry entry, const Message* msg) except -1:
        cdef PublishHeaders found
        cdef const char* block = msg.body
        cdef Py_ssize_t n = msg.headers_len
        cdef bytes kept = None                 # owns `block` when it is not the publisher's own
        cdef int64_t now = wall_clock_ns()
        cdef Candidate asked
        cdef int cost
        if n > 10 and block[8] == c' ':
            kept = without_status(block[:n])
            block = kept
            n = len(kept)
        if (n and memmem(block, n, b"Nats-", 5) != NULL and scan_publish_headers(block, n, &found)):
            if kept is None:
                kept = block[:n]
            cost = SCHEDULE_COST if has_schedule_headers(&found) else JUDGED_COST
            if found.batch_id.n:
                self._put_into_batch(entry, msg, kept, found.batch_id)
            else:
                asked = candidate_of(entry, kept, msg.body + msg.headers_len, msg.body_len - msg.headers_len)
                self.take(asked, now)
                self._answer(msg, asked)
            return cost
        self._store_plain(entry, msg, block if n else NULL, n, now)
        return 1

    cdef int _store_plain(self, SubjectEntry entry, const Message* msg, const char* headers,
                          Py_ssize_t headers_len, int64_t now_ns) except -1:
        cdef uint64_t seq = self.store(entry, headers, headers_len, msg.body + msg.headers_len,
                                       msg.body_len - msg.headers_len, None, now_ns)
        return self.ack(msg, seq, False) if seq else self.refuse(msg, self.refusal)

    cdef int _put_into_batch(self, SubjectEntry entry, const Message* msg, bytes block, Text batch_id) except -1:
        cdef Py_ssize_t n = msg.headers_len
        if self.batches is None:
            from jetbroker.jetstream.publish.batches import AtomicBatches
            self.batches = AtomicBatches(self)
        self.batches.take(batch_id.p[:batch_id.n], entry.state.subject,
                          msg.reply[:msg.reply_len] if msg.reply != NULL else None, block, msg.body[n:msg.body_len])
        return 0

    cdef int _answer(self, const Message* msg, Candidate asked) except -1:
        if asked.refusal is not None:
            return self.refuse(msg, asked.refusal)
        if not asked.duplicate and self.overdue is not None and msg.reply != NULL and not self.no_ack:
            if self.overdue.hold(asked.seq, asked.seq, msg.reply[:msg.reply_len]):
                return 0
        return self.ack(msg, asked.seq, asked.duplicate)

    cdef int take(self, Candidate asked, int64_t now_ns) except -1:
        try:
            asked.refusal = self.judge.judge(asked, now_ns)
            if asked.refusal is not None or asked.duplicate:
                return 0
            asked.seq = self.store(asked.entry, PyBytes_AS_STRING(asked.headers), PyBytes_GET_SIZE(asked.headers),
                                   asked.payload, asked.payload_len, asked, now_ns)
            if asked.seq:
                return self.settle(asked, now_ns)
            asked.refusal = self.refusal
        except StorageError as error:
            # whatever the disk refuses to read, the publisher gets his answer
            asked.refusal = api_error("stream_store_failed", err=error)
        return 0

    cdef uint64_t store(self, SubjectEntry entry, const char* headers, Py_ssize_t headers_len, const char* payload,
                        Py_ssize_t payload_len, Candidate asked, int64_t now_ns) except? 0:
        cdef bytes subject = entry.state.subject
        cdef uint64_t seq
        cdef uint64_t previous = entry.state.last if entry.state.count else 0
        cdef uint16_t flags = 0
        cdef object refusal = self._check_size(headers_len, payload_len)
        try:
            if refusal is not None:
                pass
            elif self.server_bytes >= 0 and self.totals.bytes > self.server_bytes:
                refusal = api_error("insufficient_resources")
            elif self.interest_only and not self.has_interest(entry):
                if asked is not None:
                    asked.unwanted = True
                return self.use_up_sequence()
            elif self.account_bytes >= 0 and not self.account_has_room(
                    self.cost(PyBytes_GET_SIZE(subject), headers_len, payload_len)):
                refusal = api_error("account_resources_exceeded")
            elif self.accepted_bytes - self.committed_bytes > MAX_UNCOMMITTED_BYTES:
                refusal = api_error("stream_too_many_requests")
            elif asked is not None and asked.ttl == TTL_INVALID:
                refusal = api_error("message_ttl_invalid")
            if refusal is None and self.discard_new:
                refusal = self.find_room(entry, self.cost(PyBytes_GET_SIZE(subject), headers_len, payload_len),
                                         asked is not None and asked.found.rollup.n > 0, True)
            if refusal is not None:
                self.refusal = refusal
                return 0
            if asked is not None:
                asked.raise_ttl(self.least_ttl)
                headers = PyBytes_AS_STRING(asked.headers)
                headers_len = PyBytes_GET_SIZE(asked.headers)
                flags = asked.flags
            # a failed log refuses, but now and then lets an append through to find out whether writing works again
            seq = self.log.append(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), headers, headers_len,
                                  payload, payload_len, now_ns, flags, entry.state)
        except StorageError as error:
            self.refusal = api_error("stream_store_failed", err=error)
            return 0
        self.appended(entry, seq, previous, headers, headers_len, payload, payload_len)
        if self.max_per_subject or self.max_msgs or self.max_bytes:
            self._make_room(entry, previous)
        return seq

    cdef int append(self, Candidate asked, uint16_t batch_flags, int64_t now_ns) except -1:
        cdef SubjectState state = asked.entry.state
        asked.previous = state.last if state.count else 0
        asked.seq = self.log.append(state.subject, len(state.subject), asked.headers, len(asked.headers),
                                    asked.payload, asked.payload_len, now_ns, asked.flags | batch_flags, state)
        return 0

    cdef int appended(self, SubjectEntry entry, uint64_t seq, uint64_t previous, const char* headers,
                      Py_ssize_t headers_len, const char* payload, Py_ssize_t payload_len) except -1:
        self.accepted_bytes += headers_len + payload_len + PyBytes_GET_SIZE(entry.state.subject)
        if self.republisher is not None:
            self.republish(entry, seq, previous, headers, headers_len, payload, payload_len)
        if self.on_first_message is not None:
            self.on_first_message()
        return 0

    cdef int settle(self, Candidate stored, int64_t now_ns) except -1:
        self.judge.remember(stored, now_ns)
        if not stored.unwanted:
            if stored.ttl > 0:
                self.ttls.add(stored.seq, expiry_ns(max(now_ns, self.log.last_time_ns), stored.ttl))
            if stored.flags & FLAG_SCHEDULE:
                self.schedules.add(stored.seq, stored.headers, now_ns, stored.prepared)
        if stored.roll_up != ROLL_UP_NOTHING:
            self.roll_up(stored.entry.state, stored.roll_up == ROLL_UP_SUBJECT, stored.seq)
        return 0 if stored.ends is None else self.end_schedule(stored.ends, stored.seq)

    cdef int _make_room(self, SubjectEntry entry, uint64_t previous) except -1:
        """Remove what the limits leave no room for behind an append; `previous`: the message before it."""
        try:
            if self.max_per_subject and entry.state.count > <uint64_t>self.max_per_subject:
                if entry.state.count == 2:         # a key-value bucket without history: no search for the oldest
                    self._remove_one(previous, entry.state.subject)
                else:
                    self.trim_subject(entry.state)
            if not self.discard_new and (self.max_msgs or self.max_bytes):
                self.evict()
        except StorageError as error:
            # the message is stored and gets its ack; what cannot be read now goes with a later one
            self.tick.report(self, error)
        return 0

    # --- checks ---

    cdef object _check_size(self, Py_ssize_t headers_len, Py_ssize_t payload_len):
        if self.max_msg_size >= 0 and headers_len + payload_len > self.max_msg_size:
            return api_error("stream_message_exceeds_maximum")
        if headers_len > MAX_HEADER_BYTES:
            return api_error("stream_header_exceeds_maximum")
        return None

    cdef object find_room(self, SubjectEntry entry, uint64_t size, bint rolls_up, bint alone, uint64_t messages=0,
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

    cdef uint64_t cost(self, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len) noexcept:
        """What a message adds to the stream's bytes."""
        return self.message_cost + subject_len + headers_len + payload_len + (self.headers_cost if headers_len else 0)

    cdef bint account_has_room(self, uint64_t size) except -1:
        """May the account store `size` bytes more?"""
        cdef int64_t room
        if <int64_t>size > self.account_credit:
            room = self.account_bytes - <int64_t>self.usage.used_bytes(self.storage)
            if <int64_t>size > room:
                return False
            self.account_credit = max(<int64_t>size, min(room // (len(self.usage.streams) + 1), MAX_ACCOUNT_CREDIT))
        self.account_credit -= size
        return True

    cdef bint has_interest(self, SubjectEntry entry) except -1:
        cdef StreamConsumer consumer
        cdef SubjectFilter subject_filter
        cdef bytes subject = entry.state.subject
        if entry.generation != self.generation:
            entry.interested = False
            for consumer in self.consumers:
                subject_filter = consumer.interest()
                if subject_filter is None or subject_filter.matches(subject, len(subject)):
                    entry.interested = True
                    break
            entry.generation = self.generation
        return entry.interested

    cdef uint64_t use_up_sequence(self) except? 0:
        """The sequence of a message that nobody is interested in."""
        self.log.skip_to(self.log.last_seq + 2)
        return self.log.last_seq

    # --- limits ---

    cdef int enforce_limits(self) except -1:
        """Stricter limits at once (discard old only: with discard new what is stored stays)."""
        cdef uint64_t start = 0
        if self.discard_new:
            return 0
        piece = next_piece(self.log, start, self.log.last_seq, SLOTS_AT_ONCE) if self.max_per_subject else None
        while piece is not None:
            self.trim_piece(*piece)
            start = piece[1] + 1
            piece = next_piece(self.log, start, self.log.last_seq, SLOTS_AT_ONCE)
        self.evict_some(self.log.messages)
        return 0

    def trim_piece(self, uint64_t first, uint64_t last) -> None:
        """Remove of a piece of the log what is beyond the limit of its subject; the piece before comes first."""
        if self.discard_new or not self.max_per_subject:
            return
        for seq in beyond_newest(self.log, self.max_per_subject, first, last):
            self._note_eviction(seq)
            self.log.remove(seq)

    def evict_up_to(self, uint64_t last, int64_t max_msgs, int64_t max_bytes) -> bool:
        """Evict up to message `last` what is beyond these limits. True: more is.

        Until it is not, what is there now is the limit, so that no publish pays for the rest.
        """
        if self.discard_new:
            return False
        while self._beyond(max_msgs, max_bytes) and self.log.first_seq <= last:
            self._note_eviction(self.log.first_seq)
            self.log.evict_first()
        self.max_msgs = max(max_msgs, <int64_t>self.log.messages) if max_msgs > 0 else 0
        self.max_bytes = max(max_bytes, <int64_t>self.log.bytes) if max_bytes > 0 else 0
        return self._beyond(max_msgs, max_bytes)

    def _beyond(self, int64_t max_msgs, int64_t max_bytes) -> bool:
        return self.log.messages > 0 and (0 < max_msgs < <int64_t>self.log.messages
                                          or 0 < max_bytes < <int64_t>self.log.bytes)

    cdef int evict(self) except -1:
        if self.evict_some(EVICTED_AT_ONCE):
            self._overdue().evict()
        return 0

    cdef bint evict_some(self, uint64_t left) except -1:
        while self.log.messages and (
                (self.max_msgs and self.log.messages > <uint64_t>self.max_msgs)
                or (self.max_bytes and self.log.bytes > <uint64_t>self.max_bytes)):
            if not left:
                return True
            left -= 1
            self._note_eviction(self.log.first_seq)
            self.log.evict_first()
        return False

    cdef object _overdue(self):
        if self.overdue is None:
            from jetbroker.jetstream.publish.overdue import Overdue
            self.overdue = Overdue(self)
        return self.overdue

    cdef int trim_subject(self, SubjectState state) except -1:
        # two at most: a lower limit is being enforced otherwise, and no publish pays for that
        cdef int left = 2
        while left and state.count > <uint64_t>self.max_per_subject:
            left -= 1
            self._remove_one(self.log.first_of(state), state.subject)
        return 0

    cdef int _remove_one(self, uint64_t seq, bytes subject) except -1:
        cdef StreamConsumer consumer
        self._note_eviction(seq)
        self.log.remove(seq, False)
        for consumer in self.consumers:
            consumer.on_removed(seq, subject)
        return 0

    cdef int roll_up(self, SubjectState state, bint of_subject, uint64_t seq) except -1:
        """Message seq of this subject, just stored, replaces all older ones of its subject, or of the stream."""
        # stored as a literal, one with wildcards rolls up all it matches: KV purges of `key.*` count on it
        cdef bytes pattern = state.subject if of_subject else b""
        if of_subject and state.count <= FEW and not has_wildcard(<const char*>pattern, len(pattern)):
            return self._remove_older(state, seq)
        if self.log.messages <= REPLACED_AT_ONCE:
            return self._replace(pattern, seq)
        self._overdue().roll_up(pattern, seq)
        return charge_publisher(self.log.messages // SLOTS_PER_UNIT)

    cdef int _remove_older(self, SubjectState state, uint64_t seq) except -1:
        cdef uint64_t first
        try:
            first = self.log.first_of(state)
            while first and first < seq:
                self._remove_one(first, state.subject)
                first = self.log.first_of(state)
        except StorageError as error:
            self.tick.report(self, error)      # as in _replace()
        return 0

    cdef int _replace(self, bytes pattern, uint64_t seq) except -1:
        """Remove what matches and is older than seq; its publisher's turn pays for the time this takes."""
        cdef StreamConsumer consumer
        cdef int64_t began = monotonic_ns()
        cdef bint removed = True
        try:
            self._note_replaced(SubjectFilter(pattern), seq)
            removed = self.log.purge(pattern, seq, 0) > 0
        except StorageError as error:
            # the message is stored and gets its ack; what cannot be read now goes with the next one that replaces it
            self.tick.report(self, error)
        if removed:
            for consumer in self.consumers:
                consumer.on_purged()
        return charge_time_since(began)

    # --- schedules ---

    cdef int end_schedule(self, bytes subject, uint64_t seq) except -1:
        return self.roll_up(self.log.subject_state(subject, len(subject)), True, seq or self.log.last_seq)

    cdef uint64_t store_generated(self, bytes subject, bytes headers, bytes payload) except? 0:
        cdef Candidate made
        cdef Message msg
        if self.sealed:
            return 0
        msg.subject = subject
        msg.subject_len = len(subject)
        made = candidate_of(self.transformed_entry(None, &msg), headers, payload, len(payload))
        made.sourced = True
        self.take(made, wall_clock_ns())
        return made.seq if made.refusal is None else 0

    # --- expiry ---

    cdef int remove_expired(self, uint64_t seq) except -1:
        cdef StreamConsumer consumer
        cdef bytes subject = subject_of(self.log, seq)
        if self.log.remove(seq, False):
            for consumer in self.consumers:
                consumer.on_removed(seq, subject)
        return 0

    cdef int replace_by_marker(self, SubjectState state, int64_t ttl, int64_t now_ns) except -1:
        cdef uint64_t replaced = state.last
        cdef Candidate marker
        cdef Message msg
        msg.subject = state.subject
        msg.subject_len = len(state.subject)
        marker = candidate_of(self.entry_of(None, &msg), self.marker_headers, NULL, 0)
        if self.interest_only and not self.has_interest(marker.entry):
            return self.remove_expired(replaced)
        marker.ttl = ttl
        marker.flags = FLAG_TTL
        # it takes the place of another message, so that no limit on new messages holds it up
        self.append(marker, 0, now_ns)
        self.appended(marker.entry, marker.seq, replaced, self.marker_headers, len(self.marker_headers), NULL, 0)
        self.settle(marker, now_ns)
        self._remove_one(replaced, state.subject)
        if not self.discard_new:
            self.evict()
        return 0

    # --- undoing what a lost message evicted ---

    cdef int _note_eviction(self, uint64_t seq) except -1:
        """Message seq is removed for the sake of the last append; until that is committed it may have to come back."""
        cdef uint64_t* pair
        if self.undoable:
            pair = <uint64_t*>self.evictions.reserve(2 * sizeof(uint64_t))
            pair[0] = self.log.last_seq
            pair[1] = seq
            self.evictions.size += 2 * sizeof(uint64_t)
        return 0

    cdef int _note_replaced(self, SubjectFilter subjects, uint64_t below) except -1:
        cdef uint64_t seq
        if self.undoable:
            seq = next_stored(self.log, subjects, self.log.first_seq, below - 1)
            while seq:
                self._note_eviction(seq)
                seq = next_stored(self.log, subjects, seq + 1, below - 1)
        return 0

    cdef list _evicted_for(self, uint64_t first_lost):
        """Takes out what was removed for messages from first_lost on."""
        cdef uint64_t* pairs = <uint64_t*>self.evictions.data
        cdef Py_ssize_t count = self.evictions.size // (2 * <Py_ssize_t>sizeof(uint64_t))
        cdef Py_ssize_t i
        cdef list removed = [pairs[2 * i + 1] for i in range(count)
                             if pairs[2 * i] >= first_lost > pairs[2 * i + 1]]
        self.evictions.clear()
        return removed

    cdef int _forget_evictions(self, uint64_t committed) except -1:
        cdef uint64_t* pairs = <uint64_t*>self.evictions.data
        cdef Py_ssize_t size = self.evictions.size
        cdef Py_ssize_t at = 0
        while at < size and pairs[at // 8] <= committed:
            at += 2 * sizeof(uint64_t)
        if at == size:
            self.evictions.clear()
        elif at:
            memmove(self.evictions.data, self.evictions.data + at, size - at)
            self.evictions.size -= at
        return 0

    # --- answers ---

    cdef int ack(self, const Message* msg, uint64_t seq, bint duplicate) except -1:
        if msg.reply == NULL or self.no_ack:
            return 0
        self.acks.push(seq, msg.reply, msg.reply_len, duplicate)
        if self.log.committed >= seq:
            self.tick.schedule(PHASE_EVENTS, self)
        return 0

    cdef int refuse(self, const Message* msg, object error) except -1:
        """Queue an error ack (an ApiError)."""
        if msg.reply != NULL and not self.no_ack:
            self._refuse_reply(msg.reply[:msg.reply_len], error)
        return 0

    cdef int _refuse_reply(self, bytes reply, object error) except -1:
        body = dumps({"error": error.to_json(), "stream": self.name.decode(), "seq": 0})
        self.refusals.append((reply, TOO_MANY_REQUESTS if error.err_code == 10_167 else b"", body))
        self.tick.schedule(PHASE_EVENTS, self)
        return 0

    cdef int committed(self, uint64_t seq) except -1:
        """The log has committed everything up to seq: let acks go."""
        # a group holds what was accepted before the commit of the group in front of it
        self.committed_bytes = self.accepted_bytes if seq >= self.log.last_seq else self.group_bytes
        self.group_bytes = self.accepted_bytes
        if self.evictions.size:
            self._forget_evictions(seq)
        if self.republisher is not None:
            self.republisher.release(seq)
        if self.overdue is not None:
            self.overdue.committed(seq)
        return self.acks.release(seq)

    cdef list write_failed(self, uint64_t first_lost, object error):
        """The log took back everything from first_lost on: answer those who wait for it."""
        refusal = api_error("stream_store_failed", err=error)
        self.committed_bytes = self.group_bytes = self.accepted_bytes
        self.judge.forget_from(first_lost)
        if self.republisher is not None:
            self.republisher.drop_from(first_lost)
        restored = []
        if self.evictions.size:
            restored = self._evicted_for(first_lost)
            self.log.restore(restored)
        held = self.overdue.lost(first_lost) if self.overdue is not None else []
        for reply in [*self.acks.fail_from(first_lost), *held]:
            self._refuse_reply(reply, refusal)
        if self.schedules is not None:
            self.schedules.look_again(first_lost, restored)
        return restored

    cdef int run_tick(self) except -1:
        cdef list refusals = self.refusals
        self.refusals = []
        self.acks.release(self.log.committed)
        for reply, headers, body in refusals:
            self.router.publish_bytes(reply, None, headers, body)
        return 0
