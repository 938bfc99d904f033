# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What may be stored (see judge.pxd)."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.counters cimport (
    Total, decimal_of, is_decimal, last_total, small_total, total_of, write_total,
)
from jetbroker.jetstream.publish.dedup cimport DedupWindow
from jetbroker.jetstream.publish.headers cimport (
    PublishHeaders, Text, has_header, has_schedule_headers, is_sequence, scan_publish_headers, with_header, without_header,
)
from jetbroker.jetstream.publish.ttl cimport TTL_INVALID, TTL_NONE, parse_ttl
from jetbroker.routing.router cimport charge_publisher
from jetbroker.store.log.stream_log cimport (
    FLAG_MSG_ID, FLAG_SCHEDULE, FLAG_TTL, READ_OK, StoredMessage, StreamLog,
)
from jetbroker.wire.headers cimport find_header
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gotext import quoted
from jetbroker.jetstream.models.counters import sources_text
from jetbroker.jetstream.models.decode import DecodeError
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.publish.headers import header_text
from jetbroker.jetstream.publish.schedule_headers import judge as judge_schedule

cdef int64_t SECOND_NS = 1_000_000_000
cdef Py_ssize_t MAX_HEADER_BYTES = limits.JS_HEADER_BYTES
cdef int64_t LARGE = 10 ** 17              # a total that is not read as a small one any more
# A turn's units, in time: what cannot be counted before is measured.
cdef int64_t UNIT_NS = limits.TURN_NS // limits.TURN_UNITS


@cython.no_gc  # it refers to nothing that refers to others
@cython.freelist(8)  # a subject without a route gets one for each message
cdef class SubjectEntry:
    """What ingest keeps of one literal subject."""


cdef class Candidate:
    """A message that may be stored."""

    cdef bint scan(self) noexcept:
        return scan_publish_headers(PyBytes_AS_STRING(self.headers), PyBytes_GET_SIZE(self.headers), &self.found)

    cdef int strip(self) except -1:
        if self.found.request_info.p != NULL:
            self.headers = without_header(self.headers, b"Nats-Request-Info")
            self.scan()
        return 0


cdef Candidate candidate_of(SubjectEntry entry, bytes headers, const char* payload, Py_ssize_t payload_len):
    cdef Candidate made = Candidate.__new__(Candidate)
    made.entry = entry
    made.headers = headers
    made.payload = payload
    made.payload_len = payload_len
    made.scan()
    return made


cdef class Judge:
    """Judges by the configuration of one stream and by what it has stored."""

    def __init__(self, StreamLog log not None, bytes name not None, DedupWindow dedup not None, object server) -> None:
        self.log = log
        self.name = name
        self.dedup = dedup
        self.server = server
        self.last_id = b""

    cdef int configure(self, object config, object rules) except -1:
        self.counts = config.allow_msg_counter
        self.allow_ttl = config.allow_msg_ttl
        self.allow_roll_up = config.allow_rollup_hdrs and not config.deny_purge
        # a subject that keeps one message only never shows an older one when the newest is gone
        self.least_ttl = config.subject_delete_marker_ttl // SECOND_NS if config.max_msgs_per_subject != 1 else 0
        self.rules = rules
        return 0

    cdef object judge(self, Candidate asked, int64_t now_ns):
        cdef object refusal
        asked.strip()
        refusal = self.features(asked)
        # one that is invalid is refused as such, but only after all other checks
        if refusal is None:
            refusal = self.time_to_live(asked)
        if refusal is None:
            refusal = self.expected_subject(asked)
        if refusal is None and asked.found.expected_last_sequence.n:
            refusal = wrong_sequence(asked.found.expected_last_sequence, self.log.last_seq)
        if refusal is None:
            refusal = self.schedule(asked, None)
        if refusal is None:
            refusal = self.message_id(asked, now_ns)
        if refusal is None and not asked.duplicate:
            refusal = self.last_message_id(asked)
            if refusal is None:
                refusal = self.rolls_up(asked)
            if refusal is None:
                refusal = self.counter(asked, None)
        return refusal

    cdef bint next_total(self, SubjectEntry entry, Py_ssize_t headers_len, int64_t increment,
                         char* body, Py_ssize_t* body_len) except -1:
        cdef KnownTotal* known = &entry.known
        if known.seq == 0 or known.seq != entry.state.last or entry.state.count == 0 or known.failures != self.failures:
            known.seq = 0
            try:
                if not small_total(self.log, entry.state, &known.value):
                    return False
            except StorageError:
                return False           # judging it tells why
        if not -LARGE < known.value < LARGE:
            return False
        known.seq = 0
        known.value += increment
        body_len[0] = write_total(body, known.value)
        return not 0 <= self.server.max_payload < headers_len + body_len[0]

    cdef int counted(self, SubjectEntry entry, uint64_t seq) noexcept:
        entry.known.seq = seq
        entry.known.failures = self.failures
        return 0

    cdef int raise_ttl(self, Candidate asked) except -1:
        cdef bytes others
        if 0 < asked.ttl < self.least_ttl:
            asked.ttl = self.least_ttl
            others = without_header(asked.headers, b"Nats-TTL") or b"NATS/1.0\r\n\r\n"
            asked.headers = others.removesuffix(b"\r\n") + b"Nats-TTL: %d\r\n\r\n" % asked.ttl
            asked.scan()               # what was found lay in the headers before
        return 0

    cdef int remember(self, Candidate stored, int64_t now_ns) except -1:
        if stored.flags & FLAG_MSG_ID:
            self.dedup.remember(stored.msg_id, stored.seq, now_ns)
        self.last_id = stored.msg_id or b""
        self.last_id_seq = stored.seq
        return 0

    cdef int forget_from(self, uint64_t first_lost) except -1:
        self.failures += 1
        if self.last_id_seq >= first_lost:
            self.last_id = b""
            self.last_id_seq = 0       # the sequence is given out again
        return self.dedup.forget_from(first_lost)

    cdef int started(self) except -1:
        cdef bytes last = self.dedup.newest(self.log.last_seq)
        if last is not None:
            self.last_id = last
            self.last_id_seq = self.log.last_seq
        return 0

    cdef int skipped(self) noexcept:
        self.last_id_seq = self.log.last_seq
        return 0

    # --- rules ---

    cdef object features(self, Candidate asked):
        """What an increment may stand beside, and the expected stream."""
        cdef Text stream = asked.found.expected_stream
        cdef object refusal
        if asked.found.increment.n:
            refusal = self._is_lone_increment(asked)
            if refusal is not None:
                return refusal
        if stream.n and (stream.n != PyBytes_GET_SIZE(self.name)
                         or memcmp(stream.p, PyBytes_AS_STRING(self.name), stream.n) != 0):
            return api_error("stream_not_match")
        return None

    cdef object _is_lone_increment(self, Candidate asked):
        cdef PublishHeaders* found = &asked.found
        if not is_decimal(found.increment.p, found.increment.n):
            return api_error("message_incr_invalid")
        if asked.sourced:
            return None
        if not self.counts:
            return api_error("message_incr_disabled")
        if asked.payload_len:
            return api_error("message_incr_payload")
        if (found.rollup.n or found.expected_stream.n or found.expected_last_msg_id.n or found.expected_last_subject.n
                or found.expected_last_sequence.n or found.expected_last_subject_sequence.n):
            return api_error("message_incr_invalid")
        return None

    cdef object time_to_live(self, Candidate asked):
        asked.ttl = parse_ttl(asked.found.ttl.p, asked.found.ttl.n)
        if asked.ttl == TTL_NONE or asked.ttl == TTL_INVALID:
            return None
        if self.allow_ttl:
            asked.flags |= FLAG_TTL
            return None
        asked.ttl = TTL_NONE
        return None if asked.sourced else api_error("message_ttl_disabled")

    cdef object expected_subject(self, Candidate asked):
        cdef Text pattern = asked.found.expected_last_subject
        cdef uint64_t last
        if asked.found.expected_last_subject_sequence.n:
            if pattern.n:
                last = last_match(self.log, pattern.p[:pattern.n])
            else:
                last = asked.entry.state.last if asked.entry.state.count else 0
            return wrong_sequence(asked.found.expected_last_subject_sequence, last)
        return api_error("stream_expected_last_seq_per_subject_invalid") if pattern.n else None

    cdef object schedule(self, Candidate asked, dict staged):
        """`staged`: subjects written before in the same batch, and whether by a schedule."""
        cdef Text following
        cdef Text scheduler
        if not has_schedule_headers(&asked.found):
            return None
        if not asked.sourced:
            verdict = judge_schedule(
                asked.entry.state.subject, asked.headers, self.rules, self._headers_of_last, staged, asked.prepared)
            if verdict.refusal is not None:
                return verdict.refusal
            if verdict.is_schedule:
                asked.flags |= FLAG_SCHEDULE
                asked.headers = verdict.block
                asked.scan()
        following = asked.found.schedule_next
        scheduler = asked.found.scheduler
        if self.allow_roll_up and scheduler.n and following.n == 5 and memcmp(following.p, b"purge", 5) == 0:
            asked.ends = scheduler.p[:scheduler.n]
        return None

    def _headers_of_last(self, bytes subject not None) -> bytes | None:
        cdef StoredMessage stored
        cdef uint64_t seq = self.log.last_by_subject(subject)
        if not seq or self.log.read(seq, &stored) != READ_OK:
            return None
        return stored.headers[:stored.headers_len] if stored.headers_len else b""

    cdef object message_id(self, Candidate asked, int64_t now_ns):
        cdef uint64_t seq
        if not asked.found.msg_id.n:
            return None
        asked.msg_id = asked.found.msg_id.p[:asked.found.msg_id.n]
        if asked.mirrored or self.dedup.window_ns <= 0:
            return None
        if not self.dedup.is_read():
            return api_error("stream_too_many_requests")
        asked.flags |= FLAG_MSG_ID
        seq = self.dedup.find(asked.msg_id, now_ns)
        if seq:
            asked.duplicate = True
            asked.seq = seq
        return None

    cdef object last_message_id(self, Candidate asked):
        cdef Text expected = asked.found.expected_last_msg_id
        cdef bytes last
        if not expected.n:
            return None
        last = self.id_of_last()
        if expected.p[:expected.n] == last:
            return None
        return api_error("stream_wrong_last_msg_id", id=last.decode("utf-8", "replace"))

    cdef bytes id_of_last(self):
        cdef StoredMessage stored
        cdef const char* value = NULL
        cdef Py_ssize_t value_len = 0
        if self.last_id_seq != self.log.last_seq:
            self.last_id = b""
            self.last_id_seq = self.log.last_seq
            if self.log.last_seq and self.log.read(self.log.last_seq, &stored) == READ_OK and stored.headers_len:
                if find_header(stored.headers, stored.headers_len, b"Nats-Msg-Id", 11, &value, &value_len):
                    self.last_id = value[:value_len]
        return self.last_id

    cdef object rolls_up(self, Candidate asked):
        cdef Text wish = asked.found.rollup
        if not wish.n:
            return None
        if not self.allow_roll_up and not asked.sourced:
            return api_error("stream_rollup_failed", err="rollup not permitted")
        text = wish.p[:wish.n].decode("utf-8", "replace").lower()
        if text not in ("sub", "all"):
            return api_error("stream_rollup_failed", err=f"rollup value invalid: {quoted(text)}")
        if self.allow_roll_up:
            asked.roll_up = ROLL_UP_SUBJECT if text == "sub" else ROLL_UP_ALL
        return None

    cdef object counter(self, Candidate asked, dict staged):
        cdef Text increment = asked.found.increment
        cdef bytes subject = asked.entry.state.subject
        cdef bytes origin
        cdef Total total
        if not self.counts:
            return None
        if not increment.n:
            return api_error("message_incr_missing")
        try:
            total = staged.get(subject) if staged is not None else None
            if total is None:
                total = last_total(self.log, asked.entry.state)
            origin = header_text(asked.headers, b"Nats-Stream-Source") if has_header(
                PyBytes_AS_STRING(asked.headers), PyBytes_GET_SIZE(asked.headers), b"Nats-Stream-Source", 18) else None
            if PyBytes_GET_SIZE(asked.headers) > MAX_HEADER_BYTES:
                return None                # it is refused for that, so that no increment is longer
            if origin:
                add_source(total, asked, origin)
            else:
                total.add(decimal_of(increment.p, increment.n))
        except DecodeError:
            return api_error("message_counter_broken")
        if total.sources:
            asked.headers = with_header(asked.headers, b"Nats-Counter-Sources", sources_text(total.sources))
            asked.scan()
        asked.held = total.body()
        asked.payload = PyBytes_AS_STRING(asked.held)
        asked.payload_len = PyBytes_GET_SIZE(asked.held)
        if 0 <= self.server.max_payload < PyBytes_GET_SIZE(asked.headers) + asked.payload_len:
            return api_error("stream_message_exceeds_maximum")
        if staged is not None:
            staged[subject] = total
        return None


cdef int add_source(Total total, Candidate asked, bytes origin) except -1:
    """A sourced counter tells its own total: the increment is what that adds to what was known of it."""
    cdef list words = origin.split(b" ")
    cdef bytes told = total_of(asked.payload, asked.payload_len)
    cdef bytes subject = words[4] if len(words) >= 5 else asked.entry.state.subject
    cdef bytes step = total.add_source(words[0], subject, decimal_of(PyBytes_AS_STRING(told), PyBytes_GET_SIZE(told)))
    asked.headers = with_header(asked.headers, b"Nats-Incr", step)
    return 0


cdef object wrong_sequence(Text expected, uint64_t last):
    return None if is_sequence(expected, last) else api_error("stream_wrong_last_sequence", seq=last)


cdef uint64_t last_match(StreamLog log, bytes pattern) except? 0:
    cdef int64_t began
    cdef uint64_t last
    if not has_wildcard(<const char*>pattern, len(pattern)):
        return log.last_by_subject(pattern)
    began = monotonic_ns()
    last = log.last_by_subject(pattern)
    charge_time_since(began)
    return last


cdef int charge_time_since(int64_t began_ns) except -1:
    return charge_publisher((monotonic_ns() - began_ns) // UNIT_NS)
