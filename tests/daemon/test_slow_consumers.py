"""Receivers that do not keep up: bounded memory, cut off alone, or, where asked for, given less. Others see nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.http import get_json, monitor_port
from tests.support.logins import SERVERS, server

PENDING = 1024 * 1024
BODY = b"x" * 50_000
MESSAGE = b"PUB flood 50000\r\n" + BODY + b"\r\n"
DELIVERED = b"MSG flood 1 50000\r\n" + BODY + b"\r\n"
ROUNDS = 60
KERNEL_BYTES = 64 * 1024 * 1024  # sockets' buffers, both sides, and what a broker needs besides


@pytest.fixture
def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    (tmp_path / "conf").write_text(f"max_pending: {PENDING}\nmax_payload: 64KB\n{getattr(request, 'param', '')}\n")
    with Daemon("-c", str(tmp_path / "conf")) as running:
        yield running
        assert not [line for line in running.log if "Traceback" in line or "Internal error" in line]


def subscriber(daemon: Daemon) -> Raw:
    client = daemon.open()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.exchange(CONNECT + b"SUB flood 1\r\n")
    return client


def test_one_that_reads_byte_by_byte_is_cut_off_alone(daemon: Daemon) -> None:
    before = daemon.rss_bytes()
    with subscriber(daemon) as slow, subscriber(daemon) as reader, daemon.open() as publisher:
        publisher.exchange(CONNECT)
        for _ in range(ROUNDS):
            publisher.exchange(MESSAGE * 10)
            assert reader.exchange(b"").count(DELIVERED) == 10
            slow.socket.recv(1)
        line = daemon.wait_for("Slow Consumer Detected: MaxPending of 1048576 Exceeded")
        assert f"127.0.0.1:{slow.socket.getsockname()[1]} - " in line
        assert len([line for line in daemon.log if "Slow Consumer" in line]) == 1
        assert daemon.rss_bytes() - before < KERNEL_BYTES
        slow.to_end()  # closed: this ends
        assert publisher.exchange(MESSAGE) == b"PONG\r\n"
        assert reader.exchange(b"") == DELIVERED + b"PONG\r\n"


@pytest.mark.parametrize("kind", SERVERS)
def test_stalls_are_told_of_the_receiver_that_publishers_waited_for(tmp_path: Path, kind: str) -> None:
    config = f"http: 127.0.0.1:-1\nmax_pending: {PENDING}\nmax_payload: 64KB\n"
    with server(kind, tmp_path, config) as daemon, subscriber(daemon) as slow, daemon.open() as publisher:
        publisher.exchange(CONNECT)
        while not any("Slow Consumer" in line for line in daemon.log):
            publisher.exchange(MESSAGE * 10)
        rows = get_json(monitor_port(daemon), "/connz?state=all")["connections"]
        stalls = {row["port"]: row.get("stalls", 0) for row in rows}
        assert stalls.pop(slow.socket.getsockname()[1]) > 0
        assert stalls == {publisher.socket.getsockname()[1]: 0}


@pytest.mark.parametrize("daemon", ["no_fast_producer_stall: true\nwrite_deadline: 60s"], indirect=True)
def test_without_stalls_messages_are_dropped_for_the_slow_one_only(daemon: Daemon) -> None:
    with subscriber(daemon) as slow, subscriber(daemon) as reader, daemon.open() as publisher:
        publisher.exchange(CONNECT)
        for _ in range(ROUNDS * 2):
            publisher.exchange(MESSAGE * 10)
            assert reader.exchange(b"").count(DELIVERED) == 10
        received = slow.exchange(b"")
        assert received.endswith(b"PONG\r\n")
        assert 0 < received.count(DELIVERED) < ROUNDS * 20
        assert not [line for line in daemon.log if "Slow Consumer" in line]
        publisher.exchange(b"PUB flood 3\r\nend\r\n")  # it has caught up: nothing is dropped any more
        assert slow.exchange(b"") == b"MSG flood 1 3\r\nend\r\nPONG\r\n"
