"""Users by certificate (`verify_and_map`), on the client port and on the websocket one: nats-server and jetbroker."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import certificates
from tests.support.certificates import Certificate, Certificates
from tests.support.daemon import Daemon, without_pings
from tests.support.logins import server
from tests.support.process import STOP_TIMEOUT_S, find_nats_server

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

NAMES: dict[str, dict[str, object]] = {
    "mail": {"subject": [("CN", "x")], "emails": ["other@a.com", "ann@a.com"], "dns": ["bob.a.com"]},
    "dns": {"subject": [("O", "Acme"), ("CN", "carl")], "dns": ["bob.a.com"]},
    "uri": {"subject": [("CN", "x")], "uris": ["spiffe://a.com/eve"]},
    "subject": {"subject": [("O", "Acme"), ("OU", "Eng"), ("CN", "carl")]},
    "comma": {"subject": [("O", "Acme, Inc"), ("CN", "dora")]},
    "injected": {"subject": [("CN", "carl,OU=Eng,O=Acme")]},
    "domains": {"subject": [("DC", "com"), ("DC", "acme"), ("CN", "fay")]},
    "reordered": {"subject": [("CN", "carl"), ("OU", "Eng"), ("O", "Acme")]},
    "many": {"subject": [("OU", "a"), ("OU", "b"), ("CN", "gus")]},
    "nobody": {"subject": [("CN", "nobody")]},
    "limited": {"subject": [("CN", "x")], "emails": ["web@a.com"]},
    "secret": {"subject": [("CN", "x")], "emails": ["pw@a.com"]},
}
USERS = [
    "{user: ann@a.com}",
    "{user: bob.a.com}",
    "{user: 'spiffe://a.com/eve'}",
    "{user: 'CN=carl,OU=Eng,O=Acme'}",
    "{user: 'CN=dora,O=Acme\\, Inc'}",
    "{user: 'CN=fay,DC=acme,DC=com'}",
    "{user: 'CN=gus,OU=a+OU=b'}",
    "{user: web@a.com, allowed_connection_types: [WEBSOCKET]}",
    "{user: pw@a.com, password: p}",
    "{user: plain, password: p}",
]
SAYS: list[dict[str, object]] = [
    {},
    {"user": "plain", "pass": "p"},
    {"user": "plain"},
    {"pass": "p"},
    {"pass": "x"},
    {"auth_token": "x"},
]


class Servers(NamedTuple):
    made: Certificates
    clients: dict[str, Certificate]
    reference: Daemon
    broker: Daemon


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    directory = tmp_path_factory.mktemp("certificates")
    made = certificates.make(directory)
    clients = {name: made.ca.sign(name, **options) for name, options in NAMES.items()}  # type: ignore[arg-type]
    config = made.tls_block("verify_and_map: true") + "authorization { users: [\n" + "\n".join(USERS) + "\n] }\n"
    with ExitStack() as stack:
        started = [
            stack.enter_context(server(kind, _inside(tmp_path_factory, kind), config))
            for kind in ("nats-server", "jetbroker")
        ]
        yield Servers(made, clients, *started)


def _inside(factory: pytest.TempPathFactory, kind: str) -> Path:
    return factory.mktemp(kind)


def answer(port: int, context: ssl.SSLContext, say: dict[str, object]) -> tuple[bytes, str]:
    """The line behind CONNECT and PING, and who the client is by the second INFO's account (all are in $G)."""
    with socket.create_connection(("127.0.0.1", port), timeout=STOP_TIMEOUT_S) as plain:
        plain.recv(65536)
        with context.wrap_socket(plain, server_hostname="localhost") as secured:
            secured.sendall(b"CONNECT " + json.dumps({"verbose": False, **say}).encode() + b"\r\nPING\r\n")
            received = b""
            while not (received := without_pings(received)).endswith(b"\r\n"):
                try:
                    data = secured.recv(65536)
                except (ssl.SSLError, ConnectionResetError):
                    break
                if not data:
                    break
                received += data
            return received, "open" if received == b"PONG\r\n" else "closed"


@pytest.mark.parametrize("name", NAMES)
def test_the_same_user(name: str, servers: Servers) -> None:
    context = servers.made.client_context(servers.clients[name])
    theirs = [answer(servers.reference.port, context, say) for say in SAYS]
    ours = [answer(servers.broker.port, context, say) for say in SAYS]
    assert ours == theirs
    expected = {"nobody": 0, "injected": 0, "limited": 0, "secret": 2}
    assert sum(state == "open" for _, state in ours) == expected.get(name, 3)


def test_the_log_tells_of_a_user_beside_the_certificate(servers: Servers) -> None:
    context = servers.made.client_context(servers.clients["mail"])
    for daemon in (servers.reference, servers.broker):
        answer(daemon.port, context, {"user": "mallory"})
        daemon.wait_for('User "mallory" found in connect proto, but user required from cert')
