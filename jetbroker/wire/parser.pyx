# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The client protocol's parser, without I/O (see parser.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr

from jetbroker.wire.lexing cimport (
    OP_BAD, OP_CONNECT, OP_ERR, OP_HPUB, OP_INFO, OP_OK, OP_PARTIAL, OP_PING, OP_PONG, OP_PUB, OP_SUB, OP_UNSUB,
    beyond, match_verb, parse_size, skip_blanks, token_end)
from jetbroker.wire.message cimport Message

from jetbroker import limits
from jetbroker.errors import LoginRefused, ProtocolError
from jetbroker.wire import faults

cdef int MAX_SIZE_DIGITS = limits.MAX_SIZE_DIGITS
cdef Py_ssize_t SHOWN_BYTES = limits.LOGGED_INPUT_BYTES + 8  # a verb in front

cdef int classify(const char* p, Py_ssize_t n) noexcept nogil:
    """Which command starts here; told as soon as the bytes allow, so that a wrong letter is not waited on."""
    cdef char first = p[0]
    cdef char second
    if c'a' <= first <= c'z':
        first -= 32
    if first == c'P':
        if n == 1:
            return OP_PARTIAL
        second = p[1] & 0xDF
        if second == c'U':
            return match_verb(p, n, b"PUB", OP_PUB)
        if second == c'I':
            return match_verb(p, n, b"PING", OP_PING)
        return match_verb(p, n, b"PONG", OP_PONG)
    if first == c'H':
        return match_verb(p, n, b"HPUB", OP_HPUB)
    if first == c'S':
        return match_verb(p, n, b"SUB", OP_SUB)
    if first == c'U':
        return match_verb(p, n, b"UNSUB", OP_UNSUB)
    if first == c'C':
        return match_verb(p, n, b"CONNECT", OP_CONNECT)
    if first == c'I':
        return match_verb(p, n, b"INFO", OP_INFO)
    if first == c'+':
        return match_verb(p, n, b"+OK", OP_OK)
    if first == c'-':
        return match_verb(p, n, b"-ERR", OP_ERR)
    return OP_BAD


cdef object line_too_long(Py_ssize_t unread):
    return ProtocolError("maximum control line exceeded", "Maximum Control Line Exceeded", unread=unread)


cdef object bad_publish(bint with_headers, str what, const char* args, const char* stop, const char* lf):
    cdef const char* q = skip_blanks(args, stop)
    if q == stop and stop < lf:
        stop += 1  # nats-server takes the first byte behind the blanks, whatever it is, for the first of the arguments
    return faults.bad_arguments("HeaderPub" if with_headers else "Pub", what, q[:stop - q])


cdef str size_fault(bint with_headers, long headers_len, long size):
    if not with_headers:
        return "Bad or Missing Size"
    if headers_len < 0:
        return "Bad or Missing Header Size"
    return "Bad or Missing Total Size" if size < 0 else "Header Size larger then TotalSize"


cdef class CommandHandler:
    """Who is told of commands; override the on_* methods."""

    cdef int on_anonymous(self) except -1:
        raise LoginRefused("Authentication Failure", "authentication error", asked=False)

    cdef int on_connect(self, bytes json) except -1:
        raise NotImplementedError

    cdef int on_publish(self, const Message* msg) except -1:
        raise NotImplementedError

    cdef int on_subscribe(self, bytes subject, bytes queue, bytes sid) except -1:
        raise NotImplementedError

    cdef int on_unsubscribe(self, bytes sid, long max_deliveries) except -1:
        raise NotImplementedError

    cdef int on_ping(self) except -1:
        raise NotImplementedError

    cdef int on_pong(self) except -1:
        raise NotImplementedError

    cdef int on_info(self, bytes json) except -1:
        raise NotImplementedError

    cdef int on_error(self, bytes text) except -1:
        raise NotImplementedError

    cdef int on_leaf_message(self, const Message* msg, list queues) except -1:
        raise NotImplementedError

    cdef int on_leaf_subscribe(self, bytes subject, bytes queue, int weight) except -1:
        raise NotImplementedError

    cdef int on_leaf_unsubscribe(self, bytes subject, bytes queue) except -1:
        raise NotImplementedError


cdef class Parser:
    """Parser of one connection's input."""

    def __init__(self) -> None:
        self.max_control_line = limits.MAX_CONTROL_LINE_BYTES
        self.max_payload = limits.MAX_PAYLOAD_BYTES
        self.peer = faults.CLIENT

    cdef Py_ssize_t parse(self, CommandHandler handler, const char* p, Py_ssize_t n) except? -1:
        cdef const char* start = p
        cdef const char* end = p + n
        cdef const char* args
        cdef const char* lf
        cdef Py_ssize_t taken
        cdef int op
        self.need = 0
        self.input = p
        while p < end and not self.stopped:
            if self.skipping:
                lf = <const char*>memchr(p, c'\n', end - p)
                if lf == NULL:
                    return n
                op = self.skipping
                self.skipping = 0
                if op == OP_PING:
                    handler.on_ping()
                elif op == OP_PONG:
                    handler.on_pong()
                p = lf + 1
                continue
            if self.login_due and p[0] != c'C' and p[0] != c'c':
                handler.on_anonymous()
            op = classify(p, end - p)
            if op == OP_BAD:
                op = self.further(p, end - p)
            if op == OP_PARTIAL:
                break
            if op == OP_BAD:
                raise self._unknown_operation(p, end)
            args = p + (op & 15)
            if op >= OP_PING:
                self.skipping = op
                p = args
                continue
            if args == end:
                break
            if op != OP_CONNECT and op != OP_INFO and args[0] != c' ' and args[0] != c'\t':
                raise self._unknown_operation(p, end)
            if op == OP_PUB or op == OP_HPUB:
                taken = self._publish(handler, p, args, end, op == OP_HPUB)
            else:
                taken = self._command(handler, op, p, args, end)
            if taken == INCOMPLETE:
                break
            p += taken
        return p - start

    cdef int further(self, const char* p, Py_ssize_t n) noexcept:
        return OP_BAD

    cdef Py_ssize_t _publish(self, CommandHandler handler, const char* p, const char* args, const char* end,
                             bint with_headers) except? -2:
        """PUB <subject> [reply] <size> / HPUB <subject> [reply] <header size> <total size>, then the payload."""
        cdef const char* first[4]
        cdef const char* last[4]
        cdef const char* lf = <const char*>memchr(args, c'\n', end - args)
        cdef const char* stop = end if lf == NULL else lf
        cdef const char* q
        cdef Py_ssize_t unread
        cdef int count = 0, sizes = 2 if with_headers else 1
        cdef long size, headers_len = 0
        cdef bint plain = True           # single blanks and CR LF: the publisher's bytes can be forwarded as they are
        cdef Message msg
        if stop > args and (stop - 1)[0] == c'\r':
            stop -= 1  # also while LF is still on its way: CR is no part of the arguments' length
        elif lf != NULL:
            plain = False
        q = skip_blanks(args, stop)
        unread = beyond(args, q, stop, end, self.max_control_line)
        if unread:
            raise line_too_long(unread)
        if lf == NULL:
            return INCOMPLETE
        if with_headers and not self.headers:
            raise ProtocolError("", detail="message headers not supported", unread=end - lf - 1)
        while q < stop:
            if count == sizes + 2:
                raise bad_publish(with_headers, "Parse Error", args, stop, lf)
            first[count] = q
            q = token_end(q, stop)
            last[count] = q
            count += 1
            if q < stop:
                q += 1
                if q == stop or q[0] == c' ' or q[0] == c'\t' or (q - 1)[0] == c'\t':
                    plain = False
                    q = skip_blanks(q, stop)
        if count < sizes + 1:
            raise bad_publish(with_headers, "Parse Error", args, stop, lf)
        size = parse_size(first[count - 1], last[count - 1], MAX_SIZE_DIGITS)
        if with_headers:
            headers_len = parse_size(first[count - 2], last[count - 2], MAX_SIZE_DIGITS)
        if size < 0 or headers_len < 0 or headers_len > size:
            raise bad_publish(with_headers, size_fault(with_headers, headers_len, size), args, stop, lf)
        if 0 <= self.max_payload < size:
            raise ProtocolError("Maximum Payload Violation", "Maximum Message Payload Exceeded",
                                f"maximum payload exceeded: {size} vs {self.max_payload}", end - lf - 1)
        msg.body = lf + 1
        if end - msg.body < size + 2 or msg.body[size] != c'\r' or msg.body[size + 1] != c'\n':
            return self._unfinished(p, msg.body, size, end)
        msg.subject = first[0]
        msg.subject_len = last[0] - first[0]
        msg.reply = msg.tail = NULL
        msg.reply_len = msg.tail_len = 0
        if count == sizes + 2:
            msg.reply = first[1]
            msg.reply_len = last[1] - first[1]
        msg.headers_len = headers_len
        msg.body_len = size
        msg.size_text = first[count - 1]
        msg.size_text_len = last[count - 1] - first[count - 1]
        if plain and (headers_len > 0 or not with_headers):
            msg.tail = first[1]
            msg.tail_len = (msg.body + size + 2) - first[1]
        handler.on_publish(&msg)
        return (msg.body + size + 2) - p

    cdef Py_ssize_t _unfinished(self, const char* p, const char* body, Py_ssize_t size, const char* end) except? -2:
        if end - body < size + 2 and (end - body <= size or body[size] == c'\r'):
            self.need = (body - p) + size + 2
            return INCOMPLETE
        raise self._bad_end(body + size, end)  # a terminator that is wrong already is not waited for

    cdef Py_ssize_t _command(self, CommandHandler handler, int op, const char* p, const char* args,
                             const char* end) except? -2:
        """The commands that are one line."""
        cdef const char* lf = <const char*>memchr(args, c'\n', end - args)
        cdef const char* stop = end if lf == NULL else lf
        cdef const char* q
        cdef Py_ssize_t unread
        cdef bytes line
        if stop > args and (stop - 1)[0] == c'\r':
            stop -= 1
        q = skip_blanks(args, stop)
        unread = beyond(args, q, stop, end, self.max_control_line)
        if unread:
            raise line_too_long(unread)
        if lf == NULL:
            return INCOMPLETE
        line = PyBytes_FromStringAndSize(q, stop - q)
        if op == OP_CONNECT:
            handler.on_connect(line)
        elif op == OP_INFO:
            handler.on_info(line)
        elif op == OP_ERR:
            handler.on_error(line)
        else:
            self._subscription(handler, op, line, (lf - 1)[0] == c'\r')
        return (lf + 1) - p

    cdef int _subscription(self, CommandHandler handler, int op, bytes line, bint with_cr) except -1:
        cdef const char* first[3]
        cdef const char* last[3]
        cdef const char* q = PyBytes_AS_STRING(line)
        cdef const char* stop = q + PyBytes_GET_SIZE(line)
        cdef int count = 0
        cdef long most = 0
        while q < stop and count < 3:
            first[count] = q
            q = last[count] = token_end(q, stop)
            q = skip_blanks(q, stop)
            count += 1
        if q == stop and op == OP_SUB and count > 1:
            return handler.on_subscribe(first[0][:last[0] - first[0]],
                                        None if count == 2 else first[1][:last[1] - first[1]],
                                        first[count - 1][:last[count - 1] - first[count - 1]])
        if q == stop and op == OP_UNSUB and 0 < count < 3:
            if count == 2:
                most = parse_size(first[1], last[1], MAX_SIZE_DIGITS)
            return handler.on_unsubscribe(first[0][:last[0] - first[0]], most if most > 0 else 0)
        # nats-server takes the first byte behind the blanks, whatever it is, for the first of the arguments
        raise faults.bad_arguments("Sub" if op == OP_SUB else "Unsub", "Parse Error",
                                   line or (b"\r" if with_cr else b""))

    cdef object _unknown_operation(self, const char* p, const char* end):
        return faults.unknown_operation(self.peer, p[:min(end - p, SHOWN_BYTES)], p - self.input - self.kept,
                                        end - p)

    cdef object _bad_end(self, const char* p, const char* end):
        """What stands at the end of a payload is not CR LF."""
        cdef int state = faults.BEHIND_PAYLOAD
        if p[0] == c'\r':
            state = faults.BEHIND_CR
            p += 1
        return faults.parser_error(self.peer, state, p[:min(end - p, SHOWN_BYTES)], p - self.input - self.kept,
                                   end - p)
