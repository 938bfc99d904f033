"""The metadata keys that belong to the server, and API levels."""

from collections.abc import Mapping

from jetbroker.forms.api_level import API_LEVEL
from jetbroker.forms.gotext import ZERO_TIME
from jetbroker.jetstream.models.config import ConsumerConfig, StreamConfig
from jetbroker.jetstream.models.hash_chains import HASH_CHAIN_HEAD

_REQUIRED_LEVEL = "_nats.req.level"
_SERVER_VERSION = "_nats.ver"
_SERVER_LEVEL = "_nats.level"


def stream_level(config: StreamConfig) -> int:
    """The API level a server needs for this stream."""
    if config.allow_batched:
        return 4
    if config.allow_msg_counter or config.allow_atomic or config.allow_msg_schedules or config.persist_mode == "async":
        return 2
    return 1 if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0 else 0


def consumer_level(config: ConsumerConfig) -> int:
    """The API level a server needs for this consumer."""
    if config.ack_policy == "flow_control":
        return 4
    has_group = config.priority_policy != "none" or config.priority_groups or config.priority_timeout
    return 1 if config.pause_until not in (None, ZERO_TIME) or has_group else 0


def required_level(metadata: Mapping[str, str]) -> str:
    """The API level that a stored asset says it needs; "" when it says nothing."""
    return metadata.get(_REQUIRED_LEVEL, "")


def stored_metadata(metadata: Mapping[str, str], level: int | None) -> dict[str, str]:
    """What is kept: the client's keys without those the server owns, and the required level (None: what they say)."""
    own = (_SERVER_VERSION, _SERVER_LEVEL, HASH_CHAIN_HEAD)
    kept = {key: value for key, value in metadata.items() if key not in own}
    return kept if level is None else kept | {_REQUIRED_LEVEL: str(level)}


def with_level_of(known: Mapping[str, str], metadata: Mapping[str, str]) -> dict[str, str]:
    """`metadata` with the required level of what is known: whoever asks for the same again cannot say it."""
    others = {key: value for key, value in metadata.items() if key != _REQUIRED_LEVEL}
    return others | {key: value for key, value in known.items() if key == _REQUIRED_LEVEL}


def shown_metadata(metadata: Mapping[str, str], version: str) -> dict[str, str]:
    """What replies about one asset show: the stored keys and this server's version and level, sorted."""
    shown = {**metadata, _SERVER_LEVEL: str(API_LEVEL), _SERVER_VERSION: version}
    return dict(sorted(shown.items()))


def metadata_bytes(metadata: Mapping[str, str]) -> int:
    """Size of keys and values together."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())
