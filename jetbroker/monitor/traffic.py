"""Messages and payload bytes that went through the server: over connections that are there and those that were."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.closed import Traffic
from jetbroker.monitor.sources import Sources, paced


@dataclass(slots=True)
class Moved:
    """Over the connections of clients, and over links to other servers."""

    clients: Traffic = field(default_factory=Traffic)
    links: Traffic = field(default_factory=Traffic)

    @property
    def total(self) -> Traffic:
        """Over all of them."""
        return total((self.clients, self.links))


def total(parts: Iterable[Traffic]) -> Traffic:
    """All of them together."""
    found = Traffic()
    for part in parts:
        found.merge(part)
    return found


async def by_account(sources: Sources) -> defaultdict[str, Moved]:
    """Of each account."""
    found: defaultdict[str, Moved] = defaultdict(Moved)
    for name, gone in sources.clients.closed_traffic.items():
        found[name].clients.merge(gone)
    if sources.leafnodes is not None:
        for name, gone in sources.leafnodes.leafs.closed_traffic.items():
            found[name].links.merge(gone)
    async for connection in paced(sources.connected):  # those that end meanwhile are not among the closed ones above
        moved = found[connection.account.name]
        (moved.clients if isinstance(connection, ClientProtocol) else moved.links).add(connection)
    return found


async def of_server(sources: Sources) -> Moved:
    """Of all accounts together."""
    found = (await by_account(sources)).values()
    return Moved(total(moved.clients for moved in found), total(moved.links for moved in found))
