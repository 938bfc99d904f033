# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Fast batches (see fast_batches.pxd).

Each message is stored as if it came alone. Its publisher learns from one answer that all up to a sequence are
committed, and how many there may be until the next: the answers wait in the queue of acks, so an answer means the same
as an ack. The batches under way in a stream share 500 messages.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp

from jetbroker.clock cimport monotonic_ns
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.publish.headers cimport PublishHeaders, scan_publish_headers, without_header, without_status
from jetbroker.jetstream.publish.ingest cimport FastPublishes, Ingest
from jetbroker.jetstream.publish.judge cimport Candidate, SubjectEntry, candidate_of
from jetbroker.jetstream.publish.judgement cimport Judgement, early_refusal
from jetbroker.wire.digits cimport read_uint64
from jetbroker.wire.message cimport Message

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.forms.gojson import dumps
from jetbroker.forms.gotext import quoted
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.publish.headers import header_text

cdef Py_ssize_t MAX_ID_BYTES = 64
cdef uint32_t SHARED = 500                 # messages that all batches of a stream may be ahead of their answers
cdef uint32_t USUAL_FLOW = 10
cdef uint32_t MAX_FLOW = 65_535
cdef double SECOND_NS = 1e9
cdef int JUDGED_COST = limits.JUDGED_PUBLISH_UNITS


cdef inline Py_ssize_t last_dot(const char* p, Py_ssize_t n) noexcept nogil:
    """Where the last one is, -1: there is none."""
    n -= 1
    while n >= 0 and p[n] != c'.':
        n -= 1
    return n


cdef bint read_place(const char* reply, Py_ssize_t n, Place* out) noexcept nogil:
    cdef Py_ssize_t end = n - 4            # of the token before
    cdef Py_ssize_t dot = last_dot(reply, end)
    cdef uint64_t number
    if dot < 0 or not read_uint64(reply + dot + 1, end - dot - 1, &number) or number > PING:
        return False
    out.operation = <Operation>number
    end = dot
    dot = last_dot(reply, end)
    if dot < 0 or not read_uint64(reply + dot + 1, end - dot - 1, &out.seq) or out.seq == 0 or out.seq == UINT64_MAX:
        return False
    if (out.operation == END or out.operation == APPEND) and out.seq == 1 or out.operation == START and out.seq != 1:
        return False
    end = dot
    dot = last_dot(reply, end)
    if dot < 0:
        return False
    out.gap_ok = end - dot == 3 and memcmp(reply + dot + 1, b"ok", 2) == 0
    if not out.gap_ok and not (end - dot == 5 and memcmp(reply + dot + 1, b"fail", 4) == 0):
        return False
    end = dot
    dot = last_dot(reply, end)
    if dot < 0:
        return False
    read_uint64(reply + dot + 1, end - dot - 1, &number)     # 0: no number
    out.flow = USUAL_FLOW if number == 0 else MAX_FLOW if number > MAX_FLOW else <uint32_t>number
    end = dot
    dot = last_dot(reply, end)
    out.id = reply + dot + 1
    out.id_len = end - dot - 1
    return dot >= 0


cdef bint read_step(const char* end, Py_ssize_t n, Place* out) noexcept nogil:
    cdef Py_ssize_t digits = n - 6         # behind them stands the operation
    cdef Py_ssize_t i
    cdef uint64_t seq = 0
    if not 0 < digits < 19 or end[digits] != c'.' or not (c'1' <= end[digits + 1] <= c'3') or end[digits + 2] != c'.':
        return False
    for i in range(digits):
        if not (c'0' <= end[i] <= c'9'):
            return False
        seq = seq * 10 + (end[i] - c'0')
    out.seq = seq
    out.operation = <Operation>(end[digits + 1] - c'0')
    return seq > 1


cdef class FastBatch:
    """Nothing of it has come."""


cdef bytes prefix_of(const char* reply, Py_ssize_t n):
    """The reply subject of a message without the last three tokens."""
    n = last_dot(reply, n - 4)
    return reply[:last_dot(reply, n) + 1]


cdef class FastBatches(FastPublishes):
    """The batches under way in one stream."""

    def __init__(self, Ingest ingest not None) -> None:
        self.ingest = ingest
        self.server = ingest.quota.usage.server
        self.batches = {}

    def __len__(self) -> int:
        return len(self.batches)

    cdef int take(self, SubjectEntry entry, const Message* msg, bytes asked) except -1:
        cdef Place place
        cdef FastBatch batch = None
        cdef bytes headers = None
        cdef const char* reply = msg.reply if asked is None else PyBytes_AS_STRING(asked)
        cdef Py_ssize_t reply_len = msg.reply_len if asked is None else PyBytes_GET_SIZE(asked)
        cdef bint follows = self._follows(reply, reply_len, &place)
        cdef object refusal = self._refusal(
            entry, msg, &place, follows or read_place(reply, reply_len, &place))
        if refusal is None:
            batch = self.latest if follows else self._known(place.id, place.id_len)
            if batch is None:
                refusal = self._begin(&place, reply, reply_len)
                batch = self.latest
        if refusal is None and msg.headers_len:
            headers = without_status(msg.body[:msg.headers_len]) if (
                msg.headers_len > 10 and msg.body[8] == c' ') else msg.body[:msg.headers_len]
            level = header_text(headers, LEVEL_HEADER)
            if level:
                headers = without_header(headers, LEVEL_HEADER)
                if not level_supported(level):
                    self.forget(batch)
                    refusal = api_error("required_api_level")
        if refusal is not None:
            if not self.ingest.answers.silent:
                self._line(None, msg.reply[:msg.reply_len], self.ingest.answers.error_body(refusal))
            return 1
        batch.heard_ns = monotonic_ns()
        self._put(batch, &place, entry, msg, headers)
        return JUDGED_COST if headers else 1

    cdef int write_failed(self, uint64_t first_lost, object error) except -1:
        cdef FastBatch batch
        cdef bytes body = self.ingest.answers.error_body(error)
        for batch in list(self.batches.values()):
            if batch.stream_seq >= first_lost:
                self.forget(batch)
                self._line(None, batch.reply, body)
        return 0

    cdef int drop(self) except -1:
        for batch in list(self.batches.values()):
            self.forget(batch)
        return 0

    # --- which batch ---

    cdef bint _follows(self, const char* reply, Py_ssize_t n, Place* out) noexcept:
        """Is it of the batch that the message before was of, too? Then its reply subject is not taken apart again."""
        cdef FastBatch batch = self.latest
        cdef Py_ssize_t known
        if batch is None:
            return False
        known = PyBytes_GET_SIZE(batch.prefix)
        if n <= known or memcmp(reply, PyBytes_AS_STRING(batch.prefix), known) != 0:
            return False
        out.id_len = PyBytes_GET_SIZE(batch.id)
        out.gap_ok = batch.gap_ok
        return read_step(reply + known, n - known, out)

    cdef object _refusal(self, SubjectEntry entry, const Message* msg, Place* place, bint understood):
        """What holds for any message, before its batch is looked at; None: go on."""
        cdef object refusal = early_refusal(
            self.ingest, PyBytes_GET_SIZE(entry.state.subject), msg.headers_len, msg.body_len - msg.headers_len)
        if refusal is not None:
            return refusal
        if not self.ingest.allow_batched:
            return api_error("batch_publish_disabled")
        if not understood:
            return api_error("batch_publish_invalid_pattern")
        if place.id_len > MAX_ID_BYTES:
            return api_error("batch_publish_invalid_batch_id")
        return None

    cdef FastBatch _known(self, const char* p, Py_ssize_t n):
        cdef FastBatch batch = self.latest
        if batch is None or PyBytes_GET_SIZE(batch.id) != n or memcmp(PyBytes_AS_STRING(batch.id), p, n) != 0:
            batch = <FastBatch>self.batches.get(p[:n])
            if batch is not None:
                self.latest = batch
        return batch

    cdef object _begin(self, Place* place, const char* reply, Py_ssize_t reply_len):
        """Make it `latest`; returns what refuses that."""
        cdef FastBatch batch
        cdef object bounds = self.server.fast_batches
        loop = self.ingest.tick.loop
        if place.seq != 1:
            return api_error("batch_publish_unknown_batch_id")
        if len(self.batches) >= bounds.per_stream or self.server.open_fast_batches >= bounds.total:
            return api_error("batch_publish_too_many_inflight")
        batch = FastBatch.__new__(FastBatch)
        batch.id = place.id[:place.id_len]
        batch.prefix = prefix_of(reply, reply_len)
        batch.gap_ok = place.gap_ok
        batch.most = place.flow
        self.batches[batch.id] = self.latest = batch
        self.server.open_fast_batches += 1
        batch.every = min(SHARED, batch.most) if len(self.batches) == 1 else 1
        batch.timer = loop.call_later(bounds.idle_seconds, self._on_timer, batch)
        return None

    def forget(self, FastBatch batch not None) -> None:
        """It is over, one way or the other."""
        batch.timer.cancel()
        del self.batches[batch.id]
        self.server.open_fast_batches -= 1
        self.latest = None

    def _on_timer(self, FastBatch batch not None) -> None:
        cdef double left = self.server.fast_batches.idle_seconds - (monotonic_ns() - batch.heard_ns) / SECOND_NS
        if left > 0:
            batch.timer = self.ingest.tick.loop.call_later(left, self._on_timer, batch)
        else:
            self.forget(batch)

    # --- its messages ---

    cdef int _put(self, FastBatch batch, Place* place, SubjectEntry entry, const Message* msg, bytes headers) except -1:
        cdef Candidate asked = None
        cdef PublishHeaders found
        cdef object error
        if batch.reply is None:
            batch.reply = msg.reply[:msg.reply_len]
        if place.operation == PING:
            return self._ping(batch, place, msg)
        if not self._is_next(batch, place, msg):
            return self._commit(batch, msg)
        if place.operation == END:
            batch.last -= 1
            return self._commit(batch, msg)
        if place.seq == 1 and place.operation != COMMIT and not self.ingest.answers.silent:
            self._tell(batch, 0, msg)
        if headers and scan_publish_headers(PyBytes_AS_STRING(headers), PyBytes_GET_SIZE(headers), &found):
            asked = candidate_of(entry, headers, msg.body + msg.headers_len, msg.body_len - msg.headers_len)
        error = self._store(batch, entry, msg, headers, asked)
        if error is not None:
            return self._failed(batch, place, msg, error, asked)
        batch.stored = batch.last
        if place.operation == COMMIT:
            return self._commit(batch, msg)
        self._tell_if_due(batch, msg)
        return 0

    cdef bint _is_next(self, FastBatch batch, Place* place, const Message* msg) except -1:
        """False: messages are missing that must not, or came before, so that the batch ends here."""
        if place.seq == batch.last + 1:
            batch.last += 1
            return True
        if place.seq <= batch.last:
            return False
        self._line(batch, msg.reply[:msg.reply_len],
                   b'{"type":"gap","last_seq":%d,"seq":%d}' % (batch.last + 1, place.seq))
        if batch.gap_ok:
            batch.last = place.seq
        return batch.gap_ok

    cdef int _ping(self, FastBatch batch, Place* place, const Message* msg) except -1:
        """Say again how far it is, or that something is missing."""
        if place.seq > batch.last:
            self._line(batch, msg.reply[:msg.reply_len],
                       b'{"type":"gap","last_seq":%d,"seq":%d}' % (batch.last + 1, place.seq + 1))
            if not batch.gap_ok:
                return self._commit(batch, msg)
            batch.last = batch.stored = place.seq
            if self._tell_if_due(batch, msg):
                return 0
        return self._tell(batch, batch.told, msg)

    cdef object _store(self, FastBatch batch, SubjectEntry entry, const Message* msg, bytes headers, Candidate asked):
        """Returns what refuses it, None: it is stored."""
        cdef Ingest ingest = self.ingest
        cdef int64_t now = wall_clock_ns()
        cdef const char* block = PyBytes_AS_STRING(headers) if headers else NULL
        cdef Py_ssize_t block_len = PyBytes_GET_SIZE(headers) if headers else 0
        cdef const char* payload = msg.body + msg.headers_len
        cdef Py_ssize_t payload_len = msg.body_len - msg.headers_len
        cdef uint64_t seq
        cdef object refusal
        if asked is not None:
            try:
                refusal = Judgement(ingest).judge(asked, now) or ingest.judge.last_message_id(asked)
            except StorageError as error:
                refusal = api_error("stream_store_failed", err=error)
            if refusal is not None:
                return refusal
            block, block_len = PyBytes_AS_STRING(asked.headers), PyBytes_GET_SIZE(asked.headers)
            payload, payload_len = asked.payload, asked.payload_len
        elif ingest.judge.counts:
            return api_error("message_incr_missing")
        seq = ingest.store(entry, block, block_len, payload, payload_len, asked, now)
        if not seq:
            return ingest.refusal
        batch.stream_seq = seq
        if not batch.first_seq:
            batch.first_seq = seq
        if asked is not None:
            asked.seq = seq
            ingest.settle(asked, now)
        return None

    cdef int _failed(self, FastBatch batch, Place* place, const Message* msg, object error, Candidate asked) except -1:
        cdef bytes reply = msg.reply[:msg.reply_len]
        cdef bint duplicate = asked is not None and asked.duplicate
        cdef bint commits = place.operation == COMMIT
        if duplicate:                      # it is stored already
            batch.stored = batch.last
            self._tell_if_due(batch, msg)
            if not commits:
                return 0
        if batch.last == 1 and not place.gap_ok:
            self.forget(batch)
            if duplicate:
                text = f',"duplicate": true,"batch":{self._name(batch)},"count":1'
                return self.ingest.answers.ack_text(asked.seq, reply, text.encode())
            return self._line(batch, reply, self.ingest.answers.error_body(error))
        if not duplicate:
            line = {"type": "err", "seq": place.seq, "error": error.to_json()}
            self._line(batch, reply, dumps(line))
            if place.gap_ok and not commits:
                return 0
            batch.last -= 1
        return self._commit(batch, msg)

    # --- answers ---

    cdef bint _tell_if_due(self, FastBatch batch, const Message* msg) except -1:
        cdef uint32_t share
        if batch.stored < batch.told + batch.every:
            return False
        batch.told += (batch.stored - batch.told) // batch.every * batch.every
        share = <uint32_t>min(max(SHARED // <uint32_t>len(self.batches), 1), batch.most)
        if batch.every < share:
            batch.every = min(2 * batch.every, share)
        elif batch.every > share:
            batch.every = max(batch.every // 2, share)
        self._tell(batch, batch.told, msg)
        return True

    cdef int _tell(self, FastBatch batch, uint64_t seq, const Message* msg) except -1:
        batch.reply = msg.reply[:msg.reply_len]
        return self._line(batch, batch.reply, b'{"type":"ack","seq":%d,"msgs":%d}' % (seq, batch.every))

    cdef int _commit(self, FastBatch batch, const Message* msg) except -1:
        cdef Ingest ingest = self.ingest
        cdef bytes reply = msg.reply[:msg.reply_len]
        cdef bytes text = f',"batch":{self._name(batch)},"count":{batch.last}'.encode()
        self.forget(batch)
        if ingest.overdue is not None and ingest.overdue.hold(batch.first_seq, batch.stream_seq, reply, text):
            return 0
        return ingest.answers.ack_text(batch.stream_seq, reply, text)

    def _name(self, FastBatch batch not None) -> str:
        return quoted(batch.id.decode("utf-8", "replace"))

    cdef int _line(self, FastBatch batch, bytes reply, bytes line) except -1:
        """Behind what was answered before; `batch`: when all of it is committed."""
        return self.ingest.answers.line(0 if batch is None else batch.stream_seq, reply, line)
