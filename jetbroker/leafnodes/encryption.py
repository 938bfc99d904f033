"""TLS on a link that began in clear: on the side that accepted it and on the one that dialled."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from jetbroker.addresses import of_socket
from jetbroker.connections.tls import facts, failure_text
from jetbroker.leafnodes.link import Link
from jetbroker.logs.logger import Logger

FAILED = "TLS Handshake Failure"


class Encryption:
    """The handshakes that are going on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Logger, who: Callable[[Link], str]) -> None:
        self._loop = loop
        self._log = log
        self._who = who
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self, link: Link, context: ssl.SSLContext, seconds: float, name: str | None, done: Callable[[Link], None]
    ) -> None:
        """Shake hands, then call `done`. `name`: the server's, for its certificate; None: we are the server.

        The link reads nothing meanwhile. When it fails the link is closed.
        """
        link.transport.pause_reading()
        task = self._loop.create_task(self._shake(link, context, seconds, name, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake(
        self, link: Link, context: ssl.SSLContext, seconds: float, name: str | None, done: Callable[[Link], None]
    ) -> None:
        side = "server" if name is None else "client"
        self._log.debug(f"{self._who(link)} - Starting TLS leafnode {side} handshake")
        clear = link.transport
        try:
            transport = await self._loop.start_tls(
                clear,
                link,
                context,
                server_side=name is None,
                server_hostname=name or None,
                ssl_handshake_timeout=seconds,
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            ours, theirs = (of_socket(clear.get_extra_info(end)) for end in ("sockname", "peername"))
            text, _ = failure_text(error, f"{ours}->{theirs}")
            self._log.error(f"{self._who(link)} - TLS leafnode handshake error: {text}")
            link.close(FAILED)
            return
        if link.closed or transport is None:
            return
        link.use_transport(transport)
        link.tls = facts(cast(ssl.SSLObject, transport.get_extra_info("ssl_object")), False)
        self._log.debug(f"{self._who(link)} - TLS handshake complete")
        self._log.debug(f"{self._who(link)} - TLS version {link.tls.version}, cipher suite {link.tls.cipher_suite}")
        done(link)
