# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What publishers are told (see pub_acks.pxd)."""
import orjson

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from jetbroker.routing.router cimport Router
from jetbroker.store.log.stream_log cimport StreamLog
from jetbroker.tick cimport PHASE_EVENTS, Tick
from jetbroker.wire.buffer cimport OutputBuffer, format_uint
from jetbroker.wire.message cimport Message

from jetbroker.forms.gojson import dumps

cdef Py_ssize_t NUMBER_ROOM = 32               # a sequence and the closing brace

cdef bytes TOO_MANY_REQUESTS = b"NATS/1.0 429 Too Many Requests\r\n\r\n"
cdef const char* DUPLICATE = b',"duplicate": true'
cdef enum:
    DUPLICATE_LEN = 18

cdef struct PendingAck:
    uint64_t seq
    uint32_t reply_len
    int32_t text_len               # of what stands behind the sequence; it follows the reply subject. Below 0: of all


cdef inline Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    return (n + 7) & ~<Py_ssize_t>7


cdef inline Py_ssize_t entry_size(const PendingAck* ack) noexcept nogil:
    return sizeof(PendingAck) + padded(ack.reply_len + (ack.text_len if ack.text_len >= 0 else -ack.text_len))


cdef class PubAckQueue:
    """Acks of one stream, in the order of publishing."""

    def __init__(self, Router router not None, bytes prefix not None) -> None:
        self.router = router
        self.entries = OutputBuffer()
        self.body = OutputBuffer()
        self.body.append(prefix, len(prefix))
        self.body.reserve(NUMBER_ROOM)
        self.prefix_len = len(prefix)

    cdef int push(self, uint64_t seq, const char* reply, Py_ssize_t reply_len,
                  const char* text, Py_ssize_t text_len) except -1:
        cdef char* p = self._room(sizeof(PendingAck) + padded(reply_len + text_len))
        (<PendingAck*>p).seq = seq
        (<PendingAck*>p).reply_len = <uint32_t>reply_len
        (<PendingAck*>p).text_len = <int32_t>text_len
        memcpy(p + sizeof(PendingAck), reply, reply_len)
        if text_len:
            memcpy(p + sizeof(PendingAck) + reply_len, text, text_len)
        return 0

    cdef int push_text(self, uint64_t seq, bytes reply, bytes text) except -1:
        return self._push(seq, reply, text, False)

    cdef int push_line(self, uint64_t seq, bytes reply, bytes text) except -1:
        return self._push(seq, reply, text, True)

    cdef int _push(self, uint64_t seq, bytes reply, bytes text, bint whole) except -1:
        cdef Py_ssize_t reply_len = len(reply)
        cdef Py_ssize_t text_len = len(text)
        cdef char* p = self._room(sizeof(PendingAck) + padded(reply_len + text_len))
        (<PendingAck*>p).seq = seq
        (<PendingAck*>p).reply_len = <uint32_t>reply_len
        (<PendingAck*>p).text_len = -<int32_t>text_len if whole else <int32_t>text_len
        memcpy(p + sizeof(PendingAck), <const char*>reply, reply_len)
        memcpy(p + sizeof(PendingAck) + reply_len, <const char*>text, text_len)
        return 0

    cdef char* _room(self, Py_ssize_t size) except NULL:
        """Space for one more entry."""
        cdef char* p
        if self.head and self.entries.size + size > self.entries.capacity:
            memmove(self.entries.data, self.entries.data + self.head, self.entries.size - self.head)
            self.entries.size -= self.head
            self.head = 0
        p = self.entries.reserve(size)
        self.entries.size += size
        self.count += 1
        return p

    cdef int release(self, uint64_t committed) except -1:
        cdef Message msg
        cdef PendingAck* ack
        cdef char* number
        cdef Py_ssize_t digits
        msg.reply = NULL
        msg.reply_len = 0
        msg.headers_len = 0
        msg.size_text = NULL
        msg.size_text_len = 0
        msg.tail = NULL
        msg.tail_len = 0
        while self.count:
            ack = <PendingAck*>(self.entries.data + self.head)
            if ack.seq > committed:
                return 0
            msg.subject = <const char*>ack + sizeof(PendingAck)
            msg.subject_len = ack.reply_len
            if ack.text_len < 0:
                msg.body = msg.subject + ack.reply_len
                msg.body_len = -ack.text_len
            else:
                number = self.body.reserve(NUMBER_ROOM + ack.text_len)
                digits = format_uint(number, ack.seq)
                if ack.text_len:
                    memcpy(number + digits, msg.subject + ack.reply_len, ack.text_len)
                    digits += ack.text_len
                number[digits] = c'}'
                msg.body = self.body.data
                msg.body_len = self.prefix_len + digits + 1
            self.head += entry_size(ack)
            self.count -= 1
            self.router.publish(None, &msg)
        self._rewind()
        return 0

    cdef list fail_from(self, uint64_t first_lost):
        cdef list replies = []
        cdef Py_ssize_t source = self.head
        cdef Py_ssize_t target = self.head
        cdef Py_ssize_t size
        cdef PendingAck* ack
        while source < self.entries.size:
            ack = <PendingAck*>(self.entries.data + source)
            size = entry_size(ack)
            if ack.seq >= first_lost:
                if ack.text_len >= 0:
                    replies.append((<const char*>ack + sizeof(PendingAck))[:ack.reply_len])
                self.count -= 1
            else:
                if target != source:
                    memmove(self.entries.data + target, self.entries.data + source, size)
                target += size
            source += size
        self.entries.size = target
        if self.count == 0:
            self._rewind()
        return replies

    cdef void _rewind(self) noexcept:
        self.head = 0
        self.entries.rest()


cdef class Answers(TickTask):
    """Nobody waits to begin with. `domain`: the server's, empty: none."""

    def __init__(self, Tick tick not None, Router router not None, StreamLog log not None, str name not None,
                 str domain) -> None:
        self.tick = tick
        self.router = router
        self.log = log
        self.name = name.encode()
        ack = orjson.dumps({"stream": name, "domain": domain} if domain else {"stream": name})
        self.acks = PubAckQueue(router, ack.removesuffix(b"}") + b',"seq":')
        self.others = []

    cdef int ack(self, const Message* msg, uint64_t seq, bint duplicate) except -1:
        if msg.reply == NULL or self.silent:
            return 0
        self.acks.push(seq, msg.reply, msg.reply_len, DUPLICATE, DUPLICATE_LEN if duplicate else 0)
        if self.log.committed >= seq:
            self.tick.schedule(PHASE_EVENTS, self)
        return 0

    cdef int ack_more(self, const Message* msg, uint64_t seq, const char* text, Py_ssize_t text_len) except -1:
        if msg.reply == NULL or self.silent:
            return 0
        self.acks.push(seq, msg.reply, msg.reply_len, text, text_len)
        if self.log.committed >= seq:
            self.tick.schedule(PHASE_EVENTS, self)
        return 0

    cdef int ack_text(self, uint64_t seq, bytes reply, bytes text) except -1:
        self.acks.push_text(seq, reply, text)
        if self.log.committed >= seq:
            self.tick.schedule(PHASE_EVENTS, self)
        return 0

    cdef int line(self, uint64_t seq, bytes reply, bytes text) except -1:
        self.acks.push_line(seq, reply, text)
        if self.log.committed >= seq:
            self.tick.schedule(PHASE_EVENTS, self)
        return 0

    cdef bytes error_body(self, object error):
        return dumps({"error": error.to_json(), "stream": self.name.decode(), "seq": 0})

    cdef int refuse(self, const Message* msg, object error) except -1:
        return self.answer(msg.reply[:msg.reply_len] if msg.reply != NULL else None, error)

    cdef int answer(self, bytes reply, object error) except -1:
        cdef bytes body = b""
        if self.refused is not None and error is not None:
            self.refused.append(error)
        if reply is None or self.silent:
            return 0
        if error is not None:
            body = self.error_body(error)
        many = error is not None and error.err_code == 10_167
        self.others.append((reply, TOO_MANY_REQUESTS if many else b"", body))
        return self.tick.schedule(PHASE_EVENTS, self)

    cdef int fail_from(self, uint64_t first_lost, list held, object error) except -1:
        for reply in [*self.acks.fail_from(first_lost), *held]:
            self.answer(reply, error)
        return 0

    cdef int run_tick(self) except -1:
        cdef list others = self.others
        self.others = []
        self.acks.release(self.log.committed)
        for reply, headers, body in others:
            self.router.publish_bytes(reply, None, headers, body)
        return 0
