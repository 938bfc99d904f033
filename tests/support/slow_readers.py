"""A stream with more messages than the kernel and the broker keep for a client, and clients that read slowly."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js.api import StorageType

from tests.support.daemon import CONNECT, Daemon, Raw

BODY = b"x" * 50_000
MESSAGES = 400


def patient(folder: Path, pending: int, write_deadline: str) -> Daemon:
    """Not started yet; it keeps so many bytes for a client."""
    (folder / "conf").write_text(
        f"max_pending: {pending}\nmax_payload: 64KB\nwrite_deadline: {write_deadline}\n"
        f"jetstream {{ store_dir: '{folder / 'store'}' }}\n"
    )
    return Daemon("-c", str(folder / "conf"))


@asynccontextmanager
async def filled(daemon: Daemon) -> AsyncIterator[Client]:
    """Start it, and fill the stream `S`."""
    with daemon:
        connection = await nats.connect(f"nats://127.0.0.1:{daemon.port}")
        js = connection.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], storage=StorageType.MEMORY)
        for number in range(MESSAGES):
            await js.publish(f"s.{number}", BODY)
        yield connection
        await connection.close()


def slow_reader(daemon: Daemon, interest: bytes) -> Raw:
    """Subscribed to a subject, and maybe in a queue group; its socket holds little."""
    slow = daemon.open()
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    slow.exchange(CONNECT + b"SUB " + interest + b" 1\r\n")
    return slow
