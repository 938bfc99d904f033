# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Publish acks that wait until their message is committed (see pub_acks.pxd)."""
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from jetbroker.routing.router cimport Router
from jetbroker.wire.buffer cimport OutputBuffer, format_uint
from jetbroker.wire.message cimport Message

cdef Py_ssize_t NUMBER_ROOM = 48               # a sequence and the duplicate mark
cdef Py_ssize_t KEEP_CAPACITY = 1024 * 1024    # memory a queue keeps while it is empty: acks come in bursts

cdef struct PendingAck:
    uint64_t seq
    uint32_t reply_len
    uint32_t duplicate


cdef inline Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    return (n + 7) & ~<Py_ssize_t>7


cdef class PubAckQueue:
    """Acks of one stream, in the order of publishing."""

    def __init__(self, Router router not None, bytes prefix not None) -> None:
        self.router = router
        self.entries = OutputBuffer()
        self.body = OutputBuffer()
        self.body.append(prefix, len(prefix))
        self.body.reserve(NUMBER_ROOM)
        self.prefix_len = len(prefix)

    cdef int push(self, uint64_t seq, const char* reply, Py_ssize_t reply_len, bint duplicate) except -1:
        cdef Py_ssize_t size = sizeof(PendingAck) + padded(reply_len)
        cdef char* p
        if self.head and self.entries.size + size > self.entries.capacity:
            memmove(self.entries.data, self.entries.data + self.head, self.entries.size - self.head)
            self.entries.size -= self.head
            self.head = 0
        p = self.entries.reserve(size)
        (<PendingAck*>p).seq = seq
        (<PendingAck*>p).reply_len = <uint32_t>reply_len
        (<PendingAck*>p).duplicate = duplicate
        memcpy(p + sizeof(PendingAck), reply, reply_len)
        self.entries.size += size
        self.count += 1
        return 0

    cdef int release(self, uint64_t committed) except -1:
        cdef Message msg
        cdef PendingAck* ack
        cdef char* number = self.body.data + self.prefix_len
        cdef int digits
        msg.reply = NULL
        msg.reply_len = 0
        msg.body = self.body.data
        msg.headers_len = 0
        msg.size_text = NULL
        msg.size_text_len = 0
        msg.tail = NULL
        msg.tail_len = 0
        while self.count:
            ack = <PendingAck*>(self.entries.data + self.head)
            if ack.seq > committed:
                return 0
            digits = format_uint(number, ack.seq)
            if ack.duplicate:
                memcpy(number + digits, b',"duplicate": true', 18)
                digits += 18
            number[digits] = c'}'
            msg.body_len = self.prefix_len + digits + 1
            msg.subject = <const char*>ack + sizeof(PendingAck)
            msg.subject_len = ack.reply_len
            self.head += sizeof(PendingAck) + padded(ack.reply_len)
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
            size = sizeof(PendingAck) + padded(ack.reply_len)
            if ack.seq >= first_lost:
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
        self.entries.size = 0
        if self.entries.capacity > KEEP_CAPACITY:
            self.entries.clear()
