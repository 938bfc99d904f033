"""What TLS, WebSockets, logins and limits add to the answers: the same fields as nats-server's."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.monitor.test_differential import shape
from tests.support import certificates, websocket
from tests.support.compare import assert_same
from tests.support.daemon import Daemon
from tests.support.http import get, get_json, monitor_port
from tests.support.nkeys import UserKey
from tests.support.process import find_nats_server
from tests.support.tls import dial, server, until

pytestmark = pytest.mark.differential

CONFIG = """
server_name: core
server_tags: [ "a", "b" ]
server_metadata: { zone: z, area: a }
client_advertise: "example.org:4999"
max_subscriptions: 100
connect_error_reports: 7
tls { CERT, ca_file: "CA", verify: true, timeout: 3 }
websocket {
  listen: "127.0.0.1:-1", no_tls: true, same_origin: true, allowed_origins: [ "http://a", "http://b" ]
  compression: true, handshake_timeout: "3s", advertise: "ws.example.org:99", no_auth_user: ann
}
accounts {
  A { users: [ { user: ann, password: p }, { nkey: NKEY } ] }
  B { users: [ { user: bob, password: q } ], limits: { max_connections: 1, max_payload: 10 } }
}
http: "127.0.0.1:-1"
"""
SHAPES = (
    "/varz",
    "/connz",
    "/connz?auth=1",
    "/connz?auth=1&acc=A",
    "/connz?auth=1&user=bob&subs=detail",
    "/connz?state=closed&auth=1",
    "/connz?state=closed&acc=A&subs=1",
    "/connz?state=any&auth=1&subs=1",
    "/subsz?subs=1&acc=A",
    "/healthz",
)
SETTINGS = (
    "host port auth_required tls_required tls_verify tls_timeout auth_timeout max_connections max_subscriptions "
    "ping_interval ping_max http_host http_base_path https_port max_control_line max_payload max_pending "
    "write_deadline tags metadata system_account tls_cert_not_after"
).split()
ROW = (
    "kind type name lang version tls_version tls_first authorized_user account issuer_key name_tag subscriptions"
).split()


class Secure:
    """A TLS connection with a client certificate, logged in."""

    def __init__(self, port: int, context: ssl.SSLContext, user: dict[str, Any], key: UserKey | None = None) -> None:
        plain = dial(port)
        info = json.loads(until(plain, b"\r\n")[5:])
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        if key is not None:
            user = {"nkey": key.public, "sig": key.signature(info["nonce"])}
        options = {"verbose": False, "protocol": 1, "lang": "x", "version": "1", **user}
        self.socket.sendall(b"CONNECT " + json.dumps(options).encode() + b"\r\nSUB s.> q 1\r\nPING\r\n")
        until(self.socket, b"connect_info")

    def close(self) -> None:
        self.socket.close()


class Web:
    """A WebSocket, let in as the listener's no_auth_user."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.sendall(websocket.request())
        until(self.socket, b"INFO")
        self.socket.sendall(
            websocket.binary(b'CONNECT {"verbose":false,"protocol":1,"name":"web"}\r\nSUB w 1\r\nPING\r\n')
        )
        until(self.socket, b"connect_info")

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """nats-server's first; each with the same connections, of which some are gone."""
    if find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    folder: Path = tmp_path_factory.mktemp("core")
    made, key = certificates.make(folder), UserKey()
    config = CONFIG.replace("CERT", f'cert_file: "{made.server.cert}", key_file: "{made.server.key}"')
    config = config.replace("CA", str(made.ca.cert)).replace("NKEY", key.public)
    with ExitStack() as stack:
        found = []
        for kind in ("nats-server", "jetbroker"):
            running = stack.enter_context(server(kind, folder, config))
            populate(running, made, key, stack)
            found.append(monitor_port(running))
        yield found


def populate(running: Daemon, made: certificates.Certificates, key: UserKey, stack: ExitStack) -> None:
    context = made.client_context(made.client)
    web = int(next(line for line in running.log if "websocket clients" in line).rpartition(":")[2])
    logins: tuple[dict[str, Any], ...] = (
        {"user": "ann", "pass": "p", "name": "ann"},
        {"user": "bob", "pass": "q", "name": "bob"},
    )
    for login in logins:
        stack.enter_context(closing(Secure(running.port, context, login)))
    stack.enter_context(closing(Secure(running.port, context, {}, key)))
    stack.enter_context(closing(Web(web)))
    Secure(running.port, context, {"user": "ann", "pass": "p", "name": "gone"}).close()
    Web(web).close()
    with closing(dial(running.port)) as plain:  # does not speak TLS
        until(plain, b"\r\n")
        plain.sendall(b"PING\r\n")
        until(plain, b"nothing")
    port = monitor_port(running)
    while get_json(port, "/connz?state=closed")["total"] < 3:
        pass


def test_fields(ports: list[int]) -> None:
    assert_same((target, *(shape(get_json(port, target)) for port in ports)) for target in SHAPES)


def test_settings_are_equal(ports: list[int]) -> None:
    expected, got = (get_json(port, "/varz") for port in ports)
    assert {name: got.get(name) for name in SETTINGS} == {name: expected.get(name) for name in SETTINGS}
    for answer in (expected, got):
        del answer["websocket"]["port"]
    assert got["websocket"] == expected["websocket"]


@pytest.mark.parametrize("state", ["open", "closed"])
def test_connections_are_equal(state: str, ports: list[int]) -> None:
    found = []
    for port in ports:
        rows = get_json(port, f"/connz?state={state}&auth=1")["connections"]
        kept = [{name: row[name] for name in (*ROW, "reason") if name in row} for row in rows]
        certs = [row["tls_peer_certs"] for row in rows if "tls_peer_certs" in row]
        found.append((sorted(kept, key=repr), sorted(certs, key=repr)))
    assert found[0] == found[1]


def test_errors_are_equal(ports: list[int]) -> None:
    for target in ("/connz?sort=nope", "/connz?state=nope", "/connz?auth=maybe", "/nope"):
        expected, got = (get(port, target) for port in ports)
        assert got == expected, target
