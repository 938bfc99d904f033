"""The end of all connections of one kind, when the server ends."""

import asyncio
from collections.abc import Mapping

from jetbroker import limits
from jetbroker.connections.connection import Connection

REASON = "Server Shutdown"


class Ending:
    """Closes connections, and waits for the last of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.has_begun = False
        self._loop = loop
        self._nobody_left: asyncio.Future[None] | None = None

    async def close(self, connections: Mapping[int, Connection]) -> None:
        """Close all without a word. What is queued is sent, unless the other side does not take it in time."""
        self.has_begun = True
        for connection in list(connections.values()):
            connection.close(REASON)
        if connections:
            self._nobody_left = self._loop.create_future()
            await asyncio.wait([self._nobody_left], timeout=limits.STOP_FLUSH_SECONDS)

    def gone(self, connections: Mapping[int, Connection]) -> None:
        """One has gone; these are left."""
        if self._nobody_left is not None and not connections and not self._nobody_left.done():
            self._nobody_left.set_result(None)
