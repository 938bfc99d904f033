# cython: language_level=3
"""A parser that records what it is told, for tests and fuzzers of the wire format."""
from jetbroker.wire.leaf_parser cimport LeafParser
from jetbroker.wire.message cimport Message
from jetbroker.wire.parser cimport CommandHandler, Parser

from jetbroker.errors import ProtocolError


cdef class RecordingParser(CommandHandler):
    """Feeds bytes to the real parser as a connection does, and keeps a list of (event, ...) tuples."""

    cdef readonly list events
    cdef readonly object error        # its text
    cdef readonly object fault        # the ProtocolError
    cdef bytes rest
    cdef Parser parser

    def __init__(self, bint headers=True, bint login_due=False, Py_ssize_t max_payload=1048576,
                 Py_ssize_t max_control_line=4096, bint leaf=False) -> None:
        self.parser = LeafParser() if leaf else Parser()
        self.events = []
        self.rest = b""
        self.parser.headers = headers
        self.parser.login_due = login_due
        self.parser.max_payload = max_payload
        self.parser.max_control_line = max_control_line

    def feed(self, bytes data not None) -> None:
        """Give more input; after an error everything is ignored."""
        cdef Py_ssize_t used
        if self.error is not None:
            return
        data = self.rest + data
        try:
            used = self.parser.parse(self, <const char*>data, len(data))
        except ProtocolError as error:
            self.error = error.text
            self.fault = error
            return
        self.rest = data[used:]

    @property
    def unfinished(self) -> int:
        """Bytes kept because their command is not whole."""
        return len(self.rest)

    cdef int on_connect(self, bytes json) except -1:
        self.parser.login_due = False
        self.events.append(("connect", json))
        return 0

    cdef int on_publish(self, const Message* msg) except -1:
        reply = msg.reply[:msg.reply_len] if msg.reply != NULL else None
        self.events.append(("publish", msg.subject[:msg.subject_len], reply, msg.body[:msg.headers_len],
                            (msg.body + msg.headers_len)[:msg.body_len - msg.headers_len],
                            msg.size_text[:msg.size_text_len]))
        return 0

    cdef int on_subscribe(self, bytes subject, bytes queue, bytes sid) except -1:
        self.events.append(("subscribe", subject, queue, sid))
        return 0

    cdef int on_unsubscribe(self, bytes sid, long max_deliveries) except -1:
        self.events.append(("unsubscribe", sid, max_deliveries))
        return 0

    cdef int on_ping(self) except -1:
        self.events.append(("ping",))
        return 0

    cdef int on_pong(self) except -1:
        self.events.append(("pong",))
        return 0

    cdef int on_info(self, bytes json) except -1:
        self.events.append(("info", json))
        return 0

    cdef int on_error(self, bytes text) except -1:
        self.events.append(("error", text))
        return 0

    cdef int on_leaf_message(self, const Message* msg, list queues) except -1:
        reply = msg.reply[:msg.reply_len] if msg.reply != NULL else None
        tail = msg.tail[:msg.tail_len] if msg.tail != NULL else None
        self.events.append(("message", msg.subject[:msg.subject_len], reply, queues, msg.body[:msg.headers_len],
                            (msg.body + msg.headers_len)[:msg.body_len - msg.headers_len], tail))
        return 0

    cdef int on_leaf_subscribe(self, bytes subject, bytes queue, int weight) except -1:
        self.events.append(("subscribe", subject, queue, weight))
        return 0

    cdef int on_leaf_unsubscribe(self, bytes subject, bytes queue) except -1:
        self.events.append(("unsubscribe", subject, queue))
        return 0
