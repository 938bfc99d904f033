"""Configurations that scripts are played with, and what a script needs to know of each."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from jetbroker.config import nkeys

SEEDS = {
    name: Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)) for number, name in enumerate(("one", "two"), 1)
}


def public_key(key: Ed25519PrivateKey) -> str:
    """A user's nkey."""
    return nkeys.encode(nkeys.USER, key.public_key().public_bytes_raw())


@dataclass(frozen=True)
class Login:
    """Fields of CONNECT, which may hold a signature of the server's nonce by `key`."""

    fields: bytes = b""
    key: str = ""

    def __call__(self, nonce: bytes) -> bytes:
        if not self.key:
            return self.fields
        key = SEEDS[self.key]
        signature = base64.urlsafe_b64encode(key.sign(nonce)).rstrip(b"=")
        return self.fields + b'"nkey":"%b","sig":"%b",' % (public_key(key).encode(), signature)


NOBODY = Login()


def user(name: bytes, password: bytes) -> Login:
    return Login(b'"user":"%b","pass":"%b",' % (name, password))


def token(text: bytes) -> Login:
    return Login(b'"auth_token":"%b",' % text)


@dataclass(frozen=True)
class Variant:
    """`tokens`: what subjects of scripts are made of behind `foo`.

    `moves`: a second CONNECT may name another user. Not where that one is in another account: nats-server may go on
    to deliver in the one of before (docs/differences.md).
    """

    name: str
    config: str = ""
    logins: Sequence[Login] = (NOBODY,)
    tokens: Sequence[bytes] = (b"a", b"b", b"a.b")
    sizes: Sequence[int] = field(default=(0, 0, 3, 60))
    moves: bool = True


_PERMISSIONS = """
authorization {
  default_permissions { publish: "*.a.>", subscribe: ["*.>", "_INBOX.>"] }
  users = [
    { user: all, password: p }
    { user: narrow, password: p, permissions {
        publish { allow: ["*.a", "*.b.*", "_INBOX.>"], deny: ["*.b.secret"] }
        subscribe { allow: ["*.a", "*.b.>", "*.q q1", "*.w.* Qw"], deny: ["*.b.secret", "*.b.x.>"] } } }
    { user: deny, password: p, permissions {
        publish { deny: "*.b.>" }
        subscribe { deny: ["*.a.b", "*.b.> Qw"] } } }
    { user: none, password: p, permissions { publish: [], subscribe: "*.a.>" } }
    { user: reply, password: p, permissions { subscribe: "*.>", allow_responses: true } }
    { user: replies, password: p, permissions { subscribe: "*.>", allow_responses: { max: 2, expires: "1m" } } }
  ]
}
"""

_MAPPINGS = """
mappings = {
  "*.a": "{{wildcard(1)}}.mapped"
  "*.b.*": "{{wildcard(1)}}.c.{{wildcard(2)}}.$1"
  "*.p.*.*": "{{wildcard(1)}}.p{{partition(5,2,3)}}"
  "*.split.*": "{{wildcard(1)}}.{{split(2,-)}}"
  "*.left.*": "{{wildcard(1)}}.{{splitfromleft(2,2)}}"
  "*.right.*": "{{wildcard(1)}}.{{SplitFromRight(2,2)}}"
  "*.slice.*": "{{wildcard(1)}}.{{SliceFromLeft(2,2)}}.{{slicefromright(2,3)}}"
  "*.deep.>": "{{wildcard(1)}}.d.>"
  "*.lost": [ { destination: "{{wildcard(1)}}.x", weight: 0% } ]
  "*.whole": [ { destination: "{{wildcard(1)}}.x", weight: 100% } ]
}
"""

_ACCOUNTS = """
accounts {
  A { users = [ { user: a, password: p } ]
      exports = [ { stream: "*.a.>" }, { service: "*.ask" }, { service: "*.many.*", response_type: stream }
                  { stream: "*.only", accounts: [B] } ]
      mappings = { "*.m": "{{wildcard(1)}}.a.m" } }
  B { users = [ { user: b, password: p } ]
      imports = [ { stream: { account: A, subject: "*.a.>" } }, { service: { account: A, subject: "*.ask" } }
                  { service: { account: A, subject: "*.many.*" }, to: "*.many2.*" }
                  { stream: { account: A, subject: "*.only" }, prefix: "from" } ] }
  C { users = [ { user: c, password: p } ]
      imports = [ { stream: { account: A, subject: "*.a.>" }, to: "$1.got.>" } ] }
}
"""

_BOUNDED = """
accounts {
  A { users = [ { user: a, password: p }
                { user: narrow, password: p, permissions: { subscribe: { allow: "*.a.>" } } } ]
      limits { max_payload: 30, max_subscriptions: 2 } }
  B { users = [ { user: b, password: p } ], limits { max_connections: 1, max_payload: -1 } }
}
max_payload: 100
max_sub_tokens: 4
"""

_SYSTEM = """
accounts { SYS { users = [ { user: s, password: p } ] }, A { users = [ { user: a, password: p } ] } }
system_account: SYS
"""

VARIANTS = [
    Variant("no authentication"),
    Variant("one user", 'authorization { user: "u", password: "p" }', (user(b"u", b"p"), user(b"u", b"x"), NOBODY)),
    Variant("token", "authorization { token: s3cret }", (token(b"s3cret"), token(b"x"), user(b"s3cret", b""))),
    Variant(
        "users",
        "authorization { users = [ { user: u, password: p }, { user: v, password: q } ] }",
        (user(b"u", b"p"), user(b"v", b"q"), user(b"v", b"p"), NOBODY),
    ),
    Variant(
        "permissions",
        _PERMISSIONS,
        tuple(user(name, b"p") for name in (b"all", b"narrow", b"deny", b"none", b"reply", b"replies")),
        tokens=(b"a", b"b", b"a.b", b"b.secret", b"b.x.y", b"q", b"w.1", b"*", b"b.*"),
    ),
    Variant(
        "no_auth_user",
        "authorization { users = [ { user: u, password: p }, { user: v, password: q } ] }\nno_auth_user: u",
        (NOBODY, user(b"v", b"q"), user(b"u", b"x"), token(b"t")),
    ),
    Variant(
        "nkeys",
        f"authorization {{ users = [ {{ nkey: {public_key(SEEDS['one'])} }}, {{ user: u, password: p }} ] }}",
        (Login(key="one"), Login(key="two"), user(b"u", b"p"), NOBODY),
    ),
    Variant(
        "mappings",
        _MAPPINGS,
        tokens=(
            *(
                b"a",
                b"b.x",
                b"p.a.b",
                b"split.a-b-c",
                b"split.-",
                b"left.abcd",
                b"left.a",
                b"right.abc",
                b"slice.abcdefg",
            ),
            *(b"deep.a.b", b"lost", b"whole", b"mapped", b"c.x.*", b"d.>", b"x", b"*"),
        ),
    ),
    Variant(
        "accounts",
        _ACCOUNTS,
        (user(b"a", b"p"), user(b"b", b"p"), user(b"c", b"p")),
        tokens=(b"a.x", b"ask", b"many.x", b"many2.x", b"only", b"m", b"got.x", b"a.*"),
        moves=False,
    ),
    Variant(
        "limits", "max_payload: 50, max_control_line: 64, max_subs: 3, max_sub_tokens: 4", tokens=(b"a", b"b.c.d.e.f")
    ),
    Variant(
        "account limits",
        _BOUNDED,
        (user(b"a", b"p"), user(b"narrow", b"p"), user(b"b", b"p")),
        tokens=(b"a", b"a.x", b"b.c.d.e.f", b"a.c.d.e.f"),
        moves=False,
    ),
    Variant("system account", _SYSTEM, (user(b"s", b"p"), user(b"a", b"p")), moves=False),
    Variant("advertised", 'client_advertise: "broker.example:1234"'),
    Variant("JetStream", "jetstream { store_dir: STORE }"),
    Variant("no headers", "no_header_support: true"),
]
