# cython: language_level=3, boundscheck=False, wraparound=False
"""The stream engine (see stream.pxd).

Publishes come in through `Ingest`, direct gets through `DirectGet`; this class is what they have in common with the
API and the consumers: one log, one configuration, the limits that need a timer, and retention.
"""
from collections import deque

from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.host.host cimport Host
from jetbroker.jetstream.streams.direct cimport DirectGet
from jetbroker.jetstream.streams.expiry cimport Expiry
from jetbroker.jetstream.streams.hash_chain cimport HashChain
from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.models.interest cimport OfflineConsumer, StreamConsumer
from jetbroker.forms.timestamps cimport format_timestamp, wall_clock_ns
from jetbroker.saturate cimport add_int64
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.stream_log cimport (
    READ_MISSING, LogObserver, StoredMessage, StreamLog, SubjectFilter,
)
from jetbroker.store.log.slices cimport holds, subject_of
from jetbroker.tick cimport PHASE_CONSUMERS, PHASE_EVENTS, TickTask

from jetbroker import limits
from jetbroker.errors import SequenceError, StorageError
from jetbroker.jetstream.models.hash_chains import HASH_CHAIN, HASH_CHAIN_HEAD
from jetbroker.jetstream.publish.batches import AtomicBatches
from jetbroker.jetstream.publish.fast_batches import FastBatches
from jetbroker.jetstream.publish.schedules import Schedules
from jetbroker.store.format.hash_chain import ALGORITHMS
from jetbroker.store.log.hash_chain import ChainFile
from jetbroker.store.log.stream_log import subject_filter, subject_filter_steps
from jetbroker.turns import at_once

cdef uint64_t EVICTIONS_PER_TICK = limits.JS_EVICTIONS_PER_TICK
cdef uint64_t PURGED_AT_ONCE = limits.JS_PURGED_AT_ONCE
cdef Py_ssize_t SUBSCRIBED_AT_ONCE = 256
cdef uint64_t LOOKED_THROUGH = limits.JS_LOOKED_THROUGH
cdef double RETRY_SECONDS = 1.0        # behind a read that was refused
DIRECT_QUEUE = b"_sys_"
SECOND_NS = 1_000_000_000
RETENTION = {"limits": RETAIN_LIMITS, "interest": RETAIN_INTEREST, "workqueue": RETAIN_WORKQUEUE}


def patterns_of(config: object) -> list:
    """The subjects of a StreamConfig."""
    return [subject.encode() for subject in config.subjects or ()]


cdef class Stream(LogObserver):
    """One stream of an account.

    `usage` is the account's AccountUsage, `log` the stream's open log (the stream becomes its observer), `created_ns`
    the time of creation; `own_subjects` its compiled subjects, where they have been made in steps; `make_origins`
    makes the Origins of a mirror, or of a stream with sources. Consumers that are restored are added before `start`,
    which then finishes the removals a crash cut short.
    """

    def __init__(self, Host host not None, object usage, object config, StreamLog log not None, int64_t created_ns,
                 SubjectFilter own_subjects=None, object make_origins=None) -> None:
        self.host = host
        self.make_origins = make_origins
        self.name = config.name
        self.config = config
        self.created_ns = created_ns
        self.template = ""
        self.log = log
        self.router = host.router
        self.tick = host.tick
        self.consumers = {}
        self.offline = {}
        self.subscriptions = {}
        self.direct_subscriptions = []
        self.ingest = Ingest(host, usage, log, config, Schedules, AtomicBatches)
        self.ingest.fast_batches = FastBatches(self.ingest)
        self.expiry = Expiry(self.ingest)
        self.direct = self.direct_gets("")
        self.sweep = RetentionSweep()
        self._take(config, own_subjects or subject_filter(patterns_of(config)))
        log.observer = self

    def largest_message(self) -> int:
        """Bytes of the largest message that it is to take: of its own limit, else of the server's."""
        sizes = self.config.max_msg_size, self.ingest.judge.server.max_payload, limits.MAX_PAYLOAD_BYTES
        return next(size for size in sizes if size > 0)

    def direct_gets(self, str origin not None) -> DirectGet:
        """The receiver of its direct gets, or, where it mirrors `origin`, of that one's."""
        return DirectGet(self.router, self.tick, self.log, self.name, self.ingest.judge.server, origin)

    # --- life ---

    def start(self) -> None:
        """Begin to take publishes and direct gets."""
        at_once(self.starting())

    def starting(self):
        """`start` in steps (see turns.py): there may be very many subjects."""
        if self.running:
            return
        self.running = True
        if self.config.first_seq and self.log.last_seq == 0 and self.log.first_seq == 0:
            self.log.skip_to(self.config.first_seq)
        yield from self._subscribe(self.config)
        yield from self._follow_origins(self.config)
        if not self.running:
            return
        self._follow_chain(self.config)
        self._resume_retention()
        self.ingest.dedup.on_first = self._on_first_id
        self.ingest.dedup.start()
        self.ingest.judge.started()
        self.ingest.room.enforce()
        self.expiry.start()
        if self.ingest.schedules is not None:
            self.ingest.schedules.start()

    def stop(self) -> None:
        """Take all interest back; what has been accepted still commits and is acked as long as the log works."""
        at_once(self.stopping())

    def stopping(self):
        """`stop` in steps; it is no longer running after the first."""
        self.running = False
        if self.origins is not None:
            self.origins.stop()
        self.expiry.stop()
        self.ingest.dedup.stop()
        if self.ingest.schedules is not None:
            self.ingest.schedules.stop()
        for subscription in self.direct_subscriptions:
            self.router.unsubscribe(subscription)
        self.direct_subscriptions = []
        self.ingest.dedup.on_first = None
        if self.ingest.batches is not None:
            self.ingest.batches.drop()
        self.ingest.fast_batches.drop()
        if self.ingest.overdue is not None:
            self.ingest.overdue.stop()
        self.direct.forget()
        if self.dedup_timer is not None:
            self.dedup_timer.cancel()
            self.dedup_timer = None
        self._end_chain()
        yield from self._unsubscribe(list(self.subscriptions))

    def release(self) -> None:
        """It is deleted for good, and stopped: what it refers to lets go of it, so that all of it is freed at once."""
        self.log.observer = None
        self.consumers = {}
        self.ingest.interest.set_consumers([])
        self.ingest.release()
        self.expiry.release()
        if self.origins is not None:
            self.origins.release()
            self.origins = None

    def applying(self, config: object):
        """Go over to a new configuration, already checked, in steps; True: the stream is running.

        What is beyond its limits stays for removals.enforce_limits() to remove.
        """
        own_subjects = yield from subject_filter_steps(patterns_of(config))
        before = self.config.subject_transform, self.config.republish
        retention = self.retention
        self._take(config, own_subjects)
        if self.retention != retention:
            for consumer in self.consumers.values():
                consumer.follow_retention()
            self._resume_retention()
        if (config.subject_transform, config.republish) != before:
            yield from self._resubscribe()
        if not self.running:
            return False
        yield from self._subscribe(config)
        yield from self._follow_origins(config)
        if not self.running:
            return False
        self._follow_chain(config)
        if self.ingest.schedules is not None:
            self.ingest.schedules.start()
        self.evict_up_to(0)
        return True

    def apply_config(self, config: object) -> None:
        """Go over to a new configuration, already checked; stricter limits hold at once."""
        cdef StreamConsumer consumer
        if not at_once(self.applying(config)):
            return
        self.ingest.configure(config, self.own_subjects)
        self.ingest.room.enforce()
        for consumer in self.ingest.interest.consumers:
            consumer.on_changed(False)
        self.wake_consumers()

    def follow_limits(self) -> None:
        """The limits of bytes of the account or the server have changed."""
        self.ingest.quota.follow()

    def trim_piece(self, first: int, last: int) -> None:
        """Remove of a piece of the log what is beyond max_msgs_per_subject; the pieces before it come first."""
        self.ingest.room.trim_piece(first, last)

    def evict_up_to(self, last: int) -> bool:
        """Evict up to message `last` what is beyond max_msgs and max_bytes. True: more is."""
        return self.ingest.room.evict_up_to(last, self.config.max_msgs, self.config.max_bytes)

    async def commit(self) -> None:
        """Wait until everything accepted so far, removals too, is as durable as the store's mode promises.

        Raises StorageError when it could not be written.
        """
        await self.log.commit()

    def _take(self, config: object, SubjectFilter own_subjects not None) -> None:
        self.config = config
        self.own_subjects = own_subjects
        self.retention = RETENTION[config.retention]
        self.ingest.configure(config, own_subjects)
        self.expiry.configure(config)

    def _subscribe(self, config: object):
        """Make the router's subscriptions fit the configuration, in steps."""
        wanted = set(patterns_of(config))
        yield
        yield from self._unsubscribe([subject for subject in self.subscriptions if subject not in wanted])
        for subject in wanted:
            if subject not in self.subscriptions:
                self.subscriptions[subject] = self.router.subscribe(self.ingest, subject)
                if len(self.subscriptions) % SUBSCRIBED_AT_ONCE == 0:
                    yield
        if config.allow_direct and not self.direct_subscriptions:
            prefix = b"$JS.API.DIRECT.GET." + self.name.encode()
            self.direct_subscriptions = [
                self.router.subscribe(self.direct, subject, DIRECT_QUEUE) for subject in (prefix, prefix + b".>")
            ]
        elif not config.allow_direct:
            for subscription in self.direct_subscriptions:
                self.router.unsubscribe(subscription)
            self.direct_subscriptions = []

    def _resubscribe(self):
        """Have what the router's routes keep for the ingest worked out anew, in steps; no subject is ever without it."""
        for number, subject in enumerate(list(self.subscriptions)):
            if subject in self.subscriptions:
                self.router.unsubscribe(self.subscriptions[subject])
                self.subscriptions[subject] = self.router.subscribe(self.ingest, subject)
            if number % SUBSCRIBED_AT_ONCE == 0:
                yield

    def _unsubscribe(self, subjects):
        """Take these of the router's subscriptions back, in steps."""
        for number, subject in enumerate(subjects):
            self.router.unsubscribe(self.subscriptions.pop(subject))
            if number % SUBSCRIBED_AT_ONCE == 0:
                yield

    def _follow_origins(self, config: object):
        if config.mirror is None and not config.sources and self.origins is None:
            return
        if self.origins is None:
            self.origins = self.make_origins(self)
        yield from self.origins.following(config)

    # --- a tamper-evident stream ---

    def _follow_chain(self, config: object) -> None:
        algorithm = config.metadata.get(HASH_CHAIN, "")
        if not algorithm:
            self._end_chain()
            return
        if self.chain is not None:
            return
        try:
            if algorithm not in ALGORITHMS or config.storage != "file":
                raise StorageError(f"{algorithm!r} in {config.storage} storage is none of {', '.join(ALGORITHMS)} in file")
            begins = self.log.first_seq if self.log.messages else self.log.last_seq + 1
            file = ChainFile(self.log.directory, algorithm, begins)
            if file.cut:
                self._complain(f"the last {file.cut} bytes of its hash chain were no whole entries; it goes on before them")
            self.chain = HashChain(self.log, file, self.host.turns, self._complain)
            self.chain.run_tick()
        except StorageError as error:
            self._complain(f"it has no hash chain: {error}")

    def _end_chain(self) -> None:
        if self.chain is not None:
            self.chain.close()
            self.chain = None

    def _complain(self, text: str) -> None:
        self.host.log.warn(f"Stream '{self.host.account_name} > {self.name}': {text}")

    # --- what the API asks ---

    def chain_head(self) -> dict[str, str]:
        """Metadata that tells up to where the stream is tamper-evident; empty when it is not."""
        return {HASH_CHAIN_HEAD: self.chain.position()} if self.chain is not None else {}

    def state(self, deleted_details: bool = False, subjects: dict[str, int] | None = None) -> dict[str, object]:
        """The stream's state as JSON shows it; `subjects` is a page made by pages.subjects_page."""
        cdef StreamLog log = self.log
        cdef uint64_t deleted
        state = {
            "messages": log.messages,
            "bytes": log.bytes,
            "first_seq": log.first_seq,
            "first_ts": format_timestamp(log.time_of(log.first_seq) if log.messages else 0),
            "last_seq": log.last_seq,
            "last_ts": format_timestamp(log.last_time_ns),
        }
        subject_count = (<SegmentedLog>log).subjects.count
        if subject_count:
            state["num_subjects"] = subject_count
        if subjects:
            state["subjects"] = subjects
        deleted = log.deleted_count()
        if deleted:
            state["num_deleted"] = deleted
            if deleted_details:
                state["deleted"] = log.deleted()
        lost = log.lost()
        if lost:
            state["lost"] = {"msgs": lost, "bytes": 0}
        state["consumer_count"] = len(self.consumers) - self.unlisted + len(self.offline)
        return state

    def purge(self, pattern: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove messages as STREAM.PURGE does; returns how many. Durable after `commit`.

        Raises SequenceError, and removes nothing, when `seq` is farther than a stream may be moved.
        """
        cdef uint64_t purged
        cdef bint everything = pattern in ("", ">") and not keep
        cdef bint moves = everything and self.log.last_seq + 1 < seq
        if moves and seq > limits.STREAM_SKIP_SEQUENCE:
            raise SequenceError(f"sequence {seq} is beyond {limits.STREAM_SKIP_SEQUENCE}")
        if moves:
            self.ingest.judge.id_of_last()
        purged = self.log.purge(pattern.encode(), seq, keep)
        if moves:
            self.log.skip_to(seq)      # "below seq" holds for sequences to come, too
            self.ingest.judge.skipped()
        if everything and seq != 1:
            self._first_is_known()
        self.ingest.interest.recount(purged != 1 or everything)
        self.after_purge(pattern)
        return purged

    cdef int _first_is_known(self) except -1:
        """A stream that never had a message shows where it begins once it has been purged."""
        if self.log.first_seq == 0:
            self.log.first_seq = 1
        return 0

    def after_purge(self, pattern: str) -> None:
        """What matches (everything: "") has been purged: the consumers go on behind it."""
        self.ingest.interest.purged(b"" if pattern == ">" else pattern.encode())
        self.wake_consumers()

    def delete_message(self, seq: int, erase: bool = True) -> bool:
        """Remove one message, its bytes too when `erase`; False when it is not there. Durable after `commit`.

        Raises StorageError when it is removed, and its bytes could not be overwritten.
        """
        cdef StreamConsumer consumer
        cdef bytes subject = subject_of(self.log, seq)
        try:
            return self.log.remove(seq, erase)
        finally:
            if subject and not holds(self.log, seq):
                for consumer in self.ingest.interest.consumers:
                    consumer.on_removed(seq, subject, False)
                self.wake_consumers()

    def waiting_for_expiry(self) -> int:
        """How many entries the stream keeps of messages that have a TTL; some may be of messages that are gone."""
        return self.expiry.ttls.count

    def waiting_schedules(self) -> int:
        """How many schedules the stream keeps; some may be of messages that are gone."""
        return 0 if self.ingest.schedules is None else len(self.ingest.schedules)

    # --- consumers and retention ---

    def add_consumer(self, consumer: StreamConsumer) -> None:
        """Let `consumer` be woken by commits and count for retention. Its `name` is unique in the stream."""
        self.consumers[consumer.name] = consumer
        self.unlisted += consumer.config.direct
        self._tell_ingest()

    def take_offline(self, name: str, reason: str) -> None:
        """A consumer cannot be brought back: keep what it may want, and its name, until `remove_offline`."""
        consumer = self.consumers.pop(name, None)
        if consumer is not None:
            self.unlisted -= consumer.config.direct
        self.offline[name] = reason
        self._tell_ingest()

    def remove_offline(self, name: str) -> None:
        """Forget a consumer that was offline; with interest retention what only it could want is removed."""
        del self.offline[name]
        self._tell_ingest()
        if self.retention == RETAIN_INTEREST:
            self._let_go(None, 0)

    def _tell_ingest(self) -> None:
        cdef list consumers = list(self.consumers.values())
        if self.offline:
            consumers.append(OfflineConsumer())
        self.ingest.interest.set_consumers(consumers)

    def _let_go(self, SubjectFilter was_for, uint64_t floor) -> None:
        """A consumer with this filter and ack floor is gone: remove what no other one needs.

        As nats-server does: of all subjects, but nothing in front of the floor. Where much lies behind that, only
        what was for the consumer.
        """
        cdef bint wanted = bool(self.consumers or self.offline)
        if not wanted and self.log.messages <= PURGED_AT_ONCE:
            self.log.purge(b"", 0, 0)
            self._first_is_known()
        else:
            few = floor <= self.log.last_seq <= LOOKED_THROUGH + max(floor, self.log.first_seq)
            (<RetentionSweep>self.sweep).add(
                self, None, was_for if wanted and not few else None, self.log.last_seq, floor if few else 0)

    def listed_consumers(self) -> dict:
        """The consumers that are shown and counted, by name."""
        if not self.unlisted:
            return self.consumers
        return {name: consumer for name, consumer in self.consumers.items() if not consumer.config.direct}

    def remove_consumer(self, consumer: StreamConsumer) -> None:
        """Forget a deleted consumer; with interest retention what only it waited for is removed."""
        if self.consumers.get(consumer.name) is not consumer:
            return
        del self.consumers[consumer.name]
        self.unlisted -= consumer.config.direct
        self._tell_ingest()
        if self.retention == RETAIN_INTEREST:
            self._let_go((<StreamConsumer?>consumer).interest(), (<StreamConsumer>consumer).acked_up_to())
        elif consumer.config.direct:
            self._resume_retention()   # what only it waited for has been acked

    cpdef int ack_message(self, StreamConsumer consumer, uint64_t seq) except -1:
        """A consumer is done with a message; removes it when the retention policy says so."""
        cdef StreamConsumer other
        if self.retention == RETAIN_LIMITS:
            return 0
        # in a work queue only mirrors and sources want what another consumer wants as well
        if self.retention == RETAIN_INTEREST or self.unlisted:
            for other in self.consumers.values():
                if other is not consumer and other.needs(seq):
                    return 0
        if self.offline and (self.retention == RETAIN_INTEREST or consumer is None or (<object>consumer).config.direct):
            return 0                   # the one that is offline may want it
        self.log.remove(seq, False)
        return 0

    cpdef int interest_changed(self) except -1:
        """A consumer's filters have changed."""
        self.ingest.interest.set_consumers(self.ingest.interest.consumers)
        if self.retention == RETAIN_INTEREST and self.consumers:
            (<RetentionSweep>self.sweep).add(self, None, None, self.log.last_seq)
        return 0

    def position_changed(self, consumer: StreamConsumer) -> None:
        """A consumer has been set to another place: with interest retention, what it has left behind may go.

        One that waits for a later message than the last has left nothing behind: nats-server looks at none then.
        """
        cdef uint64_t behind = (<StreamConsumer?>consumer).delivered_up_to()
        if self.retention == RETAIN_INTEREST and 0 < behind <= self.log.last_seq:
            (<RetentionSweep>self.sweep).add(self, consumer, (<StreamConsumer>consumer).interest(), behind)

    cdef int _resume_retention(self) except -1:
        """Give the acks that have removed nothing once more.

        A crash may lie between a stored ack and the removal it means, and one of a stream that kept all means none.
        """
        cdef StreamConsumer consumer
        cdef uint64_t delivered
        if self.retention == RETAIN_LIMITS or not self.log.messages:
            return 0
        for consumer in self.ingest.interest.consumers:
            delivered = consumer.delivered_up_to()
            if delivered:
                # a message of a work queue that was skipped by a reset is not done with
                (<RetentionSweep>self.sweep).add(
                    self, consumer, consumer.interest(), delivered,
                    consumer.begun_at() if self.retention == RETAIN_WORKQUEUE else 0)
        return 0

    cdef int wake_consumers(self) except -1:
        cdef StreamConsumer consumer
        for consumer in self.ingest.interest.consumers:
            self.tick.schedule(PHASE_CONSUMERS, consumer)
        return 0

    # --- what the log tells ---

    cdef int on_committed(self, uint64_t seq) except -1:
        self.ingest.committed(seq)
        if self.chain is not None:
            self.chain.run_tick()
        if self.origins is not None:
            self.origins.committed(seq)
        return self.wake_consumers()

    cdef int on_write_failed(self, uint64_t first_lost, object error) except -1:
        cdef StreamConsumer consumer
        self.expiry.look_again(first_lost, self.ingest.write_failed(first_lost, error))
        for consumer in self.ingest.interest.consumers:
            consumer.on_changed(False)  # what had been evicted for the lost messages is back
        if self.origins is not None:
            self.origins.write_failed(first_lost)
        return 0

    # --- timers ---

    def _on_first_id(self) -> None:
        self.ingest.dedup.on_first = None
        self.dedup_timer = self.tick.loop.call_later(self.ingest.dedup.window_ns / SECOND_NS, self._on_dedup)

    def _on_dedup(self) -> None:
        """Give the memory of old message ids back when nobody publishes any more."""
        cdef int64_t now = wall_clock_ns()
        cdef int64_t oldest = self.ingest.dedup.prune(now)
        cdef int64_t window = self.ingest.dedup.window_ns
        self.dedup_timer = None
        if oldest == 0:
            self.ingest.dedup.on_first = self._on_first_id
            return
        self.dedup_timer = self.tick.loop.call_later(
            max(add_int64(oldest, window) - now, window // 10) / SECOND_NS, self._on_dedup)


cdef class RetentionSweep(TickTask):
    """Goes over stored messages and removes those that no consumer needs, a bounded number per tick."""
    cdef Stream stream                 # while there is something to do
    cdef object jobs                   # deque of [consumer or None, SubjectFilter or None, next, last]

    def __init__(self) -> None:
        self.jobs = deque()

    cdef int add(self, Stream stream, StreamConsumer consumer, SubjectFilter matching, uint64_t last,
                 uint64_t start=0) except -1:
        """Look at messages from `start` to `last`: those `consumer` no longer needs; None: those nobody needs."""
        self.stream = stream
        if matching is None:
            matching = SubjectFilter()
        self.jobs.append([consumer, matching, max(start, self.stream.log.first_seq), last])
        self.stream.tick.schedule(PHASE_EVENTS, self)
        return 0

    cdef int run_tick(self) except -1:
        try:
            if self.stream is not None and not self._sweep(self.stream):
                self.jobs.clear()
                self.stream = None
        except StorageError:
            # a message cannot be read, or not be removed, now
            self.stream.tick.loop.call_later(RETRY_SECONDS, self._go_on)
        return 0

    def _go_on(self) -> None:
        if self.stream is not None:
            self.stream.tick.schedule(PHASE_EVENTS, self)

    cdef bint _sweep(self, Stream stream) except -1:
        """True: there is more to do, in the next turn."""
        cdef StoredMessage stored
        cdef StreamLog log = stream.log
        cdef uint64_t left = EVICTIONS_PER_TICK
        cdef int64_t until = monotonic_ns() + limits.JS_WORK_NS
        while self.jobs and stream.running:
            job = self.jobs[0]
            consumer, matching, start, last = job
            while left and monotonic_ns() < until:
                if log.next_message(<SubjectFilter>matching, start, last, &stored) == READ_MISSING:
                    self.jobs.popleft()
                    break
                start = stored.seq + 1
                left -= 1
                self._judge(<StreamConsumer>consumer, stored.seq)
            else:
                job[2] = start
                stream.tick.defer(PHASE_EVENTS, self)
                return True
        return False

    cdef int _judge(self, StreamConsumer consumer, uint64_t seq) except -1:
        if consumer is not None and consumer.needs(seq):
            return 0
        return self.stream.ack_message(consumer, seq)
