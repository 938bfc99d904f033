"""What users of the system account have the server do: close a connection, send it elsewhere, reload."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    from jetbroker.monitor.sources import Sources

ORDERS = ("KICK", "LDM", "RELOAD")
_KICKED = "Kicked"


class Orders:
    """Follows them. `reload` reads the configuration again, and returns what keeps it from taking effect."""

    def __init__(self, reload: Callable[[], Awaitable[Exception | None]], log: Logger) -> None:
        self._reload = reload
        self._log = log

    def unreadable(self, why: str) -> None:
        """A body does not say which connection is meant: there is no answer, only the log tells of it."""
        self._log.error(f"Error unmarshalling kick client request: {why}")

    async def follow(self, sources: "Sources", order: str, cid: int) -> str:
        """Do it. Returns why it could not be done, "" when it was."""
        if order == "RELOAD":
            refused = await self._reload()
            return "" if refused is None else str(refused)
        return self._kick(sources, cid) if order == "KICK" else self._send_elsewhere(sources, cid)

    @staticmethod
    def _kick(sources: "Sources", cid: int) -> str:
        live = {} if sources.leafnodes is None else sources.leafnodes.leafs.live
        connection = sources.clients.connected.get(cid) or live.get(cid)
        if connection is None or connection.closed:
            return "no such client or leafnode id"
        connection.close(_KICKED)
        return ""

    def _send_elsewhere(self, sources: "Sources", cid: int) -> str:
        client = sources.clients.connected.get(cid)
        if client is None or client.closed:
            return "no such client id"
        if not client.greeted or client.protocol_level < 1:
            return "client does not support Lame Duck Mode or is not ready to receive the notification"
        self._log.debug(f"{sources.clients.who(client)} - Sending Lame Duck Mode info to client")
        client.send(sources.info.lame_duck(client))
        return ""
