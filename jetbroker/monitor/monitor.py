"""The monitoring port: bound early, served a moment after the broker is ready, when what answers has been loaded."""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetbroker.addresses import bound_socket, joined, reachable
from jetbroker.errors import JetbrokerError
from jetbroker.logs.logger import Logger
from jetbroker.monitor.loading import loaded

if TYPE_CHECKING:
    import ssl

    from jetbroker.monitor.http import HttpListener
    from jetbroker.monitor.secure import Arrivals
    from jetbroker.monitor.sources import Sources

BACKLOG = 128
_LOAD_SECONDS = 0.1  # behind the start


class MonitorError(JetbrokerError):
    """The monitoring port cannot be opened; the text says why."""


class Monitor:
    """The port of one broker. Bound at once, so that a port in use ends a start before the store is touched."""

    def __init__(self, host: str, port: int, log: Logger, secure: "ssl.SSLContext | None" = None) -> None:
        """Raises MonitorError. `port` -1: any free one. `secure`: what handshakes need, None without TLS."""
        self.host = host
        self.secure = secure
        self._log = log
        self._arrivals: Arrivals | None = None
        self._socket: socket.socket | None = _listen(host, port)
        self.port = int(self._socket.getsockname()[1])
        self._server: asyncio.Server | None = None
        self._listener: HttpListener | None = None
        self._serving: asyncio.Task[None] | None = None
        log.info(f"Starting {self._scheme} monitor on {joined(host, self.port)}")

    @property
    def _scheme(self) -> str:
        return "http" if self.secure is None else "https"

    @property
    def url(self) -> str:
        """For the ports file: an address a program on this machine can dial."""
        return f"{self._scheme}://{joined(reachable(self.host), self.port)}"

    def serve(self, sources: "Callable[[], Sources]") -> None:
        """Answer from soon on; connections that come before wait in the socket."""
        if self._socket is not None:
            self._serving = asyncio.create_task(self._serve(self._socket, sources))

    async def _serve(self, bound: socket.socket, sources: "Callable[[], Sources]") -> None:
        await asyncio.sleep(_LOAD_SECONDS)
        await loaded()
        from jetbroker.monitor.endpoints import Endpoints
        from jetbroker.monitor.http import HttpListener

        loop = asyncio.get_running_loop()
        endpoints = Endpoints(sources)
        listener = self._listener = HttpListener(loop, endpoints.answer, endpoints.lane_of)
        self._server = await loop.create_server(lambda: self._inside(listener.connection()), sock=bound)
        self._socket = None

    def _inside(self, protocol: asyncio.Protocol) -> asyncio.BaseProtocol:
        """What stands at the socket for a connection."""
        if self.secure is None:
            return protocol
        if self._arrivals is None:
            from jetbroker.monitor.secure import Arrivals

            self._arrivals = Arrivals(asyncio.get_running_loop(), self._log)
        return self._arrivals.layer(self.secure, protocol)

    def close(self) -> None:
        """Stop answering. Harmless when it never began."""
        if self._serving is not None:
            self._serving.cancel()
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            self._server.close()
        if self._listener is not None:
            self._listener.close()


def _listen(host: str, port: int) -> socket.socket:
    prefix = "Can't start monitoring: can't listen to the monitor port: listen tcp"
    if not -1 <= port <= 65_535:
        raise MonitorError(f"{prefix}: address {port}: invalid port")
    try:
        listener = bound_socket(host, max(port, 0))
        listener.listen(BACKLOG)  # who comes before serve() waits
        return listener
    except socket.gaierror as error:
        raise MonitorError(f"{prefix}: lookup {host}: {error.strerror}") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MonitorError(f"{prefix} {joined(host, port)}: bind: {reason}") from error
