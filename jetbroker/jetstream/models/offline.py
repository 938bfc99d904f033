"""Assets that a start cannot bring back: each is offline by itself, with a reason, and the rest of the broker serves.

Its files are left as they are. Its name stays taken until it is deleted; what a consumer may still want stays stored.
"""

from typing import Any

from jetbroker.forms.api_level import API_LEVEL, level_supported
from jetbroker.jetstream.models.config import ConsumerConfig, StreamConfig
from jetbroker.jetstream.models.decode import DecodeError
from jetbroker.jetstream.models.metadata import required_level


class OfflineError(Exception):
    """An asset cannot be brought back; the message is the reason that replies and the log give."""


def stored_stream_config(stored: dict[str, Any]) -> StreamConfig:
    """The configuration of a stream on disk. Raises OfflineError."""
    try:
        config = StreamConfig.from_json(stored)
    except DecodeError as error:
        raise OfflineError(f"decoding error: {error}") from error
    _check_level(config.metadata)
    return config


def stored_consumer_config(stored: dict[str, Any]) -> ConsumerConfig:
    """The configuration of a consumer on disk. Raises OfflineError."""
    try:
        config = ConsumerConfig.from_json(stored)
    except DecodeError as error:
        raise OfflineError(f"decoding error: {error}") from error
    _check_level(config.metadata)
    return config


def reason_of(error: Exception) -> str:
    """Why an asset is offline; a fault that nobody has foreseen is named by its type."""
    return str(error) if isinstance(error, OfflineError) else f"{type(error).__name__}: {error}"


def paged_offline(found: dict[str, str], page: list[str]) -> dict[str, Any]:
    """The fields of a listing that tell which of its page are offline, and why."""
    missing = [name for name in page if name in found]
    return {"missing": missing, "offline": {name: found[name] for name in missing}} if missing else {}


def _check_level(metadata: dict[str, str]) -> None:
    level = required_level(metadata)
    if not level_supported(level.encode()):
        raise OfflineError(f"unsupported - required API level: {level}, current API level: {API_LEVEL}")
