"""WebSockets by hand: requests and frames, right and wrong, and the answers to them."""

from __future__ import annotations

import re
import socket
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from websockets.frames import Frame, Opcode

from tests.support.process import STOP_TIMEOUT_S, ServerProcess

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HEADERS = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
NO_MASKING = "Nats-No-Masking: true\r\n"
MASK = b"\x01\x82\x03\x84"


def request(
    more: str = "", *, method: str = "GET", path: str = "/", version: str = "1.1", **changed: str | None
) -> bytes:
    """An upgrade request. `changed` headers (`_` for `-`) replace those of a right one, None leaves them out."""
    headers = {**HEADERS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value is not None)
    return f"{method} {path} HTTP/{version}\r\n{lines}{more}\r\n".encode()


def frame(
    opcode: int, data: bytes, *, final: bool = True, reserved: int = 0, masked: bool = True, size: int | None = None
) -> bytes:
    """A client's frame; `reserved` are the three bits, `size` is what it claims to hold."""
    length = len(data) if size is None else size
    if length < 126:
        head = bytes([length])
    elif length < 65536:
        head = b"\x7e" + length.to_bytes(2, "big")
    else:
        head = b"\x7f" + length.to_bytes(8, "big")
    if not masked:
        return bytes([final << 7 | reserved << 4 | opcode]) + head + data
    mask = (MASK * (len(data) // 4 + 1))[: len(data)]
    body = (int.from_bytes(data) ^ int.from_bytes(mask)).to_bytes(len(data))
    return bytes([final << 7 | reserved << 4 | opcode, head[0] | 0x80]) + head[1:] + MASK + body


def binary(data: bytes) -> bytes:
    """A message in one frame."""
    return frame(Opcode.BINARY, data)


def deflate(data: bytes) -> bytes:
    """A message's bytes, compressed as permessage-deflate wants it."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\x00\x00\xff\xff")


def compressed(data: bytes) -> bytes:
    """A compressed message in one frame."""
    return frame(Opcode.BINARY, deflate(data), reserved=4)


class Received(NamedTuple):
    """What a server said: protocol bytes, pongs, the code and text of its close frame (0 without one)."""

    data: bytes
    pongs: tuple[bytes, ...]
    code: int
    text: str
    closed: bool


class WebsocketClient:
    """A blocking connection to a WebSocket port."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STOP_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self.socket.getsockname()[1]  # our end's
        self.head = b""
        self.info = b""
        self.closed = False
        self.close_frame: bytes | None = None
        self._bytes = b""
        self._data = b""
        self._pongs: list[bytes] = []
        self._frames: list[Frame] = []
        self.frame_sizes: list[int] = []

    @classmethod
    def open(cls, port: int, more: str = "") -> WebsocketClient:
        """Upgraded, INFO read."""
        client = cls(port)
        client.send(request(more))
        client.read_head()
        if not client.head.startswith(b"HTTP/1.1 101"):
            raise AssertionError(client.head)
        client.info = client.until(b"\r\n")
        return client

    def send(self, data: bytes) -> None:
        """Send all; a server that closed already is no error here: what it said is what counts."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Each in a packet of its own."""
        for piece in pieces:
            self.send(piece)

    def read_head(self) -> bytes:
        """The answer to the request, up to the empty line."""
        while b"\r\n\r\n" not in self._bytes and self._receive():
            pass
        self.head, _, self._bytes = self._bytes.partition(b"\r\n\r\n")
        return self.head

    def until(self, end: bytes) -> bytes:
        """Protocol bytes up to and with `end`, or all there are."""
        while end not in self._data and (self._take() or self._receive()):
            pass
        found, _, self._data = self._data.partition(end)
        return found + end

    def exchange(self, data: bytes) -> bytes:
        """What comes up to the PONG that answers a PING behind `data`."""
        self.send(binary(data + b"PING\r\n"))
        return self.until(b"PONG\r\n")

    def to_end(self) -> Received:
        """Everything until the server closes."""
        while self._take() or self._receive():
            pass
        code, text = 0, ""
        if self.close_frame is not None:
            code = int.from_bytes(self.close_frame[:2], "big") if self.close_frame else 1005
            text = self.close_frame[2:].decode()
        return Received(self._data, tuple(self._pongs), code, text, self.closed)

    def raw_to_end(self) -> bytes:
        """Everything, as it came."""
        while self._receive():
            pass
        return self._bytes

    def _receive(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self._bytes += data
        self.closed = self.closed or not data
        return bool(data)

    def _take(self) -> bool:
        """The next frame of what was received."""
        if len(self._bytes) < 2:
            return False
        size, at = self._bytes[1] & 0x7F, 2
        if size > 125:
            at = 4 if size == 126 else 10
            size = int.from_bytes(self._bytes[2:at], "big")
        if len(self._bytes) < at + size:
            return False
        first, data = self._bytes[0], self._bytes[at : at + size]
        self._bytes = self._bytes[at + size :]
        self._frames.append(Frame(Opcode(first & 15), data, bool(first & 0x80), bool(first & 0x40)))
        self.frame_sizes.append(size)
        if not first & 0x80:
            return True
        self._message(self._frames)
        self._frames = []
        return True

    def _message(self, frames: list[Frame]) -> None:
        data = b"".join(bytes(part.data) for part in frames)
        if frames[0].opcode == Opcode.CLOSE:
            self.close_frame = data
        elif frames[0].opcode == Opcode.PONG:
            self._pongs.append(data)
        elif frames[0].rsv1:
            self._data += zlib.decompressobj(-15).decompress(data + b"\x00\x00\xff\xff")
        else:
            self._data += data

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> WebsocketClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def websocket_port(server: ServerProcess) -> int:
    """The port its log names."""
    for line in server.log:
        if found := re.search(r"Listening for websocket clients on wss?://.*:(\d+)$", line):
            return int(found[1])
    raise AssertionError("no websocket listener in:\n" + "\n".join(server.log))
