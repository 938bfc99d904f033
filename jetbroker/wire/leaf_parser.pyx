# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The grammar of links to other servers (see leaf_parser.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

from jetbroker.wire.lexing cimport (
    OP_ACCOUNT, OP_BAD, OP_HMSG, OP_LMSG, OP_LSUB, OP_LUNSUB, OP_PARTIAL, OP_SUB, OP_UNSUB, beyond, match_verb,
    parse_size, skip_blanks)
from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport INCOMPLETE, CommandHandler, Parser, line_too_long

from jetbroker import limits
from jetbroker.errors import ProtocolError
from jetbroker.wire import faults

cdef int MAX_SIZE_DIGITS = limits.MAX_SIZE_DIGITS


cdef inline bint is_blank(char c) noexcept nogil:
    """Among the arguments of a link CR is one, too."""
    return c == c' ' or c == c'\t' or c == c'\r'


cdef void read_words(const char* q, const char* stop, Words* words) noexcept nogil:
    cdef const char* start
    cdef int count = 0
    words.plain = True
    words.start[:] = [NULL, NULL]
    words.stop[:] = [NULL, NULL, NULL]
    while q < stop:
        start = q
        while q < stop and not is_blank(q[0]):
            q += 1
        if q > start:
            if count < 4:
                words.first[count] = start
                words.last[count] = q
            words.start[0] = words.start[1]
            words.start[1] = start
            words.stop[0] = words.stop[1]
            words.stop[1] = words.stop[2]
            words.stop[2] = q
            count += 1
        else:
            words.plain = False  # two blanks, or one in front
        if q < stop:
            q += 1
            if (q - 1)[0] != c' ' or q == stop:
                words.plain = False
    words.count = count


cdef list split_words(bytes line):
    return [word for word in line.replace(b"\t", b" ").replace(b"\r", b" ").split(b" ") if word]


cdef object bad_message(bint with_headers, str what, bytes shown):
    return faults.bad_leaf_arguments("HeaderMsgArgs" if with_headers else "MsgArgs", what, shown)


cdef object bad_size(bint with_headers, long headers_len, long size, bytes line):
    if with_headers and headers_len < 0:
        return bad_message(True, "Bad or Missing Header Size", line)
    if size < 0:
        return bad_message(with_headers, "Bad or Missing Size", b"[%b]" % b" ".join(split_words(line)))
    return bad_message(True, "Header Size larger then TotalSize", line)


cdef class LeafParser(Parser):
    """Parser of what comes over a link."""

    def __init__(self) -> None:
        Parser.__init__(self)
        self.peer = faults.LEAF

    cdef int further(self, const char* p, Py_ssize_t n) noexcept:
        cdef char first = p[0]
        cdef char second = p[1] & 0xDF if n > 1 else 0
        if c'a' <= first <= c'z':
            first -= 32
        if first == c'L' or first == c'R':
            if second == c'M':
                return match_verb(p, n, b"LMSG" if first == c'L' else b"RMSG", OP_LMSG)
            if n > 2 and p[2] == c'-':
                return match_verb(p, n, b"LS-" if first == c'L' else b"RS-", OP_LUNSUB)
            return match_verb(p, n, b"LS+" if first == c'L' else b"RS+", OP_LSUB)
        if first == c'H' and second == c'M':
            return match_verb(p, n, b"HMSG", OP_HMSG)
        if first == c'A':
            if n == 1:
                return OP_PARTIAL
            return OP_ACCOUNT if p[1] == c'+' or p[1] == c'-' else OP_BAD
        return OP_BAD

    cdef Py_ssize_t _command(self, CommandHandler handler, int op, const char* p, const char* args,
                             const char* end) except? -2:
        if op == OP_LMSG or op == OP_HMSG:
            return self._message(handler, p, args, end, op == OP_HMSG)
        return Parser._command(self, handler, op, p, args, end)

    cdef int _subscription(self, CommandHandler handler, int op, bytes line, bint with_cr) except -1:
        cdef list given = split_words(line)
        cdef bytes weight
        if op == OP_SUB or op == OP_LSUB:
            if len(given) == 1:
                return handler.on_leaf_subscribe(given[0], None, 1)
            if len(given) == 3:
                weight = given[2]
                return handler.on_leaf_subscribe(given[0], given[1], max(1, parse_size(
                    <const char*>weight, <const char*>weight + len(weight), MAX_SIZE_DIGITS)))
            raise faults.bad_leaf_arguments("Sub", "Parse Error", line or (b"\r" if with_cr else b""))
        if (op == OP_UNSUB or op == OP_LUNSUB) and 1 <= len(given) <= 2:
            handler.on_leaf_unsubscribe(given[0], given[1] if len(given) == 2 else None)
        return 0

    cdef Py_ssize_t _message(self, CommandHandler handler, const char* p, const char* args, const char* end,
                             bint with_headers) except? -2:
        """<subject> [reply] <sizes>, or with queue groups <subject> + <reply> <queues> <sizes>, or with | and no reply.

        HMSG has the size of the headers in front of the total one.
        """
        cdef const char* lf = <const char*>memchr(args, c'\n', end - args)
        cdef const char* stop = end if lf == NULL else lf
        cdef const char* q
        cdef Py_ssize_t unread
        cdef int sizes = 2 if with_headers else 1
        cdef int reply_at = 0, queues_at = 0
        cdef long size, headers_len = 0
        cdef list queues = None
        cdef Words words
        cdef Message msg
        cdef bint plain
        if stop > args and (stop - 1)[0] == c'\r':
            stop -= 1
        q = skip_blanks(args, stop)
        unread = beyond(args, q, stop, end, self.max_control_line)
        if unread:
            raise line_too_long(unread)
        if lf == NULL:
            return INCOMPLETE
        read_words(q, stop, &words)
        plain = words.plain and stop < lf
        if words.count <= sizes:
            raise bad_message(with_headers, "Parse Error", b"[%b]" % b" ".join(split_words(q[:stop - q])))
        if words.count == sizes + 2:
            reply_at = 1
        elif words.count > sizes + 2:
            queues_at = 2
            if words.last[1] - words.first[1] != 1 or (words.first[1][0] != c'+' and words.first[1][0] != c'|'):
                raise bad_message(with_headers, "Bad or Missing Reply Indicator",
                                  words.first[1][:words.last[1] - words.first[1]])
            if words.first[1][0] == c'+':
                reply_at = 2
                queues_at = 3
        size = parse_size(words.start[1], words.stop[2], MAX_SIZE_DIGITS)
        if with_headers:
            headers_len = parse_size(words.start[0], words.stop[1], MAX_SIZE_DIGITS)
        if size < 0 or headers_len < 0 or headers_len > size:
            raise bad_size(with_headers, headers_len, size, q[:stop - q])
        if 0 <= self.max_payload < size:
            raise ProtocolError("Maximum Payload Violation", "Maximum Message Payload Exceeded",
                                f"maximum payload exceeded: {size} vs {self.max_payload}", end - lf - 1)
        msg.body = lf + 1
        if end - msg.body < size + 2 or msg.body[size] != c'\r' or msg.body[size + 1] != c'\n':
            return self._unfinished(p, msg.body, size, end)
        msg.subject = words.first[0]
        msg.subject_len = words.last[0] - words.first[0]
        msg.reply = msg.tail = NULL
        msg.reply_len = msg.tail_len = 0
        if reply_at:
            msg.reply = words.first[reply_at]
            msg.reply_len = words.last[reply_at] - words.first[reply_at]
        if queues_at and words.count > queues_at + sizes:
            queues = self._queue_names(words.first[queues_at], words.stop[2 - sizes])
        msg.headers_len = headers_len
        msg.body_len = size
        msg.size_text = words.start[1]
        msg.size_text_len = words.stop[2] - words.start[1]
        if plain and (headers_len > 0 or not with_headers) and reply_at < 2:
            msg.tail = words.first[1] if reply_at else words.start[2 - sizes]
            msg.tail_len = (msg.body + size + 2) - msg.tail
        handler.on_leaf_message(&msg, queues)
        return (msg.body + size + 2) - p

    cdef list _queue_names(self, const char* p, const char* end):
        """Mostly the same as those of the message before."""
        if (self.queue_text is None or PyBytes_GET_SIZE(self.queue_text) != end - p
                or memcmp(PyBytes_AS_STRING(self.queue_text), p, end - p) != 0):
            self.queue_text = PyBytes_FromStringAndSize(p, end - p)
            self.queues = split_words(self.queue_text)
        return self.queues
