# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Input of the client protocol, made and played in compiled code: millions of inputs, each cut at every place.

What `splits.pyx` writes down is only hashed here; an input that is found is explained by playing it there.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, strlen

from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport CommandHandler, Parser

from jetbroker.errors import ProtocolError

MOST_REACHED = FEATURES

# unless the settings of an input say 8 and 40
cdef Py_ssize_t MAX_PAYLOAD = 1048576, MAX_LINE = 4096

cdef enum:
    CAPACITY = 1024    # bytes; no input gets near it
    CHANGEABLE = 512   # bytes of input that is changed
    LONG = 256         # a long input's payloads, and what its commands add to 60 bytes
    MOST_FINDINGS = 10
    SUBJECTS = 15
    SIDS = 4
    QUEUES = 4
    SIZES = 16
    BLANKS = 8
    ENDS = 8
    OBJECTS = 6
    TEXTS = 6
    LETTERS = 8
    WORDS = 40
    KINDS = 19         # letters of events, and the beginning, as remainders of this
    BEGINNING = 18
    # what an input may reach that none before it did: numbers of these ranges
    AFTER = 0          # one kind of event behind another
    LENGTHS = 384      # of a message's five parts, by their bits
    ERRORS = 512       # one of 64 texts behind a kind of event
    SETTINGS = 1728    # of input that is read to its end, or not
    UNFINISHED = 1760  # bytes that wait for more, by their bits
    COUNTS = 1776      # of events
    FEATURES = 1808

cdef const char* subjects[SUBJECTS]
cdef const char* sids[SIDS]
cdef const char* queues[QUEUES]
cdef const char* sizes[SIZES]
cdef const char* blanks[BLANKS]
cdef const char* ends[ENDS]
cdef const char* objects[OBJECTS]
cdef const char* texts[TEXTS]
cdef char[LETTERS] letters         # of payloads: few, so that they hold what looks like commands and ends of lines
cdef const char* words[WORDS]
subjects[:] = [b"foo", b"a", b"a", b"a.b", b"*", b">", b"a.*", b"a.>", b"_INBOX.x.1", b"$SYS.x", b"a..b", b".",
               b"\xc3\xa4", b"f\rg", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
sids[:] = [b"1", b"2", b"sid-\xff", b"007"]
queues[:] = [b"q", b"workers", b"_sys_", b">"]
sizes[:] = [b"0", b"1", b"2", b"5", b"05", b"9", b"000000001", b"0000000001", b"-1", b"+5", b"5x", b"999999999",
            b"1048577", b"1048576", b"", b"4294967297"]
blanks[:] = [b" ", b" ", b" ", b" ", b" ", b"  ", b"\t", b" \t "]
ends[:] = [b"\r\n", b"\r\n", b"\r\n", b"\n", b"\n", b"\r\r\n", b"\r", b""]
objects[:] = [b"{}", b'{"echo":false}', b'{"headers":true}', b"null", b"{", b'{"name":"x y"}']
texts[:] = [b"", b"", b" x", b" x y", b"PONG", b"                                                  "]
letters[:] = [c'P', c'I', c'N', c'G', c'\r', c'\n', 0, c'x']
words[:] = [b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"CONNECT ", b"INFO ", b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR ",
            b"pub\t", b"MSG ", b"\r\n", b"\r", b"\n", b" ", b"\t", b"{}", b"0", b"1", b"999999999", b"2147483648",
            b"NATS/1.0", b"\xff", b"\x0b", b"\x0c", b"\xa0", b"*", b">", b".", b"..", b'"', b"}", b"\\", b"-", b"+",
            b"  ", b"\r\r\n", b"\n\r", b"P"]


cdef class Maker:
    """Makes input: a byte that chooses the settings, then commands; a fifth of them damaged."""

    cdef uint64_t state
    cdef char data[CAPACITY]
    cdef Py_ssize_t n

    cdef uint64_t next(self) noexcept nogil:
        """xorshift64*: its upper half is good enough for choosing."""
        self.state ^= self.state >> 12
        self.state ^= self.state << 25
        self.state ^= self.state >> 27
        return (self.state * <uint64_t>0x2545F4914F6CDD1D) >> 32

    cdef Py_ssize_t below(self, Py_ssize_t limit) noexcept nogil:
        return <Py_ssize_t>(self.next() % <uint64_t>limit)

    cdef void put(self, const char* text) noexcept nogil:
        cdef size_t n = strlen(text)
        memcpy(self.data + self.n, text, n)
        self.n += n

    cdef void put_number(self, Py_ssize_t value) noexcept nogil:
        if value > 9:
            self.put_number(value / 10)
        self.data[self.n] = <char>(c'0' + value % 10)
        self.n += 1

    cdef void blank(self) noexcept nogil:
        self.put(blanks[self.below(BLANKS)])

    cdef void subject(self) noexcept nogil:
        # the long one, last in the table, is for the limit of control lines
        self.put(subjects[self.below(SUBJECTS if self.below(16) == 0 else SUBJECTS - 1)])

    cdef void size(self, Py_ssize_t right) noexcept nogil:
        """The right one, more often than not."""
        if self.below(24):
            self.put_number(right)
        else:
            self.put(sizes[self.below(SIZES)])

    cdef void end(self) noexcept nogil:
        self.put(ends[0 if self.below(4) else self.below(ENDS)])

    cdef void publish(self, Py_ssize_t body) noexcept nogil:
        cdef bint headers = self.below(3) == 0
        self.put(b"HPUB" if headers else b"PUB")
        self.blank()
        self.subject()
        self.blank()
        if self.below(3) == 0:
            self.subject()
            self.blank()
        if headers:
            self.size(self.below(body + 1))
            self.blank()
        self.size(body)
        self.end()
        while body:
            self.data[self.n] = letters[self.below(LETTERS)]
            self.n += 1
            body -= 1
        self.end()

    cdef void login(self) noexcept nogil:
        self.put(b"CONNECT")
        self.blank()
        self.put(objects[self.below(OBJECTS)])
        self.end()

    cdef void command(self, Py_ssize_t body) noexcept nogil:
        cdef Py_ssize_t kind = self.below(16)
        if kind < 7:
            self.publish(body)
            return
        if kind < 9:
            self.put(b"SUB")
            self.blank()
            self.subject()
            self.blank()
            if self.below(3) == 0:
                self.put(queues[self.below(QUEUES)])
                self.blank()
            self.put(sids[self.below(SIDS)])
        elif kind == 9:
            self.put(b"UNSUB")
            self.blank()
            self.put(sids[self.below(SIDS)])
            if self.below(2):
                self.blank()
                self.size(self.below(10))
        elif kind == 10:
            self.login()
            return
        elif kind == 11:
            self.put(b"INFO" if self.below(2) else b"-ERR")
            self.blank()
            self.put(objects[self.below(OBJECTS)])
        else:
            self.put(b"PING" if kind < 14 else b"PONG" if kind == 14 else b"+OK")
            self.put(texts[0 if self.below(4) else self.below(TEXTS)])
        self.end()

    cdef void damage(self) noexcept nogil:
        """One change somewhere behind the settings."""
        cdef Py_ssize_t start = 1 + self.below(self.n), stop = min(self.n, start + self.below(4)), grown
        cdef Py_ssize_t kind = self.below(6), at
        cdef const char* word
        if kind < 2:  # put a word in, or in place of something
            word = words[self.below(WORDS)]
            if kind == 0:
                stop = start
            grown = <Py_ssize_t>strlen(word)
            memmove(self.data + start + grown, self.data + stop, self.n - stop)
            memcpy(self.data + start, word, grown)
            self.n += grown - (stop - start)
        elif kind == 2:  # take something out
            memmove(self.data + start, self.data + stop, self.n - stop)
            self.n -= stop - start
        elif kind == 3:  # say something twice
            memmove(self.data + stop, self.data + start, self.n - start)
            self.n += stop - start
        elif kind == 4 and start < self.n:  # any byte
            self.data[start] = <char>(self.next() & 255)
        else:  # change case
            for at in range(start, stop):
                if c'A' <= self.data[at] & ~32 <= c'Z':
                    self.data[at] ^= 32

    cdef void make(self) noexcept nogil:
        """One input, from 1 to some hundred bytes; most of them are short, as the work grows with the square."""
        cdef uint64_t choice = self.next()
        cdef Py_ssize_t length = 10 + <Py_ssize_t>((choice >> 8) & 15)
        cdef bint long_one = (choice >> 16) & 511 == 0
        # without headers, with a login due: not often, as little is read of most such input, and errors cost most time
        self.data[0] = <char>(choice & (15 if (choice >> 4) & 7 == 0 else 12))
        self.n = 1
        if self.data[0] & 2 and self.below(4):
            self.login()
        if long_one:
            length = 60 + self.below(LONG)
        while self.n < length:
            self.command(self.below(LONG if long_one else 7))
        if self.below(5) == 0:
            self.damage()
            if self.below(2):
                self.damage()
        elif self.below(4) == 0:  # the end is still on its way
            self.n -= self.below(min(self.n, <Py_ssize_t>8))

    cdef void change(self) noexcept nogil:
        """One change of the input that is there; a command more, more often than damage."""
        cdef Py_ssize_t kind = self.below(16)
        if kind < 3:
            self.n = 1 + self.below(self.n)
        if kind < 13:
            self.command(self.below(7))
        elif kind == 13:
            self.data[0] = <char>self.below(16)
        else:
            self.damage()


cdef Py_ssize_t BEHIND_ERROR = 8


cdef Py_ssize_t bits(Py_ssize_t n) noexcept nogil:
    """Of a length, 15 at most."""
    cdef Py_ssize_t found = 0
    while n > 0 and found < 15:
        n >>= 1
        found += 1
    return found


cdef class HashingParser(CommandHandler):
    """Folds what it is told into 64 bits."""

    cdef Parser parser
    cdef uint64_t hash
    cdef bint pausing                  # be stopped after each event, as by a login that takes its time
    cdef bint failed
    # what the input played last has reached as the first one
    cdef bint noting
    cdef Py_ssize_t before, events, reached
    cdef bint known[FEATURES]
    cdef short fresh[FEATURES]

    def __cinit__(self) -> None:
        self.parser = Parser()

    cdef void note(self, Py_ssize_t feature) noexcept:
        if self.noting and not self.known[feature]:
            self.known[feature] = True
            self.fresh[self.reached] = <short>feature
            self.reached += 1

    cdef inline void fold(self, uint64_t value) noexcept:
        self.hash = (self.hash ^ value) * <uint64_t>0x9E3779B97F4A7C15
        self.hash ^= self.hash >> 32

    cdef void field(self, const char* p, Py_ssize_t n) noexcept:
        """The length keeps neighbours apart; -1 stands for none at all."""
        cdef uint64_t word = 0
        if p == NULL:
            self.fold(<uint64_t>-1)
            return
        self.fold(n)
        while n >= 8:
            memcpy(&word, p, 8)
            self.fold(word)
            p += 8
            n -= 8
        word = 0
        while n > 0:
            n -= 1
            word = word << 8 | <unsigned char>p[n]
        self.fold(word)

    cdef void text(self, bytes value) noexcept:
        if value is None:
            self.field(NULL, 0)
        else:
            self.field(value, len(value))

    cdef void kind(self, char letter) noexcept:
        self.parser.stopped = self.pausing
        self.fold(letter)
        if self.noting:
            self.note(AFTER + self.before * KINDS + letter % KINDS)
            self.before = letter % KINDS
            self.events += 1

    cdef void begin(self, int settings, bint pausing) noexcept:
        """As a new parser with the settings of an input's first byte."""
        self.hash = self.parser.skipping = 0
        self.failed = self.noting = False
        self.pausing = pausing
        self.parser.headers = settings & 1 == 0
        self.parser.login_due = settings & 2 != 0
        self.parser.max_payload = 8 if settings & 4 else MAX_PAYLOAD
        self.parser.max_control_line = 40 if settings & 8 else MAX_LINE

    cdef Py_ssize_t take(self, const char* p, Py_ssize_t n) except? -1:
        """Parse what is there; stops by handlers are taken back and the rest is parsed."""
        cdef Py_ssize_t used = 0
        try:
            while True:
                self.parser.stopped = False
                used += self.parser.parse(self, p + used, n - used)
                if not self.parser.stopped:
                    return used
        except ProtocolError as error:
            self.failed = True
            self.fold(<uint64_t><Py_ssize_t>hash(error.text))
            self.fold(<uint64_t><Py_ssize_t>hash(error.reason))
            self.note(ERRORS + self.before * 64 + ((<Py_ssize_t>hash(error.text) ^ <Py_ssize_t>hash(error.reason)) & 63))
            return used

    cdef uint64_t answer(self, Py_ssize_t unfinished) noexcept:
        """All events and how it ended: the error, or how many bytes wait for more."""
        self.fold(0 if self.failed else unfinished + 1)
        return self.hash

    cdef int on_connect(self, bytes json) except -1:
        self.parser.login_due = False
        self.kind(c'C')
        self.text(json)
        return 0

    cdef int on_publish(self, const Message* msg) except -1:
        self.kind(c'M')
        self.field(msg.subject, msg.subject_len)
        self.field(msg.reply, msg.reply_len)
        self.field(msg.body, msg.headers_len)
        self.field(msg.body + msg.headers_len, msg.body_len - msg.headers_len)
        self.field(msg.size_text, msg.size_text_len)
        self.field(msg.tail, msg.tail_len)
        if self.noting:
            self.note(LENGTHS + bits(msg.subject_len))
            self.note(LENGTHS + 16 + bits(msg.reply_len))
            self.note(LENGTHS + 32 + bits(msg.headers_len))
            self.note(LENGTHS + 48 + bits(msg.body_len))
            self.note(LENGTHS + 64 + bits(msg.tail_len))
        return 0

    cdef int on_subscribe(self, bytes subject, bytes queue, bytes sid) except -1:
        self.kind(c'S')
        self.text(subject)
        self.text(queue)
        self.text(sid)
        return 0

    cdef int on_unsubscribe(self, bytes sid, long max_deliveries) except -1:
        self.kind(c'U')
        self.text(sid)
        self.fold(max_deliveries)
        return 0

    cdef int on_ping(self) except -1:
        self.kind(c'<')
        return 0

    cdef int on_pong(self) except -1:
        self.kind(c'>')
        return 0

    cdef int on_info(self, bytes json) except -1:
        self.kind(c'I')
        self.text(json)
        return 0

    cdef int on_error(self, bytes text) except -1:
        self.kind(c'E')
        self.text(text)
        return 0


cdef char* copied(const char* p, Py_ssize_t n) except NULL:
    """In memory that ends where the input does, so that a sanitizer notices reading on."""
    cdef char* copy = <char*>malloc(n if n > 0 else 1)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, p, n)
    return copy


cdef class SplitPlayer:
    """Plays input whole, stopped by each command, byte by byte and cut in two at every place."""

    cdef HashingParser stepping, other
    cdef Maker maker

    def __init__(self) -> None:
        self.stepping = HashingParser()
        self.other = HashingParser()
        self.maker = Maker()

    cdef bint cuts(self, int settings, const char* whole, Py_ssize_t n, uint64_t answer) except -1:
        """Both kinds of cuts; pieces come with what is left of those before them, as from a socket."""
        cdef HashingParser stepping = self.stepping, other = self.other
        cdef Py_ssize_t stepped = 0, used, end, behind = 0
        cdef char* piece
        stepping.begin(settings, False)
        for end in range(1, n + 1):
            if stepping.failed:
                # what is behind an error is not read: a few cuts there show it, and errors cost most time
                behind += 1
                if behind > BEHIND_ERROR:
                    break
            other.begin(settings, False)
            piece = copied(whole, end)
            try:
                if not stepping.failed:
                    stepped += stepping.take(piece + stepped, end - stepped)
                used = other.take(piece, end)
            finally:
                free(piece)
            if end < n and not other.failed:
                used += other.take(whole + used, n - used)
            if other.answer(n - used) != answer:
                return False
        return stepping.answer(n - stepped) == answer

    cdef bint same(self, const char* data, Py_ssize_t n) except -1:
        """Has this input, with its settings in front, one answer however it is given?"""
        cdef HashingParser other = self.other
        cdef int settings = data[0]
        cdef char* whole = copied(data + 1, n - 1)
        cdef uint64_t answer
        n -= 1
        try:
            other.begin(settings, False)
            answer = other.answer(n - other.take(whole, n))
            other.begin(settings, True)
            if other.answer(n - other.take(whole, n)) != answer:
                return False
            return n == 0 or self.cuts(settings, whole, n, answer)
        finally:
            free(whole)

    def make(self, uint64_t seed) -> bytes:
        """The first input that play() makes of this seed."""
        self.maker.state = seed | 1
        self.maker.make()
        return self.maker.data[:self.maker.n]

    def check(self, bytes data not None) -> bool:
        """Has this input, at least the byte that chooses settings, one answer?"""
        return len(data) > 0 and self.same(data, len(data))

    def reach(self, bytes data not None) -> list[int]:
        """Play this input whole; what no input given here before has reached, as numbers below :data:`MOST_REACHED`."""
        cdef HashingParser parser = self.stepping
        cdef Py_ssize_t n = len(data) - 1, used
        cdef int settings = data[0] & 15 if n >= 0 else 0
        if n < 0:
            return []
        parser.begin(settings, False)
        parser.noting = True
        parser.before, parser.events, parser.reached = BEGINNING, 0, 0
        used = parser.take(<const char*>data + 1, n)
        parser.note(SETTINGS + settings * 2 + parser.failed)
        parser.note(UNFINISHED + bits(n - used))
        parser.note(COUNTS + min(parser.events, <Py_ssize_t>31))
        return [parser.fresh[at] for at in range(parser.reached)]

    def change(self, bytes data not None, uint64_t seed, Py_ssize_t most) -> bytes:
        """This input with one change, at most `most` bytes of it."""
        cdef Maker maker = self.maker
        cdef Py_ssize_t n = min(len(data), <Py_ssize_t>CHANGEABLE)
        maker.state = seed * <uint64_t>0x9E3779B97F4A7C15 | 1
        if n == 0:
            maker.make()
        else:
            memcpy(maker.data, <const char*>data, n)
            maker.n = n
            if maker.below(4):
                # what is behind an error is not read, and errors cost most time
                self.other.begin(data[0], True)
                n = self.other.take(<const char*>data + 1, n - 1)
                if self.other.failed:
                    maker.n = n + 1
            maker.change()
        return maker.data[:min(maker.n, most)]

    def play(self, uint64_t seed, Py_ssize_t inputs) -> list[bytes]:
        """Makes and plays so many inputs; returns those with more than one answer, and ends early when they are many."""
        cdef Maker maker = self.maker
        cdef list found = []
        cdef bint good
        maker.state = seed | 1
        while inputs > 0:
            inputs -= 1
            maker.make()
            try:
                good = self.same(maker.data, maker.n)
            except Exception:  # no ProtocolError: that is a finding too, which shows when it is played again
                good = False
            if not good:
                found.append(maker.data[:maker.n])
                if len(found) == MOST_FINDINGS:
                    break
        return found
