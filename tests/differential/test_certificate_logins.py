"""Users by certificate (`verify_and_map`), on the client port and on the websocket one: nats-server and jetbroker."""

from __future__ import annotations

import json
import re
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
from tests.support.websocket import WebsocketClient, websocket_port

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


# --- users without a password, on a listener that maps no certificates ---

MAPPED_USER = "{user: 'CN=ann'}"
LISTEN = 'listen: "127.0.0.1:-1"'


class Elsewhere(NamedTuple):
    """`listeners`: `MAPS` and `VERIFIES` stand for their blocks. `users` are asked for one by one."""

    listeners: str
    users: str
    plain: str = "clients"  # the listener that maps nothing
    more: str = ""


PLAIN_WEBSOCKET = f"websocket {{ {LISTEN}, no_tls: true }}"
ELSEWHERE = {
    "no_auth_user": Elsewhere(
        f"MAPS {PLAIN_WEBSOCKET}", f"{MAPPED_USER}, {{user: guest}}", "websocket", "no_auth_user: guest"
    ),
    "clients": Elsewhere(
        f"MAPS {PLAIN_WEBSOCKET}",
        f"{MAPPED_USER}, {{user: a, allowed_connection_types: [STANDARD, WEBSOCKET]}},"
        " {user: b, allowed_connection_types: [WEBSOCKET]}, {user: c, password: p}",
        "websocket",
    ),
    "clients, websocket users only": Elsewhere(
        f"MAPS {PLAIN_WEBSOCKET}", "{user: b, allowed_connection_types: [WEBSOCKET]}", "websocket"
    ),
    "websocket": Elsewhere(
        f"websocket {{ {LISTEN}\n MAPS }}", f"{MAPPED_USER}, {{user: a, allowed_connection_types: [STANDARD]}}"
    ),
    "websocket, for all its users": Elsewhere(f"websocket {{ {LISTEN}\n MAPS }}", MAPPED_USER),
    "websocket without a listener": Elsewhere("websocket { MAPS }", MAPPED_USER),
    "links": Elsewhere(f"leafnodes {{ {LISTEN}\n MAPS }}", f"{MAPPED_USER}, {{user: guest}}"),
    "links without a listener": Elsewhere("leafnodes { MAPS }", MAPPED_USER),
    "links with their own users": Elsewhere(
        f"leafnodes {{ {LISTEN}\n MAPS authorization {{ users: [ {MAPPED_USER} ] }} }}", MAPPED_USER
    ),
    "links over a plain websocket": Elsewhere(
        f"leafnodes {{ {LISTEN}\n MAPS }}\n{PLAIN_WEBSOCKET}",
        "{user: a, allowed_connection_types: [STANDARD, LEAFNODE_WS]},"
        " {user: b, allowed_connection_types: [STANDARD, LEAFNODE]}",
    ),
    "links over a websocket with certificates": Elsewhere(
        f"leafnodes {{ {LISTEN}\n MAPS }}\nwebsocket {{ {LISTEN}\n VERIFIES }}",
        "{user: a, allowed_connection_types: [STANDARD, LEAFNODE_WS]}",
    ),
}


def named(daemon: Daemon, plain: str, user: str) -> bytes:
    """The answer to one who gives that name and an empty password."""
    connect = b"CONNECT " + json.dumps({"verbose": False, "user": user, "pass": ""}).encode() + b"\r\n"
    with daemon.open() if plain == "clients" else WebsocketClient.open(websocket_port(daemon)) as client:
        return without_pings(client.exchange(connect)).partition(b"\r\n")[0]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_empty_password_is_judged_the_same(name: str, tmp_path: Path) -> None:
    case = ELSEWHERE[name]
    made = certificates.make(tmp_path)
    listeners = case.listeners.replace("MAPS", made.tls_block("verify_and_map: true"))
    listeners = listeners.replace("VERIFIES", made.tls_block(verify=True))
    config = f"{listeners}\nauthorization {{ users: [ {case.users} ] }}\n{case.more}\n"
    users = ["", *re.findall(r"user: '?([^,'}]+)", case.users)]
    found = []
    for kind in ("nats-server", "jetbroker"):
        directory = tmp_path / kind
        directory.mkdir()
        with server(kind, directory, config) as daemon:
            answers = [named(daemon, case.plain, user) for user in users]
            found.append((answers, any("Plaintext passwords" in line for line in daemon.log)))
    assert found[1] == found[0]
