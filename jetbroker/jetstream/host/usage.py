"""What an account uses and reserves of its limits, and of the server's."""

from collections.abc import Mapping
from typing import Any, Protocol

from jetbroker.jetstream.models.config import StreamConfig
from jetbroker.jetstream.models.contracts import AccountLimits, ServerReservations
from jetbroker.jetstream.models.errors import api_error


class _Counted(Protocol):
    """What counts of a stream."""

    config: StreamConfig
    offline: dict[str, str]

    @property
    def log(self) -> Any: ...

    @property
    def consumers(self) -> dict[str, Any]: ...


class AccountUsage:
    """Of one account. `streams` are its streams by name, `server` is what all accounts share."""

    def __init__(self, streams: Mapping[str, _Counted], limits: AccountLimits, server: ServerReservations) -> None:
        self.streams = streams
        self.limits = limits
        self.server = server
        self.credits: dict[str, object] = {}  # a Credit of each storage, see publish/room.pxd

    def consumer_count(self) -> int:
        """Consumers of all streams, those of mirrors and sources too."""
        return sum(len(stream.consumers) + len(stream.offline) for stream in self.streams.values())

    def used_bytes(self, storage: str) -> int:
        """Bytes stored by the account's streams of this storage."""
        return sum(stream.log.bytes for stream in self.streams.values() if stream.config.storage == storage)

    def reserved_bytes(self, storage: str, but: str = "") -> int:
        """Sum of max_bytes of the account's streams of this storage; `but`: the name of one that does not count."""
        configs = (stream.config for name, stream in self.streams.items() if name != but)
        return sum(config.max_bytes for config in configs if config.storage == storage and config.max_bytes > 0)

    def limits_of(self, storage: str) -> tuple[int, int]:
        """The account's limit of bytes in this storage, and the server's; -1: none."""
        if storage == "file":
            return self.limits.max_storage, self.server.max_storage
        return self.limits.max_memory, self.server.max_memory

    def reserve(self, config: StreamConfig, sign: int) -> None:
        """Reserve a stream's max_bytes on the server (`sign` 1), or give them back (-1)."""
        if config.max_bytes <= 0:
            return
        if config.storage == "file":
            self.server.reserved_storage += sign * config.max_bytes
        else:
            self.server.reserved_memory += sign * config.max_bytes

    def check_counts(self, config: StreamConfig, offline: int) -> None:
        """A stream must be allowed beside the others, `offline` of them, with its consumers. Raises ApiError."""
        others = len(self.streams) - (config.name in self.streams) + offline
        if 0 < self.limits.max_streams <= others:
            raise api_error("maximum_streams_limit")
        self._check_consumers(config)

    def check_reservation(self, config: StreamConfig, old: StreamConfig | None) -> None:
        """All max_bytes together must fit the account and the server; a stream without needs a byte. Raises ApiError.

        `old`: what the stream is configured as today.
        """
        self._check_consumers(config)
        is_file = config.storage == "file"
        of_account, of_server = self.limits_of(config.storage)
        wanted = config.max_bytes if config.max_bytes >= 0 else 1
        more = wanted
        if old is not None:
            wanted = max(config.max_bytes, 0)
            more = max(wanted - max(old.max_bytes, 0), 0)
        reserved = self.server.reserved_storage if is_file else self.server.reserved_memory
        too_much = 0 <= of_account < self.reserved_bytes(config.storage, but=config.name) + wanted
        if too_much or 0 <= of_server < reserved + more:
            raise api_error("storage_resources_exceeded" if is_file else "memory_resources_exceeded")

    def _check_consumers(self, config: StreamConfig) -> None:
        if 0 < self.limits.max_consumers < config.max_consumers:
            raise api_error("maximum_consumers_limit")

    def check_arrival(self, config: StreamConfig, size: int) -> None:
        """`size` bytes of a stream that comes from elsewhere must fit the account and the server. Raises ApiError.

        They do not count as stored yet.
        """
        of_account, of_server = self.limits_of(config.storage)
        wanted = size + max(config.max_bytes, 0)
        reserved = self.server.reserved_storage if config.storage == "file" else self.server.reserved_memory
        too_much = 0 <= of_account < max(wanted, self.used_bytes(config.storage) + size)
        if too_much or 0 <= of_server < reserved + wanted:
            raise api_error(f"{'storage' if config.storage == 'file' else 'memory'}_resources_exceeded")
