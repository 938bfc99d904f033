"""JetStream of one account: its streams and consumers, their limits, and who may change them.

All changes run one after the other (see `requests`), so a check still holds when the change is made.
A change is finished, and answered, only when the store says that it is durable.
"""

import time
import traceback
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from jetbroker import limits
from jetbroker.config.durations import format_duration
from jetbroker.config.options import AccountJetStreamOptions
from jetbroker.errors import StorageError
from jetbroker.forms.gotext import ZERO_TIME, Timestamp
from jetbroker.jetstream.consumers.consumer import Consumer, filter_steps
from jetbroker.jetstream.host.host import Host
from jetbroker.jetstream.host.usage import AccountUsage
from jetbroker.jetstream.models.config import ConsumerConfig, StreamConfig
from jetbroker.jetstream.models.consumer_config import (
    EPHEMERAL_INACTIVE_THRESHOLD,
    check_consumer_config,
    check_consumer_update,
    check_workqueue,
    check_workqueue_policies,
    default_consumer_config,
    sourcing_consumer_config,
)
from jetbroker.jetstream.models.contracts import AccountLimits, ServerLimits, ServerReservations
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.models.metadata import consumer_level, stored_metadata, with_level_of
from jetbroker.jetstream.models.names import ORIGIN_POSITIONS, random_name
from jetbroker.jetstream.models.offline import OfflineError, reason_of, stored_consumer_config, stored_stream_config
from jetbroker.jetstream.models.origin_config import check_filters
from jetbroker.jetstream.models.stream_config import (
    check_creation,
    check_stream_config,
    check_stream_update,
)
from jetbroker.jetstream.models.subject_index import SubjectIndex, TooManySteps
from jetbroker.jetstream.sourcing.origins import Origins
from jetbroker.jetstream.streams.removals import enforce_limits
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.jetstream.timing.requests import RequestQueue, RequestQueues
from jetbroker.jetstream.timing.transfers import Transfers
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.staging import Staging
from jetbroker.store.log.statelog import StateLog
from jetbroker.store.log.stream_log import SubjectFilter, subject_filter_steps
from jetbroker.store.store import RecoveredConsumer, RecoveredStream, Store
from jetbroker.turns import Steps, Turn, at_once, in_turns

DELETED = "Consumer Deleted"  # what pulls that wait are told
SHUTDOWN = "Server Shutdown"
KEPT = "its files are kept until"  # what is offline is deleted
OF_TEMPLATE = "stream configuration update not allowed on template owned stream"


class Owner(Protocol):
    """Who has a stream made: the template of this name."""

    template: str

    def begun(self, stream: Stream) -> None:
        """The stream takes messages from now on; nothing else happens meanwhile."""


class Templates(Protocol):
    """The account's templates, see jetstream/templates."""

    def owns(self, stream: Stream) -> bool:
        """Is the stream one of a template that is there?"""

    def left(self, stream: Stream) -> None:
        """A stream is being deleted."""

    async def delete_all(self) -> None:
        """With their streams."""


def _starting(stream: Stream, owner: Owner | None) -> Steps[None]:
    yield from stream.starting()
    if owner is not None:
        owner.begun(stream)


def account_limits(options: AccountJetStreamOptions, server: ServerLimits) -> AccountLimits:
    """The limits an account's options stand for, beside the server's."""
    return AccountLimits(
        max_memory=options.max_memory,
        max_storage=options.max_store,
        max_streams=options.max_streams,
        max_consumers=options.max_consumers,
        max_ack_pending=options.max_ack_pending,
        memory_max_stream_bytes=options.memory_max_stream_bytes,
        storage_max_stream_bytes=options.store_max_stream_bytes,
        max_bytes_required=options.max_bytes_required,
        server=server,
    )


def tier_limits(options: AccountJetStreamOptions | None, server: ServerLimits) -> dict[str, AccountLimits]:
    """Limits by replicas; empty: the account's are for all."""
    return {} if options is None else {name: account_limits(tier, server) for name, tier in options.tiers.items()}


@dataclass(frozen=True)
class ArrivedConsumer:
    """A consumer of a stream that comes from elsewhere; `state` is a snapshot record, None: it begins anew."""

    name: str
    config: ConsumerConfig
    created_ns: int
    state: bytes | None


class JetStream:
    """The streams of one account.

    `options` None means that the account has no JetStream: every request is answered so. `strict`: refuse requests
    with unknown fields. `server`, `queues`: what all accounts of the server reserve, and are asked, together.
    """

    def __init__(
        self,
        host: Host,
        store: Store,
        options: AccountJetStreamOptions | None,
        *,
        strict: bool = True,
        server: ServerReservations | None = None,
        queues: RequestQueues | None = None,
    ) -> None:
        self.host = host
        self.log = host.log
        self.account_name = host.account_name
        self.store = store
        self.enabled = options is not None and options.enabled
        server = server or ServerReservations()
        self.tiers = tier_limits(options, server.limits)
        self.strict = strict
        self.streams: dict[str, Stream] = host.streams
        own_limits = account_limits(options, server.limits) if options is not None else AccountLimits()
        self.usage = AccountUsage(self.streams, own_limits, server)
        self.offline: dict[str, str] = {}  # streams that could not be brought back, and why
        self.subjects = SubjectIndex()
        self.templates: Templates | None = None  # where the account may have any
        self.transfers = Transfers()
        self.requests = RequestQueue(
            lambda fault: host.log.error(f"JetStream API of {self.account_name}:\n{fault}"), queues
        )

    def start(self) -> None:
        """Recover the account's streams and consumers. Raises StorageError."""
        if self.enabled:
            for recovered in self.store.recover(self.account_name):
                self._restore(recovered)
            for stream in self.store.offline(self.account_name):
                self._take_offline(stream.name, stream.reason)

    def follow(self, options: AccountJetStreamOptions) -> None:
        """Other limits hold from now on; what is beyond them stays."""
        server = self.usage.server.limits
        self.usage.limits = account_limits(options, server)
        self.tiers = tier_limits(options, server)
        for stream in self.streams.values():
            stream.follow_limits()

    def stop(self) -> None:
        """Stop every consumer and stream. The logs stay open for the store to close."""
        for stream in self.streams.values():
            for consumer in list(stream.consumers.values()):
                consumer.stop(SHUTDOWN)
            stream.stop()
            self.usage.reserve(stream.config, -1)

    def _restore(self, recovered: RecoveredStream) -> None:
        """Bring a stream back; one that cannot be is offline: its files stay as they are."""
        for line in recovered.damage:
            self.log.warn(f"Stream '{self.account_name} > {recovered.name}': {line}")
        who = f"'{self.account_name} > {recovered.name}'"
        stream = None
        try:
            config = stored_stream_config(recovered.config)
            self.log.info(f"  Starting restore for stream {who}")
            began = time.monotonic()
            positions = next((entry.state_log for entry in recovered.consumers if entry.name == ORIGIN_POSITIONS), None)
            stream = Stream(
                self.host,
                self.usage,
                config,
                recovered.log,
                recovered.created_ns,
                make_origins=partial(self._make_origins, positions),
            )
            stream.template = recovered.template
            took = format_duration(round(time.monotonic() - began, 3))
            self.log.info(f"  Restored {recovered.log.messages:,} messages for stream {who} in {took}")
            restored = self._restore_consumers(stream, recovered.consumers)
            stream.start()
        except Exception as error:
            if stream is not None:
                stream.stop()
            self._take_offline(recovered.name, reason_of(error))
            self._log_fault(error)
            return
        self._enter(stream)
        at_once(self.subjects.add(stream.name, config.subjects))
        for consumer in restored:
            self._start_restored(consumer)

    def _restore_consumers(self, stream: Stream, found: list[RecoveredConsumer]) -> list[Consumer]:
        consumers = [entry for entry in found if entry.name != ORIGIN_POSITIONS]
        if consumers:
            who = f"'{self.account_name} > {stream.name}'"
            self.log.info(f"  Recovering {len(consumers)} consumers for stream - {who}")
        restored = []
        for entry in consumers:
            try:
                config = stored_consumer_config(entry.config)
                consumer = self._build_consumer(stream, entry.name, config, entry.created_ns, entry.state_log)
            except Exception as error:
                self._consumer_offline(stream, entry.name, error)
                continue
            stream.add_consumer(consumer)
            restored.append(consumer)
        return restored

    def _start_restored(self, consumer: Consumer) -> None:
        try:
            consumer.start()
        except Exception as error:
            self._consumer_offline(consumer.stream, consumer.name, error)
            consumer.stop()

    def _take_offline(self, name: str, reason: str) -> None:
        self.offline[name] = reason
        self.log.error(f"Stream '{self.account_name} > {name}' is offline: {reason} ({KEPT} STREAM.DELETE)")

    def _consumer_offline(self, stream: Stream, name: str, error: Exception) -> None:
        stream.take_offline(name, reason_of(error))
        who = f"'{self.account_name} > {stream.name} > {name}'"
        self.log.error(f"Consumer {who} is offline: {reason_of(error)} ({KEPT} CONSUMER.DELETE)")
        self._log_fault(error)

    def _log_fault(self, error: Exception) -> None:
        if not isinstance(error, OfflineError):
            self.log.debug("".join(traceback.format_exception(error)).rstrip())

    def _enter(self, stream: Stream) -> None:
        self.usage.reserve(stream.config, 1)
        self.streams[stream.name] = stream
        stream.follow_limits()  # a reload may have come while it was made

    def _leave(self, stream: Stream) -> None:
        if self.templates is not None:
            self.templates.left(stream)
        del self.streams[stream.name]
        self.usage.reserve(stream.config, -1)

    # --- streams ---

    async def create_stream(
        self, config: StreamConfig, *, pedantic: bool = False, owner: Owner | None = None
    ) -> Stream:
        """The stream of this configuration, made when there is none; `owner` may know who else is behind it.

        Raises ApiError.
        """
        check_creation(config)
        self._check_tier(config)
        config = await in_turns(
            check_stream_config(config, self.usage.limits, pedantic=pedantic, find_stream=self.config_of)
        )
        existing = self.streams.get(config.name)
        if existing is not None:
            config.metadata = with_level_of(existing.config.metadata, config.metadata)
            if existing.config != config:
                raise api_error("stream_name_exist")
            return existing
        await self._check_new(config)
        created_ns = time.time_ns()
        own_subjects = await in_turns(subject_filter_steps([subject.encode() for subject in config.subjects]))
        self._try_stream(config, own_subjects)
        template = owner.template if owner is not None else ""
        try:
            log = await self.store.create_stream(
                self.account_name, config.name, config.to_json(), config.storage, created_ns, template
            )
        except StorageError as error:
            raise api_error("stream_create", err=str(error)) from error
        origins = partial(self._make_origins, None)
        stream = Stream(self.host, self.usage, config, log, created_ns, own_subjects, origins)
        stream.template = template
        await self._bring_in(stream, owner)
        self.host.advisories.stream("CREATED", config.name, "create", template)
        return stream

    async def _bring_in(self, stream: Stream, owner: Owner | None = None) -> None:
        """Start a stream that is stored now, and enter it. One that cannot start is deleted again."""
        try:
            await in_turns(_starting(stream, owner))
        except Exception:
            stream.stop()
            await self.store.delete_stream(self.account_name, stream.name)
            raise
        self._enter(stream)
        await in_turns(self.subjects.add(stream.name, stream.config.subjects))

    def _check_tier(self, config: StreamConfig) -> None:
        if self.tiers and f"R{config.num_replicas or 1}" not in self.tiers:
            raise api_error("no_limits")
        if not (self.tiers and config.num_replicas > 1):  # which are refused further on, and are not counted here
            self.usage.check_counts(config, len(self.offline))

    async def _check_new(self, config: StreamConfig) -> None:
        """May there be one more stream, and this one? Raises ApiError."""
        self._refuse_offline(config.name)
        self.usage.check_reservation(config, None)
        check_filters(config)
        await self._check_overlap(config)

    async def check_arrival(self, config: StreamConfig) -> StreamConfig:
        """The configuration, complete, of a stream that is to come from elsewhere. Raises ApiError."""
        config = await in_turns(
            check_stream_config(config, self.usage.limits, arriving=True, find_stream=self.config_of)
        )
        self._check_tier(config)
        if config.name in self.streams:
            raise api_error("stream_name_exist_restore_failed")
        await self._check_new(config)
        return config

    async def adopt_stream(self, config: StreamConfig, staging: Staging, consumers: list[ArrivedConsumer]) -> Stream:
        """Make a staged stream one of the account's. Raises ApiError or StorageError; then nothing has changed."""
        config = await self.check_arrival(config)
        own_subjects = await in_turns(subject_filter_steps([subject.encode() for subject in config.subjects]))
        created_ns = staging.log.meta["created"]
        origins = partial(self._make_origins, None)
        stream = Stream(self.host, self.usage, config, staging.log, created_ns, own_subjects, origins)
        try:
            await enforce_limits(stream)  # the configuration may be another one than that of the archive
            made, turn = [], Turn()
            for arrived in consumers:
                try:
                    made.append(await self._arrived(stream, staging, arrived))
                except (ApiError, ValueError) as error:  # its state may be impossible
                    why = f'error restoring consumer ["{arrived.name}"]: {error}'
                    raise api_error("stream_restore", err=why) from error
                await turn.rest()
            await self.store.publish_stream(staging)
        except BaseException:
            stream.stop()
            raise
        await self._bring_in(stream)
        for consumer in made:
            self._start_restored(consumer)
        self.host.advisories.stream("CREATED", config.name, "create")
        return stream

    async def _arrived(self, stream: Stream, staging: Staging, arrived: ArrivedConsumer) -> Consumer:
        """A consumer of a staged stream, which does nothing yet. Raises ApiError or StorageError."""
        config = default_consumer_config(arrived.config, stream.config, self.usage.limits, arriving=True)
        await in_turns(check_consumer_config(config, stream.config, self.usage.limits))
        await self._check_new_consumer(stream, config)
        config.name = arrived.name
        matching = await in_turns(filter_steps(config))
        state_log = staging.add_consumer(arrived.name, config.to_json(), arrived.created_ns, arrived.state)
        consumer = self._build_consumer(stream, arrived.name, config, arrived.created_ns, state_log, matching)
        stream.add_consumer(consumer)
        return consumer

    def _try_stream(self, config: StreamConfig, own_subjects: SubjectFilter) -> None:
        """Nothing is written of a configuration that no stream can be built from."""
        Stream(self.host, self.usage, config, MemoryLog(self.host.tick), 0, own_subjects).release()

    async def update_stream(self, config: StreamConfig, *, pedantic: bool = False) -> Stream:
        """Give an existing stream this configuration. Raises ApiError."""
        stream = self.stream(config.name)
        config = await in_turns(
            check_stream_config(
                config, self.usage.limits, pedantic=pedantic, creating=False, find_stream=self.config_of
            )
        )
        old = stream.config
        if self.templates is not None and self.templates.owns(stream):
            raise api_error("stream_invalid_config", err=OF_TEMPLATE)
        check_stream_update(old, config)
        self.usage.check_reservation(config, old)
        self._check_consumer_limits(stream, config)
        if config.subjects != old.subjects:
            await self._check_overlap(config)
        self._try_stream(config, stream.own_subjects)  # which are made, and tried, when it is applied
        try:
            await self.store.update_stream(self.account_name, config.name, config.to_json())
        except StorageError as error:
            raise api_error("stream_update", err=str(error)) from error
        self.usage.reserve(old, -1)
        self.usage.reserve(config, 1)
        await in_turns(stream.applying(config))
        if config.subjects != old.subjects:
            await in_turns(self.subjects.remove(old.name, old.subjects))
            await in_turns(self.subjects.add(config.name, config.subjects))
        await enforce_limits(stream)
        self.host.advisories.stream("UPDATED", config.name, "modify")
        return stream

    async def delete_stream(self, name: str) -> None:
        """Delete a stream with its consumers, one that is offline, too. Raises ApiError."""
        consumers: dict[str, Consumer] = {}
        stream: Stream | None = None
        if name not in self.offline:
            stream = self.stream(name)
            self._leave(stream)
            consumers = dict(stream.consumers)
            for consumer in consumers.values():
                consumer.stop(DELETED)
            await in_turns(stream.stopping())
            if stream.origins is not None:
                stream.origins.delete_consumers()
            await in_turns(self.subjects.remove(name, stream.config.subjects))
        try:
            await self.store.delete_stream(self.account_name, name)
        except StorageError as error:
            raise api_error("stream_delete", err=str(error)) from error
        self.offline.pop(name, None)
        for consumer_name, consumer in consumers.items():
            consumer.release()
            self.host.advisories.consumer("DELETED", name, consumer_name, "delete")
        self.host.advisories.stream("DELETED", name, "delete", stream.template if stream is not None else "")
        if stream is not None:
            stream.release()

    async def purge(self) -> None:
        """Delete every stream, those that are offline, too, and whatever else is stored. Raises ApiError."""
        if self.templates is not None:
            await self.templates.delete_all()
        for name in [*self.streams, *self.offline]:
            await self.delete_stream(name)
        try:
            await self.store.remove_account(self.account_name)
        except StorageError as error:
            raise api_error("stream_general_error", err=str(error)) from error

    async def _check_overlap(self, config: StreamConfig) -> None:
        known = self.subjects.bounded(limits.JS_OVERLAP_STEPS)
        try:
            if await in_turns(known.overlaps(config.subjects, but=config.name)):
                raise api_error("stream_subject_overlap")
        except TooManySteps:
            raise api_error("stream_invalid_config", err="too many subjects to compare") from None

    def stream(self, name: str) -> Stream:
        """The stream of this name. Raises ApiError 10059."""
        stream = self.streams.get(name)
        if stream is None:
            self._refuse_offline(name)
            raise api_error("stream_not_found")
        return stream

    def _make_origins(self, positions: StateLog | None, stream: Stream) -> Origins:
        """Where the messages of a mirror, or of a stream with sources, come from."""

        def begin_log() -> StateLog:
            return self.store.begin_consumer(
                self.account_name, stream.name, ORIGIN_POSITIONS, {}, stream.created_ns, False
            )

        return Origins(stream, positions, begin_log)

    def links_changed(self) -> None:
        """See JetStreamServer."""
        for stream in self.streams.values():
            if stream.origins is not None:
                stream.origins.links_changed()

    def config_of(self, name: str) -> StreamConfig | None:
        """The configuration of the stream of this name, None when there is none."""
        stream = self.streams.get(name)
        return stream.config if stream is not None else None

    def _refuse_offline(self, name: str) -> None:
        if name in self.offline:
            raise api_error("stream_offline_reason", err=self.offline[name])

    # --- consumers ---

    async def create_consumer(
        self, stream: Stream, config: ConsumerConfig, *, action: str = "", pedantic: bool = False
    ) -> Consumer:
        """Make or update a consumer; `action` "create" and "update" insist on one of them. Raises ApiError.

        A new consumer is durable when its state log, if it has one, has committed.
        """
        if config.direct and config.sourcing and config.name:
            config = sourcing_consumer_config(config, stream.config)
        config = default_consumer_config(config, stream.config, self.usage.limits, pedantic=pedantic)
        await in_turns(check_consumer_config(config, stream.config, self.usage.limits))
        name = config.durable_name or config.name
        existing: Consumer | None = stream.consumers.get(name) if name else None
        if existing is not None:
            await self._update_consumer(stream, existing, config, action)
            return existing
        if action == "update":
            raise api_error("consumer_does_not_exist")
        self._refuse_offline_consumer(stream, name, config)
        await self._check_new_consumer(stream, config)
        if config.inactive_threshold == 0 and not config.durable_name:
            config.inactive_threshold = EPHEMERAL_INACTIVE_THRESHOLD
        if config.durable_name:
            config.name = config.durable_name
        matching = await in_turns(filter_steps(config))
        return await self._make_consumer(stream, name or self._free_name(stream), config, matching)

    async def _check_new_consumer(self, stream: Stream, config: ConsumerConfig) -> None:
        """May the stream have one more, and this one? Raises ApiError."""
        self._check_consumer_count(stream, config)
        if stream.config.retention == "workqueue":
            check_workqueue_policies(config)
            await in_turns(check_workqueue(config, [other.config for other in stream.consumers.values()]))

    async def _make_consumer(
        self, stream: Stream, name: str, config: ConsumerConfig, matching: SubjectFilter
    ) -> Consumer:
        """A running consumer; it outlives a crash, with the position it starts from, once its state log commits."""
        consumer = self._build_consumer(stream, name, config, time.time_ns(), matching=matching)
        stream.add_consumer(consumer)  # from now on it hears of what is removed
        try:
            await in_turns(consumer.placing())
            self._keep_consumer(stream, consumer)
        except Exception:
            stream.remove_consumer(consumer)
            raise
        consumer.start()
        self.host.advisories.consumer("CREATED", stream.name, name, "create")
        return consumer

    def _keep_consumer(self, stream: Stream, consumer: Consumer) -> None:
        """Give a new consumer files, if it is to have any."""
        config: ConsumerConfig = consumer.config
        if stream.config.storage == "file" and not (config.mem_storage or config.direct):
            try:
                state_log = self.store.begin_consumer(
                    self.account_name, stream.name, consumer.name, config.to_json(), consumer.created_ns, False
                )
            except StorageError as error:
                raise api_error("consumer_store_failed", err=str(error)) from error
            consumer.keep_in(state_log)

    def _build_consumer(
        self,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        created_ns: int,
        state_log: StateLog | None = None,
        matching: SubjectFilter | None = None,
    ) -> Consumer:
        """One that does nothing yet; `state_log` is that of a consumer on disk, `matching` its filter if it is made."""
        consumer = Consumer(stream, config, state_log, created_ns, name, matching=matching)
        consumer.on_inactive = self._consumer_inactive
        return consumer

    async def _update_consumer(self, stream: Stream, consumer: Consumer, config: ConsumerConfig, action: str) -> None:
        old: ConsumerConfig = consumer.config
        if config.durable_name:
            config.name = config.durable_name
        if config.inactive_threshold == 0 and not old.durable_name:
            if action == "create":
                raise api_error("consumer_already_exists")  # has a threshold by now: not the same to nats-server
            config.inactive_threshold = EPHEMERAL_INACTIVE_THRESHOLD
        config.pause_until = old.pause_until
        if config.sourcing:
            config.deliver_policy, config.opt_start_seq = old.deliver_policy, old.opt_start_seq
            config.opt_start_time = old.opt_start_time
        config.metadata = stored_metadata(config.metadata, consumer_level(config))
        if action == "create":
            config.metadata = with_level_of(old.metadata, config.metadata)
        if config == old:
            return
        if action == "create":
            raise api_error("consumer_already_exists")
        if stream.config.retention == "workqueue":
            others = [other.config for other in stream.consumers.values() if other is not consumer]
            await in_turns(check_workqueue(config, others))
        check_consumer_update(old, config, has_interest=self.host.router.interested(old.deliver_subject.encode()))
        matching = await in_turns(filter_steps(config))
        self._build_consumer(stream, consumer.name, config, consumer.created_ns, matching=matching)
        if consumer.state_log is not None:
            try:
                consumer.state_log.update_config(config.to_json())
                await consumer.state_log.commit()
            except StorageError as error:
                consumer.state_log.undo_config(old.to_json())
                raise api_error("consumer_store_failed", err=str(error)) from error
        consumer.update(config, matching)
        if config.sourcing:
            consumer.reset()

    async def pause_consumer(self, consumer: Consumer, until: Timestamp | None) -> None:
        """Deliver nothing before `until`; None or a time in the past: go on. Raises ApiError."""
        old: ConsumerConfig = consumer.config
        config = replace(old, pause_until=until)
        config.metadata = stored_metadata(config.metadata, consumer_level(config))
        consumer.pause(config)
        if consumer.state_log is not None:
            try:
                consumer.state_log.update_config(config.to_json())
                await consumer.state_log.commit()
            except StorageError as error:
                consumer.state_log.undo_config(old.to_json())
                consumer.pause(old)
                raise api_error("consumer_store_failed", err=str(error)) from error
        if (until or ZERO_TIME).written_ns != (old.pause_until or ZERO_TIME).written_ns:
            self.tell_pause(consumer)

    def tell_pause(self, consumer: Consumer) -> None:
        """Tell whoever listens whether this consumer is paused, and until when."""
        self.host.advisories.pause(consumer.stream.name, consumer.name, consumer.pause_fields())

    async def take_back_consumer(self, stream: Stream, consumer: Consumer) -> None:
        """There is no consumer whose creation was answered with an error."""
        if not self._is_there(stream, consumer):
            return
        consumer.stop(DELETED)
        stream.remove_consumer(consumer)
        consumer.release()
        try:
            await self.store.delete_consumer(self.account_name, stream.name, consumer.name)
        except StorageError as error:
            who = f"{self.account_name} > {stream.name} > {consumer.name}"
            self.log.warn(f"Consumer '{who}' could not be stored, and what there is of it not removed: {error}")

    async def delete_consumer(self, stream: Stream, name: str) -> None:
        """Delete a consumer, one that is offline, too; pulls that wait are told. Raises ApiError."""
        consumer: Consumer | None = None
        if name in stream.offline:
            stream.remove_offline(name)
            has_files = True
        else:
            consumer = self.consumer(stream, name)
            await in_turns(consumer.settling())
            consumer.stop(DELETED)
            stream.remove_consumer(consumer)
            has_files = consumer.state_log is not None
        if has_files:
            try:
                await self.store.delete_consumer(self.account_name, stream.name, name)
            except StorageError as error:
                raise api_error("stream_general_error", err=str(error)) from error
        if consumer is not None:
            consumer.release()
        await stream.commit()
        self.host.advisories.consumer("DELETED", stream.name, name, "delete")

    def consumer(self, stream: Stream, name: str) -> Consumer:
        """The consumer of this name. Raises ApiError 10014, or 10195 when it is offline."""
        consumer: Consumer | None = stream.consumers.get(name)
        if name in stream.offline:
            raise api_error("consumer_offline_reason", err=stream.offline[name])
        if consumer is None:
            raise api_error("consumer_not_found")
        return consumer

    async def _delete_if_inactive(self, stream: Stream, consumer: Consumer) -> None:
        if self._is_there(stream, consumer) and consumer.still_inactive():
            await self.delete_consumer(stream, consumer.name)

    def _is_there(self, stream: Stream, consumer: Consumer) -> bool:
        """False when one of both has been deleted meanwhile."""
        return self.streams.get(stream.name) is stream and stream.consumers.get(consumer.name) is consumer

    def _consumer_inactive(self, consumer: Consumer) -> None:
        """Have it deleted behind the requests that wait already."""
        self.requests.add_change(lambda: self._delete_if_inactive(consumer.stream, consumer))

    def _free_name(self, stream: Stream) -> str:
        while True:
            name = random_name()
            if name not in stream.consumers:
                return name

    def _refuse_offline_consumer(self, stream: Stream, name: str, config: ConsumerConfig) -> None:
        """One that is offline keeps its name, and all that it may still want of a work queue."""
        is_queue = stream.config.retention == "workqueue" and not (config.direct or config.sourcing)
        kept = name if name in stream.offline else next(iter(stream.offline), "") if is_queue else ""
        if kept:
            raise api_error("consumer_offline_reason", err=stream.offline[kept])

    def _check_consumer_count(self, stream: Stream, config: ConsumerConfig) -> None:
        """What mirrors and sources make does not count against the limits, but where there are any it is bounded."""
        most = stream.config.max_consumers
        if most <= 0 or 0 < self.usage.limits.max_consumers < most:
            most = self.usage.limits.max_consumers  # of each stream, as in nats-server
        if most <= 0:
            return
        from_origins = config.direct or config.sourcing
        count = len(stream.consumers) + len(stream.offline)
        if not from_origins and count < most:
            return  # without a look at each of them
        others = [other.config for other in stream.consumers.values()]
        sourcing = sum(other.direct or other.sourcing for other in others)
        if from_origins:
            full = sourcing >= limits.JS_SOURCING_CONSUMERS
        else:
            full = count - sourcing >= most
        if full:
            raise api_error("maximum_consumers_limit")

    def _check_consumer_limits(self, stream: Stream, config: StreamConfig) -> None:
        bounds = config.consumer_limits
        if bounds == stream.config.consumer_limits:
            return
        violating = [
            name
            for name, consumer in stream.consumers.items()
            if 0 < bounds.max_ack_pending < consumer.config.max_ack_pending
            or 0 < bounds.inactive_threshold < consumer.config.inactive_threshold
        ]
        if violating:
            text = f"change to limits violates consumers: {', '.join(sorted(violating))}"
            raise api_error("stream_update", err=text)
