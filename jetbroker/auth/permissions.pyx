# cython: language_level=3, boundscheck=False, wraparound=False
"""What a user may publish and subscribe to (see permissions.pxd).

Deny wins over allow. A list is matched as nats-server's: the tokens of the subject are taken as they are, so that a
wildcard token fits only a wildcard entry. That lets `foo.>` through where `foo.*` is allowed; `is_wider` finds these,
so that no more than the allowed messages are delivered.

Verdicts about literal subjects are remembered, a bounded number of them. `Permissions.units` tells what the others have
taken: whoever asks takes that from the turn of the client at hand.
"""
from itertools import islice

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t
from libc.string cimport memchr, memcmp

from jetbroker.wire.subjects cimport has_wildcard

from jetbroker import limits
from jetbroker.wire.subjects import collide, subset

cdef Py_ssize_t VERDICTS = limits.PERMISSION_VERDICTS
cdef Py_ssize_t ENTRY_BYTES = limits.PERMISSION_ENTRY_BYTES
cdef Py_ssize_t BYTES_PER_UNIT = limits.PERMISSION_BYTES_PER_UNIT
cdef Py_ssize_t MAX_RESPONSES = limits.RESPONSE_SUBJECTS
cdef long PRUNE_AFTER = limits.RESPONSE_PRUNE_MESSAGES
cdef int64_t PRUNE_NS = limits.RESPONSE_PRUNE_NS

cdef enum Denial:
    DENIES_NOBODY = 0
    DENIES_ALL = 1
    DENIES_SOME_QUEUES = 2


cdef bint has_empty_token(bytes subject) noexcept:
    cdef const char* p = PyBytes_AS_STRING(subject)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(subject)
    cdef Py_ssize_t i
    cdef bint empty = True
    for i in range(n):
        if p[i] == c'.':
            if empty:
                return True
            empty = True
        else:
            empty = False
    return empty


cdef bint queue_fits(bytes queue, bytes entry) except -1:
    """Does a queue name fit the one of an entry, which may have wildcards?"""
    if queue == entry:
        return True
    if not has_wildcard(PyBytes_AS_STRING(entry), PyBytes_GET_SIZE(entry)):
        return False
    return not has_empty_token(queue) and subset(queue, entry)


cdef struct Token:
    const char* text
    Py_ssize_t size


cdef class Tokens:
    """A subject taken apart once, to be compared with many entries: each takes its own bytes then, not the subject's."""
    cdef Token* tokens
    cdef Py_ssize_t count
    cdef bytes subject

    def __cinit__(self, bytes subject not None) -> None:
        cdef const char* start = PyBytes_AS_STRING(subject)
        cdef const char* end = start + PyBytes_GET_SIZE(subject)
        cdef const char* stop
        self.subject = subject
        self.tokens = <Token*>PyMem_Malloc((subject.count(b".") + 1) * sizeof(Token))
        if self.tokens == NULL:
            raise MemoryError
        while start <= end:
            stop = <const char*>memchr(start, c'.', end - start)
            if stop == NULL:
                stop = end
            self.tokens[self.count].text = start
            self.tokens[self.count].size = stop - start
            self.count += 1
            start = stop + 1

    def __dealloc__(self) -> None:
        PyMem_Free(self.tokens)

    cdef bint fit(self, bytes entry) noexcept:
        """As wire.subjects.matches; no token may be empty."""
        cdef const char* start = PyBytes_AS_STRING(entry)
        cdef const char* end = start + PyBytes_GET_SIZE(entry)
        cdef const char* stop
        cdef Py_ssize_t i
        for i in range(self.count):
            if start > end:
                return False
            stop = <const char*>memchr(start, c'.', end - start)
            if stop == NULL:
                stop = end
            if stop == end and end - start == 1 and start[0] == c'>':
                return True
            if not (stop - start == 1 and start[0] == c'*') and (
                    stop - start != self.tokens[i].size or memcmp(start, self.tokens[i].text, stop - start) != 0):
                return False
            start = stop + 1
        return start > end


cdef class SubjectList:
    """Entries are `subject` or `subject queue`."""

    def __init__(self, entries) -> None:
        literals = set()
        self.patterns = []
        self.queued = []
        for text in entries:
            words = text.encode().split()
            if not words:              # other servers may tell of anything
                continue
            subject = <bytes>words[0]
            if len(words) > 1:
                self.queued.append((subject, words[1]))
            elif has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
                self.patterns.append(subject)
            else:
                literals.add(subject)
        self.literals = frozenset(literals)

    cdef bint matches(self, bytes subject) except -1:
        """Is there an entry without a queue name for it? Never for a subject with empty tokens."""
        cdef Tokens tokens
        if subject in self.literals:
            return True
        if not self.patterns or has_empty_token(subject):
            return False
        tokens = Tokens(subject)
        for entry in self.patterns:
            if tokens.fit(<bytes>entry):
                return True
        return False

    cdef int queue_verdict(self, bytes subject, bytes queue) except -2:
        """1: an entry of this queue matches; 0: entries of other queues only; -1: none with a queue name."""
        cdef int verdict = -1
        cdef Tokens tokens
        if not self.queued or has_empty_token(subject):
            return -1
        tokens = Tokens(subject)
        for entry, name in self.queued:
            if tokens.fit(<bytes>entry):
                if queue_fits(queue, <bytes>name):
                    return 1
                verdict = 0
        return verdict

    cdef Py_ssize_t size(self):
        """Entries that are compared one by one."""
        return len(self.patterns) + len(self.queued)


cdef int remember(dict verdicts, object key, object verdict) except -1:
    if len(verdicts) >= VERDICTS:
        verdicts.clear()
    verdicts[key] = verdict
    return 0


cdef Py_ssize_t size_of(SubjectList entries):
    return 0 if entries is None else entries.size()


cdef SubjectList list_of(object entries):
    return SubjectList(entries) if entries else None


cdef class Permissions:
    """The permissions of one user."""

    def __init__(self, object options not None) -> None:
        publish, subscribe, responses = options.publish, options.subscribe, options.responses
        self.options = options
        self.published = {}
        self.denied = {}
        self.received = {}
        if publish is not None:
            # a queue has no meaning here; a scope's template may name one all the same, and its subject is denied
            self.publish_deny = list_of([entry.partition(" ")[0] for entry in publish.deny])
            if publish.allow is not None:
                self.publish_allow = SubjectList(publish.allow)
        if responses is not None:
            self.has_responses = True
            self.max_responses = responses.max_msgs
            self.response_ns = int(responses.expires * 1e9)
            if self.publish_allow is None:
                self.publish_allow = SubjectList(())
        if subscribe is not None:
            self.subscribe_deny = list_of(subscribe.deny)
            if subscribe.allow is not None:
                self.subscribe_allow = SubjectList(subscribe.allow)
        self.limits_publish = self.publish_allow is not None or self.publish_deny is not None

    cdef bint may_publish(self, const char* subject, Py_ssize_t n) except -1:
        cdef bytes last = self.last
        if not self.limits_publish:
            return True
        if (last is not None and PyBytes_GET_SIZE(last) == n
                and memcmp(PyBytes_AS_STRING(last), subject, n) == 0):
            return self.last_allowed
        last = PyBytes_FromStringAndSize(subject, n)
        self.last_allowed = self._published(last)
        self.last = last
        return self.last_allowed

    cdef bint _published(self, bytes subject) except -1:
        cdef bint allowed
        known = self.published.get(subject)
        if known is not None:
            return known is True
        allowed = ((self.publish_allow is None or self.publish_allow.matches(subject))
                   and (self.publish_deny is None or not self.publish_deny.matches(subject)))
        self._charge(size_of(self.publish_allow) + size_of(self.publish_deny), 0)
        remember(self.published, subject, allowed)
        return allowed

    cdef int _charge(self, Py_ssize_t entries, Py_ssize_t n) except -1:
        """So many entries were looked at, each with n bytes of a subject."""
        self.units += 1 + entries * (ENTRY_BYTES + n) // BYTES_PER_UNIT
        return 0

    cdef bint may_subscribe(self, bytes subject, bytes queue) except -1:
        cdef int verdict
        cdef bint allowed
        self._charge(size_of(self.subscribe_allow) + size_of(self.subscribe_deny), 0)
        if self.subscribe_allow is not None:
            allowed = self.subscribe_allow.matches(subject)
            if queue is not None:
                # once a queue is named for a subject, only the named ones are allowed
                verdict = self.subscribe_allow.queue_verdict(subject, queue)
                if verdict >= 0:
                    allowed = verdict == 1
            if not allowed:
                return False
        if self.subscribe_deny is not None:
            if self.subscribe_deny.matches(subject):
                return False
            if queue is not None and self.subscribe_deny.queue_verdict(subject, queue) == 1:
                return False
        return True

    cdef bint may_be_told(self, bytes subject) except -1:
        self._charge(size_of(self.subscribe_allow) + size_of(self.subscribe_deny), 0)
        if self.subscribe_deny is not None and self.subscribe_deny.matches(subject):
            return False
        return (self.subscribe_allow is None or self.subscribe_allow.matches(subject)
                or has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
                and self._overlaps(self.subscribe_allow, subject))

    cdef bint overlaps_denied(self, bytes subject, bytes queue) except -1:
        if self.subscribe_deny is None:
            return False
        if queue is None and not has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return False
        return self._overlaps(self.subscribe_deny, subject)

    cdef bint _overlaps(self, SubjectList entries, bytes subject) except -1:
        """Is there a subject that both an entry and this one match?"""
        self._charge(len(entries.literals) + entries.size(), PyBytes_GET_SIZE(subject))
        for entry in entries.literals:
            if collide(entry, subject):
                return True
        for entry in entries.patterns:
            if collide(entry, subject):
                return True
        for entry, _ in entries.queued:
            if collide(entry, subject):
                return True
        return False

    cdef bint is_wider(self, bytes subject, bytes queue) except -1:
        cdef SubjectList allowed = self.subscribe_allow
        if allowed is None:
            return False
        if queue is not None and allowed.queued and has_wildcard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return True  # with a queue name the entries that name one decide: let each message be looked at
        if not (subject == b">" or subject.endswith(b".>")):
            return False
        self._charge(allowed.size(), PyBytes_GET_SIZE(subject))
        for entry in allowed.patterns:
            if subset(subject, entry):
                return False
        return True

    cdef bint denies(self, const char* subject, Py_ssize_t n, bytes queue) except -1:
        cdef bytes key
        cdef int verdict
        if self.subscribe_deny is None:
            return False
        key = PyBytes_FromStringAndSize(subject, n)
        known = self.denied.get(key)
        if known is None:
            if self.subscribe_deny.matches(key):
                known = DENIES_ALL
            else:
                known = (DENIES_NOBODY if self.subscribe_deny.queue_verdict(key, b"") == -1 else DENIES_SOME_QUEUES)
            self._charge(self.subscribe_deny.size(), 0)
            remember(self.denied, key, known)
        verdict = known
        if verdict == DENIES_SOME_QUEUES:
            return queue is not None and self._denies_queue(key, queue)
        return verdict == DENIES_ALL

    cdef bint _denies_queue(self, bytes subject, bytes queue) except -1:
        known = self.denied.get((subject, queue))
        if known is None:
            known = self.subscribe_deny.queue_verdict(subject, queue) == 1
            self._charge(len(self.subscribe_deny.queued), 0)
            remember(self.denied, (subject, queue), known)
        return known is True

    cdef bint may_receive(self, const char* subject, Py_ssize_t n, bytes queue) except -1:
        key = (PyBytes_FromStringAndSize(subject, n), queue)
        known = self.received.get(key)
        if known is None:
            known = self.may_subscribe(<bytes>key[0], queue)
            remember(self.received, key, known)
        return known is True

    def publishable(self, bytes subject not None) -> bool:
        """May a client publish to this subject?"""
        return self.may_publish(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    def subscribable(self, bytes subject not None, bytes queue=None) -> bool:
        """May a client subscribe to this, as a member of the queue when there is one?"""
        return self.may_subscribe(subject, queue)

    def withheld(self, bytes subject not None, bytes queue=None) -> bool:
        """Is a message on this literal subject kept from the user's subscriptions (of this queue)?"""
        return self.denies(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), queue)


cdef class Response:
    """A reply subject that was received, and how often it was answered."""


cdef class Responses:
    """What one client may answer."""

    def __init__(self, Permissions permissions not None) -> None:
        self.permissions = permissions
        self.received = {}

    def __len__(self) -> int:
        return len(self.received)

    cdef int note(self, const char* reply, Py_ssize_t n, int64_t now_ns) except -1:
        cdef Response response
        cdef bytes key
        if self.permissions.may_publish(reply, n):
            return 0
        key = PyBytes_FromStringAndSize(reply, n)
        if self.take(key, now_ns):  # as in nats-server: the same reply once more counts as an answer
            return 0
        response = Response.__new__(Response)
        response.received_ns = now_ns
        self.received[key] = response
        self.noted += 1
        if self.noted > PRUNE_AFTER or now_ns - self.pruned_ns > PRUNE_NS or len(self.received) > MAX_RESPONSES:
            self._prune(now_ns)
        return 0

    cdef bint take(self, bytes subject, int64_t now_ns) except -1:
        cdef Permissions permissions = self.permissions
        cdef Response response = <Response>self.received.get(subject)
        if response is None:
            return False
        response.answers += 1
        if (permissions.max_responses > 0 and response.answers > permissions.max_responses
                or permissions.response_ns > 0 and now_ns - response.received_ns > permissions.response_ns):
            del self.received[subject]
            return False
        return True

    cdef int _prune(self, int64_t now_ns) except -1:
        """Forget what is used up or too old; past the bound the older half as well."""
        cdef Permissions permissions = self.permissions
        cdef Response response
        cdef list gone = []
        for reply, entry in self.received.items():
            response = <Response>entry
            if (permissions.max_responses > 0 and response.answers >= permissions.max_responses
                    or permissions.response_ns > 0 and now_ns - response.received_ns > permissions.response_ns):
                gone.append(reply)
        for reply in gone:
            del self.received[reply]
        if len(self.received) > MAX_RESPONSES:
            for reply in list(islice(self.received, len(self.received) // 2)):
                del self.received[reply]
        self.noted = 0
        self.pruned_ns = now_ns
        return 0

    def receive(self, bytes reply not None, int64_t now_ns) -> None:
        """A message with this reply subject was delivered, at this time of the monotonic clock."""
        self.note(PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), now_ns)

    def answer(self, bytes subject not None, int64_t now_ns) -> bool:
        """May this be published to, as an answer? Counts as one."""
        return self.take(subject, now_ns)
