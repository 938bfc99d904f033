"""One connection to a NATS server, logged in and subscribed to an inbox of its own."""

from __future__ import annotations

import select
import socket
import ssl
from typing import Any, NamedTuple

import orjson

from jetbroker import __version__
from jetbroker.client.server import ClientError, Server, without_login

RECEIVE_BYTES = 256 * 1024
CONNECT_SECONDS = 5.0
MOST_LINE_BYTES = 1024 * 1024  # an INFO line names every server of a cluster
MOST_MESSAGE_BYTES = 256 * 1024 * 1024  # a stored message as JSON, with room
NO_RESPONDERS = "503"


class Reply(NamedTuple):
    """What came to `<inbox>.<number>`; `status` is "" for a message, else such as "503"."""

    number: int
    status: str
    body: bytes


class Connection:
    """Connected from the beginning; raises ClientError when that fails. Losing it later is an OSError."""

    def __init__(self, server: Server, url: str, inbox: bytes, name: str) -> None:
        self.url = without_login(url)
        self.max_payload = 0
        self._buffer = bytearray()
        try:
            self._socket: socket.socket = socket.create_connection(server.address(url), CONNECT_SECONDS)
        except OSError as error:
            raise ClientError(f"{self.url} cannot be reached: {error}") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._log_in(server, url, inbox, name)
        except OSError as error:
            self.close()
            raise ClientError(f"{self.url} ended the connection at its start: {error}") from None
        except BaseException:
            self.close()
            raise

    def _log_in(self, server: Server, url: str, inbox: bytes, name: str) -> None:
        line = self._line()
        if not line.startswith(b"INFO "):
            raise ClientError(f"{self.url} is no NATS server")
        info = json_object(line[5:])
        if info.get("tls_required") or server.wants_tls(url):
            self._socket = server.context().wrap_socket(self._socket, server_hostname=server.address(url)[0])
        elif not info.get("headers"):
            raise ClientError(f"{self.url} knows no headers: it is too old")
        most = info.get("max_payload")
        self.max_payload = most if isinstance(most, int) and most > 0 else 1024 * 1024
        nonce = str(info.get("nonce") or "").encode()
        fields = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
            "lang": "jetbroker",
            "version": __version__,
            "name": name,
            **server.login(url, nonce),
        }
        self.send(b"CONNECT %s\r\nSUB %s.* 1\r\nPING\r\n" % (orjson.dumps(fields), inbox))
        while (line := self._line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise ClientError(f"{self.url} refuses this login: {line[5:].decode(errors='replace')}")

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > MOST_LINE_BYTES:
                raise ClientError(f"{self.url} is no NATS server")
            self._fill()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _fill(self) -> None:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the server closed it")
        self._buffer += data

    def send(self, data: bytes) -> None:
        """Raises OSError when the connection is lost."""
        self._socket.sendall(data)

    def replies(self, seconds: float) -> list[Reply]:
        """Those that come within so long; waits for the first only.

        Raises OSError when the connection is lost, ClientError for what the server complains of.
        """
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        if not pending and not select.select([self._socket], [], [], seconds)[0]:
            return []
        self._fill()
        found: list[Reply] = []
        position = 0
        while (end := self._buffer.find(b"\r\n", position)) >= 0:
            line = bytes(self._buffer[position:end])
            if not line.startswith((b"MSG ", b"HMSG ")):
                self._other(line)
                position = end + 2
                continue
            words = line.split()
            headers_size, size = self._sizes(words)
            stop = end + 2 + size
            if len(self._buffer) < stop + 2:
                break
            status = bytes(self._buffer[end + 10 : end + 2 + headers_size]).split(b"\r\n", 1)[0].strip()
            body = bytes(self._buffer[end + 2 + headers_size : stop])
            found.append(Reply(self._number(words[1]), status.decode("utf-8", "replace"), body))
            position = stop + 2
        del self._buffer[:position]
        return found

    def _sizes(self, words: list[bytes]) -> tuple[int, int]:
        """Bytes of the headers, and of headers and body."""
        try:
            size = int(words[-1])
            headers_size = int(words[-2]) if words[0] == b"HMSG" else 0
        except ValueError:
            size = headers_size = -1
        if not 0 <= headers_size <= size <= MOST_MESSAGE_BYTES:
            raise ClientError(f"{self.url} sends a message without a size")
        return headers_size, size

    def _number(self, subject: bytes) -> int:
        token = subject.rpartition(b".")[2]
        if not token.isdigit():
            raise ClientError(f"{self.url} sends what nobody asked for")
        return int(token)

    def _other(self, line: bytes) -> None:
        if line == b"PING":
            self.send(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            raise ClientError(f"{self.url} says {line[5:].decode(errors='replace')}")

    def close(self) -> None:
        """Harmless when done already."""
        self._socket.close()


def publish(subject: str, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """The command for one message; `headers` is a whole block, or empty."""
    size = len(headers) + len(payload)
    if not headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply, size, payload)
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (subject.encode(), reply, len(headers), size, headers, payload)


def json_object(text: bytes) -> dict[str, Any]:
    """An empty one for what is none."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}
