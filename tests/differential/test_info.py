"""Both INFOs of a connection, whole and in their order: what each configuration adds to them, on each listener."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.support import certificates
from tests.support.daemon import Daemon, without_pings
from tests.support.nkeys import UserKey
from tests.support.tls import dial, until
from tests.support.websocket import WebsocketClient, binary, websocket_port

pytestmark = pytest.mark.differential

KEY = UserKey()
WEBSOCKET = 'websocket { listen: "127.0.0.1:-1", no_tls: true, MORE }\n'
USERS = "authorization { users: [ {user: u, password: p}, {user: s, password: p} ] }\n"
ACCOUNTS = (
    "accounts { A { users: [ {user: u, password: p} ], limits { max_payload: 5 } },\n"
    " $SYS { users: [ {user: s, password: p} ] } }\n"
)
CONFIGS = {
    "advertised": 'client_advertise: "h.example:99"\n' + WEBSOCKET.replace("MORE", 'advertise: "w.example:77"'),
    "advertised without a port": 'client_advertise: "[::1]"\n',
    "JetStream": "jetstream { store_dir: '@dir', domain: hub }\n" + ACCOUNTS,
    "a guest": USERS + "no_auth_user: u\n" + WEBSOCKET.replace("MORE", ""),
    "a guest by websocket": USERS + WEBSOCKET.replace("MORE", "no_auth_user: s"),
    "nkeys": f"authorization {{ users: [ {{nkey: {KEY.public}}}, {{user: u, password: p}} ] }}\nno_auth_user: u\n",
    "tls": "tls { @cert, ca_file: '@ca', verify: true }\nserver_name: named\nno_header_support: true\n",
    "tls or not": "tls { @cert }\nallow_non_tls: true\nmax_payload: 77\n" + WEBSOCKET.replace("MORE", ""),
    "proxies": "proxy_protocol: true\n",
}
SAYS = [b"", b'"user":"u","pass":"p",', b'"user":"s","pass":"p",']
OWN = ("server_id", "go", "client_id", "nonce", "xkey")


def infos(received: bytes, port: int) -> list[object]:
    """The fields in their order, without what belongs to one server, and what else was said."""
    found: list[object] = [re.sub(rb"INFO \{.*?\} ?\r\n", b"INFO\r\n", without_pings(received))]
    for text in re.findall(rb"INFO (\{.*?\}) ?\r\n", received):
        info = json.loads(text)
        info.pop("git_commit", None)
        own = {name: "own" for name in info if name in OWN or info[name] in (info["server_id"], port)}
        found.append(list((info | own).items()))
    return found


def two_pongs(lines: BinaryIO) -> bytes:
    """Everything up to the second one, or to the end of the connection."""
    received = b""
    while received.count(b"PONG\r\n") < 2 and (line := lines.readline()):
        received += line
    return received


def told(server: Daemon, secure: ssl.SSLContext | None) -> Iterator[object]:
    for fields in SAYS:
        said = b'CONNECT {%b"verbose":false,"protocol":1}\r\nPING\r\nPING\r\n' % fields
        with dial(server.port) as plain:
            received = until(plain, b"\r\n")
            connection = plain if secure is None else secure.wrap_socket(plain, server_hostname="localhost")
            connection.sendall(said)
            with connection, connection.makefile("rb") as lines:
                yield infos(received + two_pongs(lines), server.port)
        if any("websocket clients" in line for line in server.log):
            with WebsocketClient.open(websocket_port(server)) as web:
                web.send(binary(said))
                received = web.until(b"PONG\r\n") + web.until(b"PONG\r\n")
                yield infos(web.info + received, websocket_port(server))


@pytest.mark.parametrize("name", CONFIGS)
def test_infos_are_equal(name: str, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    text = CONFIGS[name].replace("@cert", f'cert_file: "{made.server.cert}", key_file: "{made.server.key}"')
    found = []
    for number, command in enumerate(commands):
        path = tmp_path / f"{number}.conf"
        path.write_text(text.replace("@ca", str(made.ca.cert)).replace("@dir", str(tmp_path / f"store{number}")))
        with Daemon("-c", str(path), command=command) as server:
            found.append(list(told(server, made.client_context(made.client) if name == "tls" else None)))
    assert found[1] == found[0]
