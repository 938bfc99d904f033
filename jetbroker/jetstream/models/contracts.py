"""What the control plane expects of the rooms around it, and the limits it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from jetbroker.limits import MAX_PENDING_BYTES

UNLIMITED = -1


@dataclass(frozen=True)
class ServerInfo:
    """How the server names itself in replies."""

    server_name: str
    server_id: str
    version: str
    domain: str
    cluster: str = ""

    def placement(self) -> dict[str, str]:
        """Where a stream is: on this server."""
        return ({"name": self.cluster} if self.cluster else {}) | {"leader": self.server_name}


@dataclass(frozen=True)
class BatchLimits:
    """Of batches: messages in each (atomic ones), batches under way in a stream and on the server, when one is given
    up.
    """

    messages: int = 1000
    per_stream: int = 50
    total: int = 1000
    idle_seconds: float = 10.0


@dataclass(frozen=True)
class ServerLimits:
    """Of every account's streams and consumers, as the server's configuration says; 0: none. `duplicate_window`: ns."""

    max_request_batch: int = 0
    max_ack_pending: int = 0
    duplicate_window: int = 0


@dataclass
class ServerReservations:
    """What all accounts of the server share. Sizes in bytes; -1: unlimited.

    `max_payload`: of any message, also of one that grew here. `max_pending`: of one answer to a direct get.
    `open_batches` and `staged_bytes`: atomic batches under way and the memory their messages take. `open_fast_batches`:
    fast ones. `tell_exceeded` is called with a storage ("file", "memory") for what is refused because that of the whole
    server is full.
    """

    max_memory: int = UNLIMITED
    max_storage: int = UNLIMITED
    reserved_memory: int = 0
    reserved_storage: int = 0
    limits: ServerLimits = ServerLimits()
    max_payload: int = UNLIMITED
    max_pending: int = MAX_PENDING_BYTES
    batches: BatchLimits = BatchLimits()
    open_batches: int = 0
    staged_bytes: int = 0
    fast_batches: BatchLimits = BatchLimits(per_stream=1000, total=50_000)
    open_fast_batches: int = 0
    tell_exceeded: Callable[[str], object] = str


@dataclass
class AccountLimits:
    """Limits of one account, -1: unlimited; and `server`: those that all accounts have."""

    max_memory: int = UNLIMITED
    max_storage: int = UNLIMITED
    max_streams: int = UNLIMITED
    max_consumers: int = UNLIMITED
    max_ack_pending: int = UNLIMITED
    memory_max_stream_bytes: int = UNLIMITED
    storage_max_stream_bytes: int = UNLIMITED
    max_bytes_required: bool = False
    server: ServerLimits = ServerLimits()


class Origin(Protocol):
    """The connection a request came from. `opened_at` is the event loop's time, `rtt_ns` 0 when not measured."""

    account: Any  # an Account
    identity: Any  # with the Login it is there by
    cid: int
    kind: str
    peer: str
    user: object
    name: str
    lang: str
    version: str
    opened_at: float
    rtt_ns: int
    server: str  # "" for a client, else the name of the server at the other end of a link
