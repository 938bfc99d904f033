# cython: language_level=3
"""Is a parser's answer the same however its input is cut? Fast enough for millions of inputs."""
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from jetbroker.wire.leaf_parser cimport LeafParser
from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport CommandHandler, Parser

from jetbroker.errors import ProtocolError

cdef Py_ssize_t EVERY_PLACE_BYTES = 400  # longer input is cut in two at so many places only


class SplitDifference(AssertionError):
    """One way of cutting the input gave another answer."""


cdef class FoldingParser(CommandHandler):
    """Writes what it is told into one growing byte string: a letter per event and netstrings for its fields."""

    cdef Parser parser
    cdef char* log
    cdef Py_ssize_t log_len, log_room
    cdef bint pausing                  # be stopped after each event, as by a login that takes its time
    cdef bint failed
    cdef bytes verdict

    def __cinit__(self, Parser parser not None) -> None:
        self.parser = parser
        self.log = NULL

    def __dealloc__(self) -> None:
        free(self.log)

    cdef int add(self, const char* p, Py_ssize_t n) except -1:
        cdef Py_ssize_t room
        cdef char* grown
        if self.log_len + n > self.log_room:
            room = (self.log_len + n) * 2 + 256
            grown = <char*>realloc(self.log, room)
            if grown == NULL:
                raise MemoryError
            self.log, self.log_room = grown, room
        memcpy(self.log + self.log_len, p, n)
        self.log_len += n
        return 0

    cdef int kind(self, const char* letter) except -1:
        self.parser.stopped = self.pausing
        return self.add(letter, 1)

    cdef int field(self, const char* p, Py_ssize_t n) except -1:
        cdef char head[24]
        if p == NULL:
            return self.add(b"-,", 2)
        self.add(head, snprintf(head, sizeof(head), "%zd:", n))
        self.add(p, n)
        return self.add(b",", 1)

    cdef int text(self, bytes value) except -1:
        if value is None:
            return self.field(NULL, 0)
        return self.field(value, len(value))

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
            self.verdict = f"{error.text}|{error.reason}".encode()
            return used

    cdef int begin(self, SplitChecker settings, bint pausing) except -1:
        """As a new parser with these settings."""
        self.log_len = self.parser.skipping = 0
        self.failed = False
        self.verdict = None
        self.pausing = pausing
        self.parser.headers = settings.headers
        self.parser.login_due = settings.login_due
        self.parser.max_payload = settings.max_payload
        self.parser.max_control_line = settings.max_control_line
        return 0

    cdef int end(self, Py_ssize_t unfinished) except -1:
        """Behind the events stands how it ended: the error, or how many bytes wait for more."""
        cdef char rest[24]
        self.add(b"!", 1)
        if self.failed:
            return self.add(self.verdict, len(self.verdict))
        return self.add(rest, snprintf(rest, sizeof(rest), "%zd", unfinished))

    cdef int on_connect(self, bytes json) except -1:
        self.parser.login_due = False
        self.kind(b"C")
        return self.text(json)

    cdef int on_publish(self, const Message* msg) except -1:
        self.kind(b"M")
        self.field(msg.subject, msg.subject_len)
        self.field(msg.reply, msg.reply_len)
        self.field(msg.body, msg.headers_len)
        self.field(msg.body + msg.headers_len, msg.body_len - msg.headers_len)
        return self.field(msg.size_text, msg.size_text_len)

    cdef int on_subscribe(self, bytes subject, bytes queue, bytes sid) except -1:
        self.kind(b"S")
        self.text(subject)
        self.text(queue)
        return self.text(sid)

    cdef int on_unsubscribe(self, bytes sid, long max_deliveries) except -1:
        self.kind(b"U")
        self.text(sid)
        return self.text(b"%d" % max_deliveries)

    cdef int on_ping(self) except -1:
        return self.kind(b"<")

    cdef int on_pong(self) except -1:
        return self.kind(b">")

    cdef int on_info(self, bytes json) except -1:
        self.kind(b"I")
        return self.text(json)

    cdef int on_error(self, bytes text) except -1:
        self.kind(b"E")
        return self.text(text)

    cdef int on_leaf_message(self, const Message* msg, list queues) except -1:
        self.on_publish(msg)
        for queue in queues or ():
            self.text(queue)
        return self.field(msg.tail, msg.tail_len)

    cdef int on_leaf_subscribe(self, bytes subject, bytes queue, int weight) except -1:
        return self.on_subscribe(subject, queue, b"%d" % weight)

    cdef int on_leaf_unsubscribe(self, bytes subject, bytes queue) except -1:
        self.kind(b"U")
        self.text(subject)
        return self.text(queue)


cdef class SplitChecker:
    """Plays input to parsers with these settings."""

    cdef bint headers, login_due
    cdef Py_ssize_t max_payload, max_control_line
    cdef FoldingParser whole, other

    def __init__(self, bint headers=True, bint login_due=False, Py_ssize_t max_payload=1048576,
                 Py_ssize_t max_control_line=4096, bint leaf=False) -> None:
        self.headers = headers
        self.login_due = login_due
        self.max_payload = max_payload
        self.max_control_line = max_control_line
        self.whole = FoldingParser(LeafParser() if leaf else Parser())
        self.other = FoldingParser(LeafParser() if leaf else Parser())

    cdef int pieces(self, FoldingParser parser, const char* p, Py_ssize_t n, Py_ssize_t cut, bint pausing) except -1:
        """Play p[:cut], p[cut:]; the second piece comes with what is left of the first, as from a socket."""
        cdef Py_ssize_t used
        parser.begin(self, pausing)
        used = parser.take(p, cut)
        if cut < n and not parser.failed:
            used += parser.take(p + used, n - used)
        return parser.end(n - used)

    cdef int byte_by_byte(self, FoldingParser parser, const char* p, Py_ssize_t n) except -1:
        """Each time in memory that ends where the input does, so that reading on is noticed by a sanitizer."""
        cdef Py_ssize_t used = 0, end
        cdef char* piece
        parser.begin(self, False)
        for end in range(1, n + 1):
            piece = <char*>malloc(end - used)
            if piece == NULL:
                raise MemoryError
            memcpy(piece, p + used, end - used)
            try:
                used += parser.take(piece, end - used)
            finally:
                free(piece)
            if parser.failed:
                break
        return parser.end(n - used)

    def check(self, bytes data not None) -> bytes:
        """The answer to the whole input; raises SplitDifference when another way of giving it has another one."""
        cdef const char* p = data
        cdef Py_ssize_t n = len(data), cut
        self.pieces(self.whole, p, n, n, False)
        self.pieces(self.other, p, n, n, True)
        self.compare("by stops after each event")
        self.byte_by_byte(self.other, p, n)
        self.compare("byte by byte")
        for cut in range(1, n, 1 + n // EVERY_PLACE_BYTES):
            self.pieces(self.other, p, n, cut, False)
            self.compare(cut)
        return self.whole.log[:self.whole.log_len]

    cdef int compare(self, object way) except -1:
        cdef FoldingParser a = self.whole, b = self.other
        if a.log_len != b.log_len or memcmp(a.log, b.log, a.log_len) != 0:
            raise SplitDifference(f"whole: {a.log[:a.log_len]!r}\ncut {way}: {b.log[:b.log_len]!r}")
        return 0
