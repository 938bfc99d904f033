# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Direct get (see direct.pxd).

Requests wait for the event phase of the tick they arrive in. What costs more than one message is done piece by piece:
each tick has a turn of a few milliseconds and a megabyte, shared by the clients that ask, so that no answer blocks
the loop, fills its receiver's output at once, or keeps other requests waiting.
"""
from collections import deque

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.headers cimport append_header, append_number, append_time, begin_block
from jetbroker.routing.router cimport Router, charge_publisher, get_origin
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.stream_log cimport (
    READ_DAMAGED, READ_MISSING, READ_OK, StoredMessage, SubjectFilter, SubjectState,
)
from jetbroker.store.log.warming cimport warm
from jetbroker.tick cimport PHASE_EVENTS, Tick
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.headers cimport find_header
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.bounds import INT64_MAX, INT64_MIN, UINT64_MAX
from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.forms.gojson import fast_value
from jetbroker.forms.gotext import parse_time


cdef bytes EMPTY = b"408 Empty Request"
cdef bytes MALFORMED = b"408 Malformed Request"
cdef bytes BAD = b"408 Bad Request"
cdef bytes API_LEVEL_TOO_LOW = b"412 Required Api Level"


class DirectError(Exception):
    """A request that is answered by a status line; `status` is the text after `NATS/1.0 `.

    Raise a new one each time: one that is raised again keeps the frames of all times before.
    """

    def __init__(self, bytes status not None) -> None:
        super().__init__(status.decode())
        self.status = status


cdef class DirectRequest:
    """Asks for nothing yet."""

    cdef bint asks(self) noexcept:
        return (self.seq != 0 or self.batch != 0 or self.up_to_seq != 0
                or self.last_by_subject is not None or self.next_by_subject is not None
                or self.start_time_ns is not None or self.up_to_time_ns is not None or self.multi_last is not None)


cdef DirectRequest read_request(bytes subject, bytes body, bytes level):
    cdef DirectRequest request
    if level is not None and not level_supported(level):
        raise DirectError(API_LEVEL_TOO_LOW)
    if not body:
        if not subject:
            raise DirectError(EMPTY)
        request = DirectRequest.__new__(DirectRequest)
    else:
        request = _from_fields(_fields(body))
        if not subject:
            _check(request)
            return request
        if request.asks():
            raise DirectError(BAD)
    request.last_by_subject = subject
    return request


cdef dict _fields(bytes body):
    try:
        fields = fast_value(body)
    except ValueError:
        raise DirectError(MALFORMED) from None
    if not isinstance(fields, dict):
        raise DirectError(MALFORMED)
    return {name.lower(): value for name, value in (<dict>fields).items() if value is not None}


cdef DirectRequest _from_fields(dict fields):
    cdef DirectRequest request = DirectRequest.__new__(DirectRequest)
    cdef str name
    for name, value in fields.items():
        if name == "seq":
            request.seq = _integer(value, 0, UINT64_MAX)
        elif name == "last_by_subj":
            request.last_by_subject = _text(value) or None
        elif name == "next_by_subj":
            request.next_by_subject = _text(value) or None
        elif name == "batch":
            request.batch = _integer(value, INT64_MIN, INT64_MAX)
        elif name == "max_bytes":
            request.max_bytes = _integer(value, INT64_MIN, INT64_MAX)
        elif name == "start_time":
            request.start_time_ns = _time(value)
        elif name == "multi_last":
            request.multi_last = _texts(value) or None
        elif name == "up_to_seq":
            request.up_to_seq = _integer(value, 0, UINT64_MAX)
        elif name == "up_to_time":
            request.up_to_time_ns = _time(value)
        elif name == "no_hdr":
            if type(value) is not bool:
                raise DirectError(MALFORMED)
            request.no_hdr = value
    return request


cdef int _check(DirectRequest request) except -1:
    cdef int starts = (request.seq != 0) + (request.last_by_subject is not None) + (request.start_time_ns is not None)
    if not (starts or request.next_by_subject is not None or request.multi_last is not None):
        raise DirectError(EMPTY)
    if starts > 1 or (request.last_by_subject is not None and (request.next_by_subject is not None or request.batch)):
        raise DirectError(BAD)
    if request.up_to_seq and request.up_to_time_ns is not None:
        raise DirectError(BAD)
    if request.multi_last is not None and (
            request.last_by_subject is not None or request.next_by_subject is not None):
        raise DirectError(BAD)
    return 0


cdef object _integer(object value, object low, object high):
    if type(value) is not int or not low <= value <= high:
        raise DirectError(MALFORMED)
    return value


cdef bytes _text(object value):
    if not isinstance(value, str):
        raise DirectError(MALFORMED)
    return (<str>value).encode()


cdef tuple _texts(object value):
    if not isinstance(value, list):
        raise DirectError(MALFORMED)
    return tuple([_text(text) for text in <list>value])


cdef object _time(object value):
    if not isinstance(value, str):
        raise DirectError(MALFORMED)
    try:
        return parse_time(value).unix_nano
    except ValueError:
        raise DirectError(MALFORMED) from None


cdef int64_t BYTES_PER_TICK = limits.JS_DIRECT_BYTES_PER_TICK
cdef int64_t MAX_WAITING = limits.JS_DIRECT_REQUESTS
cdef int64_t MAX_WAITING_BYTES = limits.JS_DIRECT_REQUEST_BYTES
cdef int MAX_MULTI_LAST = limits.JS_MULTI_LAST_SUBJECTS
cdef long REQUEST_UNITS = limits.JS_DIRECT_REQUEST_UNITS
cdef bytes PREFIX = b"$JS.API.DIRECT.GET."
cdef bytes LEVEL = LEVEL_HEADER

# One piece of a job: a fraction of a millisecond.
cdef int MESSAGES_PER_PIECE = 64
cdef int STATES_PER_PIECE = 1024
cdef uint64_t SEQUENCES_PER_PIECE = 65_536
cdef int LATER = -2                    # beside the results of a read: the search goes on in the next piece
cdef SubjectFilter EVERYTHING = SubjectFilter()


@cython.no_gc  # thousands may wait at a time, and none refers to what refers to it
cdef class DirectJob:
    """A request, worked on piece by piece."""


cdef inline bint is_pattern(bytes subject) noexcept:
    return has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))


cdef class DirectGet(Receiver):
    """The receiver behind a stream's `$JS.API.DIRECT.GET` subscriptions; those of `origin` when it is a mirror of that."""

    def __init__(self, Router router not None, Tick tick not None, SegmentedLog log not None, str name not None,
                 object server not None, str origin="") -> None:
        self.router = router
        self.tick = tick
        self.log = log
        self.name = name.encode()
        self.server = server
        self.prefix_len = len(PREFIX) + len(origin.encode() or self.name)
        self.clients = {}
        self.in_turn = deque()
        self.asked = []
        self.refused = []
        self.out = OutputBuffer()

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef const char* value = NULL
        cdef Py_ssize_t value_len = 0
        cdef DirectJob job
        if sub.closed:
            return 0
        if msg.reply == NULL:
            return 1
        charge_publisher(REQUEST_UNITS + msg.body_len // 32)
        self.tick.schedule(PHASE_EVENTS, self)
        if self.waiting >= MAX_WAITING or self.waiting_bytes + msg.body_len > MAX_WAITING_BYTES:
            self.refused.append(msg.reply[:msg.reply_len])
            return 1
        job = DirectJob.__new__(DirectJob)
        if msg.headers_len and find_header(msg.body, msg.headers_len, LEVEL, len(LEVEL), &value, &value_len):
            job.level = value[:value_len]
        if msg.subject_len > self.prefix_len + 1:
            job.subject = msg.subject[self.prefix_len + 1:msg.subject_len]
            self.log.subjects.expect(PyBytes_AS_STRING(job.subject), PyBytes_GET_SIZE(job.subject))
            self.asked.append(job.subject)
        job.client = getattr(get_origin(), "cid", None)
        job.reply = msg.reply[:msg.reply_len]
        job.body = msg.body[msg.headers_len:msg.body_len]
        job.size = msg.body_len
        self.waiting += 1
        self.waiting_bytes += job.size
        self.put(job, False)
        return 1

    def forget(self) -> None:
        """Answer nothing that waits: the stream is going."""
        self.clients = {}
        self.in_turn.clear()
        self.asked = []
        self.refused = []
        self.collector = None
        self.waiting = 0
        self.waiting_bytes = 0

    cdef int put(self, DirectJob job, bint first) except -1:
        """Among what waits of its client: before the rest or behind it."""
        jobs = self.clients.get(job.client)
        if jobs is None:
            jobs = self.clients[job.client] = deque()
            self.in_turn.append(job.client)
        if first:
            jobs.appendleft(job)
        else:
            jobs.append(job)
        return 0

    cdef DirectJob take(self):
        """The next job of the client that has its turn, who is the last in line then."""
        client = self.in_turn.popleft()
        jobs = self.clients[client]
        job = jobs.popleft()
        if jobs:
            self.in_turn.append(client)
        else:
            del self.clients[client]
        return job

    cdef bint _turn_is_over(self) noexcept:
        return self.sent >= BYTES_PER_TICK or monotonic_ns() >= self.ends_ns

    cdef int run_tick(self) except -1:
        cdef DirectJob job
        cdef list refused = self.refused
        cdef bint done
        self.refused = []
        if len(self.asked) > 1:
            warm(self.log, self.asked)
        self.asked = []
        self.sent = 0
        self.ends_ns = monotonic_ns() + <int64_t>limits.TURN_NS
        for reply in refused:
            self.send_status(reply, b"429 Too Many Requests")
        while self.in_turn:
            job = self.take()
            try:
                done = self._advance(job)
            except DirectError as error:
                self.send_status(job.reply, error.status)
                done = True
            except Exception as error:
                self.tick.report(self, error)  # the others' requests go on
                done = True
            if done:
                self.waiting -= 1
                self.waiting_bytes -= job.size
                if self.collector is job:
                    self.collector = None
            else:
                # what is being sent takes turns with the client's other requests; the rest is begun in their order
                self.put(job, job.stage != SENDING)
            if self._turn_is_over():
                break
        if self.in_turn:
            self.tick.defer(PHASE_EVENTS, self)
        return 0

    cdef bint _advance(self, DirectJob job) except -1:
        """Do a piece of a job; True when it is done."""
        cdef DirectRequest request
        if job.stage == SENDING:
            return self._send(job)
        if job.stage == COLLECTING:
            return self._collect(job)
        if job.stage == COUNTING:
            return self._count(job)
        if job.stage == FINDING:
            return self._find(job)
        request = read_request(job.subject, job.body, job.level)
        job.subject = job.body = job.level = None
        return self._begin(job, request)

    # --- beginnings ---

    cdef bint _begin(self, DirectJob job, DirectRequest request) except -1:
        cdef uint64_t seq
        job.bare = request.no_hdr
        job.wanted = job.left = request.batch
        if request.batch or request.multi_last is not None:
            job.bytes_left = request.max_bytes or self.server.max_pending
        if request.multi_last is not None:
            job.next_seq = request.seq
            job.up_to = request.up_to_seq
            if request.up_to_time_ns is not None:
                job.up_to = self.log.seq_at_time(request.up_to_time_ns) - 1
                if job.up_to == 0:
                    raise DirectError(b"404 No Results")
            return self._begin_collecting(job, request.multi_last)
        if request.batch:
            return self._begin_walk(job, request)
        seq = request.seq
        if request.last_by_subject is not None:
            if is_pattern(request.last_by_subject):
                job.single = True
                return self._begin_collecting(job, (request.last_by_subject,))
            seq = self.log.last_by_subject(request.last_by_subject)
        elif request.start_time_ns is not None:
            seq = self.log.seq_at_time(request.start_time_ns)
        if request.next_by_subject is not None:
            return self._begin_finding(job, request.next_by_subject, max(seq, <uint64_t>1))
        self._send_one(job, seq)
        return True

    cdef bint _begin_finding(self, DirectJob job, bytes subject, uint64_t start) except -1:
        """The next message of a subject; one that has a single message is not searched for."""
        cdef SubjectState state = None if is_pattern(subject) else self.log.subjects.get(subject)
        if state is not None and state.count == 1 and start <= state.last and not self.log.lost_count():
            self._send_one(job, state.last)
            return True
        job.stage = FINDING
        job.matching = SubjectFilter(subject)
        job.next_seq = start
        return self._find(job)

    cdef bint _begin_walk(self, DirectJob job, DirectRequest request) except -1:
        """`batch` messages from a sequence or time on, of one subject or of all."""
        cdef uint64_t seq = request.seq
        if request.start_time_ns is not None:
            seq = self.log.seq_at_time(request.start_time_ns)
        job.matching = EVERYTHING if request.next_by_subject is None else SubjectFilter(request.next_by_subject)
        job.next_seq = job.counted_to = max(seq, 1)
        job.count_end = self.log.last_seq
        job.stage = COUNTING
        return self._count(job)

    cdef bint _begin_collecting(self, DirectJob job, object patterns) except -1:
        """The last message of each matching subject, as of one point in the stream."""
        cdef bytes pattern
        cdef list wildcards = []
        job.names = set()
        for pattern in patterns:
            if has_wildcard(pattern, len(pattern)):
                wildcards.append(pattern)
            else:
                job.names.add(pattern)
        if job.up_to == 0:
            job.up_to = self.log.last_seq
        job.matching = SubjectFilter(*set(wildcards)) if wildcards else None
        job.found = set()
        job.stage = COLLECTING
        return self._collect(job)

    # --- pieces ---

    cdef bint _collect(self, DirectJob job) except -1:
        cdef SubjectState state
        for _ in range(STATES_PER_PIECE):
            if len(job.found) > MAX_MULTI_LAST or not job.names:
                break
            state = self.log.subjects.get(job.names.pop())
            if state is not None:
                self._add(job, state)
        if len(job.found) > MAX_MULTI_LAST:
            return self._collected(job)
        if job.names:
            return False
        if job.matching is None:
            return self._collected(job)
        if job.states is None:
            if self.collector is not None and self.collector is not job:
                return False           # one list of all subjects at a time
            self.collector = job
            job.states = self.log.subjects.states()
        for _ in range(max(1, STATES_PER_PIECE // max(1, <int>len(job.matching.patterns)))):
            if job.position == len(job.states) or len(job.found) > MAX_MULTI_LAST:
                return self._collected(job)
            state = <SubjectState>job.states[job.position]
            job.position += 1
            if job.matching.matches(state.subject, len(state.subject)):
                self._add(job, state)
                if self._turn_is_over():
                    return False
        return False

    cdef int _add(self, DirectJob job, SubjectState state) except -1:
        """A subject that was asked for; it may be gone by now."""
        cdef uint64_t seq = state.last
        if state.count == 0:
            return 0
        if job.single:
            if job.newest is None or job.newest.count == 0 or seq > job.newest.last:
                job.newest = state
            return 0
        if seq > job.up_to:
            # `first_hint` is never behind the first message
            seq = self.log.find_previous(state.subject, job.up_to + 1) if state.first_hint <= job.up_to else 0
        if seq:
            job.found.add(seq)
        return 0

    cdef bint _collected(self, DirectJob job) except -1:
        job.states = None
        if self.collector is job:
            self.collector = None
        if job.single:
            if job.newest is not None and job.newest.count == 0:
                job.newest = None      # all of it was removed while others were looked at
                job.position = 0
                return False
            self._send_one(job, 0 if job.newest is None else job.newest.last)
            return True
        if len(job.found) > MAX_MULTI_LAST:
            raise DirectError(b"413 Too Many Results")
        if not job.found:
            raise DirectError(b"404 No Results")
        job.sequences = sorted([seq for seq in job.found if seq >= job.next_seq])
        job.found = None
        job.position = 0
        job.bare = False               # as nats-server, which knows no no_hdr here
        job.pending = len(job.sequences)
        if job.wanted <= 0:
            job.left = job.pending
        job.stage = SENDING
        return self._send(job)

    cdef bint _count(self, DirectJob job) except -1:
        """How many messages a walk has before it."""
        cdef StoredMessage stored
        cdef uint64_t end
        if not job.matching.patterns:
            job.pending = self.log.count_from(job.matching, job.next_seq)
        elif job.counted_to <= job.count_end:
            end = min(job.count_end, job.counted_to + SEQUENCES_PER_PIECE - 1)
            job.pending += self.log.count_between(job.matching, job.counted_to, end)
            # over what is missing, however much that is
            if end < job.count_end and self.log.next_message(EVERYTHING, end + 1, job.count_end,
                                                             &stored) != READ_MISSING:
                job.counted_to = stored.seq
                return False
        job.stage = SENDING
        return self._send(job)

    cdef bint _find(self, DirectJob job) except -1:
        cdef StoredMessage stored
        cdef int result = self._search(job, &stored)
        if result == LATER:
            return False
        self._reply(job.reply, job.bare, &stored, result)
        return True

    cdef bint _send(self, DirectJob job) except -1:
        """Send some messages; True when all are sent and their end has been marked."""
        cdef StoredMessage stored
        cdef uint64_t seq
        cdef int result
        for _ in range(MESSAGES_PER_PIECE):
            result = self._next_of(job, &stored) if job.left > 0 else READ_MISSING
            if result == LATER:
                return False
            if result == READ_MISSING:
                if job.left > 0 and job.sequences is None and not job.met_any:
                    raise DirectError(b"404 Message Not Found")
                self._send_end(job)
                return True
            job.left -= 1
            if not job.bare:           # nats-server forgets to count then
                job.pending -= 1
            job.bytes_left -= stored.subject_len + stored.headers_len + stored.payload_len
            seq = stored.seq           # publishing may change the log, and with it what `stored` points to
            self.send_message(job.reply, &stored, job.bare, job)
            job.last_seq = seq
            if job.bytes_left <= 0:
                self._send_end(job)
                return True
            if self.sent >= BYTES_PER_TICK:
                return False
        return False

    cdef int _next_of(self, DirectJob job, StoredMessage* stored) except -1:
        """READ_OK with the next message of a batch, READ_MISSING at its end, or LATER. Damaged ones are left out."""
        cdef int result
        if job.sequences is None:
            result = self._search(job, stored)
            while result == READ_DAMAGED:
                result = self._search(job, stored)
            return result
        while job.position < len(job.sequences):
            job.position += 1
            if self.log.read(<uint64_t>job.sequences[job.position - 1], stored) == READ_OK:
                return READ_OK
        return READ_MISSING

    cdef int _search(self, DirectJob job, StoredMessage* stored) except -1:
        """The next message of a walk: a ReadResult, or LATER when a piece of the log has none."""
        cdef uint64_t last = self.log.last_seq
        cdef uint64_t end = last
        cdef int result
        if job.matching.patterns and last - job.next_seq >= SEQUENCES_PER_PIECE and job.next_seq < last:
            end = job.next_seq + SEQUENCES_PER_PIECE - 1
        result = self.log.next_message(job.matching, job.next_seq, end, stored)
        if result == READ_MISSING and end < last:
            # over what is missing, however much that is
            if self.log.next_message(EVERYTHING, end + 1, last, stored) == READ_MISSING:
                return READ_MISSING
            job.next_seq = stored.seq
            return LATER
        if result != READ_MISSING:
            job.met_any = True
            job.next_seq = stored.seq + 1
        return result

    cdef int _send_one(self, DirectJob job, uint64_t seq) except -1:
        cdef StoredMessage stored
        return self._reply(job.reply, job.bare, &stored, self.log.read(seq, &stored) if seq else READ_MISSING)

    cdef int _reply(self, bytes reply, bint bare, StoredMessage* stored, int result) except -1:
        if result == READ_OK:
            return self.send_message(reply, stored, bare, None)
        if result == READ_DAMAGED:
            return self.send_status(reply, b"500 Message Damaged")
        return self.send_status(reply, b"404 Message Not Found")

    cdef int _send_end(self, DirectJob batch) except -1:
        status = b"204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d" % (max(batch.pending, 0), batch.last_seq)
        if batch.sequences is not None:
            status += b"\r\nNats-UpTo-Sequence: %d" % batch.up_to
        return self.send_status(batch.reply, status)

    # --- output ---

    cdef int send_message(self, bytes reply, StoredMessage* stored, bint bare, DirectJob batch) except -1:
        """The stored message with where it comes from in its headers, unless it goes bare."""
        cdef OutputBuffer out = self.out
        cdef Py_ssize_t headers_len
        out.size = 0
        if not bare:
            begin_block(out, stored.headers, stored.headers_len)
            append_header(out, b"Nats-Stream: ", 13, self.name, len(self.name))
            append_header(out, b"Nats-Subject: ", 14, stored.subject, stored.subject_len)
            append_number(out, b"Nats-Sequence: ", 15, stored.seq)
            append_time(out, stored.time_ns)
            if batch is not None:
                append_number(out, b"Nats-Num-Pending: ", 18, <uint64_t>max(batch.pending, 0))
                append_number(out, b"Nats-Last-Sequence: ", 20, batch.last_seq)
            out.append(b"\r\n", 2)
        headers_len = out.size
        out.append(stored.payload, stored.payload_len)
        return self._publish(reply, headers_len)

    cdef int send_status(self, bytes reply, bytes status) except -1:
        self.out.size = 0
        block = b"NATS/1.0 " + status + b"\r\n\r\n"
        self.out.append(block, len(block))
        return self._publish(reply, self.out.size)

    cdef int _publish(self, bytes reply, Py_ssize_t headers_len) except -1:
        cdef Message msg
        msg.subject = reply
        msg.subject_len = len(reply)
        msg.reply = NULL
        msg.reply_len = 0
        msg.body = self.out.data
        msg.headers_len = headers_len
        msg.body_len = self.out.size
        msg.size_text = NULL
        msg.size_text_len = 0
        msg.tail = NULL
        msg.tail_len = 0
        self.sent += self.out.size
        return self.router.publish(None, &msg)
