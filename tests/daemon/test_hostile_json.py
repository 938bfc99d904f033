"""JSON that wants to cost much, in CONNECT and INFO: a verdict in bounded memory, and the broker goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.daemon import CONNECT, Daemon

DEPTH = 100_000
HUGE = [
    b"[" * DEPTH,
    b'{"a":' * DEPTH,
    b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    b'{"user":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    b'{"protocol":' + b"9" * 5_000 + b"}",
    b'{"protocol":1e999}',
    b'{"protocol":-Infinity}',
    b'{"lang":"\\ud800' + b"x" * 10,
]
ACCEPTED = [
    b'{"verbose":false,"' + b"k" * 1_000_000 + b'":1}',
    b'{"verbose":false,' + b",".join(b'"k%d":null' % number for number in range(100_000)) + b"}",
    b'{"verbose":true,' + b'"name":"x",' * 100_000 + b'"verbose":false}',
]
MOST_BYTES = 128 * 1024 * 1024


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    path = tmp_path_factory.mktemp("json") / "conf"
    path.write_text("max_control_line: 4MB\n")
    with Daemon("-c", str(path)) as running:
        before = running.rss_bytes()
        yield running
        assert running.rss_bytes() - before < MOST_BYTES
        assert not [line for line in running.log if "Traceback" in line]


@pytest.mark.parametrize("verb", [b"CONNECT ", b"INFO "])
@pytest.mark.parametrize("json", HUGE, ids=lambda json: json[:12].decode())
def test_refused(daemon: Daemon, verb: bytes, json: bytes) -> None:
    if verb == b"INFO ":
        json = json.replace(b"protocol", b"proto").replace(b"user", b"host").replace(b"lang", b"go")
    with daemon.open() as client:
        client.send(verb + json + b"\r\n")
        assert client.to_end() == b""


@pytest.mark.parametrize("json", ACCEPTED, ids=lambda json: f"{len(json)} bytes")
def test_taken(daemon: Daemon, json: bytes) -> None:
    with daemon.open() as client:
        assert client.exchange(b"CONNECT " + json + b"\r\n") == b"PONG\r\n"
        assert client.exchange(CONNECT + b"INFO " + json + b"\r\n") == b"PONG\r\n"
