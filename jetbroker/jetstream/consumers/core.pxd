"""A consumer's core: where it stands, what is pending, and one message on its way out."""
cimport cython
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.tracker cimport AckTracker, PendingEntry
from jetbroker.jetstream.timing.work_turns cimport Worker
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.subscription cimport Receiver
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.stream_log cimport StoredMessage
from jetbroker.tick cimport Tick, TickTask
from jetbroker.wire.buffer cimport OutputBuffer
from jetbroker.wire.message cimport Message

cdef enum SendResult:
    SENT_NOTHING = 0           # nobody took it
    SENT_OK = 1
    SENT_TOO_LARGE = 2         # more than `room` bytes

cdef enum Outlook:
    OUTLOOK_NOTHING = 0        # no message up to the committed position
    OUTLOOK_NEW = 1
    OUTLOOK_AGAIN = 2          # a redelivery
    OUTLOOK_BLOCKED = 3        # max_ack_pending is reached
    OUTLOOK_LATER = 4          # the search for it goes on in turns

# One tick's share, so that sockets are read and flushed in between and no output buffer grows without bound.
cdef enum:
    TICK_MESSAGES = 512
    TICK_BYTES = 256 * 1024


# The earlier of two times, 0: never.
cdef inline int64_t sooner(int64_t a, int64_t b) noexcept:
    return b if a == 0 or (b != 0 and b < a) else a


@cython.final
cdef class ConsumerTurn:
    cdef Tick tick
    cdef TickTask task
    cdef object source                 # monotonic ns for tests; None: the system's clock
    cdef readonly int64_t now_ns       # when the present turn began
    cdef object timer
    cdef int64_t timer_ns

    cdef int64_t read(self) except? -1
    cpdef int begin(self) except -1
    cdef int wake(self) except -1                  # a turn in this tick
    cdef int go_on(self) except -1                 # one in the next iteration of the event loop
    cdef int arm(self, int64_t when_ns) except -1  # one at this time at the latest, 0: whenever
    cdef int stop(self) except -1


@cython.final
cdef class ConsumerAdvisories:
    cdef object host                   # Advisories of the account
    cdef readonly str stream, consumer
    cdef readonly list waiting         # (event, kind, fields)

    cdef int add(self, str event, str kind, dict fields) except -1
    cdef int terminated(self, uint64_t seq, uint64_t cseq, uint64_t deliveries, str reason) except -1
    cpdef int publish(self) except -1


@cython.final
cdef class Envelope:
    cdef OutputBuffer reply            # the ack subject: a fixed part, then the numbers
    cdef Py_ssize_t reply_prefix
    cdef OutputBuffer body             # a message body that is not contiguous in the log
    cdef bint headers_only
    cdef bytes stamped                 # a header line that every message gets; None: none
    cdef Py_ssize_t added              # bytes of the last message that are the stamp's

    cdef int stamp(self, bytes line) except -1
    cdef int address(self, StoredMessage* message, uint64_t delivered, uint64_t cseq, uint64_t ahead,
                     Message* out) except -1
    cdef int fill(self, StoredMessage* message, bint copy, Message* out) except -1
    cdef int _rewrite(self, StoredMessage* message, Message* out) except -1


cdef class LookAhead(Worker):
    cdef StreamCursor cursor
    cdef SegmentedLog log
    cdef ConsumerTurn turn             # None: closed


cdef class Forsaken:
    # A message is given up for good. True: it stays pending, for its dead letter is on the way.
    cdef bint take_exhausted(self, PendingEntry* entry) except -1


@cython.final
cdef class ConsumerCore:
    cdef readonly SegmentedLog log
    cdef readonly StreamCursor cursor
    cdef readonly AckTracker tracker
    cdef readonly ConsumerTurn turn
    cdef ConsumerAdvisories advisories
    cdef Router router
    cdef Envelope envelope
    cdef LookAhead look_ahead
    cdef Forsaken letters              # DeadLetters; None: there are none
    cdef int64_t max_ack_pending       # 0: no limit
    cdef uint64_t looked_from          # the log's first sequence when the pending ones were compared with it
    cdef public uint64_t begun_at      # where the last reset made it begin, 0: none did

    # What to deliver next; `again` is set for a redelivery. Outlook
    cdef int next(self, StoredMessage* message, PendingEntry** again) except -1
    cdef bint full(self) noexcept                  # max_ack_pending is reached
    cdef bint blocked(self) except -1              # ... and nothing is to be delivered again either
    # Send it and record it. SendResult
    cdef int send(self, Route route, bint copy, StoredMessage* message, PendingEntry* again,
                  int64_t room, Py_ssize_t* size) except -1
    cdef int64_t due_ns(self) noexcept             # when a pending message comes again, 0: none does
    # Could a delivery find something now, that is not on its way to be found?
    cdef bint owes(self) except -1
    cdef bint needs(self, uint64_t seq) except -1
    cdef int removed(self, uint64_t seq, bytes subject, bint purged) except -1
    cdef int drop_evicted(self) except -1
    cpdef int drop_removed(self) except -1
    cdef int lost_some(self, uint64_t first, uint64_t last, bint purged) except -1     # some of these
    cdef int after_purge(self, bytes pattern) except -1
    # Moves what is due to the redeliveries, and gives up what was delivered too often; True: there may be more than is
    # done at once.
    cdef bint take_due(self) except -1
    cdef int give_up_due(self) except -1           # those at the head of the redeliveries whose deliveries are used up
    cdef bint _is_used_up(self, PendingEntry* entry) noexcept
    cdef int _give_up(self, PendingEntry* entry) except -1
    cdef int _skip_damaged(self, uint64_t seq) except -1
    cdef int _record(self, uint64_t seq, bint again) except -1
    cdef int _removed_while_pending(self, uint64_t seq, bint purged) except -1
    cdef uint64_t _start_after_purge(self, bytes pattern) except? 0
    cdef uint64_t _first_of(self, bytes pattern) except? 0


@cython.final
cdef class Inactivity:
    cdef public int64_t threshold_ns   # 0: the consumer stays however long nobody uses it
    cdef readonly int64_t at_ns        # its time is up, 0: never

    cpdef int touch(self, int64_t now_ns) except -1


@cython.final
cdef class ReplayPace:
    """Replay policy original: messages go at the distances in time at which they were stored."""
    cdef readonly uint64_t until           # the last sequence that is replayed so, 0: none
    cdef int64_t base_ns                   # monotonic minus stored time of the message sent last
    cdef bint started

    cpdef int64_t due_ns(self, uint64_t seq, int64_t stored_ns, int64_t now_ns) noexcept     # 0: now
    cpdef void sent(self, uint64_t seq, int64_t stored_ns, int64_t now_ns) noexcept


cdef class Delivery(TickTask):
    cdef readonly ConsumerCore core
    cdef ConsumerTurn turn
    cdef Router router
    cdef Inactivity idle
    cdef readonly bint open            # between begin() and end()
    cdef list requests                 # (reply, headers, body), in order of arrival
    cdef ReplayPace replay
    cdef int64_t hold_until_ns         # replay pace or rate limit: nothing before this; 0: go on

    cdef int request(self, bytes reply, bytes headers, bytes body) except -1
    cpdef int take_requests(self) except -1
    cdef int status(self, bytes reply, bytes headers) except -1
    cdef bint is_held(self) except -1              # ... or was so a moment ago

    # --- what pull and push do each in its way ---
    cpdef int deliver(self) except -1              # what may be delivered now
    cdef int pause(self) except -1                 # nothing may be delivered now
    cdef int run_timers(self) except -1
    cpdef int64_t earliest(self) except? -1        # when something has to happen without a message, 0: never
    cdef int interest_changed(self) except -1      # somebody came to, or left, a subject this delivers to
    cdef bytes take_request(self, bytes reply, bytes headers, bytes body)  # a status block to refuse it, or None
    cdef bint has_interest(self) except -1
    cpdef bint in_use(self) except -1
    cdef bint holds_one(self) except -1            # a message that counts as taken waits for its time
    cdef Py_ssize_t waiting_requests(self) except? -1
    cdef bint has_demand(self) except -1           # would it send a message now, if there were one?
    cdef int restart(self) except -1               # the consumer begins anew


cdef class RequestReceiver(Receiver):
    cdef Delivery delivery             # None: closed
