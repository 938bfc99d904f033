"""What a user may publish and subscribe to, and which replies a client may answer."""
from libc.stdint cimport int64_t, uint64_t


cdef class SubjectList:
    """One list of allowed or denied subjects."""
    cdef frozenset literals            # without wildcards
    cdef list patterns                 # with wildcards
    cdef list queued                   # (subject, queue) of the entries with a queue name

    cdef bint matches(self, bytes subject) except -1
    cdef int queue_verdict(self, bytes subject, bytes queue) except -2
    cdef Py_ssize_t size(self)


cdef class Permissions:
    """Of one user; shared by all its connections."""
    cdef readonly object options       # config PermissionsOptions
    cdef SubjectList publish_allow     # None: everything
    cdef SubjectList publish_deny      # None: nothing, as the ones below
    cdef SubjectList subscribe_allow
    cdef SubjectList subscribe_deny
    cdef dict published                # literal subject -> may it be published to; bounded, as the ones below
    cdef bytes last                    # the subject that `published` was asked for last: most publishers stay with one
    cdef bint last_allowed
    cdef dict denied                   # literal subject -> a Denial; (subject, queue) -> is it denied to this queue
    cdef dict received                 # (literal subject, queue) -> may it be received by a member of the queue
    cdef readonly uint64_t units       # of turns, about 50 ns each: what judging has taken so far
    cdef readonly bint limits_publish  # False: everything may be published
    cdef readonly bint has_responses
    cdef int64_t response_ns           # a reply may be answered for so long; 0 or less: for ever
    cdef long max_responses            # and so often; 0 or less: without limit

    # May a client publish to this subject? Answers to replies it has received are another matter: see Responses.
    cdef bint may_publish(self, const char* subject, Py_ssize_t n) except -1
    cdef bint _published(self, bytes subject) except -1
    # May a client subscribe to this (queue None: as a plain subscription)?
    cdef bint may_subscribe(self, bytes subject, bytes queue) except -1
    # May a link ask for this? What is wider than what is allowed is asked for as it is: messages are judged one by one.
    cdef bint may_be_told(self, bytes subject) except -1
    # Could this subscription, although allowed, match what a deny entry keeps from it?
    cdef bint overlaps_denied(self, bytes subject, bytes queue) except -1
    cdef bint _overlaps(self, SubjectList entries, bytes subject) except -1
    # Is it wider than what allowed it (`foo.>` where `foo.*` is allowed, which nats-server accepts)?
    cdef bint is_wider(self, bytes subject, bytes queue) except -1
    # Must a message on this subject be kept from a subscription of this queue (None: a plain one)?
    cdef bint denies(self, const char* subject, Py_ssize_t n, bytes queue) except -1
    # Would a subscription of this queue to just this literal subject be allowed?
    cdef bint may_receive(self, const char* subject, Py_ssize_t n, bytes queue) except -1
    cdef bint _denies_queue(self, bytes subject, bytes queue) except -1
    cdef int _charge(self, Py_ssize_t entries, Py_ssize_t n) except -1


cdef class Response:
    cdef int64_t received_ns
    cdef long answers


cdef class Responses:
    """The reply subjects one client has received and may publish to (`allow_responses`). Bounded."""
    cdef Permissions permissions
    cdef dict received                 # reply subject -> Response, oldest first
    cdef long noted                    # since the last pruning
    cdef int64_t pruned_ns

    # A message with this reply subject was delivered.
    cdef int note(self, const char* reply, Py_ssize_t n, int64_t now_ns) except -1
    # May this be published to, as an answer? Counts as one when it may.
    cdef bint take(self, bytes subject, int64_t now_ns) except -1
    cdef int _prune(self, int64_t now_ns) except -1
