"""A consumer's dead letters: messages it gives up once another stream has them."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.core cimport ConsumerAdvisories, ConsumerTurn, Forsaken
from jetbroker.jetstream.consumers.tracker cimport AckTracker, PendingEntry
from jetbroker.jetstream.streams.stream cimport Stream


@cython.final
cdef class DeadLetters(Forsaken):
    cdef Stream stream                 # of the consumer
    cdef AckTracker tracker
    cdef ConsumerTurn turn
    cdef ConsumerAdvisories advisories
    cdef dict own                      # metadata of the consumer
    cdef dict held                     # sequence -> Letter
    cdef list heap                     # (when it is tried next, sequence)
    cdef readonly list replies         # owed for messages that were terminated, now that their letters are stored
    cdef Complaint complaint
    cdef readonly uint64_t stored      # since the start

    cdef str receiver(self)            # name of the stream that gets them, "": none
    # As take_exhausted: a client has terminated it, with the ack of `cseq`.
    cdef bint take_terminated(self, PendingEntry* entry, uint64_t cseq, str reason) except -1
    # The reply waits for the letter of message seq. False: there is none.
    cdef bint owe(self, uint64_t seq, bytes reply) except -1
    cdef int run(self) except -1       # store what is due
    cdef list take_replies(self)
    cdef int64_t due_ns(self) except? -1           # 0: nothing waits

    cdef int _hold(self, PendingEntry* entry, object letter) except -1
    cdef int _try(self, object letter) except -1
    cdef bint _is_uncommitted(self, object letter) except -1
    cdef int _store(self, object letter, Stream box) except -1
    cdef int _finish(self, object letter) except -1
    cdef int _put_off(self, object letter, str why) except -1


@cython.final
cdef class Complaint:
    cdef str text                      # of the last line in the log
    cdef int64_t told_ns               # when, 0: never

    cdef bint is_news(self, str text, int64_t now_ns) except -1
