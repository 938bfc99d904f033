# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pull requests that wait for messages (see waiting.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from jetbroker.routing.router cimport Router
from jetbroker.saturate cimport add_int64
from jetbroker.tick cimport TickTask


cdef class GroupTerms:
    """What a pull request says of its priority group."""

    def __init__(self, object asked) -> None:
        """`asked` is a PriorityGroup."""
        self.group = asked.group
        self.pin = asked.id
        self.min_pending = asked.min_pending
        self.min_ack_pending = asked.min_ack_pending
        self.level = asked.priority


cdef class WaitingRequest:
    """One request; times are monotonic nanoseconds."""

    def __init__(self, bytes reply not None, object request, int64_t now_ns) -> None:
        """`request` is a PullRequest."""
        self.reply = reply
        self.left = request.batch
        self.bounded = request.max_bytes > 0
        self.bytes_left = request.max_bytes
        self.no_wait = request.no_wait
        if request.expires:
            self.expires_ns = add_int64(now_ns, request.expires)
        if request.idle_heartbeat > 0:
            self.heartbeat_ns = request.idle_heartbeat
            self.next_heartbeat_ns = add_int64(now_ns, self.heartbeat_ns)

    cdef int level(self) noexcept:
        return self.terms.level if self.terms is not None else LEVELS - 1

    cdef bint wanted(self, Router router) except -1:
        if self.route is None or self.route.stale:
            self.route = router.route(PyBytes_AS_STRING(self.reply), PyBytes_GET_SIZE(self.reply))
            if self.watcher is not None:
                router.watch(self.route, self.watcher)
        return self.route.reaches()

    cdef bint exhausted(self) noexcept:
        return self.no_wait and (self.delivered > 0 or self.expires_ns == 0)

    cdef DueState state_at(self, int64_t now_ns, bint blocked) noexcept:
        if self.expires_ns and self.expires_ns <= now_ns:
            return DUE_TIMEOUT
        if blocked and self.exhausted():
            return DUE_NO_MESSAGES
        if self.heartbeat_ns and self.next_heartbeat_ns <= now_ns:
            return DUE_HEARTBEAT
        return DUE_NOTHING

    cdef int release(self, Router router) except -1:
        if self.route is not None and self.watcher is not None:
            router.unwatch(self.route, self.watcher)
        self.watcher = None
        return 0


cdef class WaitingQueue:
    """The ring of waiting requests. `watcher` hears when a requester may have left."""

    def __init__(self, Router router not None, TickTask watcher=None) -> None:
        self.router = router
        self.watcher = watcher

    cdef int push(self, WaitingRequest request) except -1:
        request.watcher = self.watcher
        self.append(request)
        self.note_event(request)
        # from now on its route is watched
        request.wanted(self.router)
        return 0

    cdef void append(self, WaitingRequest request) noexcept:
        if self.tails is not None:
            self._insert(request)
            return
        request.next = None
        if self.tail is None:
            self.head = request
        else:
            self.tail.next = request
        self.tail = request
        self.count += 1

    cdef void _insert(self, WaitingRequest request) noexcept:
        """Behind the others of its level."""
        cdef WaitingRequest before = None
        cdef int level = request.level()
        cdef int i = level
        while before is None and i >= 0:
            before = <WaitingRequest>self.tails[i]
            i -= 1
        if before is None:
            request.next = self.head
            self.head = request
        else:
            request.next = before.next
            before.next = request
        if request.next is None:
            self.tail = request
        self.tails[level] = request
        self.count += 1

    cdef int sort_by_level(self, bint wanted) except -1:
        """Have levels, or one line for all."""
        cdef list requests
        cdef WaitingRequest request
        if wanted == (self.tails is not None):
            return 0
        requests = self._unlink_all()
        self.tails = [None] * LEVELS if wanted else None
        for request in requests:
            self.append(request)
        return 0

    cdef WaitingRequest pop(self):
        cdef WaitingRequest request = self.unlink()
        request.release(self.router)
        return request

    cdef WaitingRequest unlink(self):
        cdef WaitingRequest request = self.head
        self.head = request.next
        if self.head is None:
            self.tail = None
        if self.tails is not None and self.tails[request.level()] is request:
            self.tails[request.level()] = None
        request.next = None
        self.count -= 1
        return request

    cdef void rotate(self) noexcept:
        cdef WaitingRequest request = self.head
        if request is self.tail:
            return
        if self.tails is not None:
            self.append(self.unlink())
            return
        self.head = request.next
        request.next = None
        self.tail.next = request
        self.tail = request

    cdef void note_event(self, WaitingRequest request) noexcept:
        if request.expires_ns and (self.next_event_ns == 0 or request.expires_ns < self.next_event_ns):
            self.next_event_ns = request.expires_ns
        if request.heartbeat_ns and (self.next_event_ns == 0 or request.next_heartbeat_ns < self.next_event_ns):
            self.next_event_ns = request.next_heartbeat_ns

    cdef list take_due(self, int64_t now_ns, bint blocked):
        cdef list due = []
        cdef set gone = set()
        cdef WaitingRequest request
        self._find_next_event()
        if self.next_event_ns == 0 or self.next_event_ns > now_ns:
            return due
        request = self.head
        while request is not None:
            request.due = request.state_at(now_ns, blocked)
            if request.due != DUE_NOTHING:
                due.append(request)
            if request.due == DUE_HEARTBEAT:
                request.next_heartbeat_ns = add_int64(now_ns, request.heartbeat_ns)
            elif request.due != DUE_NOTHING:
                gone.add(request)
            request = request.next
        self._take(gone)
        self._find_next_event()
        return due

    cdef int _find_next_event(self) except -1:
        cdef WaitingRequest request = self.head
        self.next_event_ns = 0
        while request is not None:
            self.note_event(request)
            request = request.next
        return 0

    cdef list take_exhausted(self):
        cdef set gone = set()
        cdef WaitingRequest request = self.head
        while request is not None:
            if request.exhausted():
                gone.add(request)
            request = request.next
        return self._take(gone)

    cdef list take_unwanted(self, Router router):
        cdef set gone = set()
        cdef WaitingRequest request = self.head
        while request is not None:
            if not request.wanted(router):
                gone.add(request)
            request = request.next
        return self._take(gone)

    cdef list take_all(self):
        cdef list out = []
        while self.count:
            out.append(self.pop())
        self.next_event_ns = 0
        return out

    cdef int64_t wanted_messages(self) noexcept:
        cdef int64_t total = 0
        cdef WaitingRequest request = self.head
        while request is not None:
            total = add_int64(total, request.left)
            request = request.next
        return total

    cdef list _take(self, set gone):
        cdef list out = []
        cdef WaitingRequest request
        if not gone:
            return out
        for request in self._unlink_all():
            if request in gone:
                request.release(self.router)
                out.append(request)
            else:
                self.append(request)
        return out

    cdef list _unlink_all(self):
        cdef list out = []
        while self.count:
            out.append(self.unlink())
        return out
