"""Before a login, on every listener: what can be kept is bounded for all together and given back, and no order of
messages does harm. (F29, F30; the advisory classes "pre-auth memory" and "pre-auth crash".)
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from random import Random

import pytest

from jetbroker import limits
from tests.support import certificates
from tests.support.certificates import Certificates
from tests.support.daemon import Daemon, Raw
from tests.support.depth import IS_DEEP
from tests.support.websocket import DEFLATE, binary, compressed, frame, request, websocket_port

MEGABYTE = 1 << 20
CONFIG = """
authorization {{ users: [ {{user: a, password: b}} ], timeout: {timeout} }}
max_connections: 8000
websocket {{ listen: "127.0.0.1:-1", compression: true, handshake_timeout: "{timeout}s", {websocket} }}
{clients}
"""
LOGIN = b'CONNECT {"user":"a","pass":"b","verbose":false,"pedantic":false,"protocol":0}\r\n'
LISTENERS = ("tcp", "websocket", "tls", "secure websocket")
ATTACKERS = 2000
ORDERS = 600 if IS_DEEP else 200
HANDSHAKE_BYTES = 96 * 1024
CONNECTION_BYTES = 12 * 1024  # with what it keeps while it waits for its handshake
SPARE = 20 * MEGABYTE  # what the allocator keeps
Start = Callable[[str, int], Daemon]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, made: Certificates) -> Iterator[Start]:
    """A broker, in clear or with TLS on both ports, and a login timeout in seconds."""
    running: dict[tuple[bool, int], Daemon] = {}

    def run(listener: str, timeout: int) -> Daemon:
        secure = listener in ("tls", "secure websocket")
        if (secure, timeout) not in running:
            tls = made.tls_block(f"timeout: {timeout}") if secure else ""
            path = tmp_path_factory.mktemp("unauthenticated") / "conf"
            path.write_text(CONFIG.format(timeout=timeout, websocket=tls or "no_tls: true", clients=tls))
            running[secure, timeout] = stack.enter_context(Daemon("-c", str(path)))
        return running[secure, timeout]

    with ExitStack() as stack:
        yield run
        for daemon in running.values():
            text = "\n".join(daemon.log)
            assert "Traceback" not in text, text[text.index("Traceback") - 500 :][:4000]


class Attacker:
    """A connection that goes as far as it can without a login."""

    def __init__(self, daemon: Daemon, listener: str, context: ssl.SSLContext | None) -> None:
        port = websocket_port(daemon) if "websocket" in listener else daemon.port
        self.websocket = "websocket" in listener
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        if listener == "tls":
            self._until(b"\r\n")
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def upgrade(self) -> None:
        self.socket.sendall(request(DEFLATE))
        self._until(b"\r\n\r\n")

    def _until(self, end: bytes) -> None:
        data = b""
        while end not in data:
            part = self.socket.recv(1)
            if not part:
                raise AssertionError(data)
            data += part

    def send(self, data: bytes) -> None:
        """The server may have closed already."""
        try:
            self.socket.sendall(data)
        except OSError:
            return

    def end(self) -> None:
        """No more is sent. The server may have closed already."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def to_end(self) -> bytes:
        data = b""
        try:
            while part := self.socket.recv(65536):
                data += part
        except OSError:
            return data
        return data

    def close(self) -> None:
        self.socket.close()


def context_for(listener: str, made: Certificates) -> ssl.SSLContext | None:
    return made.client_context() if listener in ("tls", "secure websocket") else None


def witness(daemon: Daemon, made: Certificates) -> Callable[[], None]:
    """A client that is logged in: calling the result checks that its messages still flow."""
    client = Raw(daemon.port)
    if b'"tls_required":true' in client.info:
        client.socket = made.client_context().wrap_socket(client.socket, server_hostname="localhost")
    client.exchange(LOGIN + b"SUB witness 1\r\n")

    def check() -> None:
        received = client.exchange(b"PUB witness 2\r\nhi\r\n").replace(b"PING\r\n", b"")
        assert received.endswith(b"MSG witness 1 2\r\nhi\r\nPONG\r\n")

    return check


def half(listener: str, kind: str) -> bytes:
    """What is never finished."""
    if kind == "request":
        return b"GET / HTTP/1.1\r\nX: " + b"a" * 12_000
    if kind == "frame":
        return frame(2, b"CONNECT {", size=60_000)[:-4] + b"x" * 50_000
    if kind == "hello":
        return b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + b"a" * 12_000
    return b'CONNECT {"user":"' + b"a" * 3900


@pytest.mark.parametrize(
    ("listener", "kind", "upgraded"),
    [
        ("tcp", "line", False),
        ("websocket", "request", False),
        ("websocket", "frame", True),
        ("tls", "hello", False),
        ("secure websocket", "hello", False),
    ],
)
def test_memory_is_bounded_in_total(start: Start, made: Certificates, listener: str, kind: str, upgraded: bool) -> None:
    """Thousands keep as much as they can, and then others once more: together never more than the bound."""
    daemon = start(listener, 60)
    check = witness(daemon, made)
    before = daemon.rss_bytes()
    sent = half(listener, kind)
    count = ATTACKERS // 3 if upgraded else ATTACKERS  # these keep three times as much, and take their time to come
    if kind == "hello":
        count = 2 * ATTACKERS
    for _ in range(2):
        with ExitStack() as stack:
            attackers = []
            for number in range(count):
                plain = socket_only(daemon, listener)
                stack.callback(plain.close)
                attackers.append(plain)
                if upgraded:
                    plain.upgrade()
                plain.send(sent)
                if number % 500 == 0:
                    check()
            for plain in attackers:
                plain.end()
            for plain in attackers:
                plain.to_end()  # the broker has read all of it when it closes
        check()
    kept = limits.TLS_HANDSHAKES * HANDSHAKE_BYTES if kind == "hello" else limits.UNAUTHENTICATED_BYTES
    assert daemon.peak_bytes() - before < kept + count * CONNECTION_BYTES + SPARE


def socket_only(daemon: Daemon, listener: str) -> Attacker:
    """Without a TLS handshake."""
    attacker = Attacker.__new__(Attacker)
    attacker.websocket = "websocket" in listener
    port = websocket_port(daemon) if attacker.websocket else daemon.port
    attacker.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
    return attacker


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("kind", ["silent", "half a CONNECT", "a long line", "other commands"])
def test_who_does_not_log_in_is_cut_off(start: Start, made: Certificates, listener: str, kind: str) -> None:
    daemon = start(listener, 1)
    check = witness(daemon, made)
    attacker = Attacker(daemon, listener, context_for(listener, made))
    if attacker.websocket:
        attacker.upgrade()
    sent = {
        "silent": b"",
        "half a CONNECT": b'CONNECT {"user":"a","pa',
        "a long line": b"CONNECT " + b"x" * 65_536,
        "other commands": b"PUB a 1\r\nx\r\nSUB a 1\r\nHPUB a 12 12\r\n",
    }[kind]
    expected = {
        "silent": b"-ERR 'Authentication Timeout'",
        "half a CONNECT": b"-ERR 'Authentication Timeout'",
        "a long line": b"-ERR 'maximum control line exceeded'",
        "other commands": b"-ERR 'Authorization Violation'",
    }[kind]
    if sent:
        attacker.send(binary(sent) if attacker.websocket else sent)
    # behind a long line the rest may still be on its way when the server closes: its words are lost then
    assert expected in attacker.to_end() or kind == "a long line"
    attacker.close()
    check()


@pytest.mark.parametrize("listener", ["tls", "secure websocket", "websocket"])
def test_silence_before_the_handshake(start: Start, made: Certificates, listener: str) -> None:
    daemon = start(listener, 1)
    attacker = socket_only(daemon, listener)
    attacker.to_end()
    attacker.close()


@pytest.mark.parametrize("listener", ["tcp", "websocket"])
def test_reconnect_storm(start: Start, made: Certificates, listener: str) -> None:
    """Connections that are reset, left half open, or closed in the middle of things: nobody stays, memory neither."""
    daemon = start(listener, 60)
    check = witness(daemon, made)
    random = Random(29)
    before = daemon.rss_bytes()
    for number in range(1500):
        client = socket_only(daemon, listener)
        if listener == "websocket" and random.random() < 0.8:
            if random.random() < 0.8:
                client.upgrade()
            else:
                client.send(request(DEFLATE))
        sent = LOGIN + b"SUB storm.%d 1\r\nPUB storm.%d 2\r\nhi\r\n" % (number, number)
        sent = binary(sent) if listener == "websocket" else sent
        client.send(sent[: random.randrange(len(sent) + 1)])
        if random.random() < 0.5:  # a reset instead of an end
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        if number % 200 == 0:
            check()
    check()
    assert daemon.rss_bytes() - before < SPARE


WORDS = (
    LOGIN,
    b"CONNECT {}\r\n",
    b"connect\r\n",
    b"CONNECT \r\n",
    b"CONNECT null\r\n",
    b'CONNECT {"nkey":"U","sig":"AA"}\r\n',
    b'CONNECT {"jwt":"a.b.c"}\r\n',
    b"CONNECT " + b"[" * 500 + b"\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
    b"INFO {}\r\n",
    b"INFO x\r\n",
    b"PUB a 0\r\n\r\n",
    b"PUB a 5\r\nhel",
    b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    b"HPUB a 99 1\r\n",
    b"SUB a 1\r\n",
    b"SUB\r\n",
    b"UNSUB 1\r\n",
    b"\r\n",
    b"\0\0\0\0",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x00\x05hello",
    b"A+ a\r\nRS+ a b\r\nLS+ a\r\nRMSG a b 1\r\n",
)
FRAMES: tuple[Callable[[bytes], bytes], ...] = (
    binary,
    compressed,
    lambda data: frame(1, data),
    lambda data: frame(2, data, final=False),
    lambda data: frame(0, data),
    lambda data: frame(0, data, final=False),
    lambda data: frame(2, data, reserved=4),
    lambda data: frame(2, data, masked=False),
    lambda data: frame(2, data, size=(1 << 63) - 1),
    lambda data: frame(2, data, size=1 << 63),
    lambda data: frame(2, data, size=len(data) + 1),
    lambda data: frame(9, data[:125]),
    lambda data: frame(10, data[:125]),
    lambda data: frame(8, data[:125]),
    lambda data: frame(8, b""),
    lambda data: frame(7, data),
    lambda data: data,
    lambda data: request(path="/leafnode"),
    lambda data: request(path="/mqtt"),
)


@pytest.mark.parametrize("listener", LISTENERS)
def test_any_order_of_messages(start: Start, made: Certificates, listener: str) -> None:
    """Right and wrong things in all orders, whole and cut: connections end, the broker does not."""
    daemon = start(listener, 1)
    check = witness(daemon, made)
    random = Random(listener)
    context = context_for(listener, made)
    with ExitStack() as stack:
        for number in range(ORDERS):
            shake = context if context is not None and random.random() < 0.3 else None
            if listener == "tls" and shake is None:
                client = socket_only(daemon, listener)
            else:
                client = Attacker(daemon, listener, shake)
            stack.callback(client.close)
            if client.websocket and random.random() < 0.9 and (context is None or shake is not None):
                client.upgrade()
            for _ in range(random.randrange(1, 6)):
                data = random.choice(WORDS)
                if client.websocket:
                    data = random.choice(FRAMES)(data)
                client.send(data if random.random() < 0.7 else data[: random.randrange(len(data) + 1)])
            if number % 50 == 0:
                check()
    check()
