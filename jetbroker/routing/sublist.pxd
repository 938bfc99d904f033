"""One account's subscriptions: a trie by subject token of those with wildcards, a hash table of the literal ones."""
from libc.string cimport memcmp

from jetbroker.routing.literals cimport Literals, Members
from jetbroker.routing.subscription cimport Subscription


cdef inline bint used_once(const char* p, Py_ssize_t n) noexcept nogil:
    """Reply and ack subjects are made for one message. Literal subscriptions to such stand in the trie all the same,
    so that it tells who gets everything below a prefix."""
    if n <= 7:
        return False
    if p[0] == c'_':
        return memcmp(p, b"_INBOX.", 7) == 0 or memcmp(p, b"_R_.", 4) == 0
    return p[0] == c'$' and memcmp(p, b"$JS.ACK", 7) == 0


cdef class Node(Members):
    cdef dict literals          # token (bytes) -> Node when there are several
    cdef bytes token            # the only one otherwise, None when there are none: most nodes need no dict
    cdef Node child
    cdef Node one               # the child for '*'
    cdef Node rest              # the child for '>'
    cdef bytes tail             # further tokens that lead here, behind the one it is a child for; None for most

    cdef bint is_empty(self) noexcept
    cdef Node literal(self, const char* token, Py_ssize_t n)
    # The child for a token of a subscription, None when there is none.
    cdef Node child_for(self, const char* token, Py_ssize_t n)
    cdef int set_child(self, bytes token, Node child) except -1
    cdef int drop_child(self, bytes token) except -1
    cdef object children(self)         # the nodes of all literals


cdef class Sublist:
    cdef Node root
    cdef Literals literals
    cdef readonly Py_ssize_t count
    cdef int insert(self, Subscription sub) except -1
    cdef bint remove(self, Subscription sub) except -1
    # Collects the Members that match a literal subject. Subjects with empty tokens match nothing.
    cdef int match(self, const char* subject, Py_ssize_t n, list nodes) except -1
    # Can only literal subscriptions match it? Where that is not easily told: False.
    cdef bint is_literal_only(self, const char* subject, Py_ssize_t n) except -1
    # Appends the subscriptions number start..stop-1 of all to `found`; an explicit stack: subjects may be deep.
    cdef int collect(self, Py_ssize_t start, Py_ssize_t stop, list found) except -1
    # The subscriptions of every subject that starts with prefix (whole tokens and a dot) and has `rest` more tokens,
    # when they are the same for all of them (only wildcards below the prefix) and none is in a queue; else None.
    cdef list match_below(self, const char* prefix, Py_ssize_t n, int rest)
