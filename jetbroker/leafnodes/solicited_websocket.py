"""A link over a WebSocket that this server asked for: the request, the answer, then frames around the link."""

import asyncio
import base64
import os
import posixpath
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import h11
from websockets.utils import accept_key

from jetbroker import limits
from jetbroker.addresses import joined, of_socket
from jetbroker.config.options import LeafRemote, LeafUrl
from jetbroker.connections.upgrade import DEFLATE, DEFLATE_OFFER, NO_MASKING, Upgrade, first_value, values
from jetbroker.connections.websocket_stream import Surroundings, WebsocketStream
from jetbroker.forms.gotext import quoted
from jetbroker.leafnodes.link import Link

PATH = "/leafnode"
KEY_BYTES = 16
SHOWN_BYTES = 1024  # of an answer that is none, in the log
_NO_CONTEXT = ("server_no_context_takeover", "client_no_context_takeover")
_INVALID = "invalid websocket connection"
_VERSION = re.compile(rb"HTTP/\d\.\d")
_STATUS_DIGITS = 3


class UpgradeFailed(Exception):
    """The answer is not what makes a WebSocket; the text is for the log."""


class UpgradeAnswer:
    """Asks for a WebSocket and reads the answer; no sockets here. `rest` are the bytes behind the answer."""

    def __init__(self, url: LeafUrl, options: LeafRemote) -> None:
        self._key = base64.b64encode(os.urandom(KEY_BYTES)).decode()
        self._options = options
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=limits.WEBSOCKET_HEADER_BYTES)
        self._line: bytes | None = b""  # the first line while it is not whole
        headers = [
            ("Host", joined(url.host, url.port)),
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", self._key),
            ("Sec-WebSocket-Version", "13"),
        ]
        if options.ws_compression:
            headers.append(("Sec-WebSocket-Extensions", DEFLATE_OFFER))
        if options.ws_no_masking:
            headers.append((NO_MASKING, "true"))
        request = h11.Request(method="GET", target=target(url), headers=headers)
        self.request = (self._http.send(request) or b"") + (self._http.send(h11.EndOfMessage()) or b"")
        self.rest = b""

    def feed(self, data: bytes) -> Upgrade | None:
        """More of the answer; what was agreed on, once it is whole. Raises UpgradeFailed."""
        if self._line is not None:
            self._look_at_line(self._line + data)
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise UpgradeFailed(str(error)) from None
        if event is h11.NEED_DATA:
            return None
        if not isinstance(event, h11.InformationalResponse):
            raise UpgradeFailed(_INVALID)
        self.rest = bytes(self._http.trailing_data[0])
        return self._judge(event)

    def _look_at_line(self, data: bytes) -> None:
        """Who speaks something else is told from HTTP by the first line, with what was said instead."""
        line, end, _ = data.partition(b"\n")
        if not end:
            self._line = data
            return
        self._line = None
        version, blank, status = line[:SHOWN_BYTES].rstrip(b"\r").partition(b" ")
        code = status.lstrip(b" ").partition(b" ")[0]
        if not blank:
            raise UpgradeFailed(f"malformed HTTP response {quoted(version)}")
        if len(code) != _STATUS_DIGITS or not code.isdigit():
            raise UpgradeFailed(f"malformed HTTP status code {quoted(code)}")
        if not _VERSION.fullmatch(version):
            raise UpgradeFailed(f"malformed HTTP version {quoted(version)}")

    def _judge(self, answer: h11.InformationalResponse) -> Upgrade:
        right = (
            answer.status_code == HTTPStatus.SWITCHING_PROTOCOLS
            and first_value(answer, b"upgrade").lower() == "websocket"
            and first_value(answer, b"connection").lower() == "upgrade"
            and first_value(answer, b"sec-websocket-accept") == accept_key(self._key)
        )
        if not right:
            raise UpgradeFailed(_INVALID)
        return Upgrade(
            b"",
            leaf=True,
            compressed=self._options.ws_compression and _agreed_to_deflate(answer),
            masked=False,
            masks=not (self._options.ws_no_masking and first_value(answer, NO_MASKING.lower().encode()) == "true"),
            browser=False,
            whole_when_compressed=False,
            client_ip="",
        )


class SolicitedWebsocket(asyncio.Protocol):
    """What stands below a link that was dialled, from the request to the end.

    `opened` is told what was agreed on, `failed` why there is no WebSocket: it closes the link.
    """

    def __init__(
        self,
        link: Link,
        answer: UpgradeAnswer,
        surroundings: Surroundings,
        opened: Callable[[Upgrade], None],
        failed: Callable[[str], None],
    ) -> None:
        self._link = link
        self._answer: UpgradeAnswer | None = answer
        self._surroundings = surroundings
        self._opened = opened
        self._failed = failed
        self._socket: asyncio.Transport = cast(asyncio.Transport, None)
        self._stream: WebsocketStream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection, maybe with TLS, is there: ask."""
        self._socket = cast(asyncio.Transport, transport)
        if self._answer is not None:
            self._socket.write(self._answer.request)

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer, then of frames."""
        if self._stream is not None:
            self._stream.receive(data)
        elif self._answer is not None and not self._link.closed:
            self._read_answer(self._answer, data)

    def _read_answer(self, answer: UpgradeAnswer, data: bytes) -> None:
        try:
            upgrade = answer.feed(data)
        except UpgradeFailed as error:
            self._answer = None
            self._failed(str(error))
            return
        if upgrade is None:
            return
        self._answer = None
        self._stream = WebsocketStream(self._surroundings, self._link, self._socket, upgrade)
        self._link.use_transport(self._stream.transport)
        self._opened(upgrade)
        if answer.rest:
            self._stream.receive(answer.rest)

    def eof_received(self) -> bool:
        """The other side sends no more: neither do we."""
        return False

    def pause_writing(self) -> None:
        """The other side does not take what it gets as fast as it comes: the link's output sees that by itself."""

    def resume_writing(self) -> None:
        """All of it is with the kernel."""
        if self._stream is not None:
            self._stream.written()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone."""
        if self._stream is not None:
            self._stream.lost(error)
            return
        if not self._link.closed:
            self._failed("unexpected EOF" if error is None else _why(self._socket, error))
        self._link.connection_lost(error)


def target(url: LeafUrl) -> str:
    """What is asked for: the URL's own path in front of that of links; without its query."""
    own = url.rest.partition("?")[0].partition("#")[0].removeprefix("/")
    return "/" + posixpath.normpath(f"{own}{PATH}").lstrip("/")


def _agreed_to_deflate(answer: h11.InformationalResponse) -> bool:
    """Raises UpgradeFailed when more than one message would have to be remembered for it."""
    for extension in values(answer, b"sec-websocket-extensions"):
        parts = [part.strip(" \t").lower() for part in extension.split(";")]
        if DEFLATE in parts:
            if not {*_NO_CONTEXT} <= {*parts}:
                raise UpgradeFailed("compression negotiation error")
            return True
    return False


def _why(socket: asyncio.Transport, error: Exception) -> str:
    ours, theirs = (of_socket(socket.get_extra_info(end)) for end in ("sockname", "peername"))
    if isinstance(error, OSError) and error.errno:
        return f"read tcp {ours}->{theirs}: read: {os.strerror(error.errno).lower()}"
    return str(error)
