# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A stream's way in (see ingest.pxd).

A publish without headers the stream acts on makes no Python object: its bytes go from the socket's buffer into the
log, its reply subject into the queue of acks.  Checks run in nats-server's order, because clients see which comes
first.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.string cimport memcmp

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.publish.counters cimport TOTAL_ROOM, is_lone_increment
from jetbroker.jetstream.publish.dedup cimport DedupWindow
from jetbroker.jetstream.publish.judge cimport (
    ROLL_UP_NOTHING, ROLL_UP_SUBJECT, Candidate, Judge, SubjectEntry, candidate_of,
)
from jetbroker.jetstream.publish.pub_acks cimport Answers
from jetbroker.jetstream.publish.headers cimport (
    PublishHeaders, Text, batch_reply, has_schedule_headers, has_scheduler, scan_publish_headers, without_status,
)
from jetbroker.jetstream.publish.republish cimport Republisher
from jetbroker.jetstream.publish.room cimport Evictions, Interest, Quota, Removal, Room, Uncommitted
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.publish.ttl cimport TTL_INVALID, TtlHeap, expiry_ns
from jetbroker.routing.router cimport charge_publisher
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.routing.traced cimport with_block
from jetbroker.routing.transform cimport Transform
from jetbroker.store.log.stream_log cimport FLAG_SCHEDULE, FLAG_TTL, StreamLog, SubjectFilter, SubjectState
from jetbroker.store.log.slices cimport subject_of
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gotext import quoted
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.publish.overdue import Overdue
from jetbroker.jetstream.publish.schedule_headers import NO_SCHEDULES
from jetbroker.jetstream.publish.trace_texts import DUPLICATE, Outcome, tell

# What judging headers takes of the publisher's turn, as so many deliveries.
cdef int JUDGED_COST = limits.JUDGED_PUBLISH_UNITS
cdef int SCHEDULE_COST = limits.SCHEDULE_UNITS
cdef const char* FAST = b".$FI"          # ends the reply subjects of messages in fast batches
cdef const char* SERVICE_REPLY = b"_R_."   # begins those that an import has made
# What one publish evicts, and how large a stream is whose roll-ups are done with it; the rest is removed in turns.
cdef uint64_t EVICTED_AT_ONCE = limits.JS_EVICTED_AT_ONCE
cdef uint64_t REPLACED_AT_ONCE = limits.JS_REPLACED_AT_ONCE
# A subject with at most so many messages loses them one by one: its own are found without a walk over the others.
cdef uint64_t FEW = 64
cdef uint64_t SLOTS_PER_UNIT = 4         # of a publisher's turn, when a roll-up walks over them later


cdef class FastPublishes:
    """Takes none: that of a stream which is no more."""

    cdef int take(self, SubjectEntry entry, const Message* msg, bytes asked) except -1:
        return 0

    cdef int write_failed(self, uint64_t first_lost, object error) except -1:
        return 0

    cdef int drop(self) except -1:
        return 0


cdef class Ingest(Receiver):
    """The receiver behind a stream's subscriptions."""

    def __init__(self, Host host not None, object usage, StreamLog log not None, object config,
                 make_schedules, make_batches) -> None:
        self.host = host
        self.make_schedules = make_schedules
        self.make_batches = make_batches
        self.tick = host.tick
        self.log = log
        self.name = config.name.encode()
        self.answers = Answers(host.tick, host.router, log, config.name, host.server_info.domain)
        self.dedup = DedupWindow(log, host.turns, config.duplicate_window)
        self.judge = Judge(log, self.name, self.dedup, usage.server)
        self.interest = Interest()
        self.evictions = Evictions(log, config.storage != "memory")
        self.removal = Removal(log, host.tick, self.interest, self.evictions)
        self.room = Room(log, self.removal)
        self.quota = Quota(usage, config.storage, log.totals)
        self.uncommitted = Uncommitted()
        self.ttls = TtlHeap(log)

    cdef int configure(self, object config, SubjectFilter own_subjects) except -1:
        """Take the limits of a StreamConfig over; they hold from the next publish on."""
        self.room.configure(config)
        self.sealed = config.sealed
        self.answers.silent = config.no_ack
        self.allow_atomic = config.allow_atomic
        if self.batches is not None and not self.allow_atomic:
            self.batches.drop()
        self.allow_batched = config.allow_batched
        if not self.allow_batched:
            self.fast_batches.drop()
        if config.allow_msg_schedules and self.schedules is None:
            self.schedules = self.make_schedules(self)
        if self.schedules is not None:
            self.schedules.configure(config, own_subjects)
        self.judge.configure(config, NO_SCHEDULES if self.schedules is None else self.schedules.rules)
        self.interest.needed = config.retention == "interest"
        transform = config.subject_transform
        self.transform = None
        if transform is not None and transform.dest:
            self.transform = Transform(transform.src.encode(), transform.dest.encode())
        if config.republish is not None and self.republisher is None:
            self.republisher = Republisher(self.host.router, self.name, self.host.log)
        if self.republisher is not None:
            self.republisher.configure(config.republish)
        self.dedup.resize(config.duplicate_window)
        return 0

    def release(self) -> None:
        """The stream is deleted: nothing that belongs to it refers back from now on."""
        if self.schedules is not None:
            self.schedules.release()
        self.fast_batches = FastPublishes()
        self.batches = self.schedules = self.overdue = None

    # --- publishes ---

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef SubjectEntry entry
        cdef bytes asked
        if sub.closed:
            return 0
        if slot is not None and slot.cache is not None:
            entry = <SubjectEntry>slot.cache
        else:
            entry = self.transformed_entry(slot, msg)
        if self.sealed:
            self.answers.refuse(msg, api_error("stream_sealed"))
        elif msg.reply != NULL and msg.reply_len > 4 and memcmp(msg.reply + msg.reply_len - 4, FAST, 4) == 0:
            return self.fast_batches.take(entry, msg, None)
        elif msg.headers_len:
            if msg.reply_len > 4 and memcmp(msg.reply, SERVICE_REPLY, 4) == 0:  # it came through an import
                asked = batch_reply(msg.body, msg.headers_len)
                if asked is not None:
                    return self.fast_batches.take(entry, msg, asked)
            return self._deliver_with_headers(entry, msg)
        else:
            self._store_plain(entry, msg, NULL, 0, wall_clock_ns())
        return 1

    cdef int deliver_traced(self, Subscription sub, const Message* msg, object trace) except -1:
        """It is stored without a trace: nothing is told of its deliveries."""
        cdef Message marked = msg[0]
        cdef SubjectEntry entry
        cdef bytes _body
        if sub.closed:
            return 0
        event = trace.stored(self.name)
        entry = self.transformed_entry(None, msg)
        last = self.log.last_seq
        self.refusal = None
        self.answers.refused = refused = []
        try:
            if trace.only:
                self._try_out(entry, msg)
            else:
                _body = with_block(&marked, trace.kept(msg.body[:msg.headers_len]))
                self.deliver(sub, None, &marked)
        finally:
            self.answers.refused = None
        tell(event, trace, Outcome(
            entry.state.subject, refused[0] if refused else None, self.refusal,
            self.interest.needed and not self.interest.wants(entry), self.log.last_seq != last))
        return 1

    cdef int _try_out(self, SubjectEntry entry, const Message* msg) except -1:
        cdef bytes block = msg.body[:msg.headers_len]
        cdef Candidate asked
        if self.sealed:
            return self.answers.refuse(msg, api_error("stream_sealed"))
        if block[8:9] == b" ":
            block = without_status(block)
        asked = candidate_of(entry, block, msg.body + msg.headers_len, msg.body_len - msg.headers_len)
        refusal = self.judge.judge(asked, wall_clock_ns())
        if asked.duplicate:
            self.answers.refused.append(DUPLICATE)
            return self.answers.ack(msg, asked.seq, True)
        if refusal is None:
            refusal = self.room.check_size(
                PyBytes_GET_SIZE(entry.state.subject), msg.headers_len, msg.body_len - msg.headers_len)
        return 0 if refusal is None else self.answers.refuse(msg, refusal)

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
            self.uncommitted.accepted += self.republisher.stored(
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
        if self.judge.counts and self._count(entry, msg, now):
            return 1
        if n > 10 and block[8] == c' ':
            kept = without_status(block[:n])
            block = kept
            n = len(kept)
        if n and scan_publish_headers(block, n, &found):
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

    cdef bint _count(self, SubjectEntry entry, const Message* msg, int64_t now_ns) except -1:
        """Take one that is a small increment and nothing else; False: it has to be judged."""
        cdef char body[TOTAL_ROOM]
        cdef Py_ssize_t n
        cdef int64_t increment
        cdef uint64_t seq
        if msg.body_len > msg.headers_len or not is_lone_increment(msg.body, msg.headers_len, &increment):
            return False
        if not self.judge.next_total(entry, msg.headers_len, increment, body, &n):
            return False
        seq = self.store(entry, msg.body, msg.headers_len, body, n, None, now_ns)
        if seq:
            self.judge.counted(entry, seq)
            body[0] = c','                 # the ack tells the total as the body does
            self.answers.ack_more(msg, seq, body, n - 1)
        else:
            self.answers.refuse(msg, self.refusal)
        return True

    cdef int _store_plain(self, SubjectEntry entry, const Message* msg, const char* headers,
                          Py_ssize_t headers_len, int64_t now_ns) except -1:
        cdef uint64_t seq
        if self.judge.counts:
            return self.answers.refuse(msg, api_error("message_incr_missing"))
        seq = self.store(entry, headers, headers_len, msg.body + msg.headers_len, msg.body_len - msg.headers_len, None,
                         now_ns)
        return self.answers.ack(msg, seq, False) if seq else self.answers.refuse(msg, self.refusal)

    cdef int _put_into_batch(self, SubjectEntry entry, const Message* msg, bytes block, Text batch_id) except -1:
        cdef Py_ssize_t n = msg.headers_len
        if self.batches is None:
            self.batches = self.make_batches(self)
        self.batches.take(batch_id.p[:batch_id.n], entry.state.subject,
                          msg.reply[:msg.reply_len] if msg.reply != NULL else None, block, msg.body[n:msg.body_len])
        return 0

    cdef int _answer(self, const Message* msg, Candidate asked) except -1:
        if asked.refusal is not None:
            return self.answers.refuse(msg, asked.refusal)
        if asked.duplicate or msg.reply == NULL or self.answers.silent or (
                self.overdue is None and not self.judge.counts):
            return self.answers.ack(msg, asked.seq, asked.duplicate)
        # a counter's ack tells its total as the body does
        text = b"," + asked.held[1:len(asked.held) - 1] if self.judge.counts else b""
        if self.overdue is not None and self.overdue.hold(asked.seq, asked.seq, msg.reply[:msg.reply_len], text):
            return 0
        return self.answers.ack_text(asked.seq, msg.reply[:msg.reply_len], text)

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
        cdef object refusal = self.room.check_size(PyBytes_GET_SIZE(subject), headers_len, payload_len)
        try:
            if refusal is not None:
                pass
            # each question is asked only where there is a limit: this is the way of every message
            elif self.quota.server_bytes >= 0 and (refusal := self.quota.server_refusal()) is not None:
                pass
            elif self.interest.needed and not self.interest.wants(entry):
                if asked is not None:
                    asked.unwanted = True
                return self.use_up_sequence()
            elif self.quota.account_bytes >= 0 and not self.quota.account_has(
                    self.room.cost(PyBytes_GET_SIZE(subject), headers_len, payload_len)):
                refusal = self.refuse_full_account()
            elif self.uncommitted.is_full():
                refusal = self.refuse_overrun()
            elif asked is not None and asked.ttl == TTL_INVALID:
                refusal = api_error("message_ttl_invalid")
            elif self.room.discard_new:
                refusal = self.room.find(entry, self.room.cost(PyBytes_GET_SIZE(subject), headers_len, payload_len),
                                         asked is not None and asked.found.rollup.n > 0, True)
            if refusal is not None:
                self.refusal = refusal
                return 0
            if asked is not None:
                self.judge.raise_ttl(asked)
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
        if self.room.is_limited and self.room.make(entry, previous):
            self.evict_later()
        return seq

    def refuse_full_account(self) -> object:
        """The log is told of it, too."""
        account = quoted(self.host.account_name)
        self.host.log.warn_seldom(f"JetStream {self.quota.storage} resource limits exceeded for account: {account}")
        return api_error("account_resources_exceeded")

    def refuse_overrun(self) -> object:
        """The disk does not keep up; the log is told of it, too."""
        who = f"'{self.host.account_name}' > '{self.name.decode()}'"
        self.host.log.warn_seldom(
            f"Dropping messages due to excessive stream ingest rate on {who}: IPQ size limit reached")
        return api_error("stream_too_many_requests")

    cdef int append(self, Candidate asked, uint16_t batch_flags, int64_t now_ns) except -1:
        cdef SubjectState state = asked.entry.state
        asked.previous = state.last if state.count else 0
        asked.seq = self.log.append(state.subject, len(state.subject), asked.headers, len(asked.headers),
                                    asked.payload, asked.payload_len, now_ns, asked.flags | batch_flags, state)
        return 0

    cdef int appended(self, SubjectEntry entry, uint64_t seq, uint64_t previous, const char* headers,
                      Py_ssize_t headers_len, const char* payload, Py_ssize_t payload_len) except -1:
        self.uncommitted.accepted += headers_len + payload_len + PyBytes_GET_SIZE(entry.state.subject)
        if self.republisher is not None:
            self.republish(entry, seq, previous, headers, headers_len, payload, payload_len)
        if self.schedules is not None and previous and not has_scheduler(headers, headers_len):
            self.schedules.end(entry.state.subject, seq)
        if self.on_first_message is not None:
            self.on_first_message()
        return 0

    cdef int settle(self, Candidate stored, int64_t now_ns) except -1:
        self.judge.remember(stored, now_ns)
        if not stored.unwanted:
            if stored.ttl > 0:
                self.ttls.add(stored.seq, expiry_ns(max(now_ns, self.log.last_time_ns), stored.ttl))
            if stored.flags & FLAG_SCHEDULE:
                self.schedules.add(stored.entry.state.subject, stored.seq, stored.headers, now_ns, stored.prepared)
        if stored.roll_up != ROLL_UP_NOTHING:
            self.roll_up(stored.entry.state, stored.roll_up == ROLL_UP_SUBJECT, stored.seq)
        return 0 if stored.ends is None else self.end_schedule(stored.ends, stored.seq)

    cdef uint64_t use_up_sequence(self) except? 0:
        """The sequence of a message that nobody is interested in."""
        self.log.last_time_ns = max(self.log.last_time_ns, wall_clock_ns())
        self.log.skip_to(self.log.last_seq + 2)
        return self.log.last_seq

    # --- what it replaces ---

    cdef int roll_up(self, SubjectState state, bint of_subject, uint64_t seq) except -1:
        # stored as a literal, one with wildcards rolls up all it matches: KV purges of `key.*` count on it
        cdef bytes pattern = state.subject if of_subject else b""
        if of_subject and state.count <= FEW and not has_wildcard(<const char*>pattern, len(pattern)):
            return self.removal.older(state, seq)
        if self.log.messages <= REPLACED_AT_ONCE:
            return self.removal.matching(pattern, seq)
        self._overdue().roll_up(pattern, seq)
        return charge_publisher(self.log.messages // SLOTS_PER_UNIT)

    cdef int evict_later(self) except -1:
        self._overdue().evict()
        return 0

    def _overdue(self):
        if self.overdue is None:
            self.overdue = Overdue(self.room, self.answers, self.host.turns)
        return self.overdue

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
        cdef bytes subject = subject_of(self.log, seq)
        return self.interest.removed(seq, subject, False) if self.log.remove(seq, False) else 0

    cdef int replace_by_marker(self, SubjectState state, bytes headers, int64_t ttl, int64_t now_ns) except -1:
        cdef uint64_t replaced = state.last
        cdef Candidate marker
        cdef Message msg
        msg.subject = state.subject
        msg.subject_len = len(state.subject)
        marker = candidate_of(self.entry_of(None, &msg), headers, NULL, 0)
        if not self.interest.wants(marker.entry):
            return self.remove_expired(replaced)
        marker.ttl = ttl
        marker.flags = FLAG_TTL
        # it takes the place of another message, so that no limit on new messages holds it up
        self.append(marker, 0, now_ns)
        self.appended(marker.entry, marker.seq, replaced, headers, len(headers), NULL, 0)
        self.settle(marker, now_ns)
        self.removal.one(replaced, state.subject)
        return self.evict_later() if self.room.evict(EVICTED_AT_ONCE) else 0

    # --- what the log tells ---

    cdef int committed(self, uint64_t seq) except -1:
        """The log has committed everything up to seq: let acks go."""
        self.uncommitted.committed(seq >= self.log.last_seq)
        if self.evictions.pairs.size:
            self.evictions.committed(seq)
        if self.removal.untold:
            self.removal.committed(seq)
        if self.republisher is not None:
            self.republisher.release(seq)
        if self.overdue is not None:
            self.overdue.committed(seq)
        return self.answers.acks.release(seq)

    cdef list write_failed(self, uint64_t first_lost, object error):
        """The log took back everything from first_lost on: answer those who wait for it."""
        cdef list restored
        self.uncommitted.committed(True)
        self.judge.forget_from(first_lost)
        if self.republisher is not None:
            self.republisher.drop_from(first_lost)
        restored = self.evictions.take_back(first_lost)
        self.removal.lost(first_lost)
        held = self.overdue.lost(first_lost) if self.overdue is not None else []
        refusal = api_error("stream_store_failed", err=error)
        self.answers.fail_from(first_lost, held, refusal)
        self.fast_batches.write_failed(first_lost, refusal)
        if self.schedules is not None:
            self.schedules.look_again(first_lost, restored)
        return restored
