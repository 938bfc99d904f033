# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A consumer's dead letters (see dead_letters.pxd).

A message that is given up stays pending, held, until its letter is committed in the other stream: whenever the broker
is killed it is delivered, or given up, again. The letter's id keeps it from being stored twice. What cannot be stored
is tried again, less and less often.
"""
import heapq

from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.consumers.core cimport ConsumerAdvisories, ConsumerTurn, Forsaken
from jetbroker.jetstream.consumers.tracker cimport ENTRY_HELD, POLICY_ALL, AckTracker, PendingEntry
from jetbroker.jetstream.streams.letters cimport holds_letter, put_letter, refuses_letters
from jetbroker.jetstream.streams.stream cimport Stream
from jetbroker.saturate cimport add_int64
from jetbroker.store.log.stream_log cimport READ_DAMAGED, READ_OK, StoredMessage

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.jetstream.models.dead_letters import Origin, has_died_in, letter_headers, message_id, receiver_of

cdef int64_t SLICE_NS = limits.JS_WORK_NS
cdef int64_t COMMIT_LOOK_NS = limits.JS_DEAD_LETTER_COMMIT_NS
cdef int64_t FIRST_WAIT_NS = limits.JS_DEAD_LETTER_FIRST_WAIT_NS
cdef int64_t LONGEST_WAIT_NS = limits.JS_DEAD_LETTER_LONGEST_WAIT_NS
cdef int64_t SAME_TEXT_NS = <int64_t>(limits.SAME_ERROR_SECONDS * 1e9)


class Letter:
    """One message on its way; `cseq` is 0 when its deliveries are used up, else that of the ack that ended it."""

    __slots__ = ("at", "box", "cseq", "look_ns", "msg_id", "reason", "replies", "seq", "wait_ns")

    def __init__(self, seq: int, cseq: int, reason: str) -> None:
        self.seq = seq
        self.cseq = cseq
        self.reason = reason
        self.replies: list[bytes] = []
        self.wait_ns = 0               # since the last refusal
        self.box = None                # the Stream it has been put into
        self.at = 0                    # its sequence there, 0: not stored
        self.look_ns = 0               # till the next look whether that is committed
        self.msg_id = b""


cdef class Complaint:
    """Keeps the log from telling the same again and again."""

    cdef bint is_news(self, str text, int64_t now_ns) except -1:
        if self.told_ns and text == self.text and now_ns - self.told_ns < SAME_TEXT_NS:
            return False
        self.text = text
        self.told_ns = now_ns
        return True


cdef class DeadLetters(Forsaken):
    """What one consumer has given up and not got rid of yet."""

    def __init__(self, Stream stream, AckTracker tracker not None, ConsumerTurn turn not None,
                 ConsumerAdvisories advisories not None) -> None:
        """`stream` None: there are none."""
        self.stream = stream
        self.tracker = tracker
        self.turn = turn
        self.advisories = advisories
        self.own = {}
        self.held = {}
        self.heap = []
        self.replies = []
        self.complaint = Complaint()

    def configure(self, config) -> None:
        """Take over a (changed) ConsumerConfig."""
        self.own = config.metadata

    def waiting(self) -> int:
        """How many messages wait for their letters to be stored."""
        return len(self.held)

    cdef str receiver(self):
        return receiver_of(self.own, self.stream.config.metadata) if self.stream is not None else ""

    # --- what is given up ---

    cdef bint take_exhausted(self, PendingEntry* entry) except -1:
        if not self.receiver():
            return False
        self._hold(entry, Letter(entry.seq, 0, "max_deliver"))
        return True

    cdef bint take_terminated(self, PendingEntry* entry, uint64_t cseq, str reason) except -1:
        if entry.flags & ENTRY_HELD and entry.seq in self.held:
            return True                # it is on its way
        if not self.receiver():
            return False
        self._hold(entry, Letter(entry.seq, max(cseq, <uint64_t>1), f"terminated: {reason}" if reason else "terminated"))
        return True

    cdef int _hold(self, PendingEntry* entry, object letter) except -1:
        self.tracker.hold(entry)
        self.held[letter.seq] = letter
        heapq.heappush(self.heap, (0, letter.seq))
        return self.turn.wake()

    cdef bint owe(self, uint64_t seq, bytes reply) except -1:
        letter = self.held.get(seq)
        if letter is None:
            return False
        letter.replies.append(reply)
        return True

    def forget(self) -> None:
        """The consumer begins again: none of its messages is given up any more."""
        for letter in list(self.held.values()):
            self._let_go(letter)
        self.heap = []

    # --- how it is stored ---

    cdef int64_t due_ns(self) except? -1:
        return max(<int64_t>self.heap[0][0], <int64_t>1) if self.heap else 0

    cdef int run(self) except -1:
        cdef int64_t now = self.turn.now_ns
        cdef int64_t until = monotonic_ns() + SLICE_NS
        while self.heap and self.heap[0][0] <= now:
            if monotonic_ns() >= until:
                return self.turn.go_on()
            _, seq = heapq.heappop(self.heap)
            letter = self.held[seq]
            try:
                self._try(letter)
            except StorageError as error:
                self._put_off(letter, f"cannot be used: {error}")
        return 0

    cdef int _try(self, object letter) except -1:
        """Store it, or see whether it is durable."""
        cdef PendingEntry* entry = self.tracker.pending.find(letter.seq)
        cdef str name = self.receiver()
        if entry == NULL or not entry.flags & ENTRY_HELD:
            self._let_go(letter)       # acked after all, or removed from the stream
            return 0
        if letter.at and self._is_uncommitted(letter):
            letter.look_ns = min(2 * letter.look_ns, FIRST_WAIT_NS)
            self._again(letter, letter.look_ns)
            return 0
        if letter.at and holds_letter(letter.box, letter.at, letter.msg_id):
            return self._finish(letter)
        if not name:
            return self._finish(letter)            # the configuration has changed: there are no letters any more
        box = self.stream.host.streams.get(name)
        if box is None:
            return self._put_off(letter, "is missing")
        if box is self.stream:
            return self._put_off(letter, "would be its own dead-letter stream")
        why = refuses_letters(<Stream?>box)
        if why:
            return self._put_off(letter, why)
        return self._store(letter, <Stream>box)

    cdef int _store(self, object letter, Stream box) except -1:
        cdef StoredMessage stored
        cdef PendingEntry* entry = self.tracker.pending.find(letter.seq)
        cdef int result = self.stream.log.read(letter.seq, &stored)
        if result == READ_DAMAGED:
            return self._finish(letter)            # nothing is left to be stored; the stream reports it as lost
        if result != READ_OK:
            self.tracker.forget(letter.seq)
            self._let_go(letter)
            return 0
        block = stored.headers[:stored.headers_len] if stored.headers_len else b""
        if has_died_in(block, box.name):
            return self._put_off(letter, "has had this message before: its dead letters go round in a circle")
        origin = Origin(self.stream.name, self.advisories.consumer, stored.subject[:stored.subject_len], stored.seq,
                        stored.time_ns, entry.count, letter.reason)
        seq, why = put_letter(box, origin.subject, letter_headers(block, origin),
                              stored.payload[:stored.payload_len] if stored.payload_len else b"")
        if why:
            return self._put_off(letter, f"refuses it: {why}")
        letter.msg_id = message_id(origin.stream, origin.consumer, origin.sequence, origin.time_ns)
        if letter.at == seq and seq <= box.log.committed:
            return self._finish(letter)            # it was there, and is known to have been
        letter.at = seq
        letter.box = box
        letter.look_ns = COMMIT_LOOK_NS
        self._again(letter, 0 if seq <= box.log.committed else COMMIT_LOOK_NS)
        return 0

    cdef bint _is_uncommitted(self, object letter) except -1:
        cdef Stream box = letter.box
        return (self.stream.host.streams.get(box.name) is box
                and box.log.committed < <uint64_t>letter.at <= box.log.last_seq)

    def _again(self, letter: Letter, wait_ns: int) -> None:
        heapq.heappush(self.heap, (add_int64(self.turn.now_ns, wait_ns), letter.seq))

    cdef int _put_off(self, object letter, str why) except -1:
        """Nothing is lost: the message stays pending."""
        letter.at = 0
        letter.wait_ns = min(max(2 * letter.wait_ns, FIRST_WAIT_NS), LONGEST_WAIT_NS)
        self._again(letter, letter.wait_ns)
        name = self.receiver()
        if self.complaint.is_news(f"{name} {why}", self.turn.now_ns):
            who = f"{self.stream.host.account_name} > {self.stream.name} > {self.advisories.consumer}"
            self.stream.host.log.warn(
                f"Consumer '{who}' keeps message {letter.seq} pending: its dead-letter stream '{name}' {why}")
        return 0

    # --- its end ---

    cdef int _finish(self, object letter) except -1:
        """The message counts as acked from now on."""
        cdef PendingEntry* entry = self.tracker.pending.find(letter.seq)
        self.stored += letter.at > 0
        if letter.cseq:
            reason = letter.reason.partition(": ")[2]
            self.advisories.terminated(letter.seq, entry.cseq, entry.count, reason)
        else:
            self.advisories.add("MAX_DELIVERIES", "max_deliver", {"stream_seq": letter.seq, "deliveries": entry.count})
        # one that an ack of a later delivery has overtaken ends its own message all the same
        if not (letter.cseq and self.tracker.policy == POLICY_ALL
                and self.tracker.ack_up_to(letter.seq, letter.cseq)):
            self.tracker.ack(letter.seq, letter.cseq)
        self._let_go(letter)
        return 0

    cdef list take_replies(self):
        cdef list replies = self.replies
        self.replies = []
        return replies

    def _let_go(self, letter: Letter) -> None:
        del self.held[letter.seq]
        self.replies += letter.replies
