"""The trie of one account's subscriptions, by subject token."""
from jetbroker.routing.router cimport Subscription


cdef class Node:
    cdef dict literals          # token (bytes) -> Node when there are several
    cdef bytes token            # the only one otherwise, None when there are none: most nodes need no dict
    cdef Node child
    cdef Node one               # the child for '*'
    cdef Node rest              # the child for '>'
    cdef Subscription single    # the only plain subscription
    cdef dict plain             # Subscription -> None (an ordered set: many may share a subject) when there are several
    cdef dict queues            # queue name -> {Subscription: None}, None when empty

    cdef bint is_empty(self) noexcept
    cdef Node literal(self, const char* token, Py_ssize_t n)
    cdef int set_literal(self, bytes token, Node child) except -1
    cdef int drop_literal(self, bytes token) except -1
    cdef object children(self)         # the nodes of all literals
    cdef object plain_members(self)    # every plain subscription, in their order


cdef class Sublist:
    cdef Node root
    cdef readonly Py_ssize_t count
    cdef int insert(self, Subscription sub) except -1
    cdef bint remove(self, Subscription sub) except -1
    # Collects the nodes whose subscriptions match a literal subject. Subjects with empty tokens match nothing.
    cdef int match(self, const char* subject, Py_ssize_t n, list nodes) except -1
    # Appends the subscriptions number start..stop-1 of all to `found`; an explicit stack: subjects may be deep.
    cdef int collect(self, Py_ssize_t start, Py_ssize_t stop, list found) except -1
    # The subscriptions of every subject that starts with prefix (whole tokens and a dot) and has `rest` more tokens,
    # when they are the same for all of them (only wildcards below the prefix) and none is in a queue; else None.
    cdef list match_below(self, const char* prefix, Py_ssize_t n, int rest)
