# cython: boundscheck=False, wraparound=False
"""A stream's log: the interface that file and memory logs share (see log.pxd)."""
from libc.stdint cimport int64_t, uint16_t, uint64_t

from jetbroker.tick cimport TickTask
from jetbroker.wire.subjects cimport has_wildcard, subject_matches


cdef Py_ssize_t TAKEN_AT_ONCE = 256
cdef Py_ssize_t FEW_PATTERNS = 8      # so many are compared one by one as quickly as by a tree of their tokens


cdef class SubjectState:
    """What a log knows of one subject."""


cdef class SubjectFilter:
    """A compiled filter: one or more patterns, or none for everything."""

    def __init__(self, *patterns):
        self.patterns = () if b"" in patterns or b">" in patterns else tuple(patterns)
        self.segment_sets = {}

    cdef bint matches(self, const char* subject, Py_ssize_t n) except -1:
        cdef bytes pattern
        if not self.patterns:
            return True
        for pattern in self.patterns:
            if subject_matches(subject, n, pattern):
                return True
        return False


cdef class _Tokens:
    """One token's place in a tree of patterns."""
    cdef dict following                # bytes -> _Tokens, of literal tokens; None: there are none
    cdef _Tokens any_token             # behind "*"
    cdef bint any_rest                 # ">" comes here
    cdef bint ends                     # a pattern ends here

    cdef _Tokens behind(self, bytes token):
        cdef _Tokens place
        if token == b"*":
            if self.any_token is None:
                self.any_token = _Tokens()
            return self.any_token
        if self.following is None:
            self.following = {}
        place = <_Tokens>self.following.get(token)
        if place is None:
            place = self.following[token] = _Tokens()
        return place


cdef class _ManyPatterns(SubjectFilter):
    """Looks a subject up among the literal patterns, and compares it with the others that begin as it does."""
    cdef set literals
    cdef _Tokens first

    def __init__(self, *patterns):
        super().__init__(*patterns)
        self.literals = set()
        self.first = _Tokens()

    cdef int take(self, bytes pattern) except -1:
        if has_wildcard(pattern, len(pattern)):
            return self._plant(pattern)
        self.literals.add(pattern)
        return 0

    cdef int _plant(self, bytes pattern) except -1:
        cdef _Tokens place = self.first
        cdef bytes token
        for token in pattern.split(b"."):
            if token == b">":
                place.any_rest = True
                return 0
            place = place.behind(token)
        place.ends = True
        return 0

    cdef bint matches(self, const char* subject, Py_ssize_t n) except -1:
        cdef bytes text = subject[:n], token
        cdef list at = [self.first], after, tokens
        cdef _Tokens place, found
        if not self.patterns or text in self.literals:
            return True
        tokens = text.split(b".")
        if b"" in tokens:
            return False               # as subject_matches: a wildcard stands for no empty token
        for token in tokens:
            after = []
            for place in at:
                if place.any_rest:
                    return True
                if place.following is not None:
                    found = <_Tokens>place.following.get(token)
                    if found is not None:
                        after.append(found)
                if place.any_token is not None:
                    after.append(place.any_token)
            if not after:
                return False
            at = after
        for place in at:
            if place.ends:
                return True
        return False


def subject_filter(patterns) -> SubjectFilter:
    """A filter of so many patterns as a client may choose: what a match costs grows with the subject, not with them."""
    steps = subject_filter_steps(patterns)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def subject_filter_steps(patterns):
    """Make such a filter in steps (see turns.py)."""
    cdef list given = list(patterns)
    cdef _ManyPatterns many
    cdef Py_ssize_t i
    if len(given) <= FEW_PATTERNS:
        return SubjectFilter(*given)
    many = _ManyPatterns(*given)
    for i in range(len(many.patterns)):
        many.take(many.patterns[i])
        if i % TAKEN_AT_ONCE == 0:
            yield
    return many


cdef class LogObserver:
    """How a log tells its owner of commits and failed writes."""

    cdef int on_committed(self, uint64_t seq) except -1:
        return 0

    cdef int on_write_failed(self, uint64_t first_lost, object error) except -1:
        return 0


cdef class CallbackObserver(LogObserver):
    """A LogObserver that calls Python functions: committed(seq) and write_failed(first_lost, error)."""

    def __init__(self, committed, write_failed=None):
        self.committed = committed
        self.write_failed = write_failed

    cdef int on_committed(self, uint64_t seq) except -1:
        self.committed(seq)
        return 0

    cdef int on_write_failed(self, uint64_t first_lost, object error) except -1:
        if self.write_failed is not None:
            self.write_failed(first_lost, error)
        return 0


cdef class StreamLog(TickTask):
    """The interface of a stream's log; FileLog and MemoryLog implement it."""

    @property
    def failed(self):
        """None, or the StorageError that makes appends fail until writing works again."""
        return None

    async def commit(self):
        """Wait until everything accepted so far, removals included, is committed. Raises StorageError."""
        raise NotImplementedError

    async def close(self):
        """Commit, and give up the files."""
        raise NotImplementedError

    cdef uint64_t append(self, const char* subject, Py_ssize_t subject_len,
                         const char* headers, Py_ssize_t headers_len,
                         const char* payload, Py_ssize_t payload_len,
                         int64_t time_ns, uint16_t flags, SubjectState state) except? 0:
        raise NotImplementedError

    cdef int begin_batch(self, uint64_t size) except -1:
        raise NotImplementedError

    cdef int end_batch(self) except -1:
        raise NotImplementedError

    cdef int abort_batch(self) except -1:
        raise NotImplementedError

    cdef SubjectState subject_state(self, const char* subject, Py_ssize_t n):
        raise NotImplementedError

    cdef int read(self, uint64_t seq, StoredMessage* out) except -1:
        raise NotImplementedError

    cdef int next_message(self, SubjectFilter filter, uint64_t start, uint64_t limit, StoredMessage* out) except -1:
        raise NotImplementedError

    cpdef uint64_t first_of(self, SubjectState state) except? 0:
        raise NotImplementedError

    cpdef uint64_t count_from(self, SubjectFilter filter, uint64_t start) except? 0:
        raise NotImplementedError

    cpdef uint64_t seq_at_time(self, int64_t time_ns) except? 0:
        raise NotImplementedError

    cpdef int64_t time_of(self, uint64_t seq) except? -1:
        raise NotImplementedError

    cpdef tuple get(self, uint64_t seq):
        raise NotImplementedError

    cpdef uint64_t last_by_subject(self, bytes pattern) except? 0:
        raise NotImplementedError

    cpdef list matching_subjects(self, bytes pattern):
        raise NotImplementedError

    cpdef list deleted(self):
        raise NotImplementedError

    cpdef uint64_t deleted_count(self) except? 0:
        raise NotImplementedError

    cpdef list lost(self):
        raise NotImplementedError

    cpdef uint64_t lost_count(self) except? 0:
        raise NotImplementedError

    cpdef bint remove(self, uint64_t seq, bint erase=False) except -1:
        raise NotImplementedError

    cpdef uint64_t remove_before(self, uint64_t seq) except? 0:
        raise NotImplementedError

    cdef int evict_first(self) except -1:
        raise NotImplementedError

    cpdef uint64_t purge(self, bytes pattern, uint64_t seq, uint64_t keep) except? 0:
        raise NotImplementedError

    cpdef int skip_to(self, uint64_t seq) except -1:
        raise NotImplementedError
