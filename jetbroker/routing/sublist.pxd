"""The trie of one account's subscriptions, by subject token."""
from jetbroker.routing.router cimport Subscription


cdef class Node:
    cdef dict literals          # token (bytes) -> Node, None when there are none
    cdef Node one               # the child for '*'
    cdef Node rest              # the child for '>'
    cdef dict plain             # Subscription -> None (an ordered set: many may share a subject), None when empty
    cdef dict queues            # queue name -> {Subscription: None}, None when empty
    cdef bint is_empty(self) noexcept


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
