"""The client protocol's parser, without I/O: bytes in, one method call per command out.

Commands are handled only when they are whole; what is left over must be given again, in front of the bytes that
follow.
"""
from jetbroker.wire.message cimport Message


cdef class CommandHandler:
    """Who is told of commands, of whatever grammar."""
    # A login is due and the first command is no CONNECT: let the client in (login_due is False then), or raise.
    cdef int on_anonymous(self) except -1
    cdef int on_connect(self, bytes json) except -1
    cdef int on_ping(self) except -1
    cdef int on_pong(self) except -1
    cdef int on_info(self, bytes json) except -1
    cdef int on_error(self, bytes text) except -1
    cdef int on_publish(self, const Message* msg) except -1
    cdef int on_subscribe(self, bytes subject, bytes queue, bytes sid) except -1
    cdef int on_unsubscribe(self, bytes sid, long max_deliveries) except -1    # 0: now
    # Of links: a message, with the queue groups that shall have it, or None; interest, None: no queue group.
    cdef int on_leaf_message(self, const Message* msg, list queues) except -1
    cdef int on_leaf_subscribe(self, bytes subject, bytes queue, int weight) except -1
    cdef int on_leaf_unsubscribe(self, bytes subject, bytes queue) except -1


cdef enum:
    INCOMPLETE = -1

# The line has more bytes than it may have: so many were not read.
cdef object line_too_long(Py_ssize_t unread)


cdef class Parser:
    cdef str peer                      # what speaks, as the log names it
    cdef Py_ssize_t max_control_line
    cdef Py_ssize_t max_payload        # negative: any
    cdef bint headers                  # HPUB is allowed: CONNECT agreed to headers
    cdef bint login_due                # the next command must be CONNECT
    cdef bint stopped                  # a handler closed or parked the connection: handle nothing more
    cdef int skipping                  # inside the junk after PING/PONG/+OK: which of them
    cdef Py_ssize_t need               # bytes the unfinished command needs in all, 0 when unknown
    cdef const char* input             # what parse() was given, of which the first `kept` bytes were there before
    cdef Py_ssize_t kept

    # Handles the whole commands in p[0:n] and returns how many bytes they took.
    # Raises ProtocolError at the first wrong byte.
    cdef Py_ssize_t parse(self, CommandHandler handler, const char* p, Py_ssize_t n) except? -1
    # Which command starts here that no client may say: OP_BAD, OP_PARTIAL or the command.
    cdef int further(self, const char* p, Py_ssize_t n) noexcept
    cdef Py_ssize_t _publish(self, CommandHandler handler, const char* p, const char* args, const char* end,
                             bint with_headers) except? -2
    # What is no PUB and no HPUB: the bytes it takes, INCOMPLETE when it is not whole.
    cdef Py_ssize_t _command(self, CommandHandler handler, int op, const char* p, const char* args,
                             const char* end) except? -2
    cdef int _subscription(self, CommandHandler handler, int op, bytes line, bint with_cr) except -1
    # A message whose payload begins at `body`, and its command at `p`, does not end as it should: is there more to
    # come (INCOMPLETE), or is it wrong?
    cdef Py_ssize_t _unfinished(self, const char* p, const char* body, Py_ssize_t size, const char* end) except? -2
    cdef object _unknown_operation(self, const char* p, const char* end)
    cdef object _bad_end(self, const char* p, const char* end)
