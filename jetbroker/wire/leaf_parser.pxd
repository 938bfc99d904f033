"""The grammar of links to other servers: what a client says, and LMSG, HMSG, LS+ and LS-. Without I/O.

SUB and UNSUB mean LS+ and LS-, PUB and HPUB are messages without queue groups, as in nats-server. So are the names
that the links of a cluster have for these commands: RS+, RS-, RMSG. What else they say (A+, A-) means nothing here.
"""
from jetbroker.wire.parser cimport CommandHandler, Parser


# The words of LMSG or HMSG.
cdef struct Words:
    int count
    const char* first[4]               # where the first words begin
    const char* last[4]                # where they end
    const char* start[2]               # where the last but one and the last one begin
    const char* stop[3]                # where the last three end
    bint plain                         # single blanks


cdef class LeafParser(Parser):
    cdef bytes queue_text              # names of queue groups that came last, as they came
    cdef list queues                   # the same as a list; who gets it must not change it

    cdef Py_ssize_t _message(self, CommandHandler handler, const char* p, const char* args, const char* end,
                             bint with_headers) except? -2
    cdef list _queue_names(self, const char* p, const char* end)
