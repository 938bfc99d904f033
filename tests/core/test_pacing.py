"""What is sent within this machine is not paced."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetbroker.connections import pacing
from jetbroker.connections.client import ClientProtocol
from tests.support.inprocess import FakeTransport, World

ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
NAME_BYTES = 16


class Transport(FakeTransport):
    """Of a real socket."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        super().__init__()
        self._info = {"socket": sock, "peername": (host, 4222)}

    def get_extra_info(self, name: str) -> Any:
        return self._info.get(name)


def congestion_control(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME_BYTES).rstrip(b"\0").decode()


def connect(sock: socket.socket, host: str) -> None:
    """A client of the broker over this socket."""
    world = World()
    client = ClientProtocol(world.shared, world.router, world.account, 1, False)
    client.connection_made(Transport(sock, host))


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """A connection with another congestion control than the one without pacing."""
    others = [name for name in ALLOWED.read_text().split() if name != "reno"]
    if not others:
        pytest.skip("this machine lets users choose reno alone")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, others[0].encode())
        yield connection


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_a_peer_on_this_machine_is_sent_to_at_once(
    sock: socket.socket, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "_paced", True)
    connect(sock, host)
    assert congestion_control(sock) == "reno"


@pytest.mark.parametrize(
    ("host", "paced"), [("127.0.0.1", False), ("10.0.0.1", True), ("192.0.2.127", True), ("2001:db8::1", True)]
)
def test_others_get_what_the_machine_says(
    sock: socket.socket, host: str, paced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "_paced", paced)
    before = congestion_control(sock)
    connect(sock, host)
    assert congestion_control(sock) == before != "reno"


def test_a_connection_that_is_no_tcp_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "_paced", True)
    near, far = socket.socketpair()
    with near, far:
        connect(near, "127.0.0.1")


def test_a_default_that_paces_is_known_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "tcp_congestion_control"
    monkeypatch.setattr(pacing, "_DEFAULT", setting)
    found = []
    for text in (None, "cubic\n", "reno\n", "bbr\n", "bbr3\n"):
        if text is not None:
            setting.write_text(text)
        found.append(pacing.default_paces())
    assert found == [False, False, False, True, True]
