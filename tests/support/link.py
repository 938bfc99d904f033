"""A raw socket of an event loop, for conversations byte by byte."""

from __future__ import annotations

import asyncio
import socket


class Link:
    """A connection to a port of this machine. What was received stays readable when the other side resets it."""

    def __init__(self, port: int) -> None:
        self.closed = False
        self._port = port
        self._socket = socket.socket()
        self._socket.setblocking(False)

    async def open(self) -> None:
        await asyncio.get_running_loop().sock_connect(self._socket, ("127.0.0.1", self._port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def send(self, data: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server was done with us: what it said before that is what counts

    async def receive(self) -> bytes:
        """What comes next; nothing when the other side has closed."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
        except ConnectionResetError:
            data = b""
        self.closed = not data
        return data

    def close(self) -> None:
        self._socket.close()
