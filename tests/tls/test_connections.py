"""What goes through a connection with TLS, and when it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.support import certificates, tls
from tests.support.certificates import Certificates
from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.tls import dial, secured, to_end, until

Reader = tuple[ssl.SSLSocket, bytes]


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates.make(tmp_path)


@asynccontextmanager
async def client(daemon: Daemon, made: Certificates, **options: Any) -> AsyncIterator[Client]:
    given = {"tls": made.client_context(), "tls_hostname": "localhost", "allow_reconnect": False, "connect_timeout": 5}
    found = await nats.connect(daemon.url.replace("nats://", "tls://"), **{**given, **options})
    try:
        yield found
    finally:
        await found.close()


def raw(daemon: Daemon, made: Certificates, connect: bytes = b"{}", receive_buffer: int = 0) -> ssl.SSLSocket:
    """A client by hand that has logged in. `receive_buffer`: bytes its kernel takes for it."""
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(tls.TIMEOUT_S)
    connection.connect(("127.0.0.1", daemon.port))
    until(connection, b"\r\n")
    inside = secured(connection, made.client_context())
    inside.sendall(b"CONNECT " + connect + b"\r\n")
    return inside


QUIET = b'{"verbose":false}'


async def test_nats_py_large_and_many(made: Certificates, tmp_path: Path) -> None:
    with tls.server("jetbroker", tmp_path, made.tls_block()) as daemon:
        async with client(daemon, made) as one, client(daemon, made) as other:
            sub = await other.subscribe("large")
            await settle(other)
            payload = bytes(range(256)) * 4096
            for _ in range(8):
                await one.publish("large", payload)
            for _ in range(8):
                assert (await sub.next_msg(10)).data == payload
            sub = await other.subscribe("many", pending_msgs_limit=10_000)
            await settle(other)
            for number in range(5_000):
                await one.publish("many", b"%d" % number)
            await settle(one)
            for number in range(5_000):
                assert (await sub.next_msg(10)).data == b"%d" % number


async def test_nats_py_handshake_first(made: Certificates, tmp_path: Path) -> None:
    with tls.server("jetbroker", tmp_path, made.tls_block("handshake_first: true")) as daemon:
        async with client(daemon, made, tls_handshake_first=True) as one:
            assert await one.request("$SYS.REQ.USER.INFO", timeout=5)
    with tls.server("jetbroker", tmp_path, made.tls_block("handshake_first: 200ms")) as daemon:
        async with client(daemon, made) as one, client(daemon, made, tls_handshake_first=True) as other:
            sub = await one.subscribe("a")
            await settle(one)
            await other.publish("a", b"x")
            assert (await sub.next_msg(5)).data == b"x"


def test_an_error_comes_before_the_end_and_the_end_is_clean(made: Certificates, tmp_path: Path) -> None:
    with tls.server("jetbroker", tmp_path, made.tls_block()) as daemon:
        inside = raw(daemon, made, QUIET)
        inside.sendall(b"junk\r\n")
        # recv returns b"" on a close_notify; an end without one would raise SSLEOFError
        assert to_the_notice(inside) == b"-ERR 'Unknown Protocol Operation'\r\n"
        inside = raw(daemon, made, QUIET)
        inside.sendall(b"PING\r\n")
        until(inside, b"PONG\r\n")
        daemon.send(signal.SIGTERM)
        assert to_the_notice(inside) == b""
        daemon.wait_end()


def to_the_notice(inside: ssl.SSLSocket) -> bytes:
    inside.context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    received = b""
    while data := inside.recv(65536):
        received += data
    return received


def test_a_login_in_time_and_too_late(made: Certificates, tmp_path: Path) -> None:
    config = made.tls_block("timeout: 10") + 'authorization { user: u, password: "p", timeout: 3 }\n'
    with tls.server("jetbroker", tmp_path, config) as daemon:
        inside = raw(daemon, made, b'{"user":"u","pass":"p","verbose":false}')
        inside.sendall(b"PING\r\n")
        assert until(inside, b"PONG\r\n").endswith(b"PONG\r\n")
        connection = dial(daemon.port)
        until(connection, b"\r\n")
        assert until(secured(connection, made.client_context()), b"\r\n") == b"-ERR 'Authentication Timeout'\r\n"


def test_the_default_time_for_a_login_is_longer_than_the_handshakes(made: Certificates, tmp_path: Path) -> None:
    config = made.tls_block("timeout: 4") + 'http: "127.0.0.1:-1"\nauthorization { user: u, password: p }\n'
    from tests.support.http import get_json, monitor_port

    with tls.server("jetbroker", tmp_path, config) as daemon:
        found = get_json(monitor_port(daemon), "/varz")
        assert (found["tls_timeout"], found["auth_timeout"]) == (4, 5)


def test_too_many_connections(made: Certificates, tmp_path: Path) -> None:
    with tls.server("jetbroker", tmp_path, made.tls_block() + "max_connections: 1\n") as daemon:
        inside = raw(daemon, made, QUIET)
        assert b"-ERR 'maximum connections exceeded'\r\n" in to_end(dial(daemon.port))
        inside.close()


@pytest.mark.parametrize("limit", ["max_pending: 2MB", 'write_deadline: "1s"'])
def test_a_slow_consumer_is_cut_off(made: Certificates, tmp_path: Path, limit: str) -> None:
    config = made.tls_block() + limit + "\n"
    with tls.server("jetbroker", tmp_path, config, "-D") as daemon:
        slow = raw(daemon, made, QUIET, receive_buffer=65536)
        slow.sendall(b"SUB a 1\r\nPING\r\n")
        until(slow, b"PONG\r\n")
        quick = raw(daemon, made, QUIET)
        message = b"PUB a 1000000\r\n" + bytes(1_000_000) + b"\r\n"
        for _ in range(20):
            quick.sendall(message)
        quick.sendall(b"PING\r\n")
        assert until(quick, b"PONG\r\n") == b"PONG\r\n"
        daemon.wait_for("Slow Consumer Detected")
        daemon.wait_for("Client connection closed: Slow Consumer")


def test_what_waits_for_a_reader_arrives_whole(made: Certificates, tmp_path: Path) -> None:
    """More than the kernel takes at once, read in small pieces."""
    with tls.server("jetbroker", tmp_path, made.tls_block()) as daemon:
        reader = raw(daemon, made, QUIET, receive_buffer=65536)
        reader.sendall(b"SUB a 1\r\nPING\r\n")
        until(reader, b"PONG\r\n")
        writer = raw(daemon, made, QUIET)
        payload = bytes(range(250)) * 400
        expected = b"".join(b"MSG a 1 %d\r\n%b\r\n" % (len(payload), payload) for _ in range(20))
        for _ in range(20):
            writer.sendall(b"PUB a %d\r\n%b\r\n" % (len(payload), payload))
        received = b""
        while len(received) < len(expected):
            data = reader.recv(5000)
            assert data
            received += data
        assert received[: len(expected)] == expected


# --- reload ---


def server_certificate(daemon: Daemon, made: Certificates) -> bytes | None:
    connection = dial(daemon.port)
    until(connection, b"\r\n")
    with secured(connection, made.client_context()) as inside:
        return inside.getpeercert(binary_form=True)


def reload(daemon: Daemon, told: str) -> None:
    before = len(daemon.log)
    daemon.send(signal.SIGHUP)
    daemon.wait_for(told, before)


RELOADED = "Reloaded server configuration"


def test_a_new_certificate_is_for_new_connections(made: Certificates, tmp_path: Path) -> None:
    own, path = made.server, tmp_path / "jetbroker.conf"
    with tls.server("jetbroker", tmp_path, made.tls_block()) as daemon:
        old = raw(daemon, made, QUIET)
        assert server_certificate(daemon, made) == own.der
        # the same file, another certificate: what a renewal does
        own.cert.write_bytes(made.other_server.cert.read_bytes())
        own.key.write_bytes(made.other_server.key.read_bytes())
        reload(daemon, RELOADED)
        assert server_certificate(daemon, made) == made.other_server.der
        alive(old)
        # a file that cannot be read changes nothing
        own.cert.write_bytes(b"nothing")
        reload(daemon, "Failed to reload server configuration")
        assert server_certificate(daemon, made) == made.other_server.der
        path.write_text(made.tls_block(server=made.server_rsa))
        reload(daemon, RELOADED)
        assert server_certificate(daemon, made) == made.server_rsa.der
        alive(old)


def alive(connection: socket.socket) -> None:
    connection.sendall(b"PING\r\n")
    assert until(connection, b"PONG\r\n") == b"PONG\r\n"


def test_tls_switched_on_and_off(made: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "jetbroker.conf"
    with tls.server("jetbroker", tmp_path, "debug: false\n") as daemon:
        plain = dial(daemon.port)
        assert b"tls_" not in until(plain, b"\r\n")
        plain.sendall(b"CONNECT " + QUIET + b"\r\n")
        path.write_text(made.tls_block())
        reload(daemon, RELOADED)
        alive(plain)
        inside = raw(daemon, made, QUIET)
        alive(inside)
        assert b'"tls_required":true' in to_the_next(daemon)
        path.write_text("debug: false\n")
        reload(daemon, RELOADED)
        alive(plain)
        alive(inside)
        later = dial(daemon.port)
        assert b"tls_" not in until(later, b"\r\n")
        later.sendall(b"CONNECT " + QUIET + b"\r\n")
        alive(later)


def to_the_next(daemon: Daemon) -> bytes:
    with dial(daemon.port) as connection:
        return until(connection, b"\r\n")


def test_who_is_pinned_no_more_has_to_go(made: Certificates, tmp_path: Path) -> None:
    def config(*pinned: certificates.Certificate) -> str:
        pins = ", ".join(f'"{certificate.spki_sha256}"' for certificate in pinned)
        return made.tls_block(f"pinned_certs: [{pins}]", verify=True)

    other = made.ca.sign("other-client", usage="client")
    path = tmp_path / "jetbroker.conf"
    with tls.server("jetbroker", tmp_path, config(made.client, other)) as daemon:

        def connected(certificate: certificates.Certificate) -> ssl.SSLSocket:
            connection = dial(daemon.port)
            until(connection, b"\r\n")
            inside = secured(connection, made.client_context(certificate))
            inside.sendall(b"CONNECT " + QUIET + b"\r\n")
            return inside

        first, second = connected(made.client), connected(other)
        alive(first)
        alive(second)
        path.write_text(config(other))
        reload(daemon, "Disconnect 1 clients due to pinned certs reload")
        assert to_end(first) == b""
        alive(second)


async def test_many_connect_at_once(made: Certificates, tmp_path: Path) -> None:
    with tls.server("jetbroker", tmp_path, made.tls_block()) as daemon:
        found: Callable[[], Any] = lambda: nats.connect(  # noqa: E731
            daemon.url, tls=made.client_context(), tls_hostname="localhost", connect_timeout=20
        )
        clients = await asyncio.gather(*(found() for _ in range(60)))
        await asyncio.gather(*(settle(one) for one in clients))
        await asyncio.gather(*(one.close() for one in clients))


def test_an_old_session_does_not_outlive_the_certificate(made: Certificates, tmp_path: Path) -> None:
    """A client of TLS 1.2 that takes up a session shows no certificate: the one it has shown then counts."""
    with tls.server("jetbroker", tmp_path, made.tls_block("timeout: 5", verify=True)) as daemon:
        context = made.client_context(made.ca.sign("short", usage="client", seconds=6))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        session = None
        resumed = 0
        while True:
            with dial(daemon.port) as connection:
                until(connection, b"\r\n")
                with context.wrap_socket(connection, server_hostname="localhost", session=session) as inside:
                    session = session or inside.session
                    inside.sendall(b"CONNECT {}\r\nPING\r\n")
                    heard = until(inside, b"PONG\r\n")
                    if not heard:
                        break
                    resumed += bool(inside.session_reused)
                    inside.unwrap()  # without that the server forgets the session
        assert resumed
        daemon.wait_for("x509: certificate has expired or is not yet valid")
