"""What the log says of clients: the same lines as nats-server's, for right, wrong and broken input."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.differential.core_rows import ROWS
from tests.support.compare import assert_same
from tests.support.daemon import Daemon
from tests.support.process import STOP_TIMEOUT_S

pytestmark = pytest.mark.differential

LINE = re.compile(r"\[\d+\] \S+ \S+ (\[\w+\]) (?:127\.0\.0\.1:\d+ - cid:(\d+)(?: - )?)?(.*)")
TIMED = ("Client Ping Timer", "Delaying PING")
# nats-server takes HMSG of a client for an empty message (docs/differences.md)
LEFT_OUT = {"wrong verb b'HMSG foo 1 0 0\\r\\n'"}

TEXT = b'{"name":"a\\u00e4\\n","x":[1,-2.5e+1,{"y":null}],"verbose":true}'
ODD = b"{}[]\":,\\tf0-.e \xe4'\x01"
JSON = sorted(
    {
        *(TEXT[:at] for at in range(len(TEXT))),
        *(TEXT[:at] + ODD[at % len(ODD) :][:1] + TEXT[at + 1 :] for at in range(len(TEXT))),
        *(TEXT[:at] + ODD[(at + 5) % len(ODD) :][:1] + TEXT[at:] for at in range(len(TEXT))),
        *(b'{"name":%b}' % value for value in b"1 1.50 true [1] {} -1 1e5".split()),
        *(b'{"protocol":%b}' % value for value in b'"1" 1.50 true [1] {} 1e5 -0'.split()),
        *(b'{"verbose":%b}' % value for value in b'"1" 1.50 {"a":1} [] null'.split()),
        *(b'{"import":%b}' % value for value in b'1 {"allow":1} {"deny":[1]} {"allow":["a"]} {"x":1}'.split()),
        *(b"[] 1 true null".split()),
        *(b'"x"', b"{}{}", b"{}x", b" {} "),
    }
)
INFO = [
    b'{"%b":%b}' % (name, value)
    for name in b"server_id headers port max_payload client_id gossip_mode connect_urls import".split()
    for value in b'1 -1 1.50 "x" true [1] ["a"] {} 99999999999999999999'.split()
]


def lines(server: Daemon, first: int, said: Sequence[bytes]) -> list[list[str]]:
    """For each of these clients, which end their input: its lines. The server is ended before they are read."""
    for data in said:
        with socket.create_connection(("127.0.0.1", server.port), STOP_TIMEOUT_S) as client:
            received = client.recv(65536)
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while received:
                    received = client.recv(65536)
            except ConnectionError:
                continue
    server.stop()
    found: dict[int, list[str]] = {}
    for line in server.log[first:]:
        match = LINE.match(line)
        if match is not None and match[2] and not match[3].startswith(TIMED):
            found.setdefault(int(match[2]), []).append(f"{match[1]} {match[3]}")
    # nats-server tells of some errors behind the line that the connection is closed
    return [sorted(found[cid]) for cid in sorted(found)]


def assert_same_lines(
    commands: list[tuple[str, ...]], said: Sequence[bytes], names: Iterable[str], *flags: str
) -> None:
    both = []
    for command in commands:
        with Daemon("-D", *flags, command=command) as server:
            both.append(lines(server, len(server.log), said))
    assert [len(found) for found in both] == [len(said)] * 2
    assert_same(zip(names, *both, strict=True))


def test_of_each_row(commands: list[tuple[str, ...]]) -> None:
    rows = [row for row in ROWS if row.name not in LEFT_OUT]
    assert_same_lines(commands, [row.send for row in rows], [row.name for row in rows])


@pytest.mark.parametrize("verb", ["CONNECT", "INFO"])
def test_of_json(verb: str, commands: list[tuple[str, ...]]) -> None:
    texts = JSON if verb == "CONNECT" else INFO
    assert_same_lines(commands, [b"%b %b\r\n" % (verb.encode(), text) for text in texts], map(repr, texts))


LIMITS = """
max_payload: 1000
max_subscriptions: 10
accounts {
  A { users [ {user: a, password: p} ], limits { max_payload: 2000, max_subscriptions: 20 } }
  B { users [ {user: b, password: p} ], limits { max_payload: 20, max_subscriptions: 2 } }
  C { users [ {user: c, password: p} ], limits { max_payload: -1, max_subscriptions: -1 } }
  D { users [ {user: d, password: p} ], limits { max_connections: 0 } }
}
"""


def test_of_limits(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(LIMITS)
    connect = b'CONNECT {"user":"%b","pass":"p","name":"n","lang":"l","version":"1"}\r\n'
    users = b"a b c d x".split()
    said = [connect % name for name in users] + [connect % name * 2 for name in b"a b c".split()]
    assert_same_lines(commands, said, map(repr, said), "-c", str(tmp_path / "conf"))
