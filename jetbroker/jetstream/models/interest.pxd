"""What a stream asks of its consumers, so that stream and consumer modules depend one way: consumer -> stream."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.stream_log cimport SubjectFilter
from jetbroker.tick cimport TickTask


cdef class StreamConsumer(TickTask):
    """Base of Consumer; every method has a default for a consumer that needs nothing.

    The stream schedules its consumers in PHASE_CONSUMERS after each commit and after every removal that it does not
    announce one by one (age, max_msgs, max_bytes): compare log.first_seq in run_tick.
    """
    # What this consumer listens to, the same object as long as its filters stay the same; None: everything.
    # Call Stream.interest_changed() after a change.
    cdef SubjectFilter interest(self)
    # Interest retention: True while this consumer has not acked message seq and its filter matches it.
    cdef bint needs(self, uint64_t seq) except -1
    # The highest stream sequence given out so far (0: none). Used once, in Stream.add_consumer, to finish removals
    # that a crash cut short: what is below it and no longer needed is acked again.
    cdef uint64_t delivered_up_to(self) except? 0
    # Its ack floor: what a consumer that is deleted leaves behind it is not looked at again.
    cdef uint64_t acked_up_to(self) except? 0
    # Where a reset has made it begin (0: none did): what lies below was not necessarily given out, or acked.
    cdef uint64_t begun_at(self) except? 0
    # One message has been removed from the middle (delete, per-subject limit); `purged`: with others, by a roll-up.
    cdef int on_removed(self, uint64_t seq, bytes subject, bint purged) except -1
    # Any number of messages have been removed (`purged`: by a purge or roll-up), or are back: look at the log again.
    cdef int on_changed(self, bint purged) except -1
    # A purge or roll-up of what matches `pattern` (b"": of everything) is over.
    cdef int on_purged(self, bytes pattern) except -1


cdef class OfflineConsumer(StreamConsumer):
    """Stands for a consumer that could not be brought back: whatever it may still want stays in the stream."""
