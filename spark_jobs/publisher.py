"""A small synchronous NATS client that only publishes into streams: what a Spark task needs, and nothing else.

At most `in_flight` messages wait for their ack, and at most IN_FLIGHT_BYTES. When the connection is lost, or acks stay
away, what is unacked goes out once more over a new connection. The Nats-Msg-Id keeps that from storing anything twice.
"""

from __future__ import annotations

import secrets
import select
import socket
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from jetbroker.errors import JetbrokerError
from jetbroker.leafnodes.credentials import CredentialsError, signed_by_file, signed_by_seed

PORT = 4222
SCHEMES = ("nats", "tls")
IN_FLIGHT_BYTES = 16 * 1024 * 1024
SEND_BYTES = 128 * 1024
RECEIVE_BYTES = 256 * 1024
CONNECT_SECONDS = 5.0
RETRY_SECONDS = 0.25
MOST_LINE_BYTES = 1024 * 1024  # an INFO line names every server of a cluster
NO_RESPONDERS = b" 503"
CLIENT = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "lang": "python",
          "version": "1", "protocol": 1, "name": "jetbroker spark"}  # fmt: skip


class PublishError(JetbrokerError):
    """Rows cannot be published. The text is one sentence that says why."""


@dataclass(frozen=True)
class Server:
    """Where to publish and how to log in; pickled to the tasks."""

    urls: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: str = ""
    nkey: str = field(default="", repr=False)
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""

    def __post_init__(self) -> None:
        for url in self.urls:
            self.address(url)

    def address(self, url: str) -> tuple[str, int]:
        """Host and port. Raises PublishError for what is no URL of a NATS server."""
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port or PORT
        except ValueError:
            host, port = None, PORT
        if parts.scheme not in SCHEMES or not host:
            raise PublishError(f"{without_login(url)!r} is no URL of a server: nats://host:4222 or tls://host:4222")
        return host, port

    def wants_tls(self, url: str) -> bool:
        return urlsplit(url).scheme == "tls" or bool(self.tls_ca or self.tls_cert)

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.tls_ca or None)
            if self.tls_cert:
                context.load_cert_chain(self.tls_cert, self.tls_key or None)
        except (OSError, ssl.SSLError) as error:
            raise PublishError(f"the TLS files tlsCa, tlsCert and tlsKey cannot be used: {error}") from None
        return context

    def login(self, url: str, nonce: bytes) -> dict[str, str]:
        """The fields of CONNECT that say who this is."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if user and not password:  # as nats clients read it
            return {"auth_token": user}
        fields = {"user": self.user or user, "pass": self.password or password, "auth_token": self.token}
        found = {name: text for name, text in fields.items() if text}
        try:
            if self.credentials:
                found |= signed_by_file(self.credentials, nonce)
            if self.nkey:
                found |= signed_by_seed(_seed(self.nkey), nonce)
        except CredentialsError as error:
            raise PublishError(f"the login cannot be used: {error}") from None
        return found


def _seed(text: str) -> str:
    """A seed, or what stands in the file of that name."""
    if text.startswith("S"):
        return text
    try:
        lines = Path(text).read_text(encoding="utf-8", errors="replace").split()
    except OSError as error:
        raise PublishError(f"option nkey: {text!r} cannot be read: {error.strerror}") from None
    return next((line for line in lines if line.startswith("SU")), "")


def without_login(url: str) -> str:
    """The URL as it may be shown."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://{tail}" if at else url


class Connection:
    """One connection to one server, logged in and subscribed to the inbox of its acks."""

    def __init__(self, server: Server, url: str, inbox: bytes) -> None:
        self.url = without_login(url)
        self.buffer = bytearray()
        try:
            self.socket: socket.socket = socket.create_connection(server.address(url), CONNECT_SECONDS)
        except OSError as error:
            raise PublishError(f"{self.url} cannot be reached: {error}") from None
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._log_in(server, url, inbox)
        except OSError as error:
            self.close()
            raise PublishError(f"{self.url} ended the connection at its start: {error}") from None
        except BaseException:
            self.close()
            raise

    def _log_in(self, server: Server, url: str, inbox: bytes) -> None:
        line = self._line()
        if not line.startswith(b"INFO "):
            raise PublishError(f"{self.url} is no NATS server")
        info = _json(line[5:])
        if info.get("tls_required") or server.wants_tls(url):
            self.socket = server.context().wrap_socket(self.socket, server_hostname=server.address(url)[0])
        elif not info.get("headers"):
            raise PublishError(f"{self.url} knows no headers: it is too old")
        self.max_payload = int(info.get("max_payload") or 1024 * 1024)
        fields = CLIENT | server.login(url, str(info.get("nonce") or "").encode())
        self.socket.sendall(b"CONNECT %s\r\nSUB %s.* 1\r\nPING\r\n" % (orjson.dumps(fields), inbox))
        while (line := self._line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise PublishError(f"{self.url} refuses this login: {line[5:].decode(errors='replace')}")

    def _line(self) -> bytes:
        while (end := self.buffer.find(b"\r\n")) < 0:
            if len(self.buffer) > MOST_LINE_BYTES:
                raise PublishError(f"{self.url} is no NATS server")
            self._fill()
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    def _fill(self) -> None:
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the server closed it")
        self.buffer += data

    def send(self, data: bytes) -> None:
        """Raises OSError when the connection is lost."""
        self.socket.sendall(data)

    def replies(self, seconds: float) -> list[tuple[int, bytes]]:
        """(number, ack) of the replies that come within so long; waits for the first only. b"" for no responders."""
        pending = isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0
        if not pending and not select.select([self.socket], [], [], seconds)[0]:
            return []
        self._fill()
        found: list[tuple[int, bytes]] = []
        position = 0
        while (end := self.buffer.find(b"\r\n", position)) >= 0:
            line = bytes(self.buffer[position:end])
            if not line.startswith((b"MSG ", b"HMSG ")):
                self._other(line)
                position = end + 2
                continue
            words = line.split()
            stop = end + 2 + int(words[-1])
            if len(self.buffer) < stop + 2:
                break
            body = bytes(self.buffer[end + 2 : stop])
            number = int(words[1].rpartition(b".")[2])
            if words[0] == b"HMSG":
                head, body = body[: int(words[-2])], body[int(words[-2]) :]
                body = b"" if NO_RESPONDERS in head.partition(b"\r\n")[0] else body
            found.append((number, body))
            position = stop + 2
        del self.buffer[:position]
        return found

    def _other(self, line: bytes) -> None:
        if line == b"PING":
            self.send(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            raise PublishError(f"{self.url} says {line[5:].decode(errors='replace')}")

    def close(self) -> None:
        self.socket.close()


class Publisher:
    """Publishes and waits for acks; a context manager. `stored` and `repeated` count what the acks say."""

    def __init__(self, server: Server, in_flight: int, ack_seconds: float) -> None:
        self.server = server
        self.in_flight = in_flight
        self.ack_seconds = ack_seconds
        self.inbox = b"_INBOX." + secrets.token_hex(11).encode()
        self.stored = self.repeated = 0
        self._unacked: dict[int, tuple[str, bytes]] = {}
        self._unacked_bytes = 0
        self._number = 0
        self._unsent = bytearray()
        self._connection: Connection | None = self._connected()

    @property
    def max_payload(self) -> int:
        return self._connection.max_payload if self._connection is not None else 0

    def _connected(self) -> Connection:
        """To the first of the servers that answers. Raises PublishError with what the last one said."""
        reason: PublishError | None = None
        for url in self.server.urls:
            try:
                return Connection(self.server, url, self.inbox)
            except PublishError as error:
                reason = error
        raise reason or PublishError("the option url is missing")

    def publish(self, subject: str, headers: bytes, payload: bytes) -> None:
        """Takes one message over; `headers` is a whole header block. Raises PublishError for what was refused."""
        self._number += 1
        reply = b"%s.%d" % (self.inbox, self._number)
        size = len(headers) + len(payload)
        frame = b"HPUB %s %s %d %d\r\n%s%s\r\n" % (subject.encode(), reply, len(headers), size, headers, payload)
        self._unacked[self._number] = (subject, frame)
        self._unacked_bytes += len(frame)
        self._unsent += frame
        if len(self._unsent) >= SEND_BYTES:
            self._exchange(0.0)
        if len(self._unacked) >= self.in_flight or self._unacked_bytes >= IN_FLIGHT_BYTES:
            self._wait(self.in_flight // 2, IN_FLIGHT_BYTES // 2)

    def flush(self) -> None:
        """Waits until everything is acked."""
        self._wait(0, 0)

    def _wait(self, most: int, most_bytes: int) -> None:
        """Until no more than so many, and so many bytes, are unacked."""
        heard = time.monotonic()
        while len(self._unacked) > most or self._unacked_bytes > most_bytes:
            before = len(self._unacked)
            self._exchange(self.ack_seconds)
            if len(self._unacked) < before:
                heard = time.monotonic()
            elif time.monotonic() - heard >= self.ack_seconds:
                subject = next(iter(self._unacked.values()))[0]
                raise PublishError(f"no ack for a message to {subject!r} within {self.ack_seconds:g} s")

    def _exchange(self, seconds: float) -> None:
        """Sends what is unsent, takes the acks that are there; waits so long for the first. Survives a lost link."""
        try:
            if self._connection is None:
                raise ConnectionResetError("no connection")
            unsent, self._unsent = self._unsent, bytearray()
            self._connection.send(bytes(unsent))
            for number, body in self._connection.replies(seconds):
                self._acked(number, body)
        except OSError:
            self._reconnect()

    def _reconnect(self) -> None:
        """A new connection, and everything unacked over it once more."""
        self.close()
        until = time.monotonic() + self.ack_seconds
        while self._connection is None:
            try:
                self._connection = self._connected()
            except PublishError:
                if time.monotonic() >= until:
                    raise
                time.sleep(RETRY_SECONDS)
        self._unsent = bytearray(b"".join(frame for _, frame in self._unacked.values()))

    def _acked(self, number: int, body: bytes) -> None:
        subject, frame = self._unacked.pop(number, ("", b""))
        if not frame:
            return  # the second ack of one that went out twice
        self._unacked_bytes -= len(frame)
        if not body:
            raise PublishError(f"no stream takes the subject {subject!r}, or JetStream is off for this account")
        ack = _json(body)
        error = ack.get("error")
        if isinstance(error, dict):
            raise PublishError(
                f"a message to {subject!r} was refused: {error.get('description')} (error {error.get('err_code')})"
            )
        if "seq" not in ack:
            raise PublishError(f"what answers on {subject!r} is no stream")
        if ack.get("duplicate"):
            self.repeated += 1
        else:
            self.stored += 1

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}
