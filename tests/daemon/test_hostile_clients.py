"""Clients that mean harm, or are broken: each pays alone, the others go on."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import CONNECT, Daemon, Raw

CONFIG = """
authorization { users: [ {user: a, password: b} ], timeout: 1s }
max_payload: 64KB
max_pending: 1MB
max_control_line: 1024
max_connections: 3000
write_deadline: 1s
"""
LOGIN = b'CONNECT {"user":"a","pass":"b","verbose":false,"pedantic":false,"protocol":0,"lang":"x","name":"n"}\r\n'
HALF_OPEN = 2900
HALF_OPEN_BYTES = 20_000  # each may take so much
HALF_CONNECT = b'CONNECT {"user":"' + b"a" * 900  # what max_control_line lets through


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    path = tmp_path_factory.mktemp("hostile") / "conf"
    path.write_text(CONFIG)
    with Daemon("-D", "-c", str(path)) as running:
        yield running
        assert not [line for line in running.log if "Traceback" in line]


@pytest.fixture
def witness(daemon: Daemon) -> Iterator[Raw]:
    """A client that was there before the harm; afterwards its traffic still flows and the broker lives."""
    with daemon.open() as client:
        client.exchange(LOGIN + b"SUB witness 1\r\n")
        yield client
        received = client.exchange(b"PUB witness 2\r\nhi\r\n").replace(b"PING\r\n", b"")
        assert received == b"MSG witness 1 2\r\nhi\r\nPONG\r\n"


@pytest.mark.parametrize(
    ("sent", "answer", "logged"),
    [
        (b"PING\r\n", b"-ERR 'Authorization Violation'\r\n", "authentication error"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"-ERR 'Authorization Violation'\r\n", "authentication error"),
        (b"GET / HTTP/1.1\r\n\r\n", b"-ERR 'Authorization Violation'\r\n", "authentication error"),
        (b"CONNECT {}\r\n", b"-ERR 'Authorization Violation'\r\n", "authentication error"),
        (b'CONNECT {"user":"zz"}\r\n', b"-ERR 'Authorization Violation'\r\n", 'authentication error - User "zz"'),
        (
            b'CONNECT {"auth_token":"secret"}\r\n',
            b"-ERR 'Authorization Violation'\r\n",
            'authentication error - Token "[REDACTED]"',
        ),
        (b"CONNECT {user: a}\r\n", b"", "invalid character 'u' looking for beginning of object key string"),
        (b"CONNECT [1]\r\n", b"", "cannot unmarshal array into Go value of type server.ClientOpts"),
        (b"CONNECT " + b"[" * 1000 + b"\r\n", b"", "unexpected end of JSON input"),
        (b'CONNECT {"protocol":' + b"9" * 900 + b"}\r\n", b"", "cannot unmarshal number 999"),
        (b'CONNECT {"protocol":NaN}\r\n', b"", "invalid character 'N' looking for beginning of value"),
        (b'CONNECT {"user":["a"]}\r\n', b"", "into Go struct field ClientOpts.user of type string"),
        (b"CONNECT " + b"x" * 65536, b"-ERR 'maximum control line exceeded'\r\n", "maximum control line exceeded"),
        (LOGIN + b"\0\0\0\0", b"-ERR 'Unknown Protocol Operation'\r\n", "Client parser ERROR"),
        (LOGIN + b"FOO\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", 'Client parser ERROR, state=0, i='),
        (LOGIN + b"SUB " + b"x" * 65536, b"-ERR 'maximum control line exceeded'\r\n", "maximum control line exceeded"),
        (LOGIN + b"PUB a 70000\r\n", b"-ERR 'Maximum Payload Violation'\r\n", "payload exceeded: 70000 vs 65536"),
        (LOGIN + b"PUB a 999999999999\r\n", b"", 'processPub Bad or Missing Size: "a 999999999999"'),
        (LOGIN + b"PUB a -1\r\n", b"", 'processPub Bad or Missing Size: "a -1"'),
        (LOGIN + b"HPUB a 9 5\r\n", b"", "message headers not supported"),
        (LOGIN + b"SUB \r\n", b"", "processSub Parse Error"),
        (LOGIN + b"UNSUB 1 2 3\r\n", b"", "processUnsub Parse Error"),
        (LOGIN + b"PUB a 2\r\nhello\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", "Client parser ERROR"),
        (LOGIN + b"-ERR 'no'\r\n", b"", "Client Error 'no'"),
        (LOGIN.replace(b":0", b":9"), b"-ERR 'invalid client protocol'\r\n", "invalid client protocol"),
        (LOGIN.replace(b"lang", b"account"), b"-ERR 'Authorization Violation'\r\n", "authentication error"),
    ],
)  # fmt: skip
def test_what_ends_a_connection(daemon: Daemon, witness: Raw, sent: bytes, answer: bytes, logged: str) -> None:
    with daemon.open() as client:
        after = len(daemon.log)
        client.send(sent)
        assert client.to_end() == answer
        assert "[ERR]" in daemon.wait_for(logged, after)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"SUB a..b 1\r\n", b"-ERR 'Invalid Subject'\r\n"),
        (b"SUB .a 1\r\n", b"-ERR 'Invalid Subject'\r\n"),
        (b"SUB a.> q 1\r\nSUB a.>.b 2\r\n", b"-ERR 'Invalid Subject'\r\n"),
        (b"SUB a _sys_ 1\r\n", b"-ERR 'Permissions Violation for Subscription to \"a\" using queue \"_sys_\"'\r\n"),
        (b"PUB a.* 1\r\nx\r\n", b""),
        (b"PUB > 1\r\nx\r\n", b""),
        (b"PUB a..b 1\r\nx\r\n", b""),
        (b"PUB $JS.API.> 1\r\nx\r\n", b""),
        (b"PUB a $JS.ACK.s.c.1.1.1.1.0 1\r\nx\r\n",
         b"-ERR 'Permissions Violation for Publish with Reply of \"$JS.ACK.s.c.1.1.1.1.0\"'\r\n"),
        (b"UNSUB nobody\r\nUNSUB nobody 99999999999\r\n", b""),
        (b"SUB " + b"." .join([b"a"] * 500) + b" 1\r\n", b""),
        (b"PUB " + b"." .join([b"a"] * 500) + b" 1\r\nx\r\n", b""),
    ],
)  # fmt: skip
def test_what_is_refused_or_ignored_and_goes_on(daemon: Daemon, witness: Raw, sent: bytes, answer: bytes) -> None:
    with daemon.open() as client:
        client.exchange(LOGIN)
        assert client.exchange(sent) == answer + b"PONG\r\n"


def test_a_subscriber_that_never_reads_is_cut_off_alone(daemon: Daemon, witness: Raw) -> None:
    with daemon.open() as deaf, daemon.open() as reader, daemon.open() as publisher:
        deaf.exchange(LOGIN + b"SUB flood 1\r\n")
        reader.exchange(LOGIN + b"SUB flood 1\r\n")
        publisher.exchange(LOGIN)
        after = len(daemon.log)
        message = b"PUB flood 50000\r\n" + b"x" * 50_000 + b"\r\n"
        for _ in range(40):
            publisher.exchange(message * 10)
            reader.exchange(b"")
        line = daemon.wait_for("Slow Consumer Detected:", after)
        port = deaf.socket.getsockname()[1]
        assert f"127.0.0.1:{port} - " in line
        assert "MaxPending of 1048576 Exceeded" in line or "WriteDeadline of 1s exceeded" in line
        assert len([text for text in daemon.log[after:] if "Slow Consumer Detected" in text]) == 1


def test_write_deadline(tmp_path: Path) -> None:
    """Less than max_pending waits for a client that has stopped reading: time ends it."""
    (tmp_path / "conf").write_text("write_deadline: 1s\n")
    with Daemon("-c", str(tmp_path / "conf")) as daemon, daemon.open() as deaf, daemon.open() as publisher:
        deaf.exchange(CONNECT + b"SUB s 1\r\n")
        publisher.exchange(CONNECT + (b"PUB s 100000\r\n" + b"x" * 100_000 + b"\r\n") * 300)
        line = daemon.wait_for("Slow Consumer Detected: WriteDeadline of 1s exceeded")
        assert f"127.0.0.1:{deaf.socket.getsockname()[1]} - " in line
        assert publisher.exchange(b"").endswith(b"PONG\r\n")


def flood(daemon: Daemon, witness: Raw, count: int) -> int:
    """Opens `count` sockets that send half a CONNECT, and ends them: resident bytes while all were there."""
    with ExitStack() as stack:
        clients = [stack.enter_context(daemon.open()) for _ in range(count)]
        for client in clients:
            client.send(HALF_CONNECT)
        witness.exchange(b"")
        full = daemon.rss_bytes()
        after = len(daemon.log)
        for client in clients:
            client.socket.shutdown(socket.SHUT_WR)
        for client in clients:
            assert client.to_end() == b""
        daemon.wait_for("Memory of closed connections given back", after)
    return full


def test_the_memory_of_half_open_sockets_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(CONFIG.replace("timeout: 1s", "timeout: 60s"))
    count = min(HALF_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    with Daemon("-D", "-c", str(tmp_path / "conf")) as daemon, daemon.open() as witness:
        witness.exchange(LOGIN)
        before = daemon.rss_bytes()
        assert flood(daemon, witness, count) - before < count * HALF_OPEN_BYTES
        idle = daemon.rss_bytes()  # what a broker takes once, for its first many connections, it keeps
        held = flood(daemon, witness, count) - idle
        assert daemon.rss_bytes() - idle < held / 4


def test_max_connections(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("max_connections: 2\n")
    with Daemon("-c", str(tmp_path / "conf")) as daemon, daemon.open() as first, daemon.open() as second:
        first.exchange(CONNECT)
        with daemon.open() as third:
            assert third.info.startswith(b"INFO {")
            assert third.to_end() == b"-ERR 'maximum connections exceeded'\r\n"
        assert "[ERR]" in daemon.wait_for("maximum connections exceeded")
        second.close()
        second.socket.close()
        first.exchange(b"")
        with daemon.open() as again:
            assert again.exchange(CONNECT).startswith(b"PONG")


def test_a_client_that_answers_no_ping_is_stale(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text('ping_interval: "2s"\nping_max: 1\n')
    with (
        Daemon("-D", "-c", str(tmp_path / "conf")) as daemon,
        daemon.open(pings=True) as silent,
        daemon.open(pings=True) as answering,
    ):
        answering.exchange(CONNECT)
        silent.exchange(b'CONNECT {"verbose":false}\r\n')
        assert answering.until(b"PING\r\n").endswith(b"PING\r\n")
        answering.send(b"PONG\r\n")
        assert silent.to_end() == b"PING\r\n-ERR 'Stale Connection'\r\n"
        daemon.wait_for("Stale Client Connection - Closing")
        answering.send(b"PONG\r\n")
        assert answering.exchange(b"").endswith(b"PONG\r\n")
