# cython: language_level=3, boundscheck=False, wraparound=False
"""Atomic batches of one stream: messages are staged in memory until the last one comes, then stored all or none.

Until then each message is only put aside, with an empty ack. At the commit all of them are judged, in nats-server's
order, as if each had been stored before the next; only then they are appended, in one step of the event loop and as
one batch of the log (see StreamLog.begin_batch), so that neither readers nor a crash ever see a part.
"""
from libc.stdint cimport int64_t, uint16_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.publish.judge cimport (
    ROLL_UP_ALL, ROLL_UP_SUBJECT, Candidate, Judge, candidate_of, charge_time_since, last_match, wrong_sequence,
)
from jetbroker.jetstream.publish.headers cimport (
    PublishHeaders, Text, has_schedule_headers, scan_publish_headers, without_header,
)
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.publish.ttl cimport TTL_INVALID
from jetbroker.store.format.records cimport RECORD_HEADER
from jetbroker.store.log.stream_log cimport (
    FLAG_BATCH, FLAG_BATCH_FIRST, FLAG_BATCH_LAST, FLAG_SCHEDULE,
)
from jetbroker.wire.digits cimport read_uint64
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.jetstream.models.errors import api_error
from jetbroker.forms.gotext import quoted
from jetbroker.jetstream.publish.headers import header_text
from jetbroker.jetstream.publish.schedule_headers import prepare

cdef Py_ssize_t MAX_HEADER_BYTES = limits.JS_HEADER_BYTES
cdef Py_ssize_t MAX_BATCH_BYTES = limits.JS_BATCH_BYTES
cdef Py_ssize_t MAX_STAGED_BYTES = limits.JS_STAGED_BYTES
cdef Py_ssize_t MAX_ID_BYTES = 64
cdef Py_ssize_t MESSAGE_OVERHEAD = 768     # of the objects that hold one staged message
cdef uint64_t MAX_LOOKED_AT = limits.JS_BATCH_LOOKED_AT
cdef bytes COMMIT_HEADER = b"Nats-Batch-Commit: 1"


cdef class StagedBatch:
    """The messages of one batch so far: (subject, headers, payload, what is known of a schedule or None)."""
    cdef readonly str id
    cdef list messages
    cdef Py_ssize_t size
    cdef uint64_t last                 # batch sequence
    cdef double heard_at               # event loop time
    cdef object timer


cdef class Judgement:
    """What the messages of a batch judged so far change, for those behind them."""
    cdef dict subjects                 # subject -> is its last message a schedule
    cdef dict per_subject              # subject -> how many
    cdef dict expected                 # subject -> its last sequence, as expected
    cdef set msg_ids
    cdef dict totals                   # subject -> Total, of counters
    cdef uint64_t count
    cdef uint64_t cost
    cdef uint64_t looked_at            # subjects that patterns were compared with

    def __init__(self) -> None:
        self.subjects = {}
        self.per_subject = {}
        self.expected = {}
        self.msg_ids = set()
        self.totals = {}


cdef class AtomicBatches:
    """The batches under way in one stream."""
    cdef Ingest ingest
    cdef object server                 # ServerReservations
    cdef dict staged                   # id -> StagedBatch

    def __init__(self, Ingest ingest not None) -> None:
        self.ingest = ingest
        self.server = ingest.quota.usage.server
        self.staged = {}

    def __len__(self) -> int:
        return len(self.staged)

    def drop(self) -> None:
        """Forget all of them: the stream stops, or takes no batches any more."""
        for batch in list(self.staged.values()):
            self.forget(batch)

    def take(self, bytes batch_id not None, bytes subject not None, bytes reply, bytes headers not None,
             bytes payload not None) -> None:
        """One message of a batch, from a publisher."""
        cdef int64_t began = monotonic_ns()
        refusal = self._refusal(batch_id, subject, headers, payload)
        if refusal is None:
            try:
                refusal = self._stage(batch_id, subject, reply, headers, payload)
            except StorageError as error:
                refusal = api_error("stream_store_failed", err=error)   # it could not be judged: nothing is stored
            # a commit judges up to a thousand messages: the publisher's turn pays for them
            charge_time_since(began)
        if refusal is not None:
            self.ingest.answers.answer(reply, refusal)

    # --- staging ---

    cdef object _refusal(self, bytes batch_id, bytes subject, bytes headers, bytes payload):
        """What holds for any message of a batch; None: go on."""
        cdef Ingest ingest = self.ingest
        cdef Py_ssize_t size = len(headers) + len(payload)
        if ingest.quota.server_is_full():
            return api_error("insufficient_resources")
        if not ingest.quota.account_would_have(ingest.room.cost(len(subject), len(headers), len(payload))):
            return api_error("account_resources_exceeded")
        if ingest.room.max_msg_size >= 0 and size > ingest.room.max_msg_size:
            return api_error("stream_message_exceeds_maximum")
        if not ingest.allow_atomic:
            return api_error("atomic_publish_disabled")
        if len(batch_id) > MAX_ID_BYTES:
            return api_error("atomic_publish_invalid_batch_id")
        return None

    cdef object _stage(self, bytes batch_id, bytes subject, bytes reply, bytes headers, bytes payload):
        """Put the message to its batch, and store that when it ends there; returns what refuses it."""
        cdef uint64_t seq
        cdef StagedBatch batch
        cdef bytes commit = header_text(headers, b"Nats-Batch-Commit")
        cdef bytes text
        text = header_text(headers, b"Nats-Batch-Sequence") or b""
        if not read_uint64(text, len(text), &seq):
            return api_error("atomic_publish_missing_seq")
        name = batch_id.decode("utf-8", "replace")
        batch = self.staged.get(name)
        if batch is None:
            if seq != 1:
                if seq - (commit == b"eob") > self.server.batches.messages:
                    return api_error("atomic_publish_too_large_batch", size=self.server.batches.messages)
                return api_error("atomic_publish_incomplete_batch")
            if len(self.staged) >= self.server.batches.per_stream or (
                    self.server.open_batches >= self.server.batches.total):
                return api_error("atomic_publish_too_many_inflight")
            batch = self._begin(name)
        if commit is not None and commit not in (b"1", b"eob"):
            self.forget(batch)
            return api_error("atomic_publish_invalid_batch_commit")
        level = header_text(headers, LEVEL_HEADER)
        if level:
            if not level_supported(level):
                self._abandon(batch, "unsupported")
                return api_error("required_api_level")
            headers = without_header(headers, LEVEL_HEADER)
        return self._add(batch, seq, subject, reply, headers, payload, commit)

    cdef object _add(self, StagedBatch batch, uint64_t seq, bytes subject, bytes reply, bytes headers, bytes payload,
                     bytes commit):
        cdef Py_ssize_t size = len(subject) + len(headers) + len(payload) + MESSAGE_OVERHEAD
        cdef bint ends_before = commit == b"eob"
        batch.heard_at = self.ingest.tick.loop.time()
        batch.last += 1
        if batch.last != seq or (seq == 1 and ends_before):
            self._abandon(batch, "incomplete")
            return api_error("atomic_publish_incomplete_batch")
        if seq - ends_before > <uint64_t>self.server.batches.messages:
            self._abandon(batch, "large")
            return api_error("atomic_publish_too_large_batch", size=self.server.batches.messages)
        if not ends_before:
            if batch.size + size > MAX_BATCH_BYTES or self.server.staged_bytes + size > MAX_STAGED_BYTES:
                self._abandon(batch, "large")
                return api_error("insufficient_resources")
            batch.messages.append((subject, headers, payload, self._prepared(subject, headers)))
            batch.size += size
            self.server.staged_bytes += size
        if commit is None:
            self.ingest.answers.answer(reply, None)
            return None
        self.forget(batch)
        return self._commit(batch, reply, ends_before)

    cdef object _prepared(self, bytes subject, bytes headers):
        """What takes long to find out of a schedule is found out before the commit."""
        cdef PublishHeaders found
        if self.ingest.schedules is None or not scan_publish_headers(headers, len(headers), &found):
            return None
        return prepare(subject, headers, self.ingest.schedules.rules) if has_schedule_headers(&found) else None

    cdef StagedBatch _begin(self, str name):
        cdef StagedBatch batch = StagedBatch.__new__(StagedBatch)
        loop = self.ingest.tick.loop
        batch.id = name
        batch.messages = []
        batch.heard_at = loop.time()
        batch.timer = loop.call_later(self.server.batches.idle_seconds, self._on_timer, batch)
        self.staged[name] = batch
        self.server.open_batches += 1
        return batch

    def forget(self, StagedBatch batch not None) -> None:
        """It is over, one way or the other."""
        batch.timer.cancel()
        del self.staged[batch.id]
        self.server.open_batches -= 1
        self.server.staged_bytes -= batch.size

    cdef int _abandon(self, StagedBatch batch, str reason) except -1:
        self.forget(batch)
        name = self.ingest.name.decode()
        fields = {"stream": name}
        if self.ingest.host.server_info.domain:
            fields["domain"] = self.ingest.host.server_info.domain
        fields |= {"batch": batch.id, "reason": reason}
        self.ingest.host.advisories.publish_to_all(
            f"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.{name}", fields, "stream_batch_abandoned")
        return 0

    def _on_timer(self, StagedBatch batch not None) -> None:
        loop = self.ingest.tick.loop
        left = batch.heard_at + self.server.batches.idle_seconds - loop.time()
        if left > 0:
            batch.timer = loop.call_later(left, self._on_timer, batch)
        else:
            self._abandon(batch, "timeout")

    # --- commit ---

    cdef object _commit(self, StagedBatch batch, bytes reply, bint ends_before):
        """Judge all messages, then store them; returns what refuses the batch.

        `ends_before`: the message that commits is not stored, and the last one before it gets its header.
        """
        cdef Ingest ingest = self.ingest
        cdef Judgement so_far = Judgement()
        cdef Candidate judged = None
        cdef list all_judged = []
        cdef int64_t now = wall_clock_ns()
        for subject, headers, payload, prepared in batch.messages:
            judged = self._candidate(subject, headers, payload)
            judged.prepared = prepared
            refusal = self._judge(judged, so_far, now)
            if refusal is not None:
                return refusal
            all_judged.append(judged)
        if ends_before:
            judged.headers = with_commit(judged.headers)
        if not ingest.quota.account_has(so_far.cost):
            return api_error("account_resources_exceeded")
        if ingest.uncommitted.is_full():
            return api_error("stream_too_many_requests")
        try:
            self._append(all_judged, now)
        except StorageError as error:
            return api_error("stream_store_failed", err=error)
        self._settle(all_judged, now)
        if reply is not None and not ingest.answers.silent:
            text = f',"batch":{quoted(batch.id)},"count":{len(all_judged)}'.encode()
            if ingest.overdue is not None and ingest.overdue.hold(
                    (<Candidate>all_judged[0]).seq, ingest.log.last_seq, reply, text):
                return None
            ingest.answers.ack_text(ingest.log.last_seq, reply, text)
        return None

    cdef Candidate _candidate(self, bytes subject, bytes headers, bytes payload):
        cdef Candidate made
        cdef Message msg
        msg.subject = subject
        msg.subject_len = len(subject)
        made = candidate_of(self.ingest.entry_of(None, &msg), headers, payload, len(payload))
        made.held = payload
        made.unwanted = not self.ingest.interest.wants(made.entry)
        return made

    cdef object _judge(self, Candidate asked, Judgement so_far, int64_t now):
        """What refuses one message of a batch, with those before it as good as stored; None: nothing."""
        cdef Judge judge = self.ingest.judge
        cdef bytes subject = asked.entry.state.subject
        cdef uint64_t size
        cdef object refusal
        if asked.found.expected_last_msg_id.n:
            return api_error("atomic_publish_unsupported_header_batch", header="Nats-Expected-Last-Msg-Id")
        if len(asked.headers) > MAX_HEADER_BYTES:
            return api_error("stream_header_exceeds_maximum")
        refusal = (judge.features(asked) or self._judge_ttl(asked) or self._judge_id(asked, so_far, now)
                   or self._judge_counter(asked, so_far) or self._judge_expectations(asked, so_far) or judge.schedule(asked, so_far.subjects)
                   or self._judge_roll_up(asked, so_far))
        if refusal is not None:
            return refusal
        asked.strip()
        size = self.ingest.room.cost(len(subject), len(asked.headers), asked.payload_len)
        if self.ingest.room.discard_new:
            refusal = self.ingest.room.find(asked.entry, size, asked.found.rollup.n > 0, False, so_far.count,
                                            so_far.cost, so_far.per_subject.get(subject, 0))
        so_far.count += 1
        so_far.cost += size
        so_far.subjects[subject] = bool(asked.flags & FLAG_SCHEDULE)
        so_far.per_subject[subject] = so_far.per_subject.get(subject, 0) + 1
        judge.raise_ttl(asked)
        return refusal

    cdef object _judge_ttl(self, Candidate asked):
        cdef object refusal = self.ingest.judge.time_to_live(asked)
        if refusal is None and asked.ttl == TTL_INVALID:
            return api_error("message_ttl_invalid" if self.ingest.judge.allow_ttl else "message_ttl_disabled")
        return refusal

    cdef object _judge_id(self, Candidate asked, Judgement so_far, int64_t now):
        cdef object refusal = self.ingest.judge.message_id(asked, now)
        if refusal is not None or asked.msg_id is None:
            return refusal
        if asked.duplicate or asked.msg_id in so_far.msg_ids:
            return api_error("atomic_publish_contains_duplicate_message")
        so_far.msg_ids.add(asked.msg_id)
        return None

    cdef object _judge_counter(self, Candidate asked, Judgement so_far):
        cdef object refusal = self.ingest.judge.counter(asked, so_far.totals)
        if refusal is not None or not self.ingest.judge.counts:
            return refusal
        return self.ingest.room.check_size(len(asked.headers), asked.payload_len)

    cdef object _judge_expectations(self, Candidate asked, Judgement so_far):
        cdef Text last_sequence = asked.found.expected_last_sequence
        cdef Text pattern = asked.found.expected_last_subject
        cdef bytes subject = pattern.p[:pattern.n] if pattern.n else asked.entry.state.subject
        cdef object refusal
        if last_sequence.n:
            refusal = wrong_sequence(last_sequence, self.ingest.log.last_seq + so_far.count)
            if refusal is not None:
                return refusal
            if so_far.count:
                return api_error("stream_wrong_last_sequence_constant")
        if not asked.found.expected_last_subject_sequence.n:
            return api_error("stream_expected_last_seq_per_subject_invalid") if pattern.n else None
        if subject in so_far.subjects:
            return api_error("stream_wrong_last_sequence_constant")
        if subject not in so_far.expected:
            if so_far.looked_at > MAX_LOOKED_AT:
                return api_error("atomic_publish_too_large_batch", size=so_far.count)
            so_far.looked_at += len(self.ingest.log.subjects) if has_wildcard(<const char*>subject, len(subject)) else 1
            so_far.expected[subject] = last_match(self.ingest.log, subject)
        return wrong_sequence(asked.found.expected_last_subject_sequence, so_far.expected[subject])

    cdef object _judge_roll_up(self, Candidate asked, Judgement so_far):
        cdef object refusal = self.ingest.judge.rolls_up(asked)
        if refusal is not None:
            return refusal
        if asked.roll_up == ROLL_UP_SUBJECT and asked.entry.state.subject in so_far.subjects:
            return api_error("stream_rollup_failed", err="batch rollup sub invalid")
        if asked.roll_up == ROLL_UP_ALL and so_far.count:
            return api_error("stream_rollup_failed", err="batch rollup all invalid")
        return None

    cdef int _append(self, list all_judged, int64_t now) except -1:
        """Into the log, all or none. Raises StorageError."""
        cdef Ingest ingest = self.ingest
        cdef Candidate judged
        cdef list wanted = [judged for judged in all_judged if not (<Candidate>judged).unwanted]
        cdef uint64_t size = 0
        cdef uint16_t flags
        for judged in all_judged:
            if not judged.unwanted:
                break
            judged.seq = ingest.use_up_sequence()
        for judged in wanted:
            size += RECORD_HEADER + len(judged.entry.state.subject) + len(judged.headers) + judged.payload_len
        ingest.log.begin_batch(size)
        try:
            for judged in all_judged:
                if judged.seq:
                    continue
                if judged.unwanted:
                    judged.seq = ingest.use_up_sequence()
                    continue
                flags = 0
                if len(wanted) > 1:
                    flags = FLAG_BATCH
                    if judged is wanted[0]:
                        flags |= FLAG_BATCH_FIRST
                    if judged is wanted[len(wanted) - 1]:
                        flags |= FLAG_BATCH_LAST
                ingest.append(judged, flags, now)
        except BaseException:
            ingest.log.abort_batch()
            raise
        ingest.log.end_batch()
        return 0

    cdef int _settle(self, list all_judged, int64_t now) except -1:
        """What storing the messages brings about: times, ids, roll-ups, limits."""
        cdef Ingest ingest = self.ingest
        cdef Candidate judged
        for judged in all_judged:
            if not judged.unwanted:
                ingest.appended(judged.entry, judged.seq, judged.previous, judged.headers, len(judged.headers),
                                judged.payload, judged.payload_len)
            ingest.settle(judged, now)
        if ingest.room.make_for_all([judged for judged in all_judged if not (<Candidate>judged).unwanted]):
            ingest.evict_later()
        return 0


cdef bytes with_commit(bytes headers):
    """A block with the commit header at its end."""
    return headers.removesuffix(b"\r\n") + COMMIT_HEADER + b"\r\n\r\n"
