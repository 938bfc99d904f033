"""Who is let in: configurations, and what clients say first. Signatures are made for the nonce of each connection."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import bcrypt

from tests.support.nkeys import UserKey

ANN, BOB, EVE = UserKey(), UserKey(), UserKey()
HASHED = bcrypt.hashpw(b"hashed-secret", bcrypt.gensalt(4)).decode()
LONG = "x" * 72
HASHED_LONG = bcrypt.hashpw(LONG.encode(), bcrypt.gensalt(4)).decode()

Say = bytes | dict[str, object] | Callable[[str], bytes]
Signer = Callable[[str], str]


@dataclass(frozen=True)
class Case:
    """`says`: what each of some clients sends, CONNECT fields (a function makes its value of the nonce) or bytes."""

    name: str
    config: str
    says: list[Say] = field(default_factory=list)


def _user(user: str, password: str, **more: object) -> dict[str, object]:
    return {"user": user, "pass": password, **more}


def signed(key: UserKey, **more: object) -> dict[str, object]:
    return {"nkey": key.public, "sig": key.signature, **more}


def _sig(make: Callable[[bytes], str]) -> dict[str, object]:
    return {"nkey": ANN.public, "sig": lambda nonce: make(ANN.sign(nonce))}


def _padded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


def _standard(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# no login, wrong ones, and every other first message
STRANGERS: list[Say] = [
    {},
    {"protocol": 1},
    b"",
    b"SUB foo 1\r\n",
    b"PUB foo 1\r\n1\r\n",
    b"\r\n",
    b"\n",
    b" ",
    b"X",
    b"\x16\x03\x01",
    b'CONNECT {"name":"' + b"x" * 4096 + b'"}\r\n',
    b"INFO {}\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
    b"CONNECT\r\n",
    b"CONNECT {\r\n",
    _user("nobody", "p"),
    _user("", "p"),
    _user("u", ""),
    _user("", ""),
    {"user": "u"},
    {"pass": "p"},
    {"auth_token": "t"},
    {"auth_token": ""},
    {"jwt": "eyJ", "sig": "x"},
    {"nkey": ANN.public},
    signed(EVE),
    {"account": "A"},
    {"account": "$SYS", "new_account": True},
    {"user": "$SYS", "pass": ""},
]
USERS = "authorization { users: [ {user: u, password: p}, {user: v, password: q} ] }\n"
NKEYS = f"authorization {{ users: [ {{nkey: {ANN.public}}}, {{user: u, password: p}} ] }}\n"

CASES = [
    Case("nothing", "max_payload: 1000\n", [*STRANGERS, _user("u", "p"), signed(ANN)]),
    Case(
        "one user",
        "authorization { user: u, password: p }\n",
        [
            *STRANGERS,
            _user("u", "p"),
            _user("u", "p", auth_token="x"),
            _user("u", "p", nkey="x", sig="y"),
            _user("u", "P"),
        ],
    ),
    Case("one user without a password", "authorization { user: u }\n", [*STRANGERS, _user("u", "x")]),
    Case(
        "a token",
        "authorization { token: t }\n",
        [*STRANGERS, _user("t", ""), _user("", "t"), _user("u", "p", auth_token="t")],
    ),
    Case("empty users", "authorization { users: [] }\n", STRANGERS),
    Case("an empty block", "authorization { }\n", STRANGERS),
    Case(
        "users",
        USERS,
        [
            *STRANGERS,
            _user("u", "p", protocol=1),
            _user("v", "q"),
            _user("u", "q"),
            b'CONNECT {"user":"u","pass":"p"}\r\nCONNECT {}\r\n',
            b'CONNECT {"user":"u","pass":"p"}\r\nCONNECT {"pass":null,"verbose":false}\r\n',
            b'CONNECT {"user":"u","pass":"p"}\r\nCONNECT {"user":"v"}\r\n',
            b'CONNECT {"user":"u","pass":"p"}\r\nCONNECT {"user":"v","pass":"q"}\r\n',
            b'CONNECT {"user":"u","pass":"p"}\r\nSUB foo 1\r\nCONNECT {"user":"nobody"}\r\n',
        ],
    ),
    Case(
        "hashes",
        f'authorization {{ users: [ {{user: u, password: "{HASHED}"}}, {{user: v, password: "{HASHED_LONG}"}},\n'
        ' {user: w, password: "$2a$10$short"},\n {user: x, password: "$2a$secret"},\n'
        ' {user: y, password: "$2z$10$x"} ] }\n',
        [
            *STRANGERS,
            _user("u", "hashed-secret", protocol=1),
            _user("u", "hashed-secre"),
            _user("u", HASHED),
            _user("v", LONG),
            _user("v", LONG + "y"),
            _user("v", LONG[1:]),
            _user("v", LONG + "\0"),
            _user("w", "$2a$10$short"),
            _user("x", "$2a$secret"),
            _user("y", "$2z$10$x"),
        ],
    ),
    Case("a hashed token", f'authorization {{ token: "{HASHED}" }}\n', [*STRANGERS, {"auth_token": "hashed-secret"}]),
    Case("no_auth_user", USERS + "no_auth_user: u\n", [*STRANGERS, _user("u", "p"), _user("v", "q"), _user("v", "p")]),
    Case(
        "no_auth_user with a hash",
        f'authorization {{ users: [ {{user: u, password: "{HASHED}"}} ] }}\nno_auth_user: u\n',
        [*STRANGERS, _user("u", "hashed-secret")],
    ),
    Case(
        "nkeys",
        NKEYS,
        [
            *STRANGERS,
            signed(ANN, protocol=1),
            signed(ANN, user="u", **{"pass": "wrong"}),
            signed(EVE, user="u", **{"pass": "p"}),
            signed(BOB),
            _user("u", "p"),
            {"nkey": ANN.public, "sig": EVE.signature},
            {"nkey": ANN.public, "sig": lambda nonce: ANN.signature(nonce[:-1])},
            {"nkey": ANN.public, "sig": lambda nonce: ANN.signature("")},
            {"nkey": ANN.public[:-1], "sig": ANN.signature},
            {"nkey": ANN.public.lower(), "sig": ANN.signature},
            {"nkey": ANN.public, "sig": "x"},
            {"nkey": ANN.public, "sig": "!!!"},
            {"sig": ANN.signature},
            _sig(lambda raw: "-" + _padded(raw)[1:]),
            _sig(_standard),
            _sig(lambda raw: "+" + _standard(raw).rstrip("=")[1:]),
            _sig(lambda raw: _padded(raw)[:40] + "\n" + _padded(raw)[40:].rstrip("=")),
            _sig(lambda raw: " " + _padded(raw).rstrip("=")),
            _sig(lambda raw: _padded(raw[:-1]).rstrip("=")),
            signed(ANN, account="x"),
            *(
                lambda nonce, then=then: _connect(signed(ANN), nonce) + b"CONNECT {%b}\r\n" % then
                for then in (
                    b"",
                    b'"user":"u","pass":"p"',
                    b'"user":"u","pass":"x"',
                    b'"nkey":""',
                    b'"sig":""',
                    b'"sig":"x"',
                )
            ),
            lambda nonce: b'CONNECT {"user":"u","pass":"p"}\r\n' + _connect(signed(ANN), nonce) + b"CONNECT {}\r\n",
        ],
    ),
    Case(
        "no_auth_user with an nkey",
        NKEYS + f"no_auth_user: {ANN.public}\n",
        [*STRANGERS, {"nkey": ANN.public, "sig": "x"}, _user("u", "p"), signed(ANN), signed(BOB)],
    ),
    Case(
        "connection types",
        "authorization { users: [ {user: u, password: p, allowed_connection_types: [WEBSOCKET]},\n"
        " {user: v, password: p, allowed_connection_types: [standard, MQTT]},\n"
        f" {{nkey: {ANN.public}, allowed_connection_types: [LEAFNODE]}},\n"
        f" {{nkey: {BOB.public}, allowed_connection_types: [STANDARD]}} ] }}\nno_auth_user: u\n",
        [*STRANGERS, _user("u", "p"), _user("v", "p"), signed(ANN), signed(BOB)],
    ),
    Case(
        "proxies",
        "authorization { proxy_required: true, users: [ {user: u, password: p, proxy_required: true},\n"
        f" {{user: v, password: p}}, {{nkey: {ANN.public}, proxy_required: true}} ] }}\nno_auth_user: u\n",
        [*STRANGERS, _user("u", "p"), _user("v", "p"), _user("v", "p", proxy_sig="x"), signed(ANN)],
    ),
    Case(
        "a proxy for one user", "authorization { user: u, password: p, proxy_required: true }\n", [_user("u", "p"), {}]
    ),
    Case(
        "accounts",
        f"accounts {{ A {{ users: [ {{user: u, password: p}} ] }}, B {{ users: [ {{nkey: {ANN.public}}} ] }},\n"
        " C { } }\n",
        [*STRANGERS, _user("u", "p", protocol=1), signed(ANN, protocol=1)],
    ),
    Case("accounts without users", "accounts { A { }, B { } }\n", STRANGERS),
    Case(
        "only the system account has users",
        "accounts { SYS { users: [ {user: s, password: s} ] } }\nsystem_account: SYS\n",
        [*STRANGERS, _user("s", "s", protocol=1)],
    ),
    Case(
        "only $SYS has users",
        "accounts { $SYS { users: [ {user: s, password: s} ] } }\n",
        [*STRANGERS, _user("s", "s", protocol=1)],
    ),
    Case(
        "the system account has users, and there is a block",
        "accounts { $SYS { users: [ {user: s, password: s} ] } }\nauthorization { timeout: 3 }\n",
        [*STRANGERS, _user("s", "s")],
    ),
    Case(
        "the system account has users, and there is another account",
        "accounts { $SYS { users: [ {user: s, password: s} ] }, A { } }\n",
        [*STRANGERS, _user("s", "s")],
    ),
    Case("the system account has no users", "accounts { SYS { } }\nsystem_account: SYS\n", STRANGERS),
    Case(
        "limits of accounts",
        "accounts { A { users: [ {user: u, password: p} ], limits { max_payload: 100, max_subscriptions: 1 } },\n"
        " B { users: [ {user: v, password: q} ], limits { max_connections: 0 } },\n"
        f" C {{ users: [ {{nkey: {ANN.public}}} ], limits {{ max_payload: 0 }} }} }}\n",
        [
            _user("u", "p", protocol=1),
            _user("v", "q"),
            signed(ANN, protocol=1),
            b'CONNECT {"user":"u","pass":"p"}\r\nSUB foo 1\r\nSUB bar 2\r\nSUB foo 1\r\nPUB foo 101\r\n',
            b'CONNECT {"user":"u","pass":"p"}\r\nCONNECT {}\r\nSUB foo 1\r\nUNSUB 1\r\nSUB bar 2\r\n',
        ],
    ),
]


def message(say: Say, nonce: str) -> bytes:
    """The bytes a client sends, two PINGs behind them: the second PONG comes behind the second INFO."""
    if isinstance(say, dict):
        say = _connect(say, nonce)
    return (say if isinstance(say, bytes) else say(nonce)) + b"PING\r\nPING\r\n"


def _connect(fields: dict[str, object], nonce: str) -> bytes:
    given = {name: value(nonce) if callable(value) else value for name, value in fields.items()}
    return b"CONNECT " + json.dumps({"verbose": False, **given}).encode() + b"\r\n"
