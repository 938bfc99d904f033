"""Who may come in over WebSockets: cookies, `authorization` and `no_auth_user` of the block, connection types."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.daemon import Daemon
from tests.support.websocket import WebsocketClient, binary, frame, websocket_port
from tests.websocket.conftest import Pair, StartPair

LISTEN = 'listen: "127.0.0.1:-1", no_tls: true'
COOKIES = "user_cookie: u, pass_cookie: p, token_cookie: t"
CONFIGS = {
    "open": f"websocket {{ {LISTEN}, {COOKIES} }}",
    "users": f"""
        websocket {{ {LISTEN}, {COOKIES} }}
        authorization {{ users [ {{user: a, password: b}}, {{user: c, password: "d e"}}
            {{user: s, password: s, allowed_connection_types: [STANDARD]}}
            {{user: w, password: w, allowed_connection_types: [WEBSOCKET]}} ], timeout: 0.3 }}
    """,
    "token": f"websocket {{ {LISTEN}, {COOKIES} }}\nauthorization {{ token: secret }}",
    "one user": f"websocket {{ {LISTEN}, {COOKIES} }}\nauthorization {{ user: a, password: b }}",
    "own user": f"websocket {{ {LISTEN}, {COOKIES}, authorization {{ user: x, password: y }} }}",
    "own token": f"""
        websocket {{ {LISTEN}, {COOKIES}, authorization {{ token: own }} }}
        authorization {{ token: other }}
    """,
    "own user beside another": f"""
        websocket {{ {LISTEN}, {COOKIES}, authorization {{ user: x, password: y, timeout: 0.3 }} }}
        authorization {{ user: a, password: b }}
    """,
    "no_auth_user": f"""
        websocket {{ {LISTEN}, {COOKIES}, no_auth_user: c }}
        authorization {{ users [ {{user: a, password: b}}, {{user: c, password: d}} ] }}
    """,
    "no_auth_user of all": f"""
        websocket {{ {LISTEN}, {COOKIES} }}
        no_auth_user: a
        authorization {{ users [ {{user: a, password: b}}, {{user: c, password: d}} ] }}
    """,
}
COOKIE_HEADERS = (
    "",
    "Cookie: u=a; p=b\r\n",
    'Cookie: u="a";p="b"\r\n',
    "Cookie: u=a\r\nCookie: p=b\r\n",
    "Cookie: u=c; p=d e\r\n",
    "Cookie: u=wrong; u=a; p=b\r\n",
    "Cookie: U=a; P=b\r\n",
    "Cookie: u=x; p=y\r\n",
    "Cookie: u=c; p=d\r\n",
    "Cookie: t=secret\r\n",
    "Cookie: t=own\r\n",
    "Cookie: u=a; p=wrong\r\n",
    "Cookie: u=w; p=w\r\n",
    "Cookie: u=s; p=s\r\n",
    "Cookie: a=1; =; ;;;u=a;p=b;\r\n",
)
FIRST_WORDS = (
    b"",
    b"CONNECT {}\r\n",
    b'CONNECT {"user":"a","pass":"b"}\r\n',
    b'CONNECT {"user":"x","pass":"y"}\r\n',
    b'CONNECT {"auth_token":"secret"}\r\n',
    b'CONNECT {"user":"w","pass":"w"}\r\n',
    b'CONNECT {"user":"s","pass":"s"}\r\n',
    b'CONNECT {"user":"a"}\r\n',
)
BYE = frame(8, b"\x03\xe8")


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request: pytest.FixtureRequest, start_pair: StartPair) -> Pair:
    return start_pair(CONFIGS[request.param])


def outcome(daemon: Daemon, cookies: str, first: bytes) -> tuple[bool, list[object]]:
    """Whether INFO asks for a login, and what comes back, with the second INFO's account."""
    with WebsocketClient.open(websocket_port(daemon), cookies) as client:
        due = bool(json.loads(client.info[5:]).get("auth_required"))
        client.send(binary(first.replace(b"{", b'{"verbose":false,"protocol":1,', 1).replace(b",}", b"}")))
        client.send(binary(b"PING\r\n") + BYE)
        received = client.to_end()
    account = re.search(rb'"remote_account":"(.*?)"', received.data)
    said = re.sub(rb"INFO .*?\r\n", b"INFO\r\n", received.data)
    return due, [said, account[1] if account else None, received.code, received.text]


@pytest.mark.differential
def test_logins(pair: Pair) -> None:
    for first in FIRST_WORDS:
        for cookies in COOKIE_HEADERS:
            ours, theirs = (outcome(daemon, cookies, first) for daemon in pair)
            assert ours == theirs, (first, cookies)


@pytest.mark.differential
@pytest.mark.parametrize("name", ["users", "own user beside another"])
def test_silence(start_pair: StartPair, name: str) -> None:
    for daemon in start_pair(CONFIGS[name]):
        with WebsocketClient.open(websocket_port(daemon)) as client:
            received = client.to_end()
            assert received.data == b"-ERR 'Authentication Timeout'\r\n"
            assert (received.code, received.text) == (1008, "Authentication Timeout")
