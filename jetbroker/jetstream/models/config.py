# ruff: noqa: RUF009 -- json_field returns dataclasses.field(), which is made for this place
"""StreamConfig and ConsumerConfig as they travel in JSON, with nats-server 2.14's fields in its order.

Durations are nanoseconds, enums their JSON names. A new object holds Go's zero values; `stream_config` and
`consumer_config` fill the defaults in.
"""

from dataclasses import dataclass
from typing import Any

from jetbroker.forms.gotext import Timestamp
from jetbroker.jetstream.models.decode import (
    BOOL,
    DURATION,
    INT,
    INT32,
    INT64,
    METADATA,
    TEXT,
    TEXTS,
    TIME,
    UINT32,
    UINT64,
    CheckedTextKind,
    ListKind,
    StructKind,
    embedded_field,
    enum,
    from_stored,
    json_field,
    to_json,
)

BLANK: Any = {"": "default"}
RETENTION = enum("limits", "interest", "workqueue")
DISCARD = enum("old", "new")
STORAGE = enum("file", "memory")
COMPRESSION = CheckedTextKind({"none": "none", "s2": "s2"}, "none", "unknown compression algorithm")
PERSIST_MODE = enum("default", "async", **BLANK)
DELIVER_POLICY = enum(
    "all",
    "last",
    "new",
    "by_start_sequence",
    "by_start_time",
    "last_per_subject",
    undefined="all",
)
ACK_POLICY = enum("none", "all", "explicit", "flow_control")
REPLAY_POLICY = enum("instant", "original")
PRIORITY_POLICY = enum(
    "none",
    "overflow",
    "pinned_client",
    "prioritized",
    refusal=lambda text: f"unknown priority policy: {text}",
)
ACTION = enum("", "create", "update", refusal=lambda text: f"unknown consumer action: {text}")


@dataclass
class SubjectTransform:
    """A subject mapping: what matches `src` becomes `dest`."""

    src: str = json_field(TEXT, always=True)
    dest: str = json_field(TEXT, always=True)


@dataclass
class ExternalStream:
    """Where a mirrored or sourced stream is reached: prefixes of its API and of its deliveries."""

    api: str = json_field(TEXT, always=True)
    deliver: str = json_field(TEXT, always=True)


@dataclass
class StreamConsumerSource:
    """A consumer made beforehand that a mirror or source reads from."""

    name: str = json_field(TEXT)
    deliver_subject: str = json_field(TEXT)


@dataclass
class StreamSource:
    """One origin of a mirror or of a sourced stream."""

    name: str = json_field(TEXT, always=True)
    opt_start_seq: int = json_field(UINT64)
    opt_start_time: Timestamp | None = json_field(TIME)
    filter_subject: str = json_field(TEXT)
    subject_transforms: list[SubjectTransform] = json_field(
        ListKind(
            StructKind(SubjectTransform, "SubjectTransformConfig", optional=False), "server.SubjectTransformConfig"
        )
    )
    external: ExternalStream | None = json_field(StructKind(ExternalStream, "ExternalStream"))
    consumer: StreamConsumerSource | None = json_field(StructKind(StreamConsumerSource, "StreamConsumerSource"))


@dataclass
class Placement:
    """Where a cluster should keep an asset; a single server only remembers it."""

    cluster: str = json_field(TEXT)
    tags: list[str] = json_field(TEXTS)
    preferred: str = json_field(TEXT)


@dataclass
class RePublish:
    """Publish again what was stored."""

    src: str = json_field(TEXT)
    dest: str = json_field(TEXT, always=True)
    headers_only: bool = json_field(BOOL)


@dataclass
class StreamConsumerLimits:
    """Defaults and caps for the consumers of a stream."""

    inactive_threshold: int = json_field(DURATION)
    max_ack_pending: int = json_field(INT)


@dataclass
class StreamConfig:
    """A stream's configuration."""

    name: str = json_field(TEXT, always=True)
    description: str = json_field(TEXT)
    subjects: list[str] = json_field(TEXTS)
    retention: str = json_field(RETENTION, always=True)
    max_consumers: int = json_field(INT, always=True)
    max_msgs: int = json_field(INT64, always=True)
    max_bytes: int = json_field(INT64, always=True)
    max_age: int = json_field(DURATION, always=True)
    max_msgs_per_subject: int = json_field(INT64, always=True)
    max_msg_size: int = json_field(INT32)
    discard: str = json_field(DISCARD, always=True)
    storage: str = json_field(STORAGE, always=True)
    num_replicas: int = json_field(INT, always=True)
    no_ack: bool = json_field(BOOL)
    duplicate_window: int = json_field(DURATION)
    placement: Placement | None = json_field(StructKind(Placement, "Placement"))
    mirror: StreamSource | None = json_field(StructKind(StreamSource, "StreamSource"))
    sources: list[StreamSource] = json_field(
        ListKind(StructKind(StreamSource, "StreamSource", optional=False), "*server.StreamSource")
    )
    compression: str = json_field(COMPRESSION, always=True)
    first_seq: int = json_field(UINT64)
    subject_transform: SubjectTransform | None = json_field(StructKind(SubjectTransform, "SubjectTransformConfig"))
    republish: RePublish | None = json_field(StructKind(RePublish, "RePublish"))
    allow_direct: bool = json_field(BOOL, always=True)
    mirror_direct: bool = json_field(BOOL, always=True)
    discard_new_per_subject: bool = json_field(BOOL)
    sealed: bool = json_field(BOOL, always=True)
    deny_delete: bool = json_field(BOOL, always=True)
    deny_purge: bool = json_field(BOOL, always=True)
    allow_rollup_hdrs: bool = json_field(BOOL, always=True)
    consumer_limits: StreamConsumerLimits = json_field(
        StructKind(StreamConsumerLimits, "StreamConsumerLimits", optional=False), always=True
    )
    allow_msg_ttl: bool = json_field(BOOL, always=True)
    subject_delete_marker_ttl: int = json_field(DURATION)
    allow_msg_counter: bool = json_field(BOOL)
    allow_atomic: bool = json_field(BOOL)
    allow_msg_schedules: bool = json_field(BOOL)
    persist_mode: str = json_field(PERSIST_MODE)
    allow_batched: bool = json_field(BOOL)
    metadata: dict[str, str] = json_field(METADATA)

    def to_json(self) -> dict[str, Any]:
        """As replies and stream.json show it."""
        return to_json(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "StreamConfig":
        """A stored configuration back; fields of other releases are ignored."""
        return from_stored(cls, "StreamConfig", stored)


@dataclass
class ConsumerConfig:
    """A consumer's configuration."""

    durable_name: str = json_field(TEXT)
    name: str = json_field(TEXT)
    description: str = json_field(TEXT)
    deliver_policy: str = json_field(DELIVER_POLICY, always=True)
    opt_start_seq: int = json_field(UINT64)
    opt_start_time: Timestamp | None = json_field(TIME)
    ack_policy: str = json_field(ACK_POLICY, always=True)
    ack_wait: int = json_field(DURATION)
    max_deliver: int = json_field(INT)
    backoff: list[int] = json_field(ListKind(DURATION))
    filter_subject: str = json_field(TEXT)
    filter_subjects: list[str] = json_field(TEXTS)
    replay_policy: str = json_field(REPLAY_POLICY, always=True)
    rate_limit_bps: int = json_field(UINT64)
    sample_freq: str = json_field(TEXT)
    max_waiting: int = json_field(INT)
    max_ack_pending: int = json_field(INT)
    flow_control: bool = json_field(BOOL)
    headers_only: bool = json_field(BOOL)
    max_batch: int = json_field(INT)
    max_expires: int = json_field(DURATION)
    max_bytes: int = json_field(INT)
    deliver_subject: str = json_field(TEXT)
    deliver_group: str = json_field(TEXT)
    idle_heartbeat: int = json_field(DURATION)
    inactive_threshold: int = json_field(DURATION)
    num_replicas: int = json_field(INT, always=True)
    mem_storage: bool = json_field(BOOL)
    direct: bool = json_field(BOOL)
    sourcing: bool = json_field(BOOL)
    metadata: dict[str, str] = json_field(METADATA)
    pause_until: Timestamp | None = json_field(TIME)
    priority_groups: list[str] = json_field(TEXTS)
    priority_policy: str = json_field(PRIORITY_POLICY)
    priority_timeout: int = json_field(DURATION)

    def to_json(self) -> dict[str, Any]:
        """As replies and the consumer's state log show it."""
        return to_json(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "ConsumerConfig":
        """A stored configuration back; fields of other releases are ignored."""
        return from_stored(cls, "ConsumerConfig", stored)


@dataclass
class StreamConfigRequest:
    """Body of STREAM.CREATE and STREAM.UPDATE."""

    config: StreamConfig = embedded_field(StreamConfig, "StreamConfig")
    pedantic: bool = json_field(BOOL)


@dataclass
class StreamTemplateConfig:
    """A stream template: `config` is that of its streams, but for names and subjects."""

    name: str = json_field(TEXT, always=True)
    config: StreamConfig | None = json_field(StructKind(StreamConfig, "StreamConfig"), always=True)
    max_streams: int = json_field(UINT32, always=True)

    @property
    def stream_config(self) -> StreamConfig:
        """`config` of a template that has been checked."""
        return self.config or StreamConfig()

    def to_json(self) -> dict[str, Any]:
        """As replies and the template's file show it."""
        return to_json(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "StreamTemplateConfig":
        """A stored template back. Raises DecodeError."""
        return from_stored(cls, "StreamTemplateConfig", stored)


@dataclass
class CreateConsumerRequest:
    """Body of CONSUMER.CREATE."""

    stream_name: str = json_field(TEXT)
    config: ConsumerConfig = json_field(StructKind(ConsumerConfig, "ConsumerConfig", optional=False))
    action: str = json_field(ACTION)
    pedantic: bool = json_field(BOOL)
