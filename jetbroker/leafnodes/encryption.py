"""TLS of links: on the side that accepted one and on the side that dialled.

A link is one from the start: it is in the log, it can be closed. But it reads and says nothing while a handshake is
going on: what comes then belongs to TLS, whoever sent it, so nobody can slip a command in front of it in clear.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from jetbroker import limits
from jetbroker.addresses import of_socket
from jetbroker.connections.tls import WRONG_NAME, facts, failure_text, refusal_text
from jetbroker.connections.tls_layer import TlsBuffers, TlsLayer
from jetbroker.connections.tls_queue import TlsQueue
from jetbroker.leafnodes.link import Link
from jetbroker.logs.logger import Logger

FAILED = "TLS Handshake Failure"
_NOT_PINNED = "certificate not pinned"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a handshake has to be like. `name`: of the server that was dialled, its certificate has to fit; None: we
    are the server. `first`: it comes before INFO. `misnamed` is told when the certificate is of another name.
    """

    context: ssl.SSLContext
    seconds: float
    pinned: frozenset[str] = frozenset()
    name: str | None = None
    first: bool = False
    misnamed: Callable[[], None] | None = None


class Encryption:
    """What the handshakes of all links of a broker share."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, log: Logger, who: Callable[[Link], str], queue: TlsQueue
    ) -> None:
        self.loop = loop
        self.log = log
        self.who = who
        self.queue = queue
        self.buffers = TlsBuffers(loop)
        self.first_bytes = memoryview(bytearray(limits.TLS_FIRST_READ_BYTES))  # of one Arrival after the other

    def error(self, link: Link, text: str) -> None:
        """Tell why there will be no TLS."""
        self.log.error(f"{self.who(link)} - TLS leafnode handshake error: {text}")

    def debug(self, link: Link, text: str) -> None:
        """Tell what happens."""
        self.log.debug(f"{self.who(link)} - {text}")


class Handshake(asyncio.BufferedProtocol):
    """One handshake. It stands inside of the TLS connection until what speaks there does.

    `done` is called with the TLS connection, through which the link goes on; `failed`, if given, when there is none and
    the link is gone.
    """

    def __init__(
        self,
        shared: Encryption,
        link: Link,
        terms: Terms,
        done: Callable[[TlsLayer], None],
        failed: Callable[[], None] | None = None,
    ) -> None:
        self.over = False
        self.first = terms.first
        self._shared = shared
        self._link = link
        self._terms = terms
        self._done = done
        self._told_failed = failed
        self._layer: TlsLayer | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on there is TLS or silence, and not for long."""
        side = "server" if self._terms.name is None else "client"
        self._shared.debug(self._link, f"Starting TLS leafnode {side} handshake")
        self._timer = self._shared.loop.call_later(self._terms.seconds, self.time_out)

    def shake(self, socket: asyncio.Transport, data: bytes) -> bool:
        """Begin with the first bytes that came; False when they are not enough for an answer."""
        layer = self._layer = TlsLayer(
            self._shared.buffers, self._terms.context, self, 0.0, self.fail, self._terms.name
        )
        self._link.use_transport(layer)
        socket.set_protocol(layer)
        layer.connection_made(socket)
        if not self.over:
            socket.resume_reading()
            layer.feed(data)
        return layer.answered

    def time_out(self) -> None:
        """It takes too long."""
        self._shared.debug(self._link, "TLS handshake timeout")
        if self._layer is not None:
            self._layer.fail(TimeoutError())
        else:
            self.fail(TimeoutError())
            self._link.transport.close()

    def fail(self, error: Exception) -> None:
        """There is no TLS: the connection is being closed, by whoever called."""
        link = self._link
        if self.over:
            return
        if not link.closed:
            ours, theirs = (of_socket(link.transport.get_extra_info(end)) for end in ("sockname", "peername"))
            text, usual = failure_text(error, f"{ours}->{theirs}")
            if self._layer is not None and isinstance(error, ssl.SSLCertVerificationError):
                text = refusal_text(error, self._layer.ssl, self._terms.name or "")
                if self._terms.misnamed is not None and error.verify_code in WRONG_NAME:
                    self._terms.misnamed()
            if usual:
                self._shared.debug(link, f"TLS leafnode handshake error: {text}")
            else:
                self._shared.error(link, text)
            link.close_reason = FAILED
        self.end(None)
        if self._told_failed is not None:
            self._told_failed()

    def end(self, error: Exception | None) -> None:
        """The connection is gone before there was TLS."""
        self._disarm()
        if not self.over:
            self.over = True
            self._link.connection_lost(error)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- inside ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is TLS."""
        self._disarm()
        self.over = True
        link, layer = self._link, cast(TlsLayer, transport)
        layer.set_protocol(link)
        link.tls = facts(layer.ssl, self.first)
        if self._terms.pinned and not self._is_pinned(link.tls.spki_sha256):
            self._shared.error(link, _NOT_PINNED)
            link.close(FAILED)
            if self._told_failed is not None:
                self._told_failed()
            return
        self._done(layer)

    def _is_pinned(self, key: str) -> bool:
        if not key:
            self._shared.debug(self._link, "Failed pinned cert test as client did not provide a certificate")
        elif key not in self._terms.pinned:
            self._shared.debug(self._link, f"Failed pinned cert test for key id: {key}")
        return key in self._terms.pinned


class Arrival(asyncio.BufferedProtocol):
    """A link that was accepted, up to the end of its handshake. Before its first byte it costs next to nothing.

    `wait`: so many seconds are left to those who begin with TLS before INFO is sent; 0.0: INFO never goes first.
    """

    def __init__(
        self,
        shared: Encryption,
        link: Link,
        terms: Terms,
        wait: float,
        greet: Callable[[Link], None],
        done: Callable[[Link, bool], None],
    ) -> None:
        self._shared = shared
        self._link = link
        self._wait = wait
        self._greet = greet
        self._done = done
        self._handshake = Handshake(shared, link, terms, self._shaken, self._leave_queue)
        self._socket: asyncio.Transport = cast(asyncio.Transport, None)
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._socket = cast(asyncio.Transport, transport)
        self._link.connection_made(transport)
        if self._link.closed:
            return
        if self._wait:
            self._timer = self._shared.loop.call_later(self._wait, self._nothing_came)
            return
        if not self._handshake.first:
            self._greet(self._link)
        self._handshake.start()

    def _nothing_came(self) -> None:
        """The other side waits for INFO."""
        self._timer = None
        self._handshake.first = False
        self._greet(self._link)
        self._handshake.start()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for what comes."""
        return self._shared.first_bytes

    def buffer_updated(self, nbytes: int) -> None:
        """The first bytes of a handshake: only now it costs memory."""
        if self._link.closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._handshake.start()
        self._shared.queue.begin(self, bytes(self._shared.first_bytes[:nbytes]))

    def eof_received(self) -> bool:
        """The other side sends no more."""
        return False

    def pause_writing(self) -> None:
        """The other side does not take INFO: its output knows what to do."""
        self._link.pause_writing()

    def resume_writing(self) -> None:
        """It does."""
        self._link.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone before it said anything."""
        if self._timer is not None:
            self._timer.cancel()
        self._leave_queue()
        if self._link.closed or self._timer is not None:
            self._handshake.end(error)
        else:
            self._handshake.fail(error or EOFError("EOF"))

    # --- in the queue of those who shake hands ---

    def pause(self) -> None:
        """Read no more until shake()."""
        self._socket.pause_reading()

    def shake(self, data: bytes) -> bool:
        """Answer the first bytes; False when they are not enough."""
        if self._socket.is_closing():
            return False
        return self._handshake.shake(self._socket, data)

    def cut_off(self) -> None:
        """Others wait for a handshake, and this one has taken too long."""
        self._handshake.time_out()

    def _shaken(self, layer: TlsLayer) -> None:
        self._leave_queue()
        self._done(self._link, self._handshake.first)

    def _leave_queue(self) -> None:
        self._shared.queue.end(self)
