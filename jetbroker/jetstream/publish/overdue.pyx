# cython: language_level=3
"""What publishes have made superfluous, and what is too much to be removed while their publisher waits.

A large message may evict very many small ones, and one roll-up replace a whole stream. The rest of such work is done in
turns, the oldest messages first. A roll-up begins when its message is committed, so that nothing has to be undone when
that cannot be written, and its ack waits for the end.
"""
from collections import deque

from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.publish.pub_acks cimport Answers
from jetbroker.jetstream.publish.room cimport Interest, Room
from jetbroker.jetstream.models.interest cimport OfflineConsumer, StreamConsumer
from jetbroker.jetstream.timing.work_turns cimport Worker, WorkTurns
from jetbroker.store.log.stream_log cimport StreamLog, SubjectFilter
from jetbroker.tick cimport PHASE_CONSUMERS, PHASE_EVENTS, Tick

from jetbroker.errors import StorageError
from jetbroker.store.log.slices import next_piece, piece_slots, remove_matching

cdef uint64_t EVICTED_AT_ONCE = 256      # between two looks at the clock


cdef class RollUp:
    """Messages that match are removed up to those that have asked for it."""
    cdef bytes pattern                 # b"": all
    cdef SubjectFilter matching
    cdef uint64_t start                # what matches below it is gone
    cdef uint64_t below                # asked for by messages that are committed
    cdef object asked                  # deque of the sequences of those that are not, ascending
    cdef list answers                  # (sequence, reply, text behind the ack's sequence)


cdef class Overdue(Worker):
    """Removes for one stream."""
    cdef Room room
    cdef Answers answers
    cdef StreamLog log
    cdef Tick tick
    cdef Interest interest
    cdef dict roll_ups                 # pattern -> RollUp, in the order of asking
    cdef bint evicts
    cdef bint stopped

    def __init__(self, Room room not None, Answers answers not None, WorkTurns turns not None) -> None:
        self.room = room
        self.answers = answers
        self.log = room.log
        self.tick = turns.tick
        self.interest = room.removal.interest
        self.turns = turns
        self.roll_ups = {}

    def __len__(self) -> int:
        return len(self.roll_ups) + self.evicts

    def stop(self) -> None:
        """Leave everything as it is."""
        self.stopped = True
        self.roll_ups.clear()

    def evict(self) -> None:
        """There is more beyond the stream's limits than one publish evicts."""
        self.evicts = True
        self.tick.schedule(PHASE_EVENTS, self)

    def roll_up(self, bytes pattern not None, uint64_t seq) -> None:
        """Message `seq` replaces what matches and is older, once it is committed."""
        cdef RollUp job = <RollUp>self.roll_ups.get(pattern)
        if job is None:
            job = RollUp.__new__(RollUp)
            job.pattern = pattern
            job.matching = SubjectFilter(pattern)
            job.asked = deque()
            job.answers = []
            self.roll_ups[pattern] = job
        job.asked.append(seq)
        self.committed(self.log.committed)

    def hold(self, uint64_t first, uint64_t last, bytes reply not None, bytes text=b"") -> bool:
        """Keep the ack of messages `first` to `last` until what they replace is gone; False: they replace nothing."""
        cdef RollUp job
        for job in reversed(self.roll_ups.values()):
            if job.asked and job.asked[-1] >= first or job.below >= first:
                job.answers.append((last, reply, text))
                return True
        return False

    def committed(self, uint64_t seq) -> None:
        """The log has committed everything up to `seq`."""
        cdef RollUp job
        for job in self.roll_ups.values():
            if job.below > job.start or (job.asked and job.asked[0] <= seq):
                self.tick.schedule(PHASE_EVENTS, self)
                return

    def lost(self, uint64_t first_lost) -> list:
        """Messages from first_lost on were taken back: the replies of those among them whose acks were held."""
        cdef RollUp job
        cdef list replies = []
        for job in self.roll_ups.values():
            while job.asked and job.asked[-1] >= first_lost:
                job.asked.pop()
            replies.extend([reply for seq, reply, _ in job.answers if seq >= first_lost])
            job.answers = [answer for answer in job.answers if answer[0] < first_lost]
        self.tick.schedule(PHASE_EVENTS, self)
        return replies

    cdef bint work(self, int64_t until_ns) except -1:
        cdef bint more = False
        if self.stopped:
            return False
        try:
            if self.evicts:
                self._evict(until_ns)
                more = self.evicts
            return self._roll_up(until_ns) or more
        except StorageError as error:
            # what cannot be read now goes with a later publish
            self.evicts = False
            if self.roll_ups:
                self._finish(<RollUp>next(iter(self.roll_ups.values())))
            self.tick.report(self, error)
            return len(self.roll_ups) > 0

    cdef int _evict(self, int64_t until_ns) except -1:
        self.evicts = True
        while self.evicts and monotonic_ns() < until_ns:
            self.evicts = self.room.evict(EVICTED_AT_ONCE)
        return self._wake_consumers()

    cdef bint _roll_up(self, int64_t until_ns) except -1:
        """True: there is more to do now."""
        cdef RollUp job
        cdef uint64_t committed = self.log.committed
        for job in list(self.roll_ups.values()):
            while job.asked and job.asked[0] <= committed:
                job.below = job.asked.popleft()
            while job.start < job.below:
                if monotonic_ns() >= until_ns:
                    return True
                self._remove_piece(job)
            if not job.asked:
                self._finish(job)
        return False

    cdef int _remove_piece(self, RollUp job) except -1:
        cdef list consumers = [consumer for consumer in self.interest.consumers
                               if not isinstance(consumer, OfflineConsumer)]
        piece = next_piece(self.log, max(job.start, self.log.first_seq), job.below - 1,
                           piece_slots(len(consumers)))
        if piece is None:
            job.start = job.below
            return 0
        first, last = piece
        counted = [(consumer, consumer.counted_in(first, last)) for consumer in consumers]
        if job.pattern:
            remove_matching(self.log, job.matching, first, last)
        else:
            self.log.remove_before(last + 1)
        for consumer, before in counted:
            consumer.removed_in(first, last, before, True)
        job.start = last + 1
        return 0

    cdef int _finish(self, RollUp job) except -1:
        del self.roll_ups[job.pattern]
        self.interest.purged(job.pattern)
        for seq, reply, text in job.answers:
            self.answers.ack_text(seq, reply, text)
        return self.tick.schedule(PHASE_EVENTS, self.answers)

    cdef int _wake_consumers(self) except -1:
        cdef StreamConsumer consumer
        for consumer in self.interest.consumers:
            self.tick.schedule(PHASE_CONSUMERS, consumer)
        return 0
