"""TLS connections by hand, and what a server that stands next to nats-server answers and logs."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.certificates import Certificates
from tests.support.daemon import Daemon
from tests.support.process import find_nats_server

TIMEOUT_S = 30.0
HELLO = b'CONNECT {"verbose":false,"protocol":1,"lang":"x","name":"n"}\r\nPING\r\n'
_SHOWN = ("auth_required", "client_ip", "connect_info", "tls_available", "tls_required", "tls_verify")

Play = Callable[[int, Certificates], Any]


def server(kind: str, directory: Path, config: str, *arguments: str) -> Daemon:
    """A server with a configuration; `kind` is jetbroker or nats-server."""
    path = directory / f"{kind}.conf"
    path.write_text(config)
    given = ("-a", "127.0.0.1", "-c", str(path), *arguments)
    program = find_nats_server()
    if kind == "nats-server" and program is not None:
        return Daemon(*given, command=[program])
    return Daemon(*given)


def dial(port: int) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def until(connection: socket.socket, end: bytes) -> bytes:
    """Everything up to `end`, or to the end of the connection."""
    received = b""
    while end not in received:
        try:
            data = connection.recv(65536)
        except OSError:
            data = b""
        if not data:
            break
        received += data
    return received


def to_end(connection: socket.socket) -> bytes:
    """Everything until the server closes. Raises TimeoutError when it does not."""
    received = b""
    while True:
        try:
            data = connection.recv(65536)
        except TimeoutError:
            raise
        except OSError:
            return received
        if not data:
            return received
        received += data


def normalised(received: bytes) -> bytes:
    """Of an INFO only what TLS and proxies have to do with."""

    def kept(match: re.Match[bytes]) -> bytes:
        info = json.loads(match[1])
        return b"INFO " + json.dumps({name: info[name] for name in _SHOWN if name in info}).encode() + b"\r\n"

    return re.sub(rb"INFO (\{.*?\}) ?\r\n", kept, received)


def log_of(daemon: Daemon, after: int) -> list[str]:
    """What was logged behind the first `after` lines up to the end of a connection, comparable; in any order.

    The cipher suite differs by library, and what was wrong with a certificate is told in more words by nats-server.
    """
    daemon.wait_for("Client connection closed", after)
    begun = any("Starting TLS" in line for line in daemon.log[after:])
    if begun and not any("handshake complete" in line for line in daemon.log[after:]):
        daemon.wait_for("TLS handshake error", after)
    found = []
    for line in daemon.log[after:]:
        if "TLS handshake timeout" in line or "parser ERROR" in line:
            continue  # there they may come behind the end
        text = re.sub(r"^\[\d+\] \S+ \S+ ", "", line)
        text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
        text = re.sub(r"cid:\d+", "cid:N", text)
        text = re.sub(r"cipher suite TLS_\w+", "cipher suite", text)
        text = re.sub(r" \(CN=.*\)$|(; client offered)?: \[[0-9a-f ]+\]$", "", text)
        text = re.sub(r"(expired or is not yet valid): .*", r"\1", text)
        found.append(text)
    return sorted(found)


def secured(connection: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(connection, server_hostname="localhost")


def talk(context: ssl.SSLContext, port: int, *, first: bool = False, head: bytes = b"") -> tuple[bytes, bytes]:
    """INFO, and what answers CONNECT and PING inside of TLS. `first`: INFO comes inside; `head` goes before it all."""
    connection = dial(port)
    info = b"" if first else until(connection, b"\r\n")
    connection.sendall(head)
    inside = secured(connection, context)
    try:
        if first:
            info = until(inside, b"\r\n")
        inside.sendall(HELLO)
        return normalised(info), normalised(until(inside, b"connect_info"))
    finally:
        inside.close()
