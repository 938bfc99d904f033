"""The WebSocket listener: HTTP until the upgrade, then frames around the protocol of a client or a link.

A :class:`WebsocketConnection` is what the event loop talks to. Behind it stands an ordinary ClientProtocol or Link,
which takes a :class:`WebsocketTransport` for its socket. Imported only when `websocket {}` is configured.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from jetbroker import limits
from jetbroker.addresses import bound_socket, of_socket
from jetbroker.config.options import WebsocketOptions
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.clients import Clients
from jetbroker.connections.http_upgrade import UpgradeRequests
from jetbroker.connections.identity import Given
from jetbroker.connections.upgrade import Upgrade, UpgradeRules
from jetbroker.connections.websocket_stream import Speaker, Surroundings, WebsocketStream, message_bytes
from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    import ssl

    from jetbroker.connections.tls_layer import TlsBuffers, TlsLayer

KIND = "websocket"
_HTTP_STARTS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_NO_HTTP = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_NO_LEAF = "Not configured to accept leaf node connections"


class WebsocketListener:
    """The port of `websocket {}`."""

    def __init__(
        self, options: WebsocketOptions, clients: Clients, log: Logger, context: "ssl.SSLContext | None" = None
    ) -> None:
        """Without a context clients come in clear."""
        self.clients = clients
        self.log = log
        self.loop = asyncio.get_running_loop()
        self.port = 0
        self.handshakes: set[WebsocketConnection | TlsArrival] = set()
        self.buffers: TlsBuffers | None = None
        self.first_bytes = memoryview(bytearray(limits.TLS_FIRST_READ_BYTES))  # of one TlsArrival after the other
        self.links: Callable[[Upgrade], Speaker] | None = None  # makes what speaks in a link; None: no links here
        self.surroundings = Surroundings(
            self.loop, clients.unauthenticated, lambda: message_bytes(clients.options.max_payload)
        )
        self._server: asyncio.Server | None = None
        self.apply(options, context)

    def apply(self, options: WebsocketOptions, context: "ssl.SSLContext | None") -> None:
        """New connections meet these from now on."""
        self.options = options
        self.context = context
        self.rules = UpgradeRules(options, secure=context is not None)
        if context is not None and self.buffers is None:
            from jetbroker.connections.tls_layer import TlsBuffers  # brings `ssl`, which takes its time to load

            self.buffers = TlsBuffers(self.loop)

    async def start(self, host: str) -> None:
        """Listen; the port is known then. Raises OSError."""
        sock = bound_socket(host, max(self.options.port, 0))
        self._server = await self.loop.create_server(self._accept, sock=sock, backlog=limits.LISTEN_BACKLOG)
        self.port = int(sock.getsockname()[1])

    @property
    def scheme(self) -> str:
        """Of the URLs clients use."""
        return "ws" if self.context is None else "wss"

    def close(self) -> None:
        """No new connections; those that are clients already stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.handshakes):
            connection.cut_off()

    def _accept(self) -> asyncio.BaseProtocol:
        return WebsocketConnection(self) if self.context is None else TlsArrival(self)


class TlsArrival(asyncio.BufferedProtocol):
    """A connection before its TLS handshake is done. Without a first byte from the client it costs next to nothing."""

    def __init__(self, listener: WebsocketListener) -> None:
        self._listener = listener
        self._socket: asyncio.Transport | None = None
        self._peer = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._socket = cast(asyncio.Transport, transport)
        self._peer = of_socket(self._socket.get_extra_info("peername"), "unknown")
        self._listener.handshakes.add(self)
        options = self._listener.options
        seconds = (options.tls.timeout if options.tls else 0.0) or limits.TLS_TIMEOUT_SECONDS
        if options.own_handshake_timeout:
            seconds = min(seconds, options.own_handshake_timeout)
        self._timer = self._listener.loop.call_later(seconds, self.cut_off)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for what comes."""
        return self._listener.first_bytes

    def buffer_updated(self, nbytes: int) -> None:
        """The handshake begins."""
        listener, socket = self._listener, cast(asyncio.Transport, self._socket)
        data = bytes(listener.first_bytes[:nbytes])
        if data.startswith(_HTTP_STARTS):
            self._tell(ConnectionError("client sent an HTTP request to an HTTPS server"))
            socket.write(_NO_HTTP)
            socket.close()
            return
        listener.clients.tls_queue.begin(self, data)

    def shake(self, data: bytes) -> bool:
        """From now on the bytes go to a TlsLayer; False when the first are not enough for an answer."""
        from jetbroker.connections.tls_layer import TlsLayer

        listener, socket = self._listener, cast(asyncio.Transport, self._socket)
        if socket.is_closing():
            return False
        socket.resume_reading()
        buffers, context = cast("TlsBuffers", listener.buffers), cast("ssl.SSLContext", listener.context)
        layer = TlsLayer(buffers, context, WebsocketConnection(listener, self), 0.0, self._failed)
        layer.connection_made(socket)
        socket.set_protocol(layer)
        layer.feed(data)
        return layer.answered

    def pause(self) -> None:
        """Read no more until shake()."""
        cast(asyncio.Transport, self._socket).pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone before it said anything."""
        self.done()

    def done(self) -> None:
        """There is TLS, or there will be none."""
        self._listener.handshakes.discard(self)
        self._listener.clients.tls_queue.end(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cut_off(self) -> None:
        """End a handshake that takes too long."""
        self._tell(TimeoutError("i/o timeout"))
        self.done()
        if self._socket is not None:
            self._socket.abort()

    def _failed(self, error: Exception) -> None:
        self._tell(error)
        self.done()

    def _tell(self, error: Exception) -> None:
        """Once: what is told first is why."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._listener.log.error(f"websocket: TLS handshake error from {self._peer}: {error}")


class WebsocketConnection(asyncio.Protocol):
    """One connection, from accept (or from the end of the TLS handshake) to its end."""

    def __init__(self, listener: WebsocketListener, arrival: TlsArrival | None = None) -> None:
        self._listener = listener
        self._arrival = arrival
        self._socket: asyncio.Transport | None = None
        self._peer = ""
        self._requests: UpgradeRequests | None = None
        self._request_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._input: WebsocketStream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._socket = cast(asyncio.Transport, transport)
        self._peer = of_socket(self._socket.get_extra_info("peername"), "unknown")
        if self._arrival is not None:
            self._arrival.done()
        self._listener.handshakes.add(self)
        seconds = self._listener.options.handshake_timeout
        if seconds > 0:
            self._timer = self._listener.loop.call_later(seconds, self.cut_off)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests, then of frames."""
        if self._input is not None:
            self._input.receive(data)
        elif self._socket is not None and not self._socket.is_closing():
            self._request(data)

    def eof_received(self) -> bool:
        """The client sends no more: neither do we."""
        return False

    def pause_writing(self) -> None:
        """The client does not take what it gets as fast as it comes: ClientOutput sees that by itself."""

    def resume_writing(self) -> None:
        """All of it is with the kernel."""
        if self._input is not None:
            self._input.written()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone."""
        self._end_handshake()
        if self._input is not None:
            self._input.lost(error)

    def cut_off(self) -> None:
        """End a handshake that takes too long, or keeps too much."""
        if self._socket is not None:
            self._socket.abort()

    # --- until the upgrade ---

    def _request(self, data: bytes) -> None:
        listener, socket = self._listener, cast(asyncio.Transport, self._socket)
        if self._requests is None:
            self._requests = UpgradeRequests(listener.rules)
        requests = self._requests
        requests.feed(data)
        if requests.output:
            socket.write(requests.output)
            requests.output = b""
            self._request_bytes = 0
        else:
            self._request_bytes += len(data)
        for text in requests.refusals:
            listener.log.error(f"{self._peer} - websocket handshake error: {text}")
        requests.refusals.clear()
        if requests.upgrade is not None and requests.finished:
            self._open(socket, requests.upgrade)
        elif requests.finished:
            socket.close()
        else:
            kept = min(self._request_bytes, limits.WEBSOCKET_HEADER_BYTES) + limits.WEBSOCKET_HTTP_BYTES
            listener.clients.unauthenticated.keep(self, kept)

    def _open(self, socket: asyncio.Transport, upgrade: Upgrade) -> None:
        listener = self._listener
        self._end_handshake()
        if not upgrade.leaf:
            inside: Any = self._client(upgrade)
        elif listener.links is not None:
            inside = listener.links(upgrade)
        else:
            listener.log.error(_NO_LEAF)
            socket.close()
            return
        if self._arrival is not None:
            from jetbroker.connections.tls import facts

            inside.tls = facts(cast("TlsLayer", socket).ssl, False)
        self._input = WebsocketStream(listener.surroundings, inside, socket, upgrade)
        inside.connection_made(self._input.transport)

    def _client(self, upgrade: Upgrade) -> ClientProtocol:
        """The upgrade was answered: a client begins."""
        client = self._listener.clients.factory(KIND)
        client.upgrade = upgrade
        options = self._listener.options
        names = (options.user_cookie, options.pass_cookie, options.token_cookie, "", options.jwt_cookie)
        client.identity.show_cookies(Given(*(upgrade.cookies.get(name, "") if name else "" for name in names)))
        return client

    def _end_handshake(self) -> None:
        self._listener.handshakes.discard(self)
        self._listener.clients.unauthenticated.forget(self)
        self._requests = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
