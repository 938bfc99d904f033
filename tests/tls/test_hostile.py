"""Handshakes that are none: cut, garbled, never finished. Nobody else notices, and memory comes back."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.config.options import TlsOptions
from jetbroker.connections.tls import failure_text, refusal_text, server_context
from jetbroker.connections.tls_layer import TlsBuffers, TlsLayer
from jetbroker.connections.tls_queue import TlsQueue
from jetbroker.connections.unauthenticated import Unauthenticated
from tests.support import certificates, tls
from tests.support.certificates import Certificates
from tests.support.daemon import Daemon
from tests.support.tls import HELLO, dial, secured, to_end, until

HALF_OPEN = 3000
HALF_OPEN_BYTES = 16 * 1024  # each may take so much
HANDSHAKE_BYTES = 96 * 1024  # and so much more each of those whose handshake is going on


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def context(made: Certificates) -> ssl.SSLContext:
    return server_context(TlsOptions(cert_file=str(made.server.cert), key_file=str(made.server.key)))


def client_hello(made: Certificates, older: bool = False) -> bytes:
    client = made.client_context()
    if older:
        client.maximum_version = ssl.TLSVersion.TLSv1_2
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        side.do_handshake()
    return outgoing.read()


# --- the layer alone, with any bytes ---


class Wire:
    """A plain transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def fileno(self) -> int:
        return -1

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def __init__(self) -> None:
        self.made = self.lost = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.made += 1

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost += 1


class Side:
    """A layer on a wire, and what became of it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        loop = asyncio.new_event_loop()
        self.failures: list[Exception] = []
        self.echo = Echo()
        self.layer = TlsLayer(TlsBuffers(loop), context, self.echo, 0.0, self.failures.append)
        self.wire = Wire()
        self.layer.connection_made(cast(Any, self.wire))
        loop.close()

    def end(self) -> None:
        """The connection is lost: whatever came before, each side hears of it once."""
        self.layer.connection_lost(None)
        assert len(self.failures) + self.echo.made == 1
        assert self.echo.lost == self.echo.made
        for error in self.failures:
            assert failure_text(error, "a->b")[0]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_bytes_for_a_hello(made: Certificates, context: ssl.SSLContext, data: st.DataObject) -> None:
    hello = bytearray(client_hello(made, older=data.draw(st.booleans())))
    for at in data.draw(st.lists(st.integers(0, len(hello) - 1), max_size=8)):
        hello[at] = data.draw(st.integers(0, 255))
    sent = bytes(hello[: data.draw(st.integers(0, len(hello)))]) + data.draw(st.binary(max_size=100))
    side = Side(context)
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        side.layer.feed(sent[:size])
        sent = sent[size:]
    side.end()


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_bytes_behind_a_handshake(made: Certificates, context: ssl.SSLContext, data: st.DataObject) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = made.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    side = Side(context)
    for _ in range(3):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        side.layer.feed(outgoing.read())
        incoming.write(side.wire.written)
        side.wire.written = b""
    assert side.echo.made == 1
    message = data.draw(st.binary(min_size=1, max_size=40_000))
    client.write(message)
    sent = bytearray(outgoing.read())
    whole = data.draw(st.booleans())
    if not whole:
        sent[data.draw(st.integers(0, len(sent) - 1))] ^= data.draw(st.integers(1, 255))
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        side.layer.feed(bytes(sent[:size]))
        del sent[:size]
    if whole:
        incoming.write(side.wire.written)
        received = b""
        while len(received) < len(message):
            received += client.read(65536)
        assert received == message
    side.end()


# --- a server ---


def unaffected(daemon: Daemon, client: ssl.SSLSocket) -> None:
    client.sendall(b"PING\r\n")
    assert until(client, b"PONG\r\n").endswith(b"PONG\r\n")
    assert not [line for line in daemon.log if "Internal error" in line or "Traceback" in line]


def connected(daemon: Daemon, made: Certificates) -> ssl.SSLSocket:
    connection = dial(daemon.port)
    until(connection, b"\r\n")
    inside = secured(connection, made.client_context())
    inside.sendall(b'CONNECT {"verbose":false}\r\n')
    return inside


def test_cut_and_garbled_hellos(made: Certificates, tmp_path: Path) -> None:
    hello = client_hello(made)
    with tls.server("jetbroker", tmp_path, made.tls_block("timeout: 5")) as daemon:
        client = connected(daemon, made)
        attempts = [hello[:at] + b"\xff" * 64 for at in range(0, len(hello), 11)]
        attempts += [bytes([first]) + b"\x03\x01\x00\x05hello" for first in range(0, 256, 7) if first != 0x16]
        attempts += [HELLO, b"GET / HTTP/1.1\r\n\r\n", b"PING\r\n" * 1000]
        for attempt in attempts:
            with dial(daemon.port) as connection:
                until(connection, b"\r\n")
                connection.sendall(attempt)
                with contextlib.suppress(OSError):  # it may be closed already
                    connection.shutdown(socket.SHUT_WR)
                answer = to_end(connection)
                # an alert at most: no INFO, no PONG, nothing in clear
                assert answer[:1] in (b"", b"\x15", b"\x16"), answer
                assert b"PONG" not in answer
        unaffected(daemon, client)


@pytest.mark.parametrize("what", ["nothing", "six bytes", "a hello"])
def test_half_open_connections(made: Certificates, tmp_path: Path, what: str) -> None:
    """Thousands that never finish: bounded memory, given back; who is there already goes on."""
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(HALF_OPEN, room - 100)
    sent = {"nothing": b"", "six bytes": b"\x16\x03\x01\x02\x00\x01", "a hello": client_hello(made)}[what]
    with tls.server("jetbroker", tmp_path, made.tls_block("timeout: 3"), "-D") as daemon:
        client = connected(daemon, made)
        unaffected(daemon, client)
        before = daemon.rss_bytes()
        sockets = [dial(daemon.port) for _ in range(count)]
        for connection in sockets:
            until(connection, b"\r\n")
            connection.sendall(sent)
        unaffected(daemon, client)
        for connection in sockets:
            to_end(connection)  # none of them stays longer than the time for a handshake
            connection.close()
        bound = count * HALF_OPEN_BYTES + limits.TLS_HANDSHAKES * HANDSHAKE_BYTES
        assert daemon.peak_bytes() - before < bound
        unaffected(daemon, client)
        later = connected(daemon, made)
        unaffected(daemon, later)
        assert b"\r\n" in until(dial(daemon.port), b"\r\n")


class Handshaker:
    """One that does what it is told."""

    def __init__(self, queue: list[TlsQueue], whole: bool = True) -> None:
        self.queue = queue
        self.whole = whole
        self.state = "new"

    def shake(self, data: bytes) -> bool:
        self.state = "shaking"
        return self.whole

    def pause(self) -> None:
        self.state = "waiting"

    def cut_off(self) -> None:
        self.state = "cut off"
        self.queue[0].end(self)


class Clock:
    """An event loop whose time only passes by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, function: Callable[[], None]) -> Any:
        return self.call_at(self.now, function)

    def call_at(self, when: float, function: Callable[[], None]) -> Any:
        entry = (when, function)
        self.due.append(entry)
        return SimpleNamespace(cancel=lambda: self.due.remove(entry))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while ready := [entry for entry in self.due if entry[0] <= self.now]:
            self.due.remove(ready[0])
            ready[0][1]()


def states(handshakers: list[Handshaker]) -> list[str]:
    return [handshaker.state for handshaker in handshakers]


def test_handshakes_at_once_are_bounded_and_the_slow_give_way() -> None:
    clock, unauthenticated, made = Clock(), Unauthenticated(), []
    queue = TlsQueue(cast(asyncio.AbstractEventLoop, clock), unauthenticated)
    made.append(queue)
    begun = [Handshaker(made, whole=number > 1) for number in range(limits.TLS_HANDSHAKES)]
    later = [Handshaker(made) for _ in range(4)]
    for handshaker in begun + later:
        queue.begin(handshaker, b"hello")
    assert set(states(begun)) == {"shaking"}
    assert states(later) == ["waiting"] * 4
    assert unauthenticated.bytes >= 4 * len(b"hello")

    queue.end(begun[2])
    clock.pass_time(0)
    assert states(later) == ["shaking", "waiting", "waiting", "waiting"]

    clock.pass_time(limits.TLS_HELLO_SECONDS)  # nobody comes or goes any more, they get in all the same
    assert states(begun[:5]) == ["cut off", "cut off", "shaking", "shaking", "shaking"]
    assert states(later) == ["shaking", "shaking", "shaking", "waiting"]

    clock.pass_time(limits.TLS_HANDSHAKE_SECONDS)
    assert states(begun[2:6]) == ["shaking", "cut off", "shaking", "shaking"]  # as many as wait
    assert states(later) == ["shaking"] * 4
    assert unauthenticated.bytes == 0

    queue.begin(gone := Handshaker(made), b"hello")
    assert gone.state == "waiting"
    queue.end(gone)  # before its turn
    clock.pass_time(10)
    assert gone.state == "waiting"
    assert unauthenticated.bytes == 0


class Shown:
    """A connection on which a certificate was shown that OpenSSL read, and nobody else can."""

    def get_unverified_chain(self) -> list[bytes]:
        return [b"\x30\x03\x02\x01\x05"]


@pytest.mark.parametrize("code", [18, 62])  # of an unknown authority; of another name
def test_a_refused_certificate_that_cannot_be_described_is_refused_without_words(code: int) -> None:
    error = ssl.SSLCertVerificationError(1, "refused")
    error.verify_code, error.verify_message = code, "another name"
    text = refusal_text(error, cast(Any, Shown()), "hub")
    why = "certificate signed by unknown authority" if code == 18 else "another name"
    assert text == f"tls: failed to verify certificate: x509: {why}"
