"""An account: its own subject space. Everything belongs to one."""

from typing import TYPE_CHECKING

from jetbroker.config.options import AccountJetStreamOptions, Options
from jetbroker.routing.router import Router
from jetbroker.tick import Tick
from jetbroker.wire.subjects import subset

if TYPE_CHECKING:
    from jetbroker.accounts.graph import Graph


def graph_of(options: Options) -> "Graph":
    """What the accounts give each other and map, checked. Raises ConfigError. Without any of it nothing is imported."""
    if not options.uses_sharing:
        return {}
    from jetbroker.accounts.graph import check

    return check(options)


class Account:
    """One account: its router, whether it is the system account, and its JetStream limits (None: no JetStream)."""

    def __init__(
        self, name: str, tick: Tick, *, is_system: bool = False, jetstream: AccountJetStreamOptions | None = None
    ) -> None:
        self.name = name
        self.router = Router(name, tick)
        self.is_system = is_system
        self.jetstream_options = jetstream
        self.connections = 0  # of clients
        self.links = 0  # to other servers
        self.slow_consumers = 0  # connections that were cut off
        self.tag = ""  # the name its token gives it
        self.services: tuple[bytes, ...] = ()  # local subjects of the services it imports

    @property
    def label(self) -> str:
        """As the log names it."""
        return f"{self.name}/{self.tag}" if self.tag else self.name

    def takes_service(self, subject: bytes) -> bool:
        """Does all of `subject` go to a service of another account?"""
        return any(subset(subject, local) for local in self.services)
