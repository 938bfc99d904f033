# cython: language_level=3, boundscheck=False, wraparound=False
"""The trie of one account's subscriptions, by subject token (see sublist.pxd).

'*' and '>' are wildcards only as whole tokens, and only in subscriptions: a published `a.*` is matched as a literal
by wildcards of its length (nats-server does the same).
"""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memchr

from jetbroker.routing.router cimport Subscription


@cython.no_gc  # as Subscription
cdef class Node:
    """One token's place in the trie."""

    cdef bint is_empty(self) noexcept:
        return not (self.literals or self.plain or self.queues or self.one is not None or self.rest is not None)


cdef class Sublist:
    """All subscriptions of an account."""

    def __init__(self) -> None:
        self.root = Node()

    cdef int insert(self, Subscription sub) except -1:
        cdef Node node = self.root
        cdef Node child
        cdef bytes token
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
                if node.literals is None:
                    node.literals = {}
                child = <Node>node.literals.get(token)
                if child is None:
                    child = Node()
                    node.literals[token] = child
                node = child
        if sub.queue is None:
            if node.plain is None:
                node.plain = {}
            node.plain[sub] = None
        else:
            if node.queues is None:
                node.queues = {}
            (<dict>node.queues.setdefault(sub.queue, {}))[sub] = None
        self.count += 1
        return 0

    cdef bint remove(self, Subscription sub) except -1:
        cdef list path = []
        cdef Node node = self.root
        cdef bytes token
        for token in sub.subject.split(b"."):
            path.append((node, token))
            if token == b"*":
                node = node.one
            elif token == b">":
                node = node.rest
            else:
                node = None if node.literals is None else <Node>node.literals.get(token)
            if node is None:
                return False
        if not _take_out(node, sub):
            return False
        self.count -= 1
        _prune(path, node)
        return True

    cdef int match(self, const char* subject, Py_ssize_t n, list nodes) except -1:
        if n == 0:
            return 0
        return _match(self.root, subject, subject + n, nodes)

    cdef int collect(self, Py_ssize_t start, Py_ssize_t stop, list found) except -1:
        cdef list stack = [self.root]
        cdef Py_ssize_t seen = 0
        cdef Node node
        cdef dict members
        while stack and seen < stop:
            node = <Node>stack.pop()
            groups = [] if node.plain is None else [node.plain]
            if node.queues is not None:
                groups.extend(node.queues.values())
            for members in groups:
                if seen + len(members) > start:
                    found.extend(list(members)[max(start - seen, 0):stop - seen])
                seen += len(members)
                if seen >= stop:
                    break
            if node.rest is not None:
                stack.append(node.rest)
            if node.one is not None:
                stack.append(node.one)
            if node.literals is not None:
                stack.extend(node.literals.values())
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
            if node.plain is not None:
                subs.extend(node.plain)
        return subs


cdef bint _take_out(Node node, Subscription sub) except -1:
    cdef dict members
    if sub.queue is None:
        if node.plain is None or sub not in node.plain:
            return False
        del node.plain[sub]
        if not node.plain:
            node.plain = None
        return True
    members = None if node.queues is None else <dict>node.queues.get(sub.queue)
    if members is None or sub not in members:
        return False
    del members[sub]
    if not members:
        del node.queues[sub.queue]
        if not node.queues:
            node.queues = None
    return True


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
            del parent.literals[token]
            if not parent.literals:
                parent.literals = None
        node = parent
    return 0


cdef int _match(Node node, const char* p, const char* end, list nodes) except -1:
    """Walk down; recursion only where both a literal and a '*' child go on, so the work is bounded by the trie."""
    cdef const char* stop
    cdef Node literal
    while True:
        stop = <const char*>memchr(p, c'.', end - p)
        if stop == NULL:
            stop = end
        if stop == p:
            return 0
        if node.rest is not None and (stop == end or not _has_empty_token(stop + 1, end)):
            nodes.append(node.rest)
        literal = None
        if node.literals is not None:
            literal = <Node>node.literals.get(PyBytes_FromStringAndSize(p, stop - p))
        if stop == end:
            if literal is not None:
                nodes.append(literal)
            if node.one is not None:
                nodes.append(node.one)
            return 0
        p = stop + 1
        if literal is None:
            if node.one is None:
                return 0
            node = node.one
        else:
            if node.one is not None:
                _match(node.one, p, end, nodes)
            node = literal


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
        if node.literals is not None:
            return False
        return node.one is None or _descend(node.one, p, end, rest - 1, nodes)
    stop = <const char*>memchr(p, c'.', end - p)
    if stop == NULL or stop == p:
        return False
    if node.literals is not None:
        literal = <Node>node.literals.get(PyBytes_FromStringAndSize(p, stop - p))
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
