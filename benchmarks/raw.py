"""A connection by hand: cheap enough in Python to keep a server busy, as it counts answers instead of reading them."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from benchmarks.servers import BenchmarkError, Server

CHUNK = 1 << 20
TIMEOUT_S = 120.0
PING = b"PING\r\n"
CONNECT = (
    b'CONNECT {"verbose":false,"name":"bench","headers":true,"no_responders":true,"protocol":1,"version":"2.14.5"}\r\n'
)


class RawConnection:
    """To a port of clients or of leafs, as a context manager."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._subscriptions = 0
        self.send(CONNECT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """All of it."""
        self._socket.sendall(data)

    def until(self, mark: bytes, count: int = 1) -> bytes:
        """Read until lines began with `mark` so often; the last piece that was read. A PING is answered."""
        seen = 0
        mark = b"\n" + mark
        while True:
            data = self._rest + self.receive()
            seen += data.count(mark)
            if seen >= count:
                self._rest = b"\n"
                return data
            self._rest = data[-len(mark) + 1 :]

    def receive(self) -> bytes:
        """What comes next, without PINGs, which are answered. One in two pieces is overlooked: another one follows."""
        try:
            data = self._socket.recv(CHUNK)
        except ConnectionError:
            data = b""
        if not data:
            raise BenchmarkError(f"the server closed: {self._rest[-200:]!r}")
        if data.startswith(PING) or b"\n" + PING in data:
            self.send(b"PONG\r\n")
            data = data.removeprefix(PING).replace(b"\n" + PING, b"\n")
        return data

    def receive_into(self, room: memoryview) -> int:
        """What comes next, PINGs and all; how much it is."""
        count = self._socket.recv_into(room)
        if not count:
            raise BenchmarkError("the server closed")
        return count

    def sync(self) -> None:
        """Until the server has read all that was sent."""
        self.send(b"PING\r\n")
        self.until(b"PONG")

    def subscribe(self, subject: str) -> None:
        """What comes is read by :meth:`until`."""
        self._subscriptions += 1
        self.send(b"SUB %b %d\r\n" % (subject.encode(), self._subscriptions))

    def publish(
        self, subjects: Callable[[int], bytes], payload: bytes, count: int, window: int = 1000, headers: bytes = b""
    ) -> None:
        """`count` messages into a stream, `window` of them without an ack yet at the most. Needs a SUB of `acks`."""
        verb, sizes = (b"HPUB ", b"%d %d") if headers else (b"PUB ", b"%d")
        size = len(headers) + len(payload)
        tail = b" acks " + sizes % ((len(headers), size) if headers else size) + b"\r\n" + headers + payload + b"\r\n"
        for first in range(0, count, window):
            numbers = range(first, min(first + window, count))
            self.send(b"".join(verb + subjects(number) + tail for number in numbers))
            if b'"error"' in self.until(b"MSG acks ", len(numbers)):
                raise BenchmarkError("a publish was refused")

    def request(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """One answer of the JetStream API. Raises BenchmarkError when it is an error. Needs a SUB of `api`."""
        data = self.encoded(body)
        self.send(b"PUB $JS.API.%b api %d\r\n%b\r\n" % (subject.encode(), len(data), data))
        answer = self._answer()
        if "error" in answer:
            raise BenchmarkError(f"{subject}: {answer['error']}")
        return answer

    @staticmethod
    def encoded(body: dict[str, Any]) -> bytes:
        return json.dumps(body).encode()

    def _answer(self) -> dict[str, Any]:
        data = b""
        while not data.endswith(b"}\r\n"):
            data += self.receive()
        found: dict[str, Any] = json.loads(data[data.index(b"\r\n") :])
        return found


@contextmanager
def client_of(server: Server, *subjects: str) -> Iterator[RawConnection]:
    """Start the server and connect; subscribed to these subjects, to acks, and to answers of the API."""
    server.start()
    with RawConnection(server.port) as client:
        for subject in ("acks", "api", *subjects):
            client.subscribe(subject)
        client.sync()
        yield client
