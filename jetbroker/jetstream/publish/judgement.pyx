# cython: language_level=3, boundscheck=False, wraparound=False
"""What batches may store (see judgement.pxd)."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.publish.headers cimport Text
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.publish.judge cimport (
    ROLL_UP_ALL, ROLL_UP_SUBJECT, Candidate, Judge, last_match, wrong_sequence,
)
from jetbroker.jetstream.publish.ttl cimport TTL_INVALID
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.stream_log cimport FLAG_SCHEDULE
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.jetstream.models.errors import api_error

cdef Py_ssize_t MAX_HEADER_BYTES = limits.JS_HEADER_BYTES
cdef uint64_t MAX_LOOKED_AT = limits.JS_BATCH_LOOKED_AT


cdef object early_refusal(Ingest ingest, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len):
    cdef object refusal = ingest.quota.server_refusal()
    if refusal is not None:
        return refusal
    if ingest.quota.account_bytes >= 0 and not ingest.quota.account_would_have(
            ingest.room.cost(subject_len, headers_len, payload_len)):
        refusal = api_error("account_resources_exceeded")
        ingest.host.log.warn_seldom(f"JetStream account limits exceeded for '{ingest.host.account_name}': {refusal}")
        return refusal
    if ingest.room.max_msg_size >= 0 and headers_len + payload_len > ingest.room.max_msg_size:
        return api_error("stream_message_exceeds_maximum")
    return None


cdef class Judgement:
    """Of one batch, or of one message that is stored as it comes."""

    def __init__(self, Ingest ingest not None) -> None:
        self.ingest = ingest
        self.subjects = {}
        self.per_subject = {}
        self.expected = {}
        self.msg_ids = set()
        self.totals = {}

    cdef object judge(self, Candidate asked, int64_t now):
        cdef Judge judge = self.ingest.judge
        cdef bytes subject = asked.entry.state.subject
        cdef uint64_t size
        cdef object refusal = self.ingest.room.check_record(len(subject), len(asked.headers), asked.payload_len)
        if refusal is not None:
            return refusal
        if len(asked.headers) > MAX_HEADER_BYTES:
            return api_error("stream_header_exceeds_maximum")
        refusal = (judge.features(asked) or self._judge_ttl(asked) or self._judge_id(asked, now)
                   or self._judge_counter(asked) or self._judge_expectations(asked) or judge.schedule(asked, self.subjects)
                   or self._judge_roll_up(asked))
        if refusal is not None:
            return refusal
        asked.strip()
        size = self.ingest.room.cost(len(subject), len(asked.headers), asked.payload_len)
        if self.ingest.room.discard_new:
            refusal = self.ingest.room.find(asked.entry, size, asked.found.rollup.n > 0, False, self.count,
                                            self.cost, self.per_subject.get(subject, 0))
        self.count += 1
        self.cost += size
        self.subjects[subject] = bool(asked.flags & FLAG_SCHEDULE)
        self.per_subject[subject] = self.per_subject.get(subject, 0) + 1
        judge.raise_ttl(asked)
        return refusal

    cdef object _judge_ttl(self, Candidate asked):
        cdef object refusal = self.ingest.judge.time_to_live(asked)
        if refusal is None and asked.ttl == TTL_INVALID:
            return api_error("message_ttl_invalid" if self.ingest.judge.allow_ttl else "message_ttl_disabled")
        return refusal

    cdef object _judge_id(self, Candidate asked, int64_t now):
        cdef object refusal = self.ingest.judge.message_id(asked, now)
        if refusal is not None or asked.msg_id is None:
            return refusal
        if asked.duplicate or asked.msg_id in self.msg_ids:
            return api_error("atomic_publish_contains_duplicate_message")
        self.msg_ids.add(asked.msg_id)
        return None

    cdef object _judge_counter(self, Candidate asked):
        cdef object refusal = self.ingest.judge.counter(asked, self.totals)
        if refusal is not None or not self.ingest.judge.counts:
            return refusal
        return self.ingest.room.check_size(len(asked.entry.state.subject), len(asked.headers), asked.payload_len)

    cdef object _judge_expectations(self, Candidate asked):
        cdef Text last_sequence = asked.found.expected_last_sequence
        cdef Text pattern = asked.found.expected_last_subject
        cdef bytes subject = pattern.p[:pattern.n] if pattern.n else asked.entry.state.subject
        cdef object refusal
        if last_sequence.n:
            refusal = wrong_sequence(last_sequence, self.ingest.log.last_seq + self.count)
            if refusal is not None:
                return refusal
            if self.count:
                return api_error("stream_wrong_last_sequence_constant")
        if not asked.found.expected_last_subject_sequence.n:
            return api_error("stream_expected_last_seq_per_subject_invalid") if pattern.n else None
        if subject in self.subjects:
            return api_error("stream_wrong_last_sequence_constant")
        if subject not in self.expected:
            if self.looked_at > MAX_LOOKED_AT:
                return api_error("atomic_publish_too_large_batch", size=self.count)
            if has_wildcard(<const char*>subject, len(subject)):
                self.looked_at += (<SegmentedLog>self.ingest.log).subjects.count
            else:
                self.looked_at += 1
            self.expected[subject] = last_match(self.ingest.log, subject)
        return wrong_sequence(asked.found.expected_last_subject_sequence, self.expected[subject])

    cdef object _judge_roll_up(self, Candidate asked):
        cdef object refusal = self.ingest.judge.rolls_up(asked)
        if refusal is not None:
            return refusal
        if asked.roll_up == ROLL_UP_SUBJECT and asked.entry.state.subject in self.subjects:
            return api_error("stream_rollup_failed", err="batch rollup sub invalid")
        if asked.roll_up == ROLL_UP_ALL and self.count:
            return api_error("stream_rollup_failed", err="batch rollup all invalid")
        return None
