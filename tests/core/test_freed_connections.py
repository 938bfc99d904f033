"""Connections that are over are freed at once: no cycle of references waits for the collector."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from jetbroker.accounts.streams import Shadow
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.listener import Arrival
from jetbroker.connections.tls_layer import TlsLayer
from jetbroker.connections.websocket_stream import WebsocketStream, WebsocketTransport
from jetbroker.testing import EmbeddedBroker, embedded
from tests.support import certificates
from tests.support.memory import instances

SECONDS = 30.0
KINDS = (Arrival, ClientProtocol, Shadow, TlsLayer, WebsocketStream, WebsocketTransport)


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def all_freed(before: int) -> None:
    """Until there are only those from before; the broker hears a moment later that a connection has ended."""
    async with asyncio.timeout(SECONDS):
        while len(instances(*KINDS)) > before:
            await asyncio.sleep(0.01)


async def used_and_closed(url: str, **options: Any) -> None:
    client = await nats.connect(url, connect_timeout=SECONDS, allow_reconnect=False, **options)
    heard = await client.subscribe("a.*")
    await client.publish("a.b", b"x")
    await heard.next_msg(SECONDS)
    await client.close()


def cut_in_the_middle(port: int, first: bytes) -> None:
    """A peer that says so much and is reset then."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as peer:
        peer.sendall(first)
        peer.recv(1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_plain_connections(uncollected: None) -> None:
    with embedded(jetstream=False) as broker:
        before = len(instances(*KINDS))
        for _ in range(3):
            await used_and_closed(broker.url)
            cut_in_the_middle(broker.port, b"CONNECT {}\r\nPUB a 10\r\nx")
            cut_in_the_middle(broker.port, b"no protocol at all\r\n")
        await all_freed(before)


async def test_connections_with_tls(uncollected: None, tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    with embedded(config=made.tls_block(), jetstream=False) as broker:
        before = len(instances(*KINDS))
        for _ in range(3):
            await used_and_closed(broker.url, tls=made.client_context())
            cut_in_the_middle(broker.port, b"\x16\x03\x01")
            cut_in_the_middle(broker.port, b"CONNECT {}\r\n")
        await all_freed(before)


async def test_websockets(uncollected: None) -> None:
    with embedded(config="websocket { listen: '127.0.0.1:-1', no_tls: true }", jetstream=False) as broker:
        before = len(instances(*KINDS))
        for _ in range(3):
            await used_and_closed(websocket(broker))
        await all_freed(before)


IMPORTS = """
accounts {
  A { users: [{user: a, password: p}], exports: [{stream: a.>}] }
  B { users: [{user: b, password: p}], imports: [{stream: {account: A, subject: a.>}}] }
}
"""


async def test_connections_that_subscribe_to_what_another_account_gives(uncollected: None) -> None:
    with embedded(config=IMPORTS, jetstream=False) as broker:
        before = len(instances(*KINDS))
        for _ in range(3):
            await used_and_closed(broker.url, user="b", password="p")
        await all_freed(before)


def websocket(broker: EmbeddedBroker) -> str:
    return broker.urls["websocket"]


LOOKS = """
import gc
from jetbroker import limits
from jetbroker.daemon.garbage import collect_rarely
collect_rarely()
kept = [[number] for number in range(1000)]
for bound_ns in (60_000_000_000, -1):
    limits.LONG_LOOK_NS, frozen = bound_ns, gc.get_freeze_count()
    gc.collect(1)
    gc.collect()
    print(gc.get_freeze_count() - frozen >= len(kept))
"""


def test_what_a_long_look_for_cycles_has_left_is_not_walked_again() -> None:
    """In a process of its own: the collector serves the whole of it."""
    done = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("False\nTrue\n", "")
