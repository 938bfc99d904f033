"""The stream engine: one stream's subjects, limits, retention and consumers around its log."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.streams.direct cimport DirectGet
from jetbroker.jetstream.streams.expiry cimport Expiry
from jetbroker.jetstream.streams.hash_chain cimport HashChain
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.models.interest cimport StreamConsumer
from jetbroker.routing.router cimport Router
from jetbroker.store.log.stream_log cimport LogObserver, StreamLog, SubjectFilter
from jetbroker.tick cimport Tick, TickTask

cdef enum Retention:
    RETAIN_LIMITS = 0
    RETAIN_INTEREST = 1
    RETAIN_WORKQUEUE = 2


cdef class Stream(LogObserver):
    cdef readonly Host host
    cdef readonly str name
    cdef readonly SubjectFilter own_subjects   # compiled, one for all who ask
    cdef readonly object config        # StreamConfig
    cdef readonly int64_t created_ns
    cdef readonly StreamLog log
    cdef readonly dict consumers       # str -> Consumer; change it with add_consumer and remove_consumer only
    cdef readonly dict offline         # consumers that could not be brought back: name -> why
    cdef public str template           # that made it; "" for most
    cdef readonly bint running
    cdef readonly object origins       # origins.Origins: where it copies messages from, None when it does not
    cdef readonly Py_ssize_t unlisted  # consumers of other streams' origins among `consumers`: neither shown nor counted
    cdef Tick tick
    cdef Router router
    cdef Ingest ingest
    cdef DirectGet direct
    cdef Expiry expiry
    cdef object make_origins           # callback(stream): its Origins, when it first needs them
    cdef TickTask sweep                # removes what no consumer needs any more, some per tick
    cdef int retention
    cdef dict subscriptions            # subject -> Subscription
    cdef list direct_subscriptions
    cdef object dedup_timer
    cdef HashChain chain               # None for most streams

    # A consumer is done with message seq (acked, or delivered with ack none). Removes it when retention says so.
    cpdef int ack_message(self, StreamConsumer consumer, uint64_t seq) except -1
    # A consumer's filters have changed: publishes are judged by the new ones from now on.
    cpdef int interest_changed(self) except -1
    cdef int wake_consumers(self) except -1
    cdef int _resume_retention(self) except -1
    cdef int _first_is_known(self) except -1
