"""One account's subscriptions: a trie by subject token of those with wildcards, a hash table of the literal ones."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from jetbroker.hashing cimport hash_bytes
from jetbroker.routing.subscription cimport Subscription
from jetbroker.slots cimport Slots


# Random, other ones in each process: nobody can choose subjects that meet in one place.
cdef uint64_t hash_seed
cdef uint64_t hash_factor


cdef inline uint64_t hash_subject(const char* p, Py_ssize_t n) noexcept nogil:
    return hash_bytes(p, n, hash_seed, hash_factor)


cdef class Members:
    """The subscriptions to one subject."""
    cdef Subscription single    # the only plain subscription
    cdef dict plain             # Subscription -> None (an ordered set: many may share a subject) when there are several
    cdef dict queues            # queue name -> {Subscription: None}, None when empty

    cdef bint has_members(self) noexcept
    cdef object plain_members(self)    # every plain subscription, in their order
    cdef int put_in(self, Subscription sub) except -1
    cdef bint take_out(self, Subscription sub) except -1


cdef class Literal(Members):
    """Those to a literal one."""
    cdef bytes subject


cdef inline bint is_alone(PyObject* holder) noexcept:
    """A Subscription, not a Literal."""
    return type(<object>holder) is Subscription


cdef inline Members members_of(PyObject* holder):
    """What a slot holds, as Members."""
    cdef Literal made
    if not is_alone(holder):
        return <Members><object>holder
    made = Literal.__new__(Literal)
    made.single = <Subscription><object>holder
    made.subject = made.single.subject
    return made


cdef class Literals(Slots):
    """By subject. What a slot holds is a plain Subscription that is alone, else a Literal."""
    # Where the holder of a subject stands, NULL when it has none; for the next call only.
    cdef PyObject** find(self, const char* subject, Py_ssize_t n) noexcept
    # All subscriptions to it, None when there are none.
    cdef Members members(self, const char* subject, Py_ssize_t n)
    cdef int insert(self, Subscription sub) except -1
    cdef bint remove(self, Subscription sub) except -1


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
