"""The hot half of a consumer: finding the next message, sending it, taking acks."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.consumers.acks cimport AckNumbers
from jetbroker.jetstream.consumers.state cimport StateBatch
from jetbroker.jetstream.consumers.cursor cimport StreamCursor
from jetbroker.jetstream.consumers.pending cimport PendingEntry
from jetbroker.jetstream.consumers.pull cimport WaitingQueue, WaitingRequest
from jetbroker.jetstream.consumers.push cimport FlowControl, RateLimit
from jetbroker.jetstream.consumers.receivers cimport ConsumerEvents, InterestWatcher
from jetbroker.jetstream.consumers.state_writer cimport StateWriter
from jetbroker.jetstream.consumers.tracker cimport AckTracker
from jetbroker.jetstream.timing.work_turns cimport Worker
from jetbroker.routing.router cimport Route, Router
from jetbroker.store.log.stream_log cimport StoredMessage, StreamLog, SubjectFilter
from jetbroker.tick cimport Tick
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


cdef class ConsumerDelivery(ConsumerEvents):
    cdef readonly object stream
    cdef readonly object config            # ConsumerConfig
    cdef readonly str name
    cdef readonly str stream_name
    cdef readonly int64_t created_ns       # wall clock
    cdef readonly bint running
    cdef readonly bint is_push
    cdef bint restored                     # goes on from recorded state
    cdef bint recorded                     # a new one's starting position is in its state log
    cdef readonly AckTracker tracker
    cdef readonly StreamCursor cursor
    cdef Worker look_ahead                 # goes on with what takes the cursor long, then wakes this consumer
    cdef readonly object state_log
    cdef public object on_inactive         # callback(consumer): inactive_threshold has passed
    cdef public object clock               # monotonic ns source for tests; None: the system's
    cdef Host host
    cdef Tick tick
    cdef Router router
    cdef StreamLog log
    cdef SubjectFilter filter
    cdef StateBatch batch
    cdef StateWriter writer
    cdef WaitingQueue waiting
    cdef FlowControl flow
    cdef RateLimit rate

    # from the configuration
    cdef int64_t max_ack_pending           # 0: no limit
    cdef int64_t max_waiting
    cdef int64_t inactive_ns
    cdef int64_t heartbeat_ns
    cdef int sample_percent
    cdef bint headers_only
    cdef bint acks_on_flow                 # ack policy flow_control: an answer to flow control acks all before it
    cdef object limits                     # PullLimits
    cdef bytes deliver_subject
    cdef bytes deliver_group

    # moving parts
    cdef int64_t now_ns                    # monotonic, of this tick
    cdef Route deliver_route
    cdef InterestWatcher watcher
    cdef bint watching                     # push: the watcher hears of changes of deliver_route
    cdef bint deliverable                  # push: the deliver subject has interest
    cdef int64_t hold_until_ns             # rate limit or replay pace: nothing before this; 0: go on
    cdef int64_t next_heartbeat_ns
    cdef int64_t inactive_at_ns
    cdef int64_t paused_until_ns           # wall clock; 0: not paused
    cdef int64_t replay_base_ns            # monotonic minus stored time of the message sent last; replay original
    cdef uint64_t replay_until             # last sequence that is replayed at the original pace
    cdef bint replay_started
    cdef int64_t last_delivered_ns, last_acked_ns      # wall clock, 0: not since the start
    cdef list requests                     # (reply, headers, body), in order of arrival
    cdef list ack_replies                  # confirmed acks of this tick
    cdef list advisories                   # (subject, fields)
    cdef OutputBuffer reply                # the ack subject: a fixed part, then the numbers
    cdef Py_ssize_t reply_prefix
    cdef OutputBuffer body                 # a message body that is not contiguous in the log
    cdef object timer
    cdef int64_t timer_ns
    cdef dict subscriptions                # Subscription -> ConsumerReceiver
    cdef SubjectFilter own_subjects        # of the stream: see _send

    cdef int64_t monotonic(self) except? -1
    cdef int wake(self) except -1
    # What to deliver next; `again` is set for a redelivery.
    cdef int next_delivery(self, StoredMessage* message, PendingEntry** again) except -1
    cdef bint full(self) noexcept                  # max_ack_pending is reached
    cdef bint blocked(self) except -1              # ... and nothing is to be delivered again either
    cdef int give_up(self, PendingEntry* entry) except -1
    cdef int skip_damaged(self, uint64_t seq) except -1
    cdef Py_ssize_t format_reply(self, uint64_t delivered, StoredMessage* message, uint64_t ahead) except? -1
    cdef int prepare(self, StoredMessage* message, bint copy, Message* out) except -1
    # Send it and record it. SENT_...
    cdef int send(self, Route route, bint copy, StoredMessage* message, PendingEntry* again,
                  int64_t room, Py_ssize_t* size) except -1
    cdef int record(self, uint64_t seq, bint again) except -1
    cdef int deliver_pull(self) except -1
    cdef WaitingRequest next_request(self)
    cdef int serve(self, WaitingRequest request, Py_ssize_t size) except -1
    cdef int refuse_size(self, WaitingRequest request) except -1
    cdef int deliver_push(self) except -1
    cdef int leave_route(self) except -1
    cdef bint check_interest(self) except -1
    cdef bint has_listener(self) except -1
    cdef int64_t held_back(self, StoredMessage* message) except? -1
    cdef int request_flow(self) except -1
    cdef int take_flow_ack(self, const Message* msg) except -1
    cdef int after_push(self, StoredMessage* message, Py_ssize_t size) except -1
    cdef int take_ack(self, AckNumbers* numbers) except -1
    cdef int status(self, bytes reply, bytes headers) except -1
