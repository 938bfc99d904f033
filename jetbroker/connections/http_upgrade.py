"""The HTTP part of a WebSocket: requests of one connection until one of them is accepted. No sockets; HTTP by h11.

What is refused may be tried again on the same connection, as in nats-server.
"""

import html
import re
from email.utils import formatdate
from http import HTTPStatus

import h11

from jetbroker import limits
from jetbroker.connections.upgrade import Upgrade, UpgradeRefused, UpgradeRules, clean_path

_REQUEST_LINE = re.compile(rb"\S+ \S+ HTTP/\d\.\d")
_TOO_EARLY = "client sent data before handshake is complete"


class UpgradeRequests:
    """Bytes in, bytes out. The caller sends `output`, writes `refusals` to the log, and closes once `finished`."""

    def __init__(self, rules: UpgradeRules) -> None:
        self._rules = rules
        self._http = _connection()
        self._body_bytes = 0
        self._refused = 0  # requests
        self._version = b"1.1"
        self.upgrade: Upgrade | None = None
        self.output = b""
        self.refusals: list[str] = []
        self.finished = False

    def feed(self, data: bytes) -> None:
        """More bytes of the client."""
        self._http.receive_data(data)
        try:
            while not self.finished and self._step():
                pass
        except h11.RemoteProtocolError as error:
            self._malformed(error)

    def _step(self) -> bool:
        """The next part of a request; False when more bytes are needed."""
        event = self._http.next_event()
        if isinstance(event, h11.Request):
            self._judge(event)
        elif isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            if self._body_bytes > limits.WEBSOCKET_BODY_BYTES:
                self.finished = True
        elif isinstance(event, h11.EndOfMessage):
            return self._end_of_request()
        else:
            self._check_first_line()
            return False
        return True

    def _check_first_line(self) -> None:
        """Other protocols are told at once, not when the time is over. Raises h11.RemoteProtocolError."""
        line, end, _ = self._http.trailing_data[0].partition(b"\n")
        if end and self._http.their_state is h11.IDLE and not _REQUEST_LINE.fullmatch(line.rstrip(b"\r")):
            raise h11.RemoteProtocolError("no request line")

    def _judge(self, request: h11.Request) -> None:
        self._version = request.http_version
        self._body_bytes = 0
        target = request.target.decode("latin-1")
        if target == "*":
            self._bare_head(HTTPStatus.BAD_REQUEST)
            return
        if request.http_version >= b"2":
            self._bare(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, ": unsupported protocol version")
            return
        if place := clean_path(target):
            link = f'<a href="{html.escape(place)}">Temporary Redirect</a>.\n\n'
            headers = f"Content-Type: text/html; charset=utf-8\r\nLocation: {place}\r\n"
            self._answer(request, HTTPStatus.TEMPORARY_REDIRECT, headers, link)
            return
        try:
            self.upgrade = self._rules.judge(request)
        except UpgradeRefused as refused:
            self.refusals.append(refused.text)
            headers = (
                "Content-Type: text/plain; charset=utf-8\r\n"
                "Sec-Websocket-Version: 13\r\n"
                "X-Content-Type-Options: nosniff\r\n"
            )
            self._answer(request, refused.status, headers, f"{refused.status.phrase}\n")

    def _end_of_request(self) -> bool:
        rest, _ = self._http.trailing_data
        if self.upgrade is None:
            self._refused += 1
            if self._refused == limits.WEBSOCKET_REQUESTS:
                self.finished = True
                return False
            self._http = _connection()
            if rest:
                self._http.receive_data(rest)
            return bool(rest)
        if rest or self._body_bytes:
            self.upgrade = None
            self.output = b""
            self.refusals.append(_TOO_EARLY)
        else:
            self.output += self.upgrade.answer
        self.finished = True
        return False

    def _answer(self, request: h11.Request, status: HTTPStatus, headers: str, body: str) -> None:
        asked_to_close = any(name == b"connection" and b"close" in value.lower() for name, value in request.headers)
        head = (
            f"HTTP/{self._version.decode()} {status.value} {status.phrase}\r\n{headers}"
            f"Date: {formatdate(usegmt=True)}\r\n"
            f"Content-Length: {len(body.encode())}\r\n" + ("Connection: close\r\n" if asked_to_close else "") + "\r\n"
        )
        self.output += (head + ("" if request.method == b"HEAD" else body)).encode("latin-1", "replace")
        self.finished = asked_to_close or self._version < b"1.1"

    def _malformed(self, error: h11.RemoteProtocolError) -> None:
        self.upgrade = None
        if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._bare(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif "Missing mandatory Host" in str(error):
            self._bare(HTTPStatus.BAD_REQUEST, ": missing required Host header")
        else:
            self._bare(HTTPStatus.BAD_REQUEST)

    def _bare(self, status: HTTPStatus, why: str = "") -> None:
        """For what is no request at all."""
        text = f"{status.value} {status.phrase}{why}"
        head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        self.output += (head + text).encode()
        self.finished = True

    def _bare_head(self, status: HTTPStatus) -> None:
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\nDate: {formatdate(usegmt=True)}\r\n"
        self.output += f"{head}Content-Length: 0\r\n\r\n".encode()
        self.finished = True


def _connection() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=limits.WEBSOCKET_HEADER_BYTES)
