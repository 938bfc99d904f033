"""What a link tells the broker: `Shared.server` of links is who hears it."""

from typing import TYPE_CHECKING, Protocol

from jetbroker.errors import ProtocolError

if TYPE_CHECKING:
    from jetbroker.leafnodes.link import Link
    from jetbroker.tracing.trace import MessageTrace


class LinkEvents(Protocol):
    """Events of links, each called from within the event loop's turn of that link."""

    def link_opened(self, link: "Link") -> None:
        """The connection is there."""

    def link_lost(self, link: "Link", error: Exception | None) -> None:
        """It is gone; its subscriptions are taken back behind this."""

    def link_keeps(self, link: "Link", size: int) -> None:
        """It has to log in, and keeps `size` bytes of a command that is not whole; 0: none any more."""

    def link_connect(self, link: "Link", raw: bytes) -> None:
        """CONNECT, its JSON. Raises ProtocolError."""

    def link_info(self, link: "Link", raw: bytes) -> None:
        """INFO, its JSON. Raises ProtocolError."""

    def link_error(self, link: "Link", text: bytes) -> None:
        """-ERR, with its quotes."""

    def link_failed(self, link: "Link", error: ProtocolError) -> None:
        """It said something that ends the connection: close it."""

    def link_stalled(self, link: "Link") -> None:
        """It sends faster than a receiver takes: its reading waits."""

    def is_own_mark(self, link: "Link", subject: bytes) -> bool:
        """Is this the $LDS. subject of this server and the link's account?"""
        ...

    def link_looped(self, link: "Link") -> None:
        """It asked for the account's own mark: there is a loop."""

    def link_violation(self, link: "Link", what: str, subject: bytes) -> None:
        """It is a spoke that has sent, or asked for, what it may not: `what` is Publish or Subscription."""

    def link_wrong(self, link: "Link") -> None:
        """It asked for what is no subject."""

    def link_reaches(self, link: "Link") -> None:
        """It asked for the API of a JetStream, or no longer does: it lies there, or behind the other server's links."""

    def link_traced(self, link: "Link", trace: "MessageTrace") -> None:
        """A message came that asked for a trace, and what became of it is known."""

    def link_fault(self, link: "Link", fault: str) -> None:
        """A message asked for a trace in a way that cannot be."""

    def link_at_limit(self, link: "Link") -> None:
        """It asked for more subjects than it may."""
