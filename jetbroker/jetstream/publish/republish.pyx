# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What a stream publishes again (see republish.pxd).

A message may be gone from its stream before it is committed (limits, roll-ups), so its bytes are kept here.
Publishing may lead back into this stream, through other accounts: the queue may grow while it is sent.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from jetbroker.jetstream.publish.headers cimport append_header, append_number, append_time, begin_block
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.transform cimport Transform
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message
from jetbroker.wire.subjects cimport is_valid_literal

from jetbroker.forms.gotext import quoted


cdef struct Waiting:
    uint64_t seq
    uint64_t previous
    int64_t time_ns
    uint32_t destination_len
    uint32_t subject_len
    uint32_t headers_len
    uint32_t payload_len
    uint32_t payload_size              # as it was stored: payload_len is 0 when only headers are sent
    uint32_t headers_only


cdef inline Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    return (n + 7) & ~<Py_ssize_t>7


cdef inline Py_ssize_t size_of(Waiting* entry) noexcept nogil:
    return sizeof(Waiting) + padded(<Py_ssize_t>entry.destination_len + entry.subject_len
                                    + entry.headers_len + entry.payload_len)


cdef class Republisher:
    """Publishes again what one stream has stored. `log` is told of destinations that are no subjects."""

    def __init__(self, Router router not None, bytes name not None, object log) -> None:
        self.router = router
        self.name = name
        self.log = log
        self.entries = OutputBuffer()
        self.out = OutputBuffer()

    def configure(self, republish) -> None:
        """Take over a RePublish (None: none); what waits goes out as it was queued."""
        self.transform = None
        if republish is not None and republish.dest:
            self.transform = Transform(republish.src.encode(), republish.dest.encode())
            self.headers_only = republish.headers_only

    cdef bint is_random(self) noexcept:
        return self.transform is not None and self.transform.is_random

    cdef bytes destination_of(self, bytes subject):
        cdef bytes destination
        cdef const char* text = PyBytes_AS_STRING(subject)
        if self.transform is None or not self.transform.fits(text, PyBytes_GET_SIZE(subject)):
            return b""
        destination = self.transform.map(text, PyBytes_GET_SIZE(subject))
        if not destination or is_valid_literal(PyBytes_AS_STRING(destination), PyBytes_GET_SIZE(destination)):
            return destination
        self.log.warn_seldom(f"Stream '{self.router.account_name} > {self.name.decode()}' suppressing republish "
                             f"with invalid subject {quoted(destination)}")
        return b""

    cdef Py_ssize_t stored(self, bytes destination, bytes subject, uint64_t seq, uint64_t previous, int64_t time_ns,
                           const char* headers, Py_ssize_t headers_len,
                           const char* payload, Py_ssize_t payload_len) except? -1:
        cdef Waiting entry
        cdef Py_ssize_t size
        cdef char* p
        entry.seq = seq
        entry.previous = previous
        entry.time_ns = time_ns
        entry.destination_len = <uint32_t>PyBytes_GET_SIZE(destination)
        entry.subject_len = <uint32_t>PyBytes_GET_SIZE(subject)
        entry.headers_len = <uint32_t>headers_len
        entry.payload_size = <uint32_t>payload_len
        entry.payload_len = 0 if self.headers_only else <uint32_t>payload_len
        entry.headers_only = self.headers_only
        size = size_of(&entry)
        self._make_room(size)
        p = self.entries.reserve(size)
        self.entries.size += size
        memcpy(p, &entry, sizeof(Waiting))
        p += sizeof(Waiting)
        memcpy(p, PyBytes_AS_STRING(destination), entry.destination_len)
        p += entry.destination_len
        memcpy(p, PyBytes_AS_STRING(subject), entry.subject_len)
        p += entry.subject_len
        if headers_len:
            memcpy(p, headers, headers_len)
        if entry.payload_len:
            memcpy(p + headers_len, payload, entry.payload_len)
        return size

    cdef int _make_room(self, Py_ssize_t size) except -1:
        cdef OutputBuffer grown
        if self.entries.size + size <= self.entries.capacity:
            return 0
        if self.releasing:
            # what is being sent lies in the present memory: release() still holds that
            grown = OutputBuffer()
            grown.reserve(2 * self.entries.size + size)
            grown.append(self.entries.data, self.entries.size)
            self.entries = grown
        elif self.head:
            memmove(self.entries.data, self.entries.data + self.head, self.entries.size - self.head)
            self.entries.size -= self.head
            self.head = 0
        return 0

    cdef int release(self, uint64_t committed) except -1:
        cdef OutputBuffer held
        cdef Py_ssize_t at
        if self.releasing:
            return 0
        self.releasing = True
        try:
            while self.head < self.entries.size:
                held = self.entries
                at = self.head
                if (<Waiting*>(held.data + at)).seq > committed:
                    return 0
                self.head += size_of(<Waiting*>(held.data + at))
                self._send(at)
        finally:
            self.releasing = False
        self.head = 0
        self.entries.rest()
        return 0

    cdef int _send(self, Py_ssize_t at) except -1:
        cdef Waiting* entry = <Waiting*>(self.entries.data + at)
        cdef const char* destination = <const char*>entry + sizeof(Waiting)
        cdef const char* subject = destination + entry.destination_len
        cdef const char* headers = subject + entry.subject_len
        cdef OutputBuffer out = self.out
        cdef Message msg
        cdef Route route = self.router.frequent_route(destination, entry.destination_len)
        if route is not None and not route.reaches():
            return 0                           # nobody listens
        out.clear()
        begin_block(out, headers, entry.headers_len)
        append_header(out, b"Nats-Stream: ", 13, PyBytes_AS_STRING(self.name), PyBytes_GET_SIZE(self.name))
        append_header(out, b"Nats-Subject: ", 14, subject, entry.subject_len)
        append_number(out, b"Nats-Sequence: ", 15, entry.seq)
        append_time(out, entry.time_ns)
        append_number(out, b"Nats-Last-Sequence: ", 20, entry.previous)
        if entry.headers_only:
            append_number(out, b"Nats-Msg-Size: ", 15, entry.payload_size)
        out.append(b"\r\n", 2)
        msg.headers_len = out.size
        out.append(headers + entry.headers_len, entry.payload_len)
        msg.subject = destination
        msg.subject_len = entry.destination_len
        msg.reply = NULL
        msg.reply_len = 0
        msg.body = out.data
        msg.body_len = out.size
        msg.size_text = NULL
        msg.size_text_len = 0
        msg.tail = NULL
        msg.tail_len = 0
        if route is not None:
            self.router.deliver(route, None, &msg)
        else:
            self.router.deliver_once(None, &msg)
        return 0

    cdef int drop_from(self, uint64_t first_lost) except -1:
        cdef Py_ssize_t at = self.head
        while at < self.entries.size:
            if (<Waiting*>(self.entries.data + at)).seq >= first_lost:
                self.entries.size = at         # sequences only grow: the rest is lost too
                return 0
            at += size_of(<Waiting*>(self.entries.data + at))
        return 0
