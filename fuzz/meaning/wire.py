"""A client of the broker, as small as it can be: it sends bytes and sorts what comes back."""

from __future__ import annotations

import json
import socket

SEND_SECONDS = 30.0
_READ_BYTES = 1 << 18


class Connection:
    """One user's connection. `answers` are the first messages that came to each of its inboxes.

    `errors` are what `-ERR` lines said. A connection that the broker closed is `closed`.
    """

    def __init__(self, port: int, user: str, password: str) -> None:
        self.user = user
        self.answers: dict[int, tuple[bytes, bytes]] = {}
        self.errors: list[str] = []
        self.pongs = 0
        self.pings = 0
        self.closed = False
        self._prefix = f"_INBOX.{user}.".encode()
        self._buffer = b""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SEND_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        login = {"user": user, "pass": password, "headers": True, "no_responders": True, "verbose": False}
        self.send(f"CONNECT {json.dumps(login)}\r\nSUB {self._prefix.decode()}* 1\r\nSUB d.> 2\r\n".encode())
        self.ping()

    def send(self, data: bytes) -> None:
        """Send; a broken connection is closed from then on."""
        if self.closed:
            return
        try:
            self.socket.sendall(data)
        except OSError:
            self.closed = True

    def ping(self) -> None:
        """Ask for a PONG."""
        self.pings += 1
        self.send(b"PING\r\n")

    @property
    def idle(self) -> bool:
        """Has all been read that was sent? What is closed is idle."""
        return self.closed or self.pongs >= self.pings

    def publish(self, subject: str, inbox: int | None, headers: bytes, body: bytes) -> bytes:
        """The bytes of a publish; `inbox` is where its answer comes in."""
        line = [b"HPUB" if headers else b"PUB", subject.encode("utf-8", "surrogatepass")]
        if inbox is not None:
            line.append(self._prefix + b"%d" % inbox)
        if headers:
            line.append(b"%d" % len(headers))
        line.append(b"%d" % (len(headers) + len(body)))
        return b" ".join(line) + b"\r\n" + headers + body + b"\r\n"

    def read(self) -> None:
        """Take what has come; call it when there is something."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return
        buffer, at = self._buffer + data, 0
        while (end := buffer.find(b"\r\n", at)) >= 0:
            line = buffer[at:end]
            word, _, rest = line.partition(b" ")
            at = end + 2
            if word in (b"MSG", b"HMSG"):
                words = rest.split(b" ")
                size = int(words[-1])
                if len(buffer) < at + size + 2:
                    at = end - len(line)
                    break
                self._take(words[0], int(words[-2]) if word == b"HMSG" else 0, buffer[at : at + size])
                at += size + 2
            elif word == b"PING":
                self.send(b"PONG\r\n")
            elif word == b"PONG":
                self.pongs += 1
            elif word == b"-ERR":
                self.errors.append(rest.decode("utf-8", "replace"))
        self._buffer = buffer[at:]

    def _take(self, subject: bytes, headers_size: int, message: bytes) -> None:
        if subject.startswith(self._prefix):
            self.answers.setdefault(int(subject[len(self._prefix) :]), (message[:headers_size], message[headers_size:]))

    def close(self) -> None:
        """Close it."""
        self.closed = True
        self.socket.close()
