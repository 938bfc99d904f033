# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Direct get (see direct.pxd).

Requests wait for the event phase of the tick they arrive in; a batch goes on for as many ticks as it needs, so that
one large answer neither blocks the loop nor fills its receiver's output at once.
"""

from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.header_lines cimport append_header, append_number, append_time, begin_block
from jetbroker.routing.router cimport Receiver, Router, RouteSlot, Subscription
from jetbroker.store.log cimport (
    READ_DAMAGED, READ_MISSING, READ_OK, StoredMessage, StreamLog, SubjectFilter, SubjectState,
)
from jetbroker.tick cimport PHASE_EVENTS, Tick
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.headers cimport find_header
from jetbroker.wire.message cimport Message

from jetbroker import limits
from jetbroker.jetstream.direct_request import DirectError, parse_request

cdef int64_t DEFAULT_MAX_BYTES = limits.MAX_PENDING_BYTES
cdef int MESSAGES_PER_TICK = limits.JS_DIRECT_MESSAGES_PER_TICK
cdef int64_t BYTES_PER_TICK = limits.JS_DIRECT_BYTES_PER_TICK
cdef int MAX_MULTI_LAST = limits.JS_MULTI_LAST_SUBJECTS
cdef bytes PREFIX = b"$JS.API.DIRECT.GET."


cdef class DirectBatch:
    """A request for many messages."""


cdef class DirectGet(Receiver):
    """The receiver behind a stream's `$JS.API.DIRECT.GET` subscriptions; those of `origin` when it is a mirror of that."""

    def __init__(self, Router router not None, Tick tick not None, StreamLog log not None, str name not None,
                 str origin="") -> None:
        self.router = router
        self.tick = tick
        self.log = log
        self.name = name.encode()
        self.prefix_len = len(PREFIX) + len(origin.encode() or self.name)
        self.requests = []
        self.batches = []
        self.out = OutputBuffer()

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef const char* value = NULL
        cdef Py_ssize_t value_len = 0
        cdef bytes level = None
        cdef bytes subject = b""
        if sub.closed:
            return 0
        if msg.reply == NULL:
            return 1
        if msg.headers_len and find_header(msg.body, msg.headers_len, b"Nats-Required-Api-Level", 23,
                                           &value, &value_len):
            level = value[:value_len]
        if msg.subject_len > self.prefix_len + 1:
            subject = msg.subject[self.prefix_len + 1:msg.subject_len]
        self.requests.append((subject, msg.reply[:msg.reply_len], msg.body[msg.headers_len:msg.body_len], level))
        self.tick.schedule(PHASE_EVENTS, self)
        return 1

    cdef int run_tick(self) except -1:
        cdef list requests = self.requests
        cdef list batches
        cdef DirectBatch batch
        self.requests = []
        for subject, reply, body, level in requests:
            try:
                self._answer(parse_request(subject, body, level), reply)
            except DirectError as error:
                self.send_status(reply, error.status)
        if self.batches:
            batches = self.batches
            self.batches = []
            for batch in batches:
                if not self._advance(batch):
                    self.batches.append(batch)
            if self.batches:
                self.tick.defer(PHASE_EVENTS, self)
        return 0

    cdef int _answer(self, object request, bytes reply) except -1:
        cdef StoredMessage stored
        cdef uint64_t seq
        if request.multi_last:
            return self._start_multi_last(request, reply)
        if request.batch:
            return self._start_walk(request, reply)
        seq = request.seq
        if request.last_by_subject:
            seq = self.log.last_by_subject(request.last_by_subject)
        elif request.start_time_ns is not None:
            seq = self.log.seq_at_time(request.start_time_ns)
        if request.next_by_subject:
            self._reply(reply, request.no_hdr, &stored,
                        self.log.next_message(SubjectFilter(request.next_by_subject), max(seq, 1),
                                              self.log.last_seq, &stored))
        elif seq == 0:
            self.send_status(reply, b"404 Message Not Found")
        else:
            self._reply(reply, request.no_hdr, &stored, self.log.read(seq, &stored))
        return 0

    cdef int _reply(self, bytes reply, bint bare, StoredMessage* stored, int result) except -1:
        if result == READ_OK:
            return self.send_message(reply, stored, bare, None)
        if result == READ_DAMAGED:
            return self.send_status(reply, b"500 Message Damaged")
        return self.send_status(reply, b"404 Message Not Found")

    # --- many messages ---

    cdef int _start_walk(self, object request, bytes reply) except -1:
        """`batch` messages from a sequence or time on, of one subject or of all."""
        cdef DirectBatch batch = self._new_batch(request, reply)
        cdef StoredMessage stored
        cdef uint64_t seq = request.seq
        if request.start_time_ns is not None:
            seq = self.log.seq_at_time(request.start_time_ns)
        batch.matching = SubjectFilter(request.next_by_subject)
        batch.next_seq = max(seq, 1)
        batch.pending = self.log.count_from(batch.matching, batch.next_seq)
        if batch.left > 0 and self.log.next_message(batch.matching, batch.next_seq, self.log.last_seq,
                                                    &stored) == READ_MISSING:
            return self.send_status(reply, b"404 Message Not Found")
        self.batches.append(batch)
        return 0

    cdef int _start_multi_last(self, object request, bytes reply) except -1:
        """The last message of each matching subject, as of one point in the stream."""
        cdef DirectBatch batch
        cdef uint64_t up_to = request.up_to_seq
        if request.up_to_time_ns is not None:
            up_to = self.log.seq_at_time(request.up_to_time_ns) - 1
            if up_to == 0:
                return self.send_status(reply, b"404 No Results")
        if up_to == 0:
            up_to = self.log.last_seq
        sequences = self._last_sequences(request.multi_last, up_to)
        if len(sequences) > MAX_MULTI_LAST:
            return self.send_status(reply, b"413 Too Many Results")
        if not sequences:
            return self.send_status(reply, b"404 No Results")
        batch = self._new_batch(request, reply)
        batch.bare = False             # as nats-server, which knows no no_hdr here
        batch.sequences = sequences
        batch.pending = len(sequences)
        batch.up_to = up_to
        if request.batch <= 0:
            batch.left = batch.pending
        self.batches.append(batch)
        return 0

    cdef list _last_sequences(self, object patterns, uint64_t up_to):
        """Sorted; stops one above the bound, which is an error of its own."""
        cdef SubjectState state
        cdef set found = set()
        cdef uint64_t seq
        for pattern in patterns:
            for state in self.log.matching_subjects(pattern):
                seq = state.last if state.last <= up_to else self._last_before(state, up_to)
                if seq:
                    found.add(seq)
                    if len(found) > MAX_MULTI_LAST:
                        return list(found)
        return sorted(found)

    cdef uint64_t _last_before(self, SubjectState state, uint64_t up_to) except? 0:
        cdef SubjectFilter subject = SubjectFilter(state.subject)
        cdef StoredMessage stored
        cdef uint64_t seq = self.log.first_of(state)
        cdef uint64_t last = 0
        up_to = min(up_to, self.log.last_seq)
        while seq and seq <= up_to and self.log.next_message(subject, seq, up_to, &stored) == READ_OK:
            last = stored.seq
            seq = last + 1
        return last

    cdef DirectBatch _new_batch(self, object request, bytes reply):
        cdef DirectBatch batch = DirectBatch.__new__(DirectBatch)
        batch.reply = reply
        batch.bare = request.no_hdr
        batch.left = request.batch
        batch.bytes_left = request.max_bytes if request.max_bytes > 0 else DEFAULT_MAX_BYTES
        return batch

    cdef bint _advance(self, DirectBatch batch) except -1:
        """Send this tick's share; True when the batch is done and its end has been marked."""
        cdef StoredMessage stored
        cdef int64_t size = 0
        cdef uint64_t seq
        for _ in range(MESSAGES_PER_TICK):
            if batch.left <= 0 or not self._next_of(batch, &stored):
                self._send_end(batch)
                return True
            batch.left -= 1
            if not batch.bare:         # nats-server forgets to count then
                batch.pending -= 1
            batch.bytes_left -= stored.subject_len + stored.headers_len + stored.payload_len
            seq = stored.seq           # publishing may change the log, and with it what `stored` points to
            self.send_message(batch.reply, &stored, batch.bare, batch)
            batch.last_seq = seq
            size += self.out.size
            if batch.bytes_left <= 0:
                self._send_end(batch)
                return True
            if size >= BYTES_PER_TICK:
                return False
        return False

    cdef bint _next_of(self, DirectBatch batch, StoredMessage* stored) except -1:
        """The next readable message of a batch; False at its end. Damaged ones are left out."""
        cdef int result
        if batch.sequences is not None:
            while batch.position < len(batch.sequences):
                batch.position += 1
                if self.log.read(<uint64_t>batch.sequences[batch.position - 1], stored) == READ_OK:
                    return True
            return False
        while True:
            result = self.log.next_message(batch.matching, batch.next_seq, self.log.last_seq, stored)
            if result != READ_OK and result != READ_DAMAGED:
                return False
            batch.next_seq = stored.seq + 1
            if result == READ_OK:
                return True

    cdef int _send_end(self, DirectBatch batch) except -1:
        status = b"204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d" % (max(batch.pending, 0), batch.last_seq)
        if batch.sequences is not None:
            status += b"\r\nNats-UpTo-Sequence: %d" % batch.up_to
        return self.send_status(batch.reply, status)

    # --- output ---

    cdef int send_message(self, bytes reply, StoredMessage* stored, bint bare, DirectBatch batch) except -1:
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
        return self.router.publish(None, &msg)
