"""What a connection tells the broker: `Shared.server` is who hears it."""

from typing import TYPE_CHECKING, Protocol

from jetbroker.errors import LoginRefused, ProtocolError
from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    from jetbroker.connections.client import ClientProtocol
    from jetbroker.connections.connected import Connected
    from jetbroker.tracing.trace import MessageTrace


class Witness:
    """Hears of connections that come into an account and leave it, and of messages that asked for that.

    Whoever tells others overrides this.
    """

    def came(self, connection: "Connected") -> None:
        """It has logged in."""

    def refused(self, connection: "Connected", error: LoginRefused) -> None:
        """Its login is no good, or is so no longer: it is closed next."""

    def left(self, connection: "Connected", reason: str) -> None:
        """It is gone, and no longer counted."""

    def traced(self, trace: "MessageTrace") -> None:
        """What became of a message is known."""


class ClientEvents(Protocol):
    """Events of client connections, each called from within the event loop's turn of that connection.

    Links have events of their own (jetbroker/leafnodes/events.py).
    """

    log: Logger

    def client_opened(self, client: "ClientProtocol") -> None:
        """A connection was accepted."""

    def client_lost(self, client: "ClientProtocol", error: Exception | None) -> None:
        """It is gone; its subscriptions are taken back behind this."""

    def client_keeps(self, client: "ClientProtocol", size: int) -> None:
        """It has to log in, and keeps `size` bytes of a command that is not whole; 0: none any more."""

    def client_connect(self, client: "ClientProtocol", raw: bytes) -> None:
        """CONNECT, its JSON. Raises ProtocolError."""

    def client_anonymous(self, client: "ClientProtocol") -> None:
        """It has to log in, and its first command is no CONNECT. Raises ProtocolError unless it is let in."""

    def client_greet(self, client: "ClientProtocol") -> None:
        """The first PING after CONNECT was answered."""

    def client_info(self, client: "ClientProtocol", raw: bytes) -> None:
        """INFO, its JSON. Raises ProtocolError."""

    def client_refused(self, client: "ClientProtocol", text: str) -> None:
        """It asked for something it may not do, and was told so."""

    def client_at_limit(self, client: "ClientProtocol") -> None:
        """It asked for more subscriptions than it may have."""

    def client_stalled(self, client: "ClientProtocol") -> None:
        """It publishes faster than a receiver takes: its reading waits."""

    def client_finished(self, client: "ClientProtocol", sid: bytes, most: int) -> None:
        """A subscription has got as many messages as it asked for; told only while the log takes debug lines."""

    def client_subscription_removed(self, client: "ClientProtocol", what: str) -> None:
        """Its user's new permissions do not allow a subscription."""

    def client_traced(self, client: "ClientProtocol", trace: "MessageTrace") -> None:
        """It published a message that asked for a trace, and what became of that is known."""

    def client_failed(self, client: "ClientProtocol", error: ProtocolError) -> None:
        """It said something that ends the connection: close it."""
