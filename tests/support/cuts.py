"""A TCP proxy on this machine whose connections can be cut, or held still."""

from __future__ import annotations

import asyncio
import contextlib

from tests.support.process import free_port

CHUNK = 65536


class Proxy:
    """Hands on what comes, both ways, to `target`. While it is cut, new connections are closed at once."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.connections = 0  # ever handed on
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._is_cut = False
        self._moves = asyncio.Event()
        self._moves.set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(task for task in self._tasks if task is not None))

    def cut(self) -> None:
        """Reset every connection, and let no new one through."""
        self._is_cut = True
        self._moves.set()
        for writer in self._open:
            writer.transport.abort()

    def hold(self) -> None:
        """Nothing moves any more, but everything stays open."""
        self._moves.clear()

    def restore(self) -> None:
        """Let new connections through, and everything move."""
        self._is_cut = False
        self._moves.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._hand_on(reader, writer)
        finally:
            self._tasks.discard(task)

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._is_cut:
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()  # as if nobody listened here
            return
        self.connections += 1
        pair = {writer, far_writer}
        self._open |= pair
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self._open -= pair
            for each in pair:
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, OSError):
            while data := await reader.read(CHUNK):
                await self._moves.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
