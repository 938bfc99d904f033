# cython: language_level=3, boundscheck=False, wraparound=False
"""Atomic batches of one stream: messages are staged in memory until the last one comes, then stored all or none.

Until then each message is only put aside, with an empty ack. At the commit all of them are judged, in nats-server's
order, as if each had been stored before the next; only then they are appended, in one step of the event loop and as
one batch of the log (see StreamLog.begin_batch), so that neither readers nor a crash ever see a part.
"""
from libc.stdint cimport int64_t, uint16_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.publish.judge cimport Candidate, candidate_of, charge_time_since
from jetbroker.jetstream.publish.judgement cimport Judgement, early_refusal
from jetbroker.jetstream.publish.headers cimport (
    PublishHeaders, has_schedule_headers, scan_publish_headers, without_header,
)
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.store.format.records cimport RECORD_HEADER
from jetbroker.store.log.stream_log cimport FLAG_BATCH, FLAG_BATCH_FIRST, FLAG_BATCH_LAST
from jetbroker.wire.digits cimport read_uint64
from jetbroker.wire.message cimport Message

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.jetstream.models.errors import api_error
from jetbroker.forms.gotext import quoted
from jetbroker.jetstream.publish.headers import header_text
from jetbroker.jetstream.publish.schedule_headers import prepare

cdef Py_ssize_t MAX_BATCH_BYTES = limits.JS_BATCH_BYTES
cdef Py_ssize_t MAX_STAGED_BYTES = limits.JS_STAGED_BYTES
cdef Py_ssize_t MAX_ID_BYTES = 64
cdef Py_ssize_t MESSAGE_OVERHEAD = 768     # of the objects that hold one staged message
cdef bytes COMMIT_HEADER = b"Nats-Batch-Commit: 1"


cdef class StagedBatch:
    """The messages of one batch so far: (subject, headers, payload, what is known of a schedule or None)."""
    cdef readonly str id
    cdef list messages
    cdef Py_ssize_t size
    cdef uint64_t last                 # batch sequence
    cdef double heard_at               # event loop time
    cdef object timer


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
        cdef object refusal = early_refusal(self.ingest, len(subject), len(headers), len(payload))
        if refusal is not None:
            return refusal
        if not self.ingest.allow_atomic:
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
        if self.ingest.room.check_record(len(subject), len(headers), len(payload)) is not None:
            self._abandon(batch, "incomplete")
            return api_error("atomic_publish_incomplete_batch")
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
        cdef Judgement so_far = Judgement(ingest)
        cdef Candidate judged = None
        cdef list all_judged = []
        cdef int64_t now = wall_clock_ns()
        for subject, headers, payload, prepared in batch.messages:
            judged = self._candidate(subject, headers, payload)
            judged.prepared = prepared
            if judged.found.expected_last_msg_id.n:
                return api_error("atomic_publish_unsupported_header_batch", header="Nats-Expected-Last-Msg-Id")
            refusal = so_far.judge(judged, now)
            if refusal is not None:
                return refusal
            all_judged.append(judged)
        if ends_before:
            judged.headers = with_commit(judged.headers)
            if ingest.room.check_record(
                    len(judged.entry.state.subject), len(judged.headers), judged.payload_len) is not None:
                return api_error("atomic_publish_incomplete_batch")
        if not ingest.quota.account_has(so_far.cost):
            return ingest.refuse_full_account()
        if ingest.uncommitted.is_full():
            return ingest.refuse_overrun()
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
