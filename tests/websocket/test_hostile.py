"""F34 and its kind on the WebSocket port: bombs, fragments without end, frames that never end. Each pays alone."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from jetbroker import limits
from tests.support.daemon import Daemon, Raw
from tests.support.websocket import DEFLATE, WebsocketClient, binary, compressed, frame, websocket_port
from tests.websocket.conftest import Start

CONFIG = """
websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }
authorization { user: a, password: b, timeout: 2 }
max_payload: 1MB
"""
CONNECT = b'CONNECT {"user":"a","pass":"b","verbose":false,"pedantic":false}\r\n'
BINARY, CONTINUED, PING = 2, 0, 9
MEGABYTE = 1 << 20
SPARE = 24 * MEGABYTE  # that memory may grow by: the allocator's arenas, buffers that idle connections may keep


@pytest.fixture(scope="module")
def daemon(start: Start) -> Daemon:
    return start(CONFIG)


@pytest.fixture
def witness(daemon: Daemon) -> Iterator[Raw]:
    """A client over TCP that was there before the harm; afterwards its traffic still flows and memory is as before."""
    with daemon.open() as client:
        client.exchange(CONNECT + b"SUB witness 1\r\n")
        before = daemon.rss_bytes()
        yield client
        received = client.exchange(b"PUB witness 2\r\nhi\r\n").replace(b"PING\r\n", b"")
        assert received == b"MSG witness 1 2\r\nhi\r\nPONG\r\n"
        assert daemon.rss_bytes() - before < SPARE


@pytest.fixture
def client(daemon: Daemon) -> Iterator[WebsocketClient]:
    with WebsocketClient.open(websocket_port(daemon), DEFLATE) as opened:
        yield opened


def bomb(unit: bytes, megabytes: int) -> bytes:
    """A frame that inflates to so much."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = unit * (MEGABYTE // len(unit))
    parts = [deflater.compress(block) for _ in range(megabytes)]
    return frame(BINARY, b"".join(parts) + deflater.flush(zlib.Z_SYNC_FLUSH), reserved=4)


@pytest.fixture(scope="module")
def gigabyte() -> bytes:
    sent = bomb(b"+OK\r\n", 1024)
    assert len(sent) < 4 * MEGABYTE
    return sent


def test_requests_without_end(daemon: Daemon, witness: Raw) -> None:
    with socket.create_connection(("127.0.0.1", websocket_port(daemon)), 20) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * (3 * limits.WEBSOCKET_REQUESTS))
        received = b""
        while data := peer.recv(65_536):
            received += data
    assert received.count(b"HTTP/1.1 400 Bad Request\r\n") == limits.WEBSOCKET_REQUESTS


def test_a_bomb(client: WebsocketClient, witness: Raw, gigabyte: bytes) -> None:
    client.exchange(CONNECT)
    client.send(gigabyte)
    received = client.to_end()
    assert (received.code, received.text) == (1009, "maximum payload exceeded")


def test_a_bomb_before_the_login(daemon: Daemon, client: WebsocketClient, witness: Raw, gigabyte: bytes) -> None:
    client.send(gigabyte)
    received = client.to_end()
    assert received.data == b"-ERR 'Authorization Violation'\r\n"
    assert received.code == 1008
    for unit in (b"CONNECT {\n", b"CONNECT " + b" " * 92):
        with WebsocketClient.open(websocket_port(daemon), DEFLATE) as other:
            other.send(bomb(unit, 64))
            assert other.to_end().code in (1002, 1008)


def test_a_bomb_behind_the_login(client: WebsocketClient, witness: Raw, gigabyte: bytes) -> None:
    """The bound for those who have logged in holds for the message that does it."""
    client.send(binary(CONNECT) + gigabyte)
    assert client.to_end().code == 1009


def test_bombs_by_many(daemon: Daemon, witness: Raw, gigabyte: bytes) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(WebsocketClient.open(websocket_port(daemon), DEFLATE)) for _ in range(10)]
        for client in clients:
            client.exchange(CONNECT)
        for client in clients:
            client.send(gigabyte[:MEGABYTE])
        witness.exchange(b"PUB elsewhere 2\r\nhi\r\n")
        for client in clients:
            assert client.to_end().code == 1009


def test_a_bomb_in_fragments(client: WebsocketClient, witness: Raw, gigabyte: bytes) -> None:
    client.exchange(CONNECT)
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = body.compress(b"+OK\r\n" * 4 * MEGABYTE) + body.flush(zlib.Z_SYNC_FLUSH)
    client.send(frame(BINARY, data[:1], final=False, reserved=4))
    client.send(b"".join(frame(CONTINUED, data[at : at + 1], final=False) for at in range(1, len(data))))
    assert client.to_end().code == 1009


def test_fragments_that_inflate_to_nothing(client: WebsocketClient, witness: Raw) -> None:
    """Their own size is bounded too: nothing comes out of blocks without content, however many there are."""
    client.exchange(CONNECT)
    blocks = b"\x00\x00\x00\xff\xff" * 20_000
    client.send(frame(BINARY, blocks, final=False, reserved=4))
    client.send(frame(CONTINUED, blocks, final=False) * (9 * MEGABYTE // len(blocks)))
    received = client.to_end()
    assert (received.code, received.text) == (1009, "maximum payload exceeded")


def test_fragments_without_end(client: WebsocketClient, witness: Raw) -> None:
    """Empty ones and tiny ones, compressed or not: nothing is kept of them."""
    client.send(frame(BINARY, CONNECT, final=False))
    client.send((frame(CONTINUED, b"", final=False) + frame(CONTINUED, b"+OK\r\n", final=False)) * 50_000)
    witness.exchange(b"PUB elsewhere 2\r\nhi\r\n")
    client.send(frame(CONTINUED, b"PING\r\n"))
    assert client.until(b"PONG\r\n").endswith(b"PONG\r\n")
    client.send(frame(BINARY, b"", final=False, reserved=4))
    client.send(frame(CONTINUED, b"", final=False) * 50_000)
    client.send(compressed(b"PING\r\n").replace(b"\xc2", b"\x80", 1))
    assert client.until(b"PONG\r\n").endswith(b"PONG\r\n")


def test_frames_that_never_end(daemon: Daemon, witness: Raw) -> None:
    """A frame of 2^62 bytes is taken apart, not waited for: 200 clients hold next to nothing."""
    with ExitStack() as stack:
        clients = [stack.enter_context(WebsocketClient.open(websocket_port(daemon))) for _ in range(200)]
        for client in clients:
            client.exchange(CONNECT)
        before = daemon.rss_bytes()
        for client in clients:
            client.send(frame(BINARY, b"+OK\r\n" * 40_000, size=1 << 62))
            witness.exchange(b"")
        assert daemon.rss_bytes() - before < SPARE


def test_pings_that_nobody_reads_the_answers_to(client: WebsocketClient, daemon: Daemon, witness: Raw) -> None:
    client.exchange(CONNECT)
    before = daemon.rss_bytes()
    for _ in range(200):
        client.send(frame(PING, b"a" * 125) * 1000)
        witness.exchange(b"")
    assert daemon.rss_bytes() - before < SPARE
    client.send(binary(b"PING\r\n"))
    assert client.until(b"PONG\r\n").endswith(b"PONG\r\n")
