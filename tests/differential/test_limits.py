"""Who is too many, too slow or too late: what clients hear, why they are closed, and what the log says of it."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import websocket
from tests.support.daemon import CONNECT, Daemon
from tests.support.http import get_json, monitor_port
from tests.support.process import STOP_TIMEOUT_S
from tests.support.websocket import WebsocketClient, websocket_port

pytestmark = pytest.mark.differential

LINE = re.compile(r"\[\d+\] \S+ \S+ (\[(?:ERR|WRN|INF|DBG)\] )(?:127\.0\.0\.1:\d+ - [cw]id:\d+ - )?(.*)")
# of timers, and of nats-server's own insides
NOISE = re.compile(
    r"Client Ping Timer|Delaying PING|Client accept loop exiting|SYSTEM - |producer stall|Producer was stalled"
    r"|Error flushing"
)
BYTES = 30_000_000  # more than two kernels hold back for a connection


def connect(user: str = "u") -> bytes:
    return b'CONNECT {"user":"%b","pass":"p","verbose":false,"name":"%b"}\r\n' % (user.encode(), user.encode())


def too_many(server: Daemon) -> object:
    with server.open() as first:
        first.exchange(CONNECT)
        first.line()
        with server.open() as second:
            refused = second.to_end()
        still = first.exchange(b"")
    until_closed(server, 2)
    with server.open() as third:
        return refused, still, third.exchange(CONNECT)


def too_many_websockets(server: Daemon) -> object:
    with server.open() as first:
        first.exchange(CONNECT)
        with WebsocketClient.open(websocket_port(server)) as second:
            refused = second.to_end()
    return refused


def too_many_in_an_account(server: Daemon) -> object:
    with server.open() as first, server.open() as second, server.open() as other:
        heard = [first.exchange(connect()), other.exchange(connect("v"))]
        second.send(connect())
        heard.append(second.to_end())
        other.send(connect())  # a second CONNECT that leads there
        heard.append(other.to_end())
    until_closed(server, 3)
    with server.open() as third:
        return heard, third.exchange(connect())


def too_late(server: Daemon) -> object:
    beginnings = (b"", b"C", b"CONNECT {", connect()[:-2])
    with server.open() as a, server.open() as b, server.open() as c, server.open() as d:
        clients = (a, b, c, d)
        for client, said in zip(clients, beginnings, strict=True):
            client.send(said)
        return [client.to_end() for client in clients]


def too_late_by_websocket(server: Daemon) -> object:
    with WebsocketClient.open(websocket_port(server)) as silent:
        return silent.to_end()


def too_slow(server: Daemon) -> object:
    with socket.socket() as slow, server.open() as quick:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.settimeout(STOP_TIMEOUT_S)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(CONNECT + b"SUB a 1\r\nPING\r\n")
        received = b""
        while b"connect_info" not in received:
            received += slow.recv(4096)
        quick.exchange(CONNECT)
        for _ in range(BYTES // 1_000_000):
            quick.send(b"PUB a 1000000\r\n" + bytes(1_000_000) + b"\r\n")
        answered = quick.exchange(b"").endswith(b"PONG\r\n")
        until_closed(server, 1)
    of_accounts = get_json(monitor_port(server), "/accstatz?unused=1")["account_statz"]
    counted = {row["acc"]: row["slow_consumers"] for row in of_accounts}
    return answered, get_json(monitor_port(server), "/varz")["slow_consumers"], counted["$G"]


def too_many_subscriptions(server: Daemon) -> object:
    with server.open() as client, server.open() as other:
        for each in (client, other):
            each.exchange(CONNECT)
            each.line()
        subscribe = b"".join(b"SUB a.%d %d\r\n" % (sid, sid) for sid in range(4))
        heard = [client.exchange(subscribe), client.exchange(b"UNSUB 1\r\nSUB b 9\r\nSUB c 10\r\n")]
        return [*heard, other.exchange(subscribe)]


def too_much(server: Daemon) -> object:
    found = []
    for said in (b"PUB a 11\r\n", b"HPUB a 0 11\r\n", b"SUB " + b"a" * 70 + b" 1\r\n", b"SUB a.b.c.d 1\r\nX\r\n"):
        with server.open() as client:
            client.send(b'CONNECT {"headers":true,"verbose":false}\r\n' + said)
            found.append(client.to_end())
    return found


def stale(server: Daemon) -> object:
    with WebsocketClient.open(websocket_port(server)) as web, server.open(pings=True) as silent:
        web.send(websocket.binary(CONNECT))
        heard = silent.to_end()
        return heard, web.to_end()


def until_closed(server: Daemon, count: int) -> None:
    while get_json(monitor_port(server), "/connz?state=closed")["total"] < count:
        pass


@dataclass(frozen=True)
class Scene:
    """`closed`: so many connections are closed in the end."""

    config: str
    play: Callable[[Daemon], object]
    closed: int


WEBSOCKET = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'
ONE = "authorization { user: u, password: p, timeout: 0.4 }\n"
SCENES = {
    "connections": Scene("max_connections: 1\n", too_many, 3),
    "websockets": Scene("max_connections: 1\n" + WEBSOCKET, too_many_websockets, 2),
    "connections of an account": Scene(
        "accounts { A { users: [{user: u, password: p}], limits { max_connections: 1 } }\n"
        " B { users: [{user: v, password: p}] } }\n",
        too_many_in_an_account,
        4,
    ),
    "login": Scene(ONE, too_late, 4),
    "login by websocket": Scene(ONE + WEBSOCKET, too_late_by_websocket, 1),
    "pending": Scene("max_pending: 2MB\n", too_slow, 2),
    "subscriptions": Scene("max_subscriptions: 2\n", too_many_subscriptions, 2),
    "sizes": Scene("max_payload: 10\nmax_control_line: 64\nmax_sub_tokens: 3\n", too_much, 4),
    "pings": Scene('ping_interval: "200ms"\nping_max: 1\n' + WEBSOCKET, stale, 2),
}


def observed(command: Sequence[str], folder: Path, scene: Scene) -> list[object]:
    (folder / "conf").write_text(scene.config)
    with Daemon("-c", str(folder / "conf"), "-D", "-m", "-1", command=command) as server:
        first = len(server.log)
        heard = scene.play(server)
        until_closed(server, scene.closed)
        rows = get_json(monitor_port(server), "/connz?state=closed")["connections"]
        server.stop()
    found = sorted(match[1] + match[2] for line in server.log[first:] if (match := LINE.match(line)))
    lines = [line for line in found if ("[INF]" not in line or "Slow" in line) and not NOISE.search(line)]
    return [heard, sorted(row["reason"] for row in rows), lines]


@pytest.mark.parametrize("name", SCENES)
def test_limits(name: str, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    theirs, ours = (observed(command, tmp_path, SCENES[name]) for command in commands)
    different = [f"nats-server {expected}\njetbroker   {got}" for expected, got in zip(theirs, ours, strict=True)]
    assert ours == theirs, "\n".join(different)
