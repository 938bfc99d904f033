"""A small client for commands of the command line: it asks a running server and waits for each answer."""

import json
import secrets
import socket
import ssl
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import unquote, urlsplit

from jetbroker import __version__
from jetbroker.errors import JetbrokerError

_LONGEST_LINE = 64 * 1024  # INFO of a server with many addresses
_LARGEST_MESSAGE = 256 * 1024 * 1024  # a stored message as JSON, with room


class Requester:
    """One connection, as a context manager; `timeout` seconds for each answer. All errors are JetbrokerErrors."""

    def __init__(self, url: str, ca_file: str = "", timeout: float = 10.0) -> None:
        self._inbox = "_INBOX.jetbroker." + secrets.token_hex(8)
        self._asked = 0
        self._where = url.rsplit("@", 1)[-1]
        try:
            parts = urlsplit(url if "://" in url else f"nats://{url}")
            port = parts.port or 4222
        except ValueError as error:
            raise JetbrokerError(f"bad URL of a server: {error}") from None
        if parts.scheme not in ("nats", "tls") or not parts.hostname:
            raise JetbrokerError(f"bad URL of a server: {self._where}")
        self._socket = self._connect(parts.hostname, port, parts.scheme == "tls", ca_file, timeout)
        self._lines: IO[bytes] = self._socket.makefile("rb")
        login: dict[str, Any] = {}
        if parts.password is not None:
            login = {"user": unquote(parts.username or ""), "pass": unquote(parts.password)}
        elif parts.username:
            login = {"auth_token": unquote(parts.username)}
        self._log_in(login)

    def _connect(self, host: str, port: int, tls: bool, ca_file: str, timeout: float) -> socket.socket:
        try:
            connection = socket.create_connection((host, port), timeout)
            if not tls:
                self._info = self._read_info(connection)
                return connection
            context = ssl.create_default_context(cafile=ca_file or None)
            self._info = self._read_info(connection)
            return context.wrap_socket(connection, server_hostname=host)
        except (OSError, ValueError) as error:
            raise JetbrokerError(f"no connection to {self._where}: {error}") from None

    def _read_info(self, connection: socket.socket) -> dict[str, Any]:
        """Byte by byte where TLS begins behind it."""
        line = bytearray()
        while not line.endswith(b"\r\n") and len(line) < _LONGEST_LINE:
            byte = connection.recv(1)
            if not byte:
                break
            line += byte
        word, _, body = bytes(line).partition(b" ")
        info = json.loads(body) if word == b"INFO" else None
        if not isinstance(info, dict):
            raise ValueError("that is no NATS server")
        return info

    def _log_in(self, login: dict[str, Any]) -> None:
        options = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "lang": "jetbroker",
            "version": __version__,
            "name": "jetbroker command",
            **login,
        }
        self._send(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        while self._line() != b"PONG":
            pass
        self._send(f"SUB {self._inbox}.* 1\r\n".encode())

    # --- requests ---

    def request(self, subject: str, body: bytes, headers: bytes = b"") -> dict[str, Any]:
        """The answer, an object of JSON. One without responders has an `error`."""
        self._asked += 1
        reply = f"{self._inbox}.{self._asked}"
        if headers:
            head = f"HPUB {subject} {reply} {len(headers)} {len(headers) + len(body)}\r\n".encode()
        else:
            head = f"PUB {subject} {reply} {len(body)}\r\n".encode()
        self._send(head + headers + body + b"\r\n")
        while True:
            came, status, data = self._message()
            if came != reply:
                continue
            if status:
                return {"error": {"description": f"{subject}: {status}"}}
            return self._object(subject, data)

    def ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of the JetStream API, an error, too."""
        return self.request(f"$JS.API.{subject}", json.dumps(body).encode())

    def api(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of the JetStream API; an error is raised."""
        return self.checked(self.ask(subject, body))

    @staticmethod
    def checked(answer: dict[str, Any]) -> dict[str, Any]:
        """The answer, if it is no error."""
        if "error" in answer:
            raise JetbrokerError(str(answer["error"].get("description", answer["error"])))
        return answer

    @staticmethod
    def _object(subject: str, data: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise JetbrokerError(f"{subject}: the answer is no JSON object")
        return answer

    # --- the wire ---

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise JetbrokerError(f"{self._where}: {error}") from None

    def _line(self) -> bytes:
        """The next line that is no PING; what the server complains of is raised."""
        while True:
            line = self._read(lambda: self._lines.readline(_LONGEST_LINE)).rstrip(b"\r\n")
            if line == b"PING":
                self._send(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                raise JetbrokerError(f"{self._where}: {line[5:].decode('utf-8', 'replace')}")
            else:
                return line

    def _read(self, call: Any) -> bytes:
        try:
            found: bytes = call()
        except OSError as error:
            raise JetbrokerError(f"{self._where}: {error}") from None
        if not found:
            raise JetbrokerError(f"{self._where}: the server has closed the connection")
        return found

    def _message(self) -> tuple[str, str, bytes]:
        """(subject, status without a body, body) of the next message."""
        while True:
            words = self._line().split(b" ")
            if words[0] in (b"MSG", b"HMSG"):
                break
        try:
            size = int(words[-1])
            headers_size = int(words[-2]) if words[0] == b"HMSG" else 0
        except ValueError:
            size = headers_size = -1
        if not 0 <= headers_size <= size <= _LARGEST_MESSAGE:
            raise JetbrokerError(f"{self._where}: bad message")
        data = self._read(lambda: self._lines.read(size + 2))[:size]
        status = data[8:headers_size].split(b"\r\n", 1)[0].strip().decode("utf-8", "replace")
        if status == "503":
            status = "nobody listens"
        return words[1].decode("utf-8", "replace"), status, data[headers_size:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()
