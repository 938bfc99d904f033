"""The WebSocket listener: HTTP until the upgrade, then frames around the client protocol.

A :class:`WebsocketConnection` is what the event loop talks to. Behind it stands an ordinary ClientProtocol, which takes
a :class:`WebsocketTransport` for its socket. Imported only when `websocket {}` is configured.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from websockets.frames import CloseCode, Frame, Opcode

from jetbroker import limits
from jetbroker.addresses import bound_socket, of_socket
from jetbroker.config.options import WebsocketOptions
from jetbroker.connections import frames
from jetbroker.connections.clients import Clients
from jetbroker.connections.frames import FrameError, FrameReader, FrameWriter, Inflater
from jetbroker.connections.http_upgrade import UpgradeRequests
from jetbroker.connections.identity import Given
from jetbroker.connections.upgrade import Upgrade, UpgradeRules
from jetbroker.errors import ProtocolError
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

    @property
    def message_bytes(self) -> int:
        """The most a compressed message may inflate to."""
        payload = self.clients.options.max_payload
        if payload <= 0:
            payload = limits.MAX_PAYLOAD_BYTES
        return min(payload * limits.WEBSOCKET_MESSAGE_PAYLOADS, limits.WEBSOCKET_MESSAGE_BYTES)


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
        tls = self._listener.options.tls
        seconds = (tls.timeout if tls else 0.0) or limits.TLS_TIMEOUT_SECONDS
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
        self._input: WebsocketInput | None = None

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
        if upgrade.leaf:
            listener.log.error(_NO_LEAF)
            socket.close()
            return
        self._input = WebsocketInput(listener, socket, upgrade)
        if self._arrival is not None:
            from jetbroker.connections.tls import facts

            self._input.client.tls = facts(cast("TlsLayer", socket).ssl, False)
        self._input.start()

    def _end_handshake(self) -> None:
        self._listener.handshakes.discard(self)
        self._listener.clients.unauthenticated.forget(self)
        self._requests = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class WebsocketInput:
    """A client's frames, handed to its ClientProtocol as it can take them."""

    def __init__(self, listener: WebsocketListener, socket: asyncio.Transport, upgrade: Upgrade) -> None:
        self.client = listener.clients.factory(KIND)
        self.client.upgrade = upgrade
        self.transport = WebsocketTransport(self, socket, upgrade)
        self.last_words = b""  # the close frame that has to go out, when it is not the usual one
        self._listener = listener
        self._socket = socket
        self._frames = FrameReader(masked=upgrade.masked, compressed=upgrade.compressed)
        self._inflater: Inflater | None = None  # of the message that is being read, if that is compressed
        self._rest = memoryview(b"")  # protocol bytes the client has not taken yet
        self._paused = False  # by the client
        self._due = False  # the next turn is on its way
        self._reading = True  # from the socket
        self._owed: bytes | None = None  # the last ping that was not answered

    def start(self) -> None:
        """The upgrade was answered: the client begins."""
        options = self._listener.options
        names = (options.user_cookie, options.pass_cookie, options.token_cookie, "", options.jwt_cookie)
        given = Given(*(self.client.upgrade.cookies.get(name, "") if name else "" for name in names))
        self.client.identity.show_cookies(given)
        self.client.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        """Bytes of frames."""
        if not self.client.closed:
            self._frames.feed(data)
            self._turn()

    def pause(self) -> None:
        """The client takes nothing now."""
        self._paused = True
        self._regulate()

    def go_on(self) -> None:
        """The client takes bytes again."""
        self._paused = False
        self._later()

    def written(self) -> None:
        """Everything that was written is with the kernel."""
        if self._owed is not None:
            self._socket.write(frames.pong(self._owed))
            self._owed = None
        self.client.resume_writing()

    def lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self.client.connection_lost(error)
        self._release()

    def cut_off(self) -> None:
        """Kept too much before its login."""
        self.client.cut_off()
        self._release()

    def _release(self) -> None:
        """Nothing is read any more. Now, not when a collection finds the cycle of client and transport."""
        self._listener.clients.unauthenticated.forget(self)
        self._frames.release()
        self._inflater = None
        self._rest = memoryview(b"")

    # --- a turn: a bounded amount of one client's input ---

    def _later(self) -> None:
        if not self._due:
            self._due = True
            self._listener.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._due = False
        self._turn()

    def _turn(self) -> None:
        left = limits.WEBSOCKET_TURN_BYTES
        try:
            while not self._paused and not self._due and not self.client.closed:
                cost = self._advance()
                if not cost:
                    break
                left -= cost
                if left <= 0:
                    self._later()
        except FrameError as error:
            self.last_words = frames.close_frame(error.code, error.text)
            self.client.fail(ProtocolError("", "Read Error", f"read error: {error.text}"))
        self._account()
        self._regulate()

    def _advance(self) -> int:
        """One step; returns what it cost, 0 when there is nothing to do."""
        if self._rest:
            return self._give()
        if self._inflater is not None and not self._inflater.hungry:
            self._rest = memoryview(self._inflater.read())
            if self.client.login_pending and self._inflater.inflated_bytes > limits.WEBSOCKET_LOGIN_BYTES:
                raise FrameError("maximum payload exceeded", CloseCode.MESSAGE_TOO_BIG)
            return len(self._rest) + limits.WEBSOCKET_FRAME_COST_BYTES
        if self._inflater is not None and self._inflater.finished:
            self._inflater = None
        frame = self._frames.next()
        if frame is None:
            return 0
        self._take(frame)
        return limits.WEBSOCKET_FRAME_COST_BYTES

    def _give(self) -> int:
        """Hand protocol bytes on."""
        room = self.client.get_buffer(-1)
        size = min(len(room), len(self._rest), limits.WEBSOCKET_PIECE_BYTES)
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        self.client.buffer_updated(size)
        return size

    def _take(self, frame: Frame) -> None:
        if frame.opcode == Opcode.PING:
            self._pong(bytes(frame.data))
        elif frame.opcode == Opcode.CLOSE:
            self.last_words = frames.close_answer(bytes(frame.data))
            self.client.close("Client Closed")
        elif frame.opcode != Opcode.PONG:
            self._take_data(frame)

    def _take_data(self, frame: Frame) -> None:
        if frame.opcode != Opcode.CONT:
            self._inflater = Inflater(self._listener.message_bytes) if self._frames.inflate else None
        if self._inflater is not None:
            self._inflater.add(bytes(frame.data), last=frame.fin)
        else:
            self._rest = memoryview(frame.data)

    def _pong(self, data: bytes) -> None:
        if self._socket.get_write_buffer_size() > limits.WEBSOCKET_PONG_BYTES:
            self._owed = data
        else:
            self._socket.write(frames.pong(data))

    def _account(self) -> None:
        """Tell what is kept before the login."""
        if self.client.login_pending and not self.client.closed:
            kept = (
                self._frames.held_bytes + len(self._rest) + (limits.WEBSOCKET_INFLATER_BYTES if self._inflater else 0)
            )
            self._listener.clients.unauthenticated.keep(self, kept)
        else:
            self._listener.clients.unauthenticated.forget(self)

    def _regulate(self) -> None:
        """Read from the socket only when its bytes would be looked at."""
        wanted = not self._paused and not self._due
        if wanted == self._reading or self._socket.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()


class WebsocketTransport(asyncio.Transport):
    """What a ClientProtocol writes to: its bytes go out as frames."""

    def __init__(self, source: WebsocketInput, socket: asyncio.Transport, upgrade: Upgrade) -> None:
        super().__init__()
        self._source = source
        self._socket = socket
        self._writer = FrameWriter(upgrade)

    def write(self, data: Any) -> None:
        """Send protocol bytes."""
        self._socket.write(self._writer.message(bytes(data)))

    def close(self) -> None:
        """Say why, send what is left, close."""
        if self._socket.is_closing():
            return
        client = self._source.client
        self._socket.write(self._source.last_words or frames.close_frame_for(client.close_reason or ""))
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        self._socket.abort()

    def is_closing(self) -> bool:
        """Closed, or about to be."""
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        """Keep further input back."""
        self._source.pause()

    def resume_reading(self) -> None:
        """Go on with it."""
        self._source.go_on()

    def get_write_buffer_size(self) -> int:
        """Bytes the kernel has not taken."""
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the client is told that the kernel does not take more."""
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the connection below, except its socket: nobody may write to it directly."""
        return default if name == "socket" else self._socket.get_extra_info(name, default)
