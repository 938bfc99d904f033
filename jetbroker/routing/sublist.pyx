# cython: language_level=3, boundscheck=False, wraparound=False
"""One account's subscriptions (see sublist.pxd).

'*' and '>' are wildcards only as whole tokens, and only in subscriptions: a published `a.*` is matched as a literal
by wildcards of its length (nats-server does the same).

Subscriptions to literal subjects are found by the hash of the whole subject. For the others each token has a node, down
to the 32nd. What comes behind that is one node's text (`tail`) for as long as all subscriptions below it go on with it:
a subscription of very many tokens costs its bytes, not a node for each.
"""
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp

from jetbroker.routing.subscription cimport Subscription
from jetbroker.slots cimport Slots, tag_of
from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits


hash_seed = int.from_bytes(os.urandom(8), "little")
hash_factor = int.from_bytes(os.urandom(8), "little") | 1


@cython.no_gc  # as Subscription
cdef class Members:
    """The subscriptions to one subject."""

    cdef bint has_members(self) noexcept:
        return self.single is not None or self.plain is not None or self.queues is not None

    cdef object plain_members(self):
        if self.plain is not None:
            return self.plain
        return () if self.single is None else (self.single,)

    cdef int put_in(self, Subscription sub) except -1:
        if sub.queue is not None:
            if self.queues is None:
                self.queues = {}
            (<dict>self.queues.setdefault(sub.queue, {}))[sub] = None
        elif self.plain is not None:
            self.plain[sub] = None
        elif self.single is None:
            self.single = sub
        else:
            self.plain = {self.single: None, sub: None}
            self.single = None
        return 0

    cdef bint take_out(self, Subscription sub) except -1:
        cdef dict members
        if sub.queue is None:
            if self.single is sub:
                self.single = None
                return True
            if self.plain is None or sub not in self.plain:
                return False
            del self.plain[sub]
            if not self.plain:
                self.plain = None
            return True
        members = None if self.queues is None else <dict>self.queues.get(sub.queue)
        if members is None or sub not in members:
            return False
        del members[sub]
        if not members:
            del self.queues[sub.queue]
            if not self.queues:
                self.queues = None
        return True


@cython.no_gc
cdef class Literal(Members):
    """The subscriptions to a literal subject."""


cdef class Literals(Slots):
    """All subscriptions of an account to literal subjects."""

    cdef PyObject** find(self, const char* subject, Py_ssize_t n) noexcept:
        cdef uint32_t tag = tag_of(hash_subject(subject, n))
        cdef Py_ssize_t at = self.seek(tag, tag)
        cdef PyObject* own
        while at >= 0:
            if is_alone(self.holders[at]):
                own = <PyObject*>(<Subscription><object>self.holders[at]).subject
            else:
                own = <PyObject*>(<Literal><object>self.holders[at]).subject
            if (PyBytes_GET_SIZE(<bytes><object>own) == n
                    and memcmp(PyBytes_AS_STRING(<bytes><object>own), subject, n) == 0):
                return self.holders + at
            at = self.seek(tag, at + 1)
        return NULL

    cdef Members members(self, const char* subject, Py_ssize_t n):
        cdef PyObject** found = self.find(subject, n)
        return None if found == NULL else members_of(found[0])

    cdef int insert(self, Subscription sub) except -1:
        cdef const char* subject = PyBytes_AS_STRING(sub.subject)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(sub.subject)
        cdef PyObject** found = self.find(subject, n)
        cdef Literal literal
        if found != NULL and not is_alone(found[0]):
            return (<Literal><object>found[0]).put_in(sub)
        if found != NULL:
            literal = <Literal>members_of(found[0])
            Py_DECREF(literal.single)  # it has one of its own
            Py_INCREF(literal)
            found[0] = <PyObject*>literal
            return literal.put_in(sub)
        if sub.queue is None:
            return self.put(hash_subject(subject, n), sub)
        literal = Literal.__new__(Literal)
        literal.subject = sub.subject
        literal.put_in(sub)
        return self.put(hash_subject(subject, n), literal)

    cdef bint remove(self, Subscription sub) except -1:
        cdef PyObject** found = self.find(PyBytes_AS_STRING(sub.subject), PyBytes_GET_SIZE(sub.subject))
        cdef Literal literal
        if found == NULL:
            return False
        if is_alone(found[0]):
            if found[0] != <PyObject*>sub:
                return False
        else:
            literal = <Literal><object>found[0]
            if not literal.take_out(sub):
                return False
            if literal.has_members():
                return True
        self.drop(found - self.holders)
        return True


cdef Py_ssize_t NODES = limits.SUBJECT_NODES


@cython.no_gc  # as Subscription
cdef class Node(Members):
    """One token's place in the trie."""

    cdef bint is_empty(self) noexcept:
        return (self.token is None and self.literals is None and self.one is None and self.rest is None
                and not self.has_members())

    cdef Node literal(self, const char* token, Py_ssize_t n):
        """The child for a token, None when there is none."""
        if self.token is not None:
            if PyBytes_GET_SIZE(self.token) == n and memcmp(PyBytes_AS_STRING(self.token), token, n) == 0:
                return self.child
            return None
        if self.literals is None:
            return None
        return <Node>self.literals.get(PyBytes_FromStringAndSize(token, n))

    cdef Node child_for(self, const char* token, Py_ssize_t n):
        if n == 1 and token[0] == c'*':
            return self.one
        if n == 1 and token[0] == c'>':
            return self.rest
        return self.literal(token, n)

    cdef int set_child(self, bytes token, Node child) except -1:
        """Add a child for a token, or put it in the place of the one that is there."""
        if token == b"*":
            self.one = child
        elif token == b">":
            self.rest = child
        elif self.literals is not None:
            self.literals[token] = child
        elif self.token is None or self.token == token:
            self.token = token
            self.child = child
        else:
            self.literals = {self.token: self.child, token: child}
            self.token = None
            self.child = None
        return 0

    cdef int drop_child(self, bytes token) except -1:
        if token == b"*":
            self.one = None
        elif token == b">":
            self.rest = None
        elif self.literals is None:
            self.token = None
            self.child = None
        else:
            del self.literals[token]
            if not self.literals:
                self.literals = None
        return 0

    cdef object children(self):
        if self.literals is not None:
            return self.literals.values()
        return () if self.child is None else (self.child,)


cdef class Sublist:
    """All subscriptions of an account."""

    def __init__(self) -> None:
        self.root = Node()
        self.literals = Literals()

    cdef int insert(self, Subscription sub) except -1:
        cdef Node node = self.root
        cdef Node child
        cdef const char* p = PyBytes_AS_STRING(sub.subject)
        cdef const char* end = p + PyBytes_GET_SIZE(sub.subject)
        cdef const char* stop
        cdef Py_ssize_t depth = 0
        if _stands_apart(sub):
            self.literals.insert(sub)
            self.count += 1
            return 0
        while p <= end:
            stop = token_end(p, end)
            child = node.child_for(p, stop - p)
            depth += 1
            if child is None:
                child = Node()
                node.set_child(p[:stop - p], child)
                if depth >= NODES and stop < end:
                    child.tail = PyBytes_FromStringAndSize(stop + 1, end - stop - 1)
                    stop = end
            elif child.tail is not None:
                child = _split(node, p[:stop - p], child, shared_tokens(child.tail, stop, end))
                if child.tail is not None:
                    stop += 1 + PyBytes_GET_SIZE(child.tail)
            node = child
            p = stop + 1
        node.put_in(sub)
        self.count += 1
        return 0

    cdef bint remove(self, Subscription sub) except -1:
        cdef list path = []
        cdef bint found
        cdef Node node = self.root
        cdef Node child
        cdef const char* p = PyBytes_AS_STRING(sub.subject)
        cdef const char* end = p + PyBytes_GET_SIZE(sub.subject)
        cdef const char* stop
        if _stands_apart(sub):
            found = self.literals.remove(sub)
            self.count -= found
            return found
        while p <= end:
            stop = token_end(p, end)
            child = node.child_for(p, stop - p)
            if child is None:
                return False
            path.append((node, p[:stop - p]))
            if child.tail is not None:
                if shared_tokens(child.tail, stop, end) != PyBytes_GET_SIZE(child.tail):
                    return False
                stop += 1 + PyBytes_GET_SIZE(child.tail)
            node = child
            p = stop + 1
        if not node.take_out(sub):
            return False
        self.count -= 1
        _prune(path, node)
        return True

    cdef int match(self, const char* subject, Py_ssize_t n, list nodes) except -1:
        if n == 0 or _has_empty_token(subject, subject + n):
            return 0
        return _match(self.root, subject, subject + n, self.literals.members(subject, n), nodes)

    cdef bint is_literal_only(self, const char* subject, Py_ssize_t n) except -1:
        cdef const char* stop
        if self.root.one is not None or self.root.rest is not None:
            return False
        if self.root.token is None and self.root.literals is None:
            return True
        stop = <const char*>memchr(subject, c'.', n)
        return self.root.literal(subject, n if stop == NULL else stop - subject) is None

    cdef int collect(self, Py_ssize_t start, Py_ssize_t stop, list found) except -1:
        cdef list stack = [self.root]
        cdef Py_ssize_t seen = 0
        cdef size_t at = 0
        cdef Node node
        while self.literals.tags != NULL and at <= self.literals.mask and seen < stop:
            if self.literals.tags[at]:
                seen = _collect_from(members_of(self.literals.holders[at]), start, stop, seen, found)
            at += 1
        while stack and seen < stop:
            node = <Node>stack.pop()
            seen = _collect_from(node, start, stop, seen, found)
            if node.rest is not None:
                stack.append(node.rest)
            if node.one is not None:
                stack.append(node.one)
            stack.extend(node.children())
        return 0

    cdef list match_below(self, const char* prefix, Py_ssize_t n, int rest):
        cdef list nodes = []
        cdef list subs = []
        cdef Node node
        # a subject with an empty token matches nothing: that is told by the match of one subject
        if _has_empty_token(prefix, prefix + n - 1) or not _descend(self.root, prefix, prefix + n, rest, nodes):
            return None
        for node in nodes:
            if node.queues is not None:
                return None
            subs.extend(node.plain_members())
        return subs


cdef bint _stands_apart(Subscription sub) noexcept:
    """Is it in the hash table?"""
    cdef const char* p = PyBytes_AS_STRING(sub.subject)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(sub.subject)
    return not has_wildcard(p, n) and not used_once(p, n)


cdef inline const char* token_end(const char* p, const char* end) noexcept nogil:
    cdef const char* stop = <const char*>memchr(p, c'.', end - p)
    return end if stop == NULL else stop


cdef Py_ssize_t shared_tokens(bytes tail, const char* stop, const char* end) noexcept:
    """Bytes of the tokens with which both the tail and a subscription behind `stop` begin."""
    cdef const char* t = PyBytes_AS_STRING(tail)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(tail)
    cdef const char* p = stop + 1  # behind the end when nothing follows
    cdef Py_ssize_t i, most = min(n, end - p)
    cdef Py_ssize_t whole = 0
    for i in range(most):
        if t[i] != p[i]:
            return whole
        if t[i] == c'.':
            whole = i
    if most > 0 and (most == n or t[most] == c'.') and (p + most == end or p[most] == c'.'):
        return most
    return whole


cdef Node _split(Node parent, bytes token, Node child, Py_ssize_t keep):
    """Two nodes where one subscription parts from the child's tail: the one that keeps so many bytes of it."""
    cdef Node upper
    cdef bytes tail = child.tail
    cdef const char* p = PyBytes_AS_STRING(tail)
    cdef const char* end = p + PyBytes_GET_SIZE(tail)
    cdef const char* stop
    if keep == end - p:
        return child
    upper = Node()
    parent.set_child(token, upper)
    if keep:
        upper.tail = p[:keep]
        p += keep + 1
    stop = token_end(p, end)
    child.tail = None if stop == end else PyBytes_FromStringAndSize(stop + 1, end - stop - 1)
    upper.set_child(p[:stop - p], child)
    return upper


cdef inline const char* behind(Node child, const char* stop, const char* end) noexcept:
    """Where a subject goes on behind a child whose token ends at `stop`; NULL when it does not get there."""
    if child is None:
        return NULL
    return stop if child.tail is None else _behind_tail(child.tail, stop, end)


cdef const char* _behind_tail(bytes tail, const char* stop, const char* end) noexcept:
    cdef const char* t = PyBytes_AS_STRING(tail)
    cdef const char* tail_end = t + PyBytes_GET_SIZE(tail)
    cdef const char* t_stop
    while t <= tail_end:
        if stop == end:
            return NULL
        p = stop + 1
        stop = token_end(p, end)
        t_stop = token_end(t, tail_end)
        if t_stop - t == 1 and t[0] == c'>':
            return end
        if not (t_stop - t == 1 and t[0] == c'*') and (t_stop - t != stop - p or memcmp(t, p, t_stop - t) != 0):
            return NULL
        t = t_stop + 1
    return stop


cdef int _prune(list path, Node node) except -1:
    cdef Node parent
    cdef bytes token
    for parent, token in reversed(path):
        if not node.is_empty():
            return 0
        parent.drop_child(token)
        node = parent
    return 0


cdef Py_ssize_t _collect_from(Members members, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t seen,
                              list found) except? -1:
    """Appends those of its subscriptions that are number start..stop-1; the first one is number `seen`."""
    groups = [members.plain_members()]
    if members.queues is not None:
        groups.extend(members.queues.values())
    for group in groups:
        if seen + len(group) > start:
            found.extend(list(group)[max(start - seen, 0):stop - seen])
        seen += len(group)
        if seen >= stop:
            break
    return seen


cdef int _match(Node node, const char* p, const char* end, Members exact, list nodes) except -1:
    """Walk down; recursion only where both a literal and a '*' child go on, so the work is bounded by the trie.

    `exact` comes where a walk of literals alone would find it. Beyond the end is where the node itself is meant.
    """
    cdef const char* stop
    cdef const char* at_literal
    cdef const char* at_one
    cdef Node literal
    while p <= end:
        stop = token_end(p, end)
        if node.rest is not None:
            nodes.append(node.rest)
        literal = node.literal(p, stop - p)
        at_literal = behind(literal, stop, end)
        at_one = behind(node.one, stop, end)
        if stop == end:
            if at_literal != NULL:
                nodes.append(literal)
            if exact is not None:
                nodes.append(exact)
            if at_one != NULL:
                nodes.append(node.one)
            return 0
        if at_one != NULL and (at_literal != NULL or exact is not None):
            _match(node.one, at_one + 1, end, None, nodes)
        if at_literal != NULL:
            node = literal
            p = at_literal + 1
        elif exact is not None:
            nodes.append(exact)
            return 0
        elif at_one != NULL:
            node = node.one
            p = at_one + 1
        else:
            return 0
    nodes.append(node)  # at the end of its tail
    if exact is not None:
        nodes.append(exact)
    return 0


cdef bint _descend(Node node, const char* p, const char* end, int rest, list nodes) except -1:
    """Follow the prefix, then wildcards for `rest` tokens; False where a literal below the prefix decides."""
    cdef const char* stop
    cdef Node literal
    if node.tail is not None:
        return False
    if p == end and rest == 0:
        nodes.append(node)
        return True
    if node.rest is not None:
        nodes.append(node.rest)
    if p == end:
        if node.child is not None or node.literals is not None:
            return False
        return node.one is None or _descend(node.one, p, end, rest - 1, nodes)
    stop = <const char*>memchr(p, c'.', end - p)
    if stop == NULL or stop == p:
        return False
    if node.one is not None and not _descend(node.one, stop + 1, end, rest, nodes):
        return False
    literal = node.literal(p, stop - p)
    return literal is None or _descend(literal, stop + 1, end, rest, nodes)


cdef bint _has_empty_token(const char* p, const char* end) noexcept:
    if p == end or (end - 1)[0] == c'.':
        return True
    while p < end:
        if p[0] == c'.':
            return True
        while p < end and p[0] != c'.':
            p += 1
        p += 1
    return False
