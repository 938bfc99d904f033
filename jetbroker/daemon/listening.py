"""The ports for clients: opened in order, named in log and ports file, followed by a reload."""

import hashlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from jetbroker.addresses import joined, reachable
from jetbroker.config import checks
from jetbroker.config.options import RANDOM_PORT, Options, TlsOptions
from jetbroker.connections.clients import Clients
from jetbroker.connections.info import ServerInfo
from jetbroker.connections.listener import Entrance, Listener, entrance
from jetbroker.errors import JetbrokerError
from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    import ssl

    from jetbroker.connections.upgrade import Upgrade
    from jetbroker.connections.websocket import WebsocketListener
    from jetbroker.connections.websocket_stream import Speaker


class ListenError(JetbrokerError):
    """A port cannot be opened; the text says why."""


class Entrances(NamedTuple):
    """What new connections of each kind meet."""

    clients: Entrance
    websockets: "ssl.SSLContext | None"
    monitoring: "ssl.SSLContext | None"


class Listeners:
    """The client port, and the one for WebSockets when it is configured."""

    def __init__(self, options: Options, clients: Clients, info: ServerInfo, log: Logger) -> None:
        """Raises TlsError when a certificate cannot be used."""
        self._options = options
        self._clients = clients
        self._info = info
        self._log = log
        self._listener = Listener(options, clients, log)
        self._websockets: WebsocketListener | None = None
        self.links: Callable[[Upgrade], Speaker] | None = None  # what speaks in a WebSocket that is opened for a link

    async def start(self) -> None:
        """Listen: WebSockets first, so that what tests and tools wait for comes last. Raises ListenError."""
        if self._options.websocket.port:
            await self._start_websockets()
        checks.check_port(self._options)
        host, port = self._options.host, _asked(self._options.port)
        try:
            self._options.port = self._info.port = await self._listener.start(host, port)
        except OSError as error:
            address = joined(host, port)
            why = f'"listen tcp {address}: bind: {_why(error)}"'
            if isinstance(error, socket.gaierror):
                why = f'"listen tcp: lookup {host}: no such host"'
            raise ListenError(f"Error listening on port: {address}, {why}") from error
        self._log.info(f"Listening for client connections on {joined(host, self._info.port)}")
        self._listener.announce()
        self._info.apply(self._options)

    async def _start_websockets(self) -> None:
        from jetbroker.connections.websocket import WebsocketListener

        checks.check_websocket_port(self._options)
        block = self._options.websocket
        context = _websocket_context(self._options)
        listener = WebsocketListener(block, self._clients, self._log, context)
        listener.links = self.links
        try:
            await listener.start(block.host)
        except OSError as error:
            address = joined(block.host, _asked(block.port))
            why = f"listen tcp {address}: bind: {_why(error)}"
            raise ListenError(f"Unable to listen for websocket connections: {why}") from error
        self._websockets = listener
        block.port = self._info.websocket_port = listener.port
        self._log.info(f"Listening for websocket clients on {listener.scheme}://{joined(block.host, listener.port)}")
        if context is None:
            self._log.warn("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
        checks.check_websocket_advertise(self._options)

    def urls(self) -> dict[str, list[str]]:
        """For the ports file: addresses a program on this machine can dial, by kind."""
        options = self._options
        scheme = "nats" if options.tls is None else "tls"
        found = {"nats": [f"{scheme}://{joined(reachable(options.host), options.port)}"]}
        if self._websockets is not None:
            address = joined(reachable(options.websocket.host), self._websockets.port)
            found["websocket"] = [f"{self._websockets.scheme}://{address}"]
        return found

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()
        if self._websockets is not None:
            self._websockets.close()

    def prepare(self, options: Options) -> Entrances:
        """What new connections would meet with these options. Raises TlsError."""
        websockets = _websocket_context(options) if self._websockets is not None else None
        return Entrances(entrance(options), websockets, monitoring_context(options))

    def apply(self, made: Entrances) -> None:
        """New connections meet this from now on."""
        self._listener.apply(made.clients)
        if self._websockets is not None:
            self._websockets.apply(self._options.websocket, made.websockets)


def monitoring_context(options: Options) -> "ssl.SSLContext | None":
    """For the HTTPS monitoring port: the certificate of `tls {}`, nobody has to show one. Raises TlsError."""
    if not options.https_port or options.tls is None:
        return None
    from jetbroker.connections.tls import server_context

    return server_context(options.tls, verify=False)


def fingerprint(tls: TlsOptions) -> str:
    """What the files of a block hold: another text after one of them changed. Raises OSError."""
    digest = hashlib.sha256()
    for path in (tls.cert_file, tls.key_file, tls.ca_file, *(path for pair in tls.certs for path in pair)):
        data = b""
        if path:
            with open(path, "rb") as file:
                data = file.read()
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()


def _websocket_context(options: Options) -> "ssl.SSLContext | None":
    tls = options.websocket.tls
    if tls is None:
        return None
    from jetbroker.connections.tls import server_context  # brings `ssl`, which takes its time to load

    return server_context(tls)


def _asked(port: int) -> int:
    return 0 if port == RANDOM_PORT else port


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
