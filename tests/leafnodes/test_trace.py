"""The traffic of links in the log, line by line as nats-server writes it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, Raw
from tests.support.pairs import JETBROKER, NATS_SERVER, server
from tests.support.process import free_port

CONFIG = """
server_name: hub
{trace}
leafnodes {{ listen: "127.0.0.1:{port}", authorization {{ user: leaf, password: secret, account: A }} }}
accounts {{ A: {{ users: [ {{user: a, password: a}} ] }} }}
"""
CONNECT = b'CONNECT {"user":"leaf","pass":"secret","name":"peer","headers":true,"sig":"abc"}\r\n'
CLIENT = b'CONNECT {"verbose":false,"user":"a","pass":"a","headers":true}\r\n'
BLOCK = b"NATS/1.0\r\n\r\nhi"
FROM_PEER = (
    b"LS+ x\r\nLS+ y q 3\r\nLS- y q\r\nls+ y q 2\r\nLS+ h\r\n"
    b"LMSG foo 5\r\nhello\r\nlmsg foo  re 5\r\nhello\r\nLMSG bar | q 2\r\nhi\r\nLMSG bar + rr q 2\r\nhi\r\n"
    b"HMSG foo 12 14\r\n" + BLOCK + b"\r\nLMSG foo 0\r\n\r\nPONG\r\nLS- nothing\r\nLS+ foo..bar\r\n"
)
FROM_CLIENT = (
    b"PUB x 2\r\nhi\r\nPUB x re 2\r\nhi\r\nPUB y 2\r\nhi\r\nPUB y re 2\r\nhi\r\n"
    b"HPUB h 12 14\r\n" + BLOCK + b"\r\nHPUB h re 12 14\r\n" + BLOCK + b"\r\nPUB x 0\r\n\r\n"
)
Start = Callable[[str, str], tuple[Daemon, int, Path]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def run(kind: str, trace: str) -> tuple[Daemon, int, Path]:
        port, path = free_port(), tmp_path / f"{kind}.conf"
        path.write_text(CONFIG.format(port=port, trace=trace))
        return server(kind, path), port, path

    return run


def traced(daemon: Daemon) -> list[str]:
    """What was logged of the link's traffic, without what each server tells a new link in an order of its own."""
    lines = [re.sub(r".* - lid:\d+ - ", "", line) for line in list(daemon.log) if "[TRC]" in line and "lid:" in line]
    return [line for line in lines if "$SYS.REQ" not in line and "$LDS." not in line and "DELSUB y" not in line]


def converse(daemon: Daemon, port: int) -> list[str]:
    with Raw(port) as peer, daemon.open() as client:
        peer.exchange(CONNECT)
        client.exchange(CLIENT + b"SUB foo 1\r\nSUB bar q 2\r\n")
        peer.until(b"LS+ bar q 1\r\n")
        peer.exchange(FROM_PEER)
        client.exchange(FROM_CLIENT)
        peer.until(b"LMSG x 0\r\n\r\n")
        peer.exchange(b"LS- x\r\n")
    daemon.wait_for("Leafnode connection closed")
    found = traced(daemon)
    return found[: found.index("<-> [DELSUB x]")]


def test_both_ways_are_traced_as_nats_server_does(start: Start) -> None:
    said = []
    for kind in (JETBROKER, NATS_SERVER):
        daemon, port, _ = start(kind, "trace: true")
        with daemon:
            said.append(converse(daemon, port))
    ours, theirs = said
    assert "<<- [LMSG bar + rr q 2]" in ours
    assert '->> MSG_PAYLOAD: ["NATS/1.0\\r\\n\\r\\nhi"]' in ours
    assert ours == theirs


def test_no_secret_is_traced(start: Start) -> None:
    daemon, port, _ = start(JETBROKER, "trace: true")
    with daemon, Raw(port) as peer:
        peer.exchange(CONNECT)
        line = daemon.wait_for("<<- [CONNECT")
    assert '"user":"leaf","pass":"[REDACTED]"' in line
    assert '"sig":"[REDACTED]"' in line


def test_links_that_are_there_follow_a_reload(start: Start) -> None:
    daemon, port, path = start(JETBROKER, "")
    with daemon, Raw(port) as peer:
        peer.exchange(CONNECT)
        peer.exchange(b"LS+ before\r\n")
        path.write_text(CONFIG.format(port=port, trace="trace: true"))
        daemon.send(signal.SIGHUP)
        daemon.wait_for("Reloaded server configuration")
        peer.exchange(b"LS+ during\r\n")
        path.write_text(CONFIG.format(port=port, trace=""))
        reloaded = len(daemon.log)
        daemon.send(signal.SIGHUP)
        daemon.wait_for("Reloaded server configuration", reloaded)
        peer.exchange(b"LS+ after\r\n")
    assert [line for line in traced(daemon) if "LS+" in line] == ["<<- [LS+ during]"]
