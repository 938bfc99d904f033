# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The receiving half of a mirror or source (see origin_ingest.pxd).

Messages come with ack subjects that number them twice: by the origin's sequence and by the consumer's. The consumer's
tell whether one is missing, the origin's what is done with. Flow control is answered when everything before it is
committed: that answer is what lets an origin with interest or work queue retention remove its messages.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memmove

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.publish.judge cimport Candidate, SubjectEntry, candidate_of
from jetbroker.jetstream.publish.headers cimport PublishHeaders, scan_publish_headers
from jetbroker.jetstream.streams.stream cimport Stream
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.routing.transform cimport Transform
from jetbroker.saturate cimport add_uint64
from jetbroker.store.log.stream_log cimport READ_OK, StoredMessage, StreamLog
from jetbroker.tick cimport PHASE_EVENTS
from jetbroker.wire.buffer cimport OutputBuffer, format_uint
from jetbroker.wire.digits cimport read_uint64
from jetbroker.wire.headers cimport find_header
from jetbroker.wire.message cimport Message

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.jetstream.models.errors import api_error
from jetbroker.wire.subjects import valid_literal

cdef Py_ssize_t CACHED_SUBJECTS = 1024         # a power of two
cdef Py_ssize_t PAIR = 2 * sizeof(uint64_t)
cdef uint64_t MAX_SEQUENCE = limits.STREAM_SKIP_SEQUENCE
cdef Py_ssize_t MAX_FLOW = limits.JS_ORIGIN_FLOW_REQUESTS
cdef bytes FLOW_PREFIX = b"$JS.FC."
cdef bytes SOURCE_HEADER = b"Nats-Stream-Source"


cdef bint parse_delivery(const char* p, Py_ssize_t n, Delivery* out) noexcept nogil:
    """`$JS.ACK.<stream>.<consumer>.` and five numbers, or `$JS.ACK.<domain>.<account>.<stream>.<consumer>.` and those."""
    cdef Py_ssize_t dots[11]
    cdef uint64_t numbers[5]
    cdef int count = 0
    cdef int i
    cdef Py_ssize_t at
    cdef Py_ssize_t stop
    if n < 8 or memcmp(p, b"$JS.ACK.", 8) != 0:
        return False
    for at in range(n):
        if p[at] == c'.':
            if count == 11:
                break
            dots[count] = at
            count += 1
    if count != 8 and count < 10:
        return False
    at = dots[3 if count == 8 else 5] + 1
    for i in range(5):
        stop = at
        while stop < n and c'0' <= p[stop] <= c'9':
            stop += 1
        if not read_uint64(p + at, stop - at, &numbers[i]) or numbers[i] > <uint64_t>INT64_MAX:
            return False               # as nats-server counts
        at = stop + 1                  # the dot, or one beyond the end
    out.delivered = numbers[0]
    out.stream_seq = numbers[1]
    out.consumer_seq = numbers[2]
    out.time_ns = <int64_t>numbers[3]
    out.pending = numbers[4]
    return True


cdef inline bint is_status(const Message* msg) noexcept nogil:
    return (msg.body_len == msg.headers_len and msg.headers_len > 13
            and memcmp(msg.body, b"NATS/1.0 100 ", 13) == 0)


cdef uint64_t number_header(const Message* msg, bytes name):
    """The value of a header that is a number; 0 when there is none."""
    cdef const char* value = NULL
    cdef Py_ssize_t n = 0
    cdef uint64_t number = 0
    if find_header(msg.body, msg.headers_len, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), &value, &n):
        read_uint64(value, n, &number)
    return number


cdef inline bint starts_with(const char* line, Py_ssize_t n, const char* prefix, Py_ssize_t m) noexcept nogil:
    return n >= m and memcmp(line, prefix, m) == 0


cdef class OriginIngest(Receiver):
    """Takes what one origin delivers.

    `index_name` is what `Nats-Stream-Source` says of a source, with its three words; "" makes it a mirror.
    `transforms` are the origin's, the first one that fits a subject counts. In `batch` the origins of a stream collect
    those that have moved on in this tick.
    """

    def __init__(self, Stream stream not None, object owner, str index_name not None, list transforms not None,
                 list batch not None) -> None:
        self.ingest = stream.ingest
        self.log = stream.log
        self.router = stream.router
        self.tick = stream.tick
        self.owner = owner
        self.batch = batch
        self.index_name = index_name
        self.is_mirror = not index_name
        if index_name:
            name, source, destination = index_name.encode().split(b" ")[:3]
            self.header_start = b"%b: %b " % (SOURCE_HEADER, name)
            self.header_rest = b" %b %b " % (source, destination)
        self.transforms = transforms
        self.block = OutputBuffer()
        self.marks = OutputBuffer()
        self.flow = []
        self.renew()

    # --- the connection ---

    def begin(self, uint64_t stream_seq) -> None:
        """Take deliveries of a new consumer; everything up to `stream_seq` is done with."""
        if self.is_mirror:
            if stream_seq > self.log.last_seq:
                self.log.skip_to(add_uint64(stream_seq, 1))
            stream_seq = self.log.last_seq
        self.stream_seq = stream_seq
        self.consumer_seq = 0
        self.flow = []
        self.broken = False
        self.refusal = None
        self.heard_ns = monotonic_ns()
        self.connected = True

    def end(self) -> None:
        """Take nothing more."""
        self.connected = False
        self.flow = []

    def renew(self) -> None:
        """The stream's configuration has changed: work everything out anew."""
        cdef Transform transform
        self.cached_subjects = [None] * CACHED_SUBJECTS
        self.cached_entries = [None] * CACHED_SUBJECTS
        self.cacheable = self.ingest.transform is None or not self.ingest.transform.is_random
        for transform in self.transforms:
            if transform is not None and transform.is_random:
                self.cacheable = False

    def silent_ns(self) -> int:
        """Time since the origin was heard; -1: never."""
        return monotonic_ns() - self.heard_ns if self.heard_ns else -1

    # --- messages ---

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef Delivery delivery
        if sub.closed or not self.connected:
            return 0
        self.heard_ns = monotonic_ns()
        if is_status(msg):
            self._take_status(msg)
        elif msg.reply != NULL and parse_delivery(msg.reply, msg.reply_len, &delivery):
            if delivery.stream_seq > MAX_SEQUENCE:
                self._break(api_error("stream_store_failed", err=f"sequence {delivery.stream_seq} is out of range"))
            elif delivery.delivered == 1 and self._in_order(&delivery):
                self.lag = delivery.pending - 1 if delivery.pending else 0
                if self._keep(&delivery, msg):
                    self.consumer_seq = delivery.consumer_seq
                    self.stream_seq = delivery.stream_seq
                    if not self.moved and not self.is_mirror:
                        self.moved = True
                        self.batch.append(self)
                        self.tick.schedule(PHASE_EVENTS, self)
        return 1

    cdef int _take_status(self, const Message* msg) except -1:
        """A heartbeat, or a request to say how far we are."""
        cdef const char* stalled = NULL
        cdef Py_ssize_t n = 0
        cdef uint64_t last
        cdef bytes reply
        if msg.reply != NULL:
            reply = msg.reply[:msg.reply_len]
        else:
            last = number_header(msg, b"Nats-Last-Consumer")
            if last and last != self.consumer_seq:
                return self._break(None)
            if not find_header(msg.body, msg.headers_len, b"Nats-Consumer-Stalled", 21, &stalled, &n) or n == 0:
                return 0
            reply = stalled[:n]
            for waiting in self.flow:
                if waiting[1] == reply:
                    return 0
        if len(self.flow) >= MAX_FLOW or not reply.startswith(FLOW_PREFIX) or not valid_literal(reply):
            return 0                   # an origin does not choose where else this account publishes
        self.flow.append((self.log.last_seq, reply, self.consumer_seq, self.stream_seq))
        return self.tick.schedule(PHASE_EVENTS, self)

    cdef bint _in_order(self, Delivery* delivery) except -1:
        """Is this the next message? What is not is counted, or ignored, or breaks the connection."""
        if delivery.stream_seq <= self.stream_seq:
            if delivery.consumer_seq == self.consumer_seq + 1:
                self.consumer_seq += 1
            return False
        if delivery.consumer_seq == self.consumer_seq + 1:
            return True
        if self.is_mirror and delivery.stream_seq == self.stream_seq + 1:
            return True
        if delivery.consumer_seq > self.consumer_seq:
            self._break(None)
        return False

    cdef bint _keep(self, Delivery* delivery, const Message* msg) except -1:
        """Store it; False: that was refused, and the connection is broken."""
        cdef bint has_server_headers
        if self.is_mirror and delivery.stream_seq <= self.log.last_seq:
            return True                # a purge has moved the mirror ahead
        if self.ingest.sealed:
            self._break(api_error("stream_sealed"))
            return False
        has_server_headers = self._write_headers(delivery, msg)
        try:
            if self.is_mirror and delivery.stream_seq > self.log.last_seq + 1:
                self.log.skip_to(delivery.stream_seq)
            return self._store(delivery, self._entry_of(msg), msg, has_server_headers)
        except StorageError as error:
            self._break(api_error("stream_store_failed", err=error))
            return False

    cdef bint _store(self, Delivery* delivery, SubjectEntry entry, const Message* msg,
                     bint has_server_headers) except -1:
        cdef Ingest ingest = self.ingest
        cdef const char* payload = msg.body + msg.headers_len
        cdef Py_ssize_t payload_len = msg.body_len - msg.headers_len
        cdef int64_t now = wall_clock_ns() if not self.is_mirror else delivery.time_ns
        cdef PublishHeaders found
        cdef Candidate asked
        cdef object refusal = None
        if has_server_headers and scan_publish_headers(self.block.data, self.block.size, &found):
            asked = candidate_of(entry, self.block.data[:self.block.size], payload, payload_len)
            asked.sourced = True
            asked.mirrored = self.is_mirror
            ingest.take(asked, now)
            refusal = asked.refusal
        elif ingest.judge.counts:
            refusal = api_error("message_incr_missing")
        elif not ingest.store(entry, self.block.data if self.block.size else NULL, self.block.size, payload, payload_len,
                              None, now):
            refusal = ingest.refusal
        if refusal is not None:
            self._break(refusal)
        return refusal is None

    cdef SubjectEntry _entry_of(self, const Message* msg):
        """What the stream keeps of the subject this message is stored with."""
        cdef uint32_t h = 2166136261U
        cdef Py_ssize_t i
        cdef bytes known
        cdef bytes renamed
        cdef Message local
        cdef SubjectEntry entry
        for i in range(msg.subject_len):
            h = (h ^ <unsigned char>msg.subject[i]) * 16777619U
        i = h & (CACHED_SUBJECTS - 1)
        known = <bytes>self.cached_subjects[i]
        if known is not None and PyBytes_GET_SIZE(known) == msg.subject_len and memcmp(
                PyBytes_AS_STRING(known), msg.subject, msg.subject_len) == 0:
            return <SubjectEntry>self.cached_entries[i]
        local = msg[0]
        renamed = self._transformed(msg)
        if renamed is not None:
            local.subject = PyBytes_AS_STRING(renamed)
            local.subject_len = PyBytes_GET_SIZE(renamed)
        entry = self.ingest.transformed_entry(None, &local)
        if self.cacheable:
            self.cached_subjects[i] = msg.subject[:msg.subject_len]
            self.cached_entries[i] = entry
        return entry

    cdef bytes _transformed(self, const Message* msg):
        """By the first of the origin's transforms that fits; None: the subject stays."""
        cdef Transform transform
        for transform in self.transforms:
            if transform is not None and transform.fits(msg.subject, msg.subject_len):
                return transform.map(msg.subject, msg.subject_len) or None
        return None

    cdef bint _write_headers(self, Delivery* delivery, const Message* msg) except -1:
        """Into `block`: the message's own without those that were meant for the origin, and where it comes from.

        Returns True when some that a stream may act on are among them.
        """
        cdef OutputBuffer out = self.block
        cdef const char* line = msg.body
        cdef const char* end = msg.body + msg.headers_len
        cdef const char* stop
        cdef Py_ssize_t n, kept
        cdef bint found = False
        cdef char* p
        out.size = 0
        out.append(b"NATS/1.0\r\n", 10)
        kept = out.size
        if msg.headers_len:
            line = <const char*>memchr(line, c'\n', end - line)
            while line != NULL and line + 1 < end:
                line += 1
                stop = <const char*>memchr(line, c'\n', end - line)
                n = (stop + 1 if stop != NULL else end) - line
                if n <= 2:
                    break
                if starts_with(line, n, b"Nats-", 5):
                    if (starts_with(line + 5, n - 5, b"Expected-", 9) or starts_with(line + 5, n - 5, b"Batch-", 6)
                            or (not self.is_mirror and starts_with(line + 5, n - 5, b"Stream-Source:", 14))):
                        line = stop
                        continue
                    found = True
                out.append(line, n)
                line = stop
        if self.is_mirror:
            if out.size == kept:
                out.size = 0           # none is left
            else:
                out.append(b"\r\n", 2)
            return found
        out.append(PyBytes_AS_STRING(self.header_start), PyBytes_GET_SIZE(self.header_start))
        p = out.reserve(20)
        out.size += format_uint(p, delivery.stream_seq)
        out.append(PyBytes_AS_STRING(self.header_rest), PyBytes_GET_SIZE(self.header_rest))
        out.append(msg.subject, msg.subject_len)
        out.append(b"\r\n\r\n", 4)
        return found

    cdef int _break(self, object refusal) except -1:
        """Take nothing more; the owner hears of it when no message is on its way."""
        self.connected = False
        self.broken = True
        self.refusal = refusal
        return self.tick.schedule(PHASE_EVENTS, self)

    # --- between messages ---

    cdef int run_tick(self) except -1:
        if self.moved:
            self.owner.moved()
        if self.flow:
            self._answer_flow()
        if self.broken:
            self.broken = False
            self.owner.broke(self.refusal)
        return 0

    cdef int _answer_flow(self) except -1:
        """Answer what is committed, in order."""
        cdef Py_ssize_t done = 0
        for log_seq, reply, consumer_seq, stream_seq in self.flow:
            if <uint64_t>log_seq > self.log.committed:
                break
            done += 1
            headers = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n" % (consumer_seq, stream_seq)
            self.router.publish_bytes(reply, None, headers if stream_seq else b"", b"")
        if done:
            self.flow = self.flow[done:]
        return 0

    def mark(self) -> None:
        """What came in this tick is recorded."""
        cdef uint64_t* mark = <uint64_t*>self.marks.reserve(PAIR)
        self.moved = False
        mark[0] = self.log.last_seq
        mark[1] = self.stream_seq
        self.marks.size += PAIR
        if self.log.committed >= self.log.last_seq:
            self.committed(self.log.committed)

    def committed(self, uint64_t seq) -> None:
        """The stream's log has committed everything up to `seq`."""
        cdef uint64_t* mark = <uint64_t*>self.marks.data
        cdef Py_ssize_t at = 0
        while at < self.marks.size and mark[0] <= seq:
            self.committed_log = mark[0]
            self.committed_stream = mark[1]
            mark += 2
            at += PAIR
        if at:
            memmove(self.marks.data, self.marks.data + at, self.marks.size - at)
            self.marks.size -= at
        if self.flow:
            self.tick.schedule(PHASE_EVENTS, self)

    def write_failed(self, uint64_t first_lost) -> tuple[int, int]:
        """The log took back what it had from `first_lost` on. Breaks the connection when something of this origin is gone.

        Returns the last (log sequence, stream sequence) known to be sound: the messages behind it tell the rest.
        """
        cdef uint64_t* mark = <uint64_t*>self.marks.data
        cdef Py_ssize_t at = 0
        if self.is_mirror:
            self._break(None)
            return self.log.last_seq, self.log.last_seq
        if not self.moved and (at == self.marks.size or self._last_mark() < first_lost):
            return self.log.last_seq, self.stream_seq
        while at < self.marks.size and mark[0] < first_lost:
            self.committed_log = mark[0]
            self.committed_stream = mark[1]
            mark += 2
            at += PAIR
        self.marks.size = 0
        self._break(None)
        return self.committed_log, self.committed_stream

    cdef uint64_t _last_mark(self) noexcept:
        return (<uint64_t*>(self.marks.data + self.marks.size - PAIR))[0]

    def go_back(self, uint64_t stream_seq) -> None:
        """Not connected: this is the last message that is done with."""
        self.stream_seq = self.committed_stream = stream_seq
        self.committed_log = self.log.last_seq
        self.marks.size = 0
        self.moved = False             # nor does it wait to be recorded


def source_of(StreamLog log not None, uint64_t seq) -> list[str] | None:
    """The words of a message's Nats-Stream-Source: stream, sequence there, filter, destination, subject.

    None: it has none. The header of nats-server before 2.10 has the first two only.
    """
    cdef StoredMessage stored
    cdef const char* value = NULL
    cdef Py_ssize_t n = 0
    if log.read(seq, &stored) != READ_OK or not stored.headers_len or not find_header(
            stored.headers, stored.headers_len, PyBytes_AS_STRING(SOURCE_HEADER), PyBytes_GET_SIZE(SOURCE_HEADER),
            &value, &n):
        return None
    return value[:n].decode("utf-8", "replace").split(" ", 4)
