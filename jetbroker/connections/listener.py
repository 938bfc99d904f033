"""The port for clients, and what goes before a client's first command: a PROXY header, a TLS handshake.

Without either a connection is a ClientProtocol from the start. With one an Arrival stands in front of it until all that
is settled; the client then goes on over the same transport, or over the TLS on top of it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from jetbroker import limits
from jetbroker.addresses import bound_socket, of_socket
from jetbroker.config.options import Options
from jetbroker.connections.clients import Clients
from jetbroker.connections.proxy_header import ProxyHeader, ProxyHeaderError
from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    import ssl

    from jetbroker.connections.tls_layer import TlsLayer

_FIRST_TLS_BYTE = 0x16
_THROTTLED = "Connection throttling is active. Please try again later."
_TLS_FAILED = "TLS Handshake Failure"


@dataclass(frozen=True, slots=True)
class Entrance:
    """What new connections meet; made as a whole, so that a reload takes all of it or nothing. Durations in seconds.

    `handshake_first` as in TlsOptions.
    """

    proxy: bool
    context: "ssl.SSLContext | None"
    plain_allowed: bool
    handshake_first: float | None
    timeout: float
    pinned: frozenset[str]
    rate_limit: int

    @property
    def open(self) -> bool:
        """Nothing goes before a client's first command."""
        return self.context is None and not self.proxy


def entrance(options: Options) -> Entrance:
    """From the options. Raises TlsError when certificates or the rest of `tls {}` cannot be used."""
    tls = options.tls
    context = None
    if tls is not None:
        from jetbroker.connections.tls import server_context  # brings `ssl`, which takes its time to load

        context = server_context(tls)
    return Entrance(
        proxy=options.proxy_protocol,
        context=context,
        plain_allowed=options.allow_non_tls,
        handshake_first=tls.handshake_first if tls else None,
        timeout=(tls.timeout if tls else 0.0) or limits.TLS_TIMEOUT_SECONDS,
        pinned=tls.pinned_certs if tls else frozenset(),
        rate_limit=tls.connection_rate_limit if tls else 0,
    )


class Listener:
    """The port for clients."""

    def __init__(self, options: Options, clients: Clients, log: Logger) -> None:
        """Raises TlsError."""
        self.clients = clients
        self.log = log
        self.loop = asyncio.get_running_loop()
        self.buffers: Any = None  # TlsBuffers
        self.first_bytes = memoryview(bytearray(limits.TLS_FIRST_READ_BYTES))  # of one Arrival after the other
        self.rate = RateLimit(self.loop, log)
        self._server: asyncio.Server | None = None
        self.entrance = entrance(options)
        self.apply(self.entrance)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError."""
        sock = bound_socket(host, port)
        self._server = await self.loop.create_server(self._accept, sock=sock, backlog=limits.LISTEN_BACKLOG)
        return int(sock.getsockname()[1])

    def announce(self) -> None:
        """Tell the log what clients have to do."""
        at = self.entrance
        if at.proxy:
            self.log.info("PROXY protocol enabled for client connections")
        if at.context is None:
            return
        only_first = at.handshake_first == 0.0
        if at.plain_allowed and not only_first:
            self.log.info("TLS available for client connections")
        else:
            self.log.info("TLS required for client connections")
        if only_first:
            self.log.warn('Clients that are not using "TLS Handshake First" option will fail to connect')

    def apply(self, made: Entrance) -> None:
        """New connections meet this from now on; those that are there stay, unless their key is pinned no more."""
        if made.pinned != self.entrance.pinned:
            self._judge_pins(made.pinned)
        self.entrance = made
        self.rate.limit = made.rate_limit
        if made.context is not None and self.buffers is None:
            from jetbroker.connections.tls_layer import TlsBuffers

            self.buffers = TlsBuffers(self.loop)
        self._make: Callable[[], asyncio.BaseProtocol] = self.clients.factory if made.open else self._arrival

    def _judge_pins(self, pinned: frozenset[str]) -> None:
        clients = [client for client in self.clients.connected.values() if client.kind == "nats" and not client.closed]
        gone = [
            c for c in clients if pinned and c.arrival is None and (c.tls is None or c.tls.spki_sha256 not in pinned)
        ]
        if gone:
            self.log.info(f"Disconnect {len(gone)} clients due to pinned certs reload")
        for client in gone:
            client.close(_TLS_FAILED)

    def close(self) -> None:
        """Accept no more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _accept(self) -> asyncio.BaseProtocol:
        return self._make()

    def _arrival(self) -> "Arrival":
        return Arrival(self)


class RateLimit:
    """How many handshakes may begin per second; what is refused goes to the log once a second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Logger) -> None:
        self.limit = 0  # 0: no limit
        self._loop = loop
        self._log = log
        self._count = 0
        self._end = 0.0
        self._refused = 0

    def allows_one(self) -> bool:
        """Count a handshake that is about to begin; False when it has to be refused."""
        if self.limit <= 0:
            return True
        now = self._loop.time()
        if now > self._end:
            self._count = 0
            self._end = now + 1.0
        else:
            self._count += 1
        if self._count < self.limit:
            return True
        if not self._refused:
            self._loop.call_later(1.0, self._tell)
        self._refused += 1
        return False

    def _tell(self) -> None:
        self._log.warn(f"Rejected {self._refused} connections due to TLS rate limiting")
        self._refused = 0


class Arrival(asyncio.BufferedProtocol):
    """A connection whose client may not speak yet.

    It goes through its steps in order: wait for a handshake that comes before INFO, read the PROXY header, tell TLS
    from plain, do the handshake. `_on_data` takes what the client sends during a step, `_on_end` its end.
    """

    __slots__ = (
        "_client",
        "_entrance",
        "_header",
        "_layer",
        "_listener",
        "_on_data",
        "_on_end",
        "_over",
        "_timer",
        "_transport",
        "greets_later",
        "hides_address",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._entrance = listener.entrance
        self._client = listener.clients.factory()
        self._client.arrival = self
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._timer: asyncio.TimerHandle | None = None
        self._header: ProxyHeader | None = None
        self._layer: TlsLayer | None = None
        self._on_data: Callable[[bytes], None] = _no_data
        self._on_end: Callable[[], None] = self._leave
        self._over = False  # the client stands alone
        self.greets_later = self._entrance.context is not None and self._entrance.handshake_first is not None
        self.hides_address = self._entrance.proxy

    # --- asyncio.BufferedProtocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._transport = cast(asyncio.Transport, transport)
        self._client.connection_made(transport)
        if self._client.closed:
            return
        if self.greets_later and self._entrance.handshake_first:
            self._wait(self._entrance.handshake_first, self._handshake_came, self._no_handshake_came)
        else:
            self._read_header(b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for what comes."""
        return self._listener.first_bytes

    def buffer_updated(self, nbytes: int) -> None:
        """Something came."""
        if not self._client.closed:
            self._on_data(bytes(self._listener.first_bytes[:nbytes]))

    def eof_received(self) -> bool:
        """The client sends no more."""
        if not self._client.closed:
            self._on_end()
        return False

    def pause_writing(self) -> None:
        """The client does not take INFO: its output knows what to do."""
        self._client.pause_writing()

    def resume_writing(self) -> None:
        """It does."""
        self._client.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone before the client could speak."""
        if not self._over and self._on_data == self._hello and not self._client.closed:
            self._failed(error or EOFError("EOF"))
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self._disarm()
        if not self._over:
            self._be_over()
            self._listener.clients.tls_queue.end(self)
            self._client.connection_lost(error)
            self._client.arrival = None  # a cycle less

    def _be_over(self) -> None:
        """No step is to come. The steps are this object's own: a cycle. It would keep the client."""
        self._over = True
        self._on_data, self._on_end = _no_data, _no_end

    def cut_off(self) -> None:
        """Others wait for a handshake, and this one has taken too long."""
        self._timed_out()

    def pause(self) -> None:
        """Read no more until shake()."""
        self._transport.pause_reading()

    # --- steps ---

    def _wait(self, seconds: float, on_data: Callable[[bytes], None], on_silence: Callable[[], None]) -> None:
        self._disarm()
        self._on_data = on_data
        self._timer = self._listener.loop.call_later(seconds, on_silence)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        """The input ended; the transport closes."""

    def _handshake_came(self, data: bytes) -> None:
        self._read_header(data)

    def _no_handshake_came(self) -> None:
        """The client waits for INFO."""
        self.greets_later = False
        self._listener.clients.greet(self._client)
        self._read_header(b"")

    def _read_header(self, data: bytes) -> None:
        if not self._entrance.proxy:
            self._tell_apart(data)
            return
        self._header = ProxyHeader()
        self._on_end = self._header_cut
        self._wait(limits.PROXY_HEADER_SECONDS, self._header_data, self._header_silence)
        if data:
            self._header_data(data)

    def _header_data(self, data: bytes) -> None:
        header = cast(ProxyHeader, self._header)
        begun = header.begun
        try:
            header.feed(data)
        except ProxyHeaderError as error:
            self._refuse_header(str(error))
            return
        if not header.finished:
            if header.begun and not begun:
                self._wait(limits.PROXY_HEADER_SECONDS, self._header_data, self._header_too_late)
            return
        self._disarm()
        self._header = None
        self._on_end = self._leave
        self.hides_address = False
        if header.address is not None:
            self._client.proxy, self._client.peer = self._client.peer, str(header.address)
        self._tell_apart(header.rest)

    def _header_silence(self) -> None:
        """Its first bytes are not there. To who has sent one nats-server gives the same time once more."""
        if cast(ProxyHeader, self._header).empty:
            self._header_cut()
            return
        self._wait(limits.PROXY_HEADER_SECONDS, self._header_data, self._header_too_late)

    def _header_too_late(self) -> None:
        why = f"read tcp {self._addresses()}: i/o timeout"
        self._refuse_header(cast(ProxyHeader, self._header).cut(why, at_end=False))

    def _header_cut(self) -> None:
        self._refuse_header(cast(ProxyHeader, self._header).cut("EOF", at_end=True))

    def _refuse_header(self, why: str) -> None:
        self._disarm()
        self._on_data = _no_data
        peer = of_socket(self._transport.get_extra_info("peername"))
        self._listener.log.warn(f"Error reading PROXY protocol header from {peer}: {why}")
        self._client.close("Protocol Violation")

    def _tell_apart(self, data: bytes) -> None:
        """TLS or plain?"""
        at = self._entrance
        if at.context is None:
            self._admit(data)
        elif not at.plain_allowed or self.greets_later:
            self._begin_handshake(data)
        elif data:
            self._judge(data)
        else:
            self._wait(at.timeout, self._judge, self._decide)

    def _judge(self, data: bytes) -> None:
        self._disarm()
        if data[0] == _FIRST_TLS_BYTE:
            self._begin_handshake(data)
        else:
            self._admit(data)

    def _decide(self) -> None:
        """Who says nothing wants no TLS."""
        self._admit(b"")

    def _admit(self, data: bytes) -> None:
        """No TLS: the client takes over."""
        self._disarm()
        self._be_over()
        client = self._client
        client.arrival = None  # a cycle less
        self._transport.set_protocol(client)
        self._listener.clients.client_arrived(client)
        if data and not client.closed:
            room = client.get_buffer(-1)
            room[: len(data)] = data
            client.buffer_updated(len(data))

    # --- TLS ---

    def _begin_handshake(self, data: bytes) -> None:
        self._disarm()
        if not self._listener.rate.allows_one():
            self._client.close("Maximum Connections Exceeded", _THROTTLED)
            return
        self._debug("Starting TLS client connection handshake")
        # nothing in clear may come between: from here on there is TLS or silence
        self._wait(self._entrance.timeout, self._hello, self._timed_out)
        self._on_end = self._leave
        if data:
            self._hello(data)

    def _hello(self, data: bytes) -> None:
        """The first bytes of a handshake: only now it costs memory."""
        self._listener.clients.tls_queue.begin(self, data)

    def shake(self, data: bytes) -> bool:
        """Answer the first bytes; False when they are not enough."""
        from jetbroker.connections.tls_layer import TlsLayer

        if self._transport.is_closing():
            return False
        self._transport.resume_reading()
        context = cast("ssl.SSLContext", self._entrance.context)
        self._layer = layer = TlsLayer(self._listener.buffers, context, Inside(self), 0.0, self._failed)
        layer.connection_made(self._transport)
        self._client.use_transport(layer)
        self._transport.set_protocol(layer)
        layer.feed(data)
        return layer.answered

    def shaken(self) -> None:
        """There is TLS."""
        from jetbroker.connections.tls import facts

        self._disarm()
        clients, client, layer = self._listener.clients, self._client, cast("TlsLayer", self._layer)
        self._listener.clients.tls_queue.end(self)
        found = facts(layer.ssl, self.greets_later)
        self._be_over()
        client.arrival = None
        layer.set_protocol(client)
        if self._entrance.pinned and not self._is_pinned(found.spki_sha256):
            self._listener.log.error(f"{clients.who(client)} - TLS handshake error: certificate not pinned")
            client.close(_TLS_FAILED)
            return
        client.tls = found
        self._debug("TLS handshake complete")
        self._debug(f"TLS version {found.version}, cipher suite {found.cipher_suite}")
        if self.greets_later:
            clients.greet(client)
        clients.client_arrived(client)

    def _is_pinned(self, key: str) -> bool:
        if not key:
            self._debug("Failed pinned cert test as client did not provide a certificate")
        elif key not in self._entrance.pinned:
            self._debug(f"Failed pinned cert test for key id: {key}")
        return key in self._entrance.pinned

    def _timed_out(self) -> None:
        error = TimeoutError()
        self._debug("TLS handshake timeout")
        if self._layer is not None:
            self._layer.fail(error)
        else:
            self._failed(error)
            self._transport.close()

    def _failed(self, error: Exception) -> None:
        """No TLS: the connection is being closed, by whoever called."""
        from jetbroker.connections.tls import failure_text

        if not self._client.closed:
            text, usual = failure_text(error, self._addresses())
            line = f"{self._listener.clients.who(self._client)} - TLS handshake error: {text}"
            if usual:
                self._listener.log.debug(line)
            else:
                self._listener.log.error(line)
            self._client.close_reason = _TLS_FAILED
        self._end(None)

    def _debug(self, text: str) -> None:
        self._listener.log.debug(f"{self._listener.clients.who(self._client)} - {text}")

    def _addresses(self) -> str:
        ours = of_socket(self._transport.get_extra_info("sockname"))
        return f"{ours}->{of_socket(self._transport.get_extra_info('peername'))}"


def _no_data(data: bytes) -> None:
    """Input that no step is for, such as what comes behind the last word: thrown away."""


def _no_end() -> None:
    """Where no step is to come."""


class Inside(asyncio.BufferedProtocol):
    """What stands inside of a TLS connection until the client does."""

    __slots__ = ("_arrival",)

    def __init__(self, arrival: Arrival) -> None:
        self._arrival = arrival

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        self._arrival.shaken()

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        self._arrival.pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self._arrival.resume_writing()
