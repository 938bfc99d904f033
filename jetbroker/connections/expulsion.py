"""Logins that were good until now: clients, and links that came in."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from jetbroker.errors import ProtocolError
from jetbroker.logs.logger import Logger


class LoggedIn(Protocol):
    """A client, or a link that came in."""

    @property
    def user(self) -> str | None: ...
    @property
    def closed(self) -> bool: ...
    def fail(self, error: ProtocolError) -> None: ...
    def close(self, reason: str, text: str = "") -> None: ...


Peer = TypeVar("Peer", bound=LoggedIn)


def expel(peer: Peer, who: Callable[[Peer], str], log: Logger, reason: str, text: str) -> None:
    """End a login that was good until now."""
    if not peer.closed:
        log.debug(f"{who(peer)} - {text}")
        peer.close(reason, text)
