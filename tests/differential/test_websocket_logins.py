"""Logins over a WebSocket: its own credentials, its own `no_auth_user`, cookies, connection types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.compare import assert_same
from tests.support.login_rows import ANN, Case, Say, message, signed
from tests.support.logins import server
from tests.support.process import find_nats_server
from tests.support.websocket import WebsocketClient, binary, websocket_port

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

COOKIES = ["", "Cookie: u=u; p=p\r\n", "Cookie: u=u; p=x\r\n", "Cookie: t=t\r\n", "Cookie: u=nobody\r\n"]
NAMES = "user_cookie: u\n pass_cookie: p\n token_cookie: t\n"
SAYS: list[Say] = [
    {},
    {"protocol": 1},
    b"",
    b"SUB foo 1\r\n",
    {"user": "u", "pass": "p"},
    {"user": "v", "pass": "p"},
    {"user": "u", "pass": "x"},
    {"user": "w", "pass": "p"},
    {"auth_token": "t"},
    {"auth_token": "x"},
    signed(ANN),
]
USERS = (
    "authorization { users: [ {user: u, password: p}, {user: v, password: p, allowed_connection_types: [STANDARD]},\n"
    f" {{user: w, password: p, allowed_connection_types: [WEBSOCKET]}}, {{nkey: {ANN.public}}} ] }}\n"
)
ONE = "authorization { user: u, password: p }\n"


def _websocket(more: str = "") -> str:
    return f'websocket {{\n listen: "127.0.0.1:-1"\n no_tls: true\n {NAMES} {more}\n}}\n'


CASES = [
    Case("nothing", _websocket()),
    Case("one user", ONE + _websocket()),
    Case("another user", ONE + _websocket("authorization { user: v, password: p }")),
    Case("a token here, a user there", ONE + _websocket("authorization { token: t }")),
    Case("a user here, nothing there", _websocket("authorization { user: u, password: p }")),
    Case("users", USERS + _websocket()),
    Case("no_auth_user here", USERS + _websocket("no_auth_user: u")),
    Case("no_auth_user there", USERS + "no_auth_user: u\n" + _websocket()),
    Case("no_auth_user of another kind", USERS + _websocket("no_auth_user: v")),
    Case("two of them", USERS + "no_auth_user: u\n" + _websocket("no_auth_user: w")),
    Case("an nkey as no_auth_user", USERS + _websocket(f"no_auth_user: {ANN.public}")),
]


def _answers(port: int, cookies: str) -> list[object]:
    found: list[object] = []
    for say in SAYS:
        client = WebsocketClient.open(port, cookies)
        first = json.loads(client.info[5:])
        client.send(binary(message(say, first.get("nonce", ""))))
        lines = [first.get("auth_required", False), len(first.get("nonce", ""))]
        pongs = 0
        while pongs < 2:
            line = client.until(b"\r\n").removesuffix(b"\r\n")
            if not line:
                break
            if line == b"PING":
                continue  # a server asks when it likes
            pongs += line == b"PONG"
            lines.append(b"INFO" if line.startswith(b"INFO") else line)
        client.close()
        found.append((cookies, say, lines))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_clients_are_let_in(case: Case, tmp_path: Path) -> None:
    answers = []
    for kind in ("nats-server", "jetbroker"):
        directory = tmp_path / kind
        directory.mkdir()
        with server(kind, directory, case.config) as daemon:
            port = websocket_port(daemon)
            answers.append([answer for cookies in COOKIES for answer in _answers(port, cookies)])
    assert_same((case.name, *both) for both in zip(*answers, strict=True))
