# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Acks: what they say, and what a consumer makes of them (see acks.pxd)."""
from random import randrange

import orjson

from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint64_t
from libc.string cimport memcmp

from jetbroker.forms.durations cimport read_duration
from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.consumers.core cimport ConsumerAdvisories, ConsumerTurn, Delivery
from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.dead_letters cimport DeadLetters
from jetbroker.jetstream.consumers.tracker cimport ENTRY_EXHAUSTED, ENTRY_HELD, POLICY_ALL, AckTracker, PendingEntry
from jetbroker.routing.subscription cimport Receiver, RouteSlot, Subscription
from jetbroker.wire.message cimport Message

from jetbroker import limits

cdef int ACK_UNITS = limits.JS_ACK_UNITS
cdef enum:
    MOST_DIGITS = 19                           # of a number that may count something
cdef Py_ssize_t MAX_DELAY_BYTES = 1024         # of what follows "-NAK"; longer, it asks for no delay


cdef inline Py_ssize_t parse_number(const char* p, Py_ssize_t n, Py_ssize_t at, uint64_t* out) noexcept nogil:
    """Reads digits up to '.' or the end; returns the place behind the dot. What is no number is UINT64_MAX."""
    cdef Py_ssize_t start = at
    cdef uint64_t value = 0
    cdef bint valid = True
    while at < n and p[at] != c'.':
        valid = valid and c'0' <= p[at] <= c'9'
        value = value * 10 + <uint64_t>(p[at] - c'0')
        at += 1
    out[0] = value if valid and start < at <= start + MOST_DIGITS else UINT64_MAX
    return at + 1


cdef int parse_ack_numbers(const char* p, Py_ssize_t n, AckNumbers* out) except -1:
    cdef Py_ssize_t at = parse_number(p, n, 0, &out.deliveries)
    at = parse_number(p, n, at, &out.stream_seq)
    parse_number(p, n, at, &out.consumer_seq)
    return 0


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c' ' or c == c'\t' or c == c'\r' or c == c'\n'


cdef AckKind parse_ack_kind(const char* p, Py_ssize_t n, const char** rest, Py_ssize_t* rest_len) noexcept nogil:
    cdef AckKind kind = ACK_UNKNOWN
    cdef Py_ssize_t word = 4
    rest[0] = p + n
    rest_len[0] = 0
    if n == 0:
        return ACK_ACK
    if n == 3 and memcmp(p, b"+OK", 3) == 0:
        return ACK_ACK
    if n < 4:
        return ACK_UNKNOWN
    if n == 4 and memcmp(p, b"+ACK", 4) == 0:
        return ACK_ACK
    if memcmp(p, b"-NAK", 4) == 0:
        kind = ACK_NAK
    elif memcmp(p, b"+NXT", 4) == 0:
        kind = ACK_NEXT
    elif n == 4 and memcmp(p, b"+WPI", 4) == 0:
        return ACK_PROGRESS
    elif n >= 5 and memcmp(p, b"+TERM", 5) == 0:
        kind = ACK_TERM
        word = 5
    else:
        return ACK_UNKNOWN
    while word < n and is_blank(p[word]):
        word += 1
    while n > word and is_blank(p[n - 1]):
        n -= 1
    rest[0] = p + word
    rest_len[0] = n - word
    return kind


cdef int64_t parse_nak_delay(const char* p, Py_ssize_t n) except? -1:
    cdef int64_t delay = 0
    if n == 0 or n > MAX_DELAY_BYTES:
        return 0
    if p[0] == c'{':
        try:
            value = orjson.loads(p[:n]).get("delay", 0)
        except ValueError:
            return 0
        return value if type(value) is int and 0 < value <= INT64_MAX else 0
    return delay if read_duration(p, n, &delay) and delay > 0 else 0


cdef class Acks:
    """Takes acks for a tracker, and keeps the replies that are owed for them."""

    def __init__(self, AckTracker tracker not None, StreamCursor cursor not None, ConsumerTurn turn not None,
                 ConsumerAdvisories advisories not None, DeadLetters letters=None) -> None:
        self.tracker = tracker
        self.cursor = cursor
        self.turn = turn
        self.advisories = advisories
        self.letters = letters
        self.replies = []

    cdef bint take(self, AckKind kind, const AckNumbers* numbers, const char* rest, Py_ssize_t rest_len) except -1:
        cdef bint taken = True
        if kind == ACK_ACK or kind == ACK_NEXT:
            taken = self._finish(numbers, True)
        elif kind == ACK_TERM:
            taken = self._terminate(numbers, rest[:rest_len])
        elif kind == ACK_NAK:
            self._nak(numbers, rest, rest_len)
        elif kind == ACK_PROGRESS:
            self.tracker.progress(numbers.stream_seq, self.turn.read())
        if numbers.stream_seq == 0:
            # nats-server confirms what finishes such a message as long as no stream is to remove it
            return taken and kind in (ACK_ACK, ACK_TERM) and not (
                self.tracker.report_finished or self.tracker.policy == POLICY_ALL)
        return taken

    cdef list take_replies(self):
        cdef list replies = self.replies
        self.replies = []
        return replies

    cdef bint owed_later(self, uint64_t seq, bytes reply) except -1:
        return self.letters is not None and self.letters.owe(seq, reply)

    cdef int up_to(self, uint64_t seq, uint64_t cseq) except -1:
        self.tracker.ack_up_to(seq, cseq)
        return 0

    cdef bint _finish(self, const AckNumbers* numbers, bint sampled) except -1:
        """The message is done with; True for one that was done with before, too."""
        if numbers.stream_seq > max(self.cursor.looked_to, self.tracker.delivered_seq):
            return False
        if self.tracker.policy == POLICY_ALL:
            self.up_to(numbers.stream_seq, numbers.consumer_seq)
            return True
        if sampled and self.sample_percent:
            self._sample(numbers)
        if self.tracker.ack(numbers.stream_seq, numbers.consumer_seq) and self.tracker.pending.count == 0:
            self.tracker.settled_seq = self.cursor.looked_to
        self.tracker.acked_ns = wall_clock_ns()
        return True

    cdef int _nak(self, const AckNumbers* numbers, const char* rest, Py_ssize_t rest_len) except -1:
        cdef uint64_t seq = numbers.stream_seq
        cdef uint64_t cseq = numbers.consumer_seq
        cdef PendingEntry* entry = self.tracker.pending.find(seq)
        if entry == NULL or entry.flags & (ENTRY_EXHAUSTED | ENTRY_HELD):
            return 0
        if cseq <= self.tracker.floor_cseq or cseq > self.tracker.delivered_cseq + 1:
            return 0
        self.advisories.add("MSG_NAKED", "nak", {
            "consumer_seq": cseq, "stream_seq": seq, "deliveries": numbers.deliveries,
        })
        self.tracker.nak(seq, parse_nak_delay(rest, rest_len), self.turn.read())
        return 0

    cdef bint _terminate(self, const AckNumbers* numbers, bytes reason) except -1:
        cdef PendingEntry* entry = self.tracker.pending.find(numbers.stream_seq)
        cdef bint taken
        text = reason.decode("utf-8", "replace")
        if (entry != NULL and not entry.flags & ENTRY_EXHAUSTED and self.letters is not None
                and self.letters.take_terminated(entry, numbers.consumer_seq, text)):
            return True
        taken = self._finish(numbers, False)
        self.advisories.terminated(numbers.stream_seq, numbers.consumer_seq, numbers.deliveries, text)
        return taken

    cdef int _sample(self, const AckNumbers* numbers) except -1:
        """Measure this ack when its turn comes."""
        cdef PendingEntry* entry = self.tracker.pending.find(numbers.stream_seq)
        if entry == NULL or entry.flags & ENTRY_EXHAUSTED or randrange(100) >= self.sample_percent:
            return 0
        return self.advisories.add("ACK", "consumer_ack", {
            "consumer_seq": numbers.consumer_seq, "stream_seq": numbers.stream_seq,
            "ack_time": self.turn.read() - entry.delivered_ns, "deliveries": numbers.deliveries,
        })


cdef class AckReceiver(Receiver):
    """Acks in one of the two subject layouts: the part in front of the numbers has a fixed length in each."""

    def __init__(self, Acks acks not None, Delivery delivery not None, Py_ssize_t prefix_len) -> None:
        self.acks = acks
        self.delivery = delivery
        self.prefix_len = prefix_len

    def close(self) -> None:
        """Take no message any more."""
        self.acks = None

    cdef int deliver(self, Subscription sub, RouteSlot slot, const Message* msg) except -1:
        cdef AckNumbers numbers
        cdef AckKind kind
        cdef const char* rest
        cdef Py_ssize_t rest_len
        cdef bint taken
        if self.acks is None:
            return 0
        parse_ack_numbers(msg.subject + self.prefix_len, msg.subject_len - self.prefix_len, &numbers)
        kind = parse_ack_kind(msg.body + msg.headers_len, msg.body_len - msg.headers_len, &rest, &rest_len)
        taken = self.acks.take(kind, &numbers, rest, rest_len)
        if msg.reply != NULL:
            if kind == ACK_NEXT:
                self.delivery.request(msg.reply[:msg.reply_len], b"", rest[:rest_len])
            elif taken and (kind != ACK_TERM or not self.acks.owed_later(numbers.stream_seq, msg.reply[:msg.reply_len])):
                self.acks.replies.append(msg.reply[:msg.reply_len])
        self.acks.turn.wake()
        return ACK_UNITS
