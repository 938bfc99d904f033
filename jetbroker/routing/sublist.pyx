# cython: language_level=3, boundscheck=False, wraparound=False
"""One account's subscriptions (see sublist.pxd).

'*' and '>' are wildcards only as whole tokens, and only in subscriptions: a published `a.*` is matched as a literal
by wildcards of its length (nats-server does the same).
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

from jetbroker.routing.literals cimport Literals, Members, members_of
from jetbroker.routing.router cimport Subscription
from jetbroker.wire.subjects cimport has_wildcard


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

    cdef int set_literal(self, bytes token, Node child) except -1:
        """Add a child for a token that has none yet."""
        if self.literals is not None:
            self.literals[token] = child
        elif self.token is None:
            self.token = token
            self.child = child
        else:
            self.literals = {self.token: self.child, token: child}
            self.token = None
            self.child = None
        return 0

    cdef int drop_literal(self, bytes token) except -1:
        if self.literals is None:
            self.token = None
            self.child = None
            return 0
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
        cdef bytes token
        if _stands_apart(sub):
            self.literals.insert(sub)
            self.count += 1
            return 0
        for token in sub.subject.split(b"."):
            if token == b"*":
                if node.one is None:
                    node.one = Node()
                node = node.one
            elif token == b">":
                if node.rest is None:
                    node.rest = Node()
                node = node.rest
            else:
                child = node.literal(PyBytes_AS_STRING(token), PyBytes_GET_SIZE(token))
                if child is None:
                    child = Node()
                    node.set_literal(token, child)
                node = child
        node.put_in(sub)
        self.count += 1
        return 0

    cdef bint remove(self, Subscription sub) except -1:
        cdef list path = []
        cdef bint found
        cdef Node node = self.root
        cdef bytes token
        if _stands_apart(sub):
            found = self.literals.remove(sub)
            self.count -= found
            return found
        for token in sub.subject.split(b"."):
            path.append((node, token))
            if token == b"*":
                node = node.one
            elif token == b">":
                node = node.rest
            else:
                node = node.literal(PyBytes_AS_STRING(token), PyBytes_GET_SIZE(token))
            if node is None:
                return False
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
        while self.literals.slots != NULL and at <= self.literals.mask and seen < stop:
            if self.literals.slots[at].holder != NULL:
                seen = _collect_from(members_of(self.literals.slots[at].holder), start, stop, seen, found)
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


cdef int _prune(list path, Node node) except -1:
    cdef Node parent
    cdef bytes token
    for parent, token in reversed(path):
        if not node.is_empty():
            return 0
        if token == b"*":
            parent.one = None
        elif token == b">":
            parent.rest = None
        else:
            parent.drop_literal(token)
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

    `exact` comes where a walk of literals alone would find it.
    """
    cdef const char* stop
    cdef Node literal
    while True:
        stop = <const char*>memchr(p, c'.', end - p)
        if stop == NULL:
            stop = end
        if node.rest is not None:
            nodes.append(node.rest)
        literal = node.literal(p, stop - p)
        if stop == end:
            if literal is not None:
                nodes.append(literal)
            if exact is not None:
                nodes.append(exact)
            if node.one is not None:
                nodes.append(node.one)
            return 0
        p = stop + 1
        if node.one is not None and (literal is not None or exact is not None):
            _match(node.one, p, end, None, nodes)
        if literal is not None:
            node = literal
        elif exact is not None:
            nodes.append(exact)
            return 0
        elif node.one is not None:
            node = node.one
        else:
            return 0


cdef bint _descend(Node node, const char* p, const char* end, int rest, list nodes) except -1:
    """Follow the prefix, then wildcards for `rest` tokens; False where a literal below the prefix decides."""
    cdef const char* stop
    cdef Node literal
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
    literal = node.literal(p, stop - p)
    if literal is not None and not _descend(literal, stop + 1, end, rest, nodes):
        return False
    return node.one is None or _descend(node.one, stop + 1, end, rest, nodes)


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
