"""Logins by token, good ones and all kinds of bad ones, for two servers with the same configuration."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.jwts import (
    Account,
    Key,
    Operator,
    User,
    account_key,
    account_limits,
    configuration,
    operator_key,
    user_key,
)

NOW = int(time.time())
DAY = 86_400
PERMISSIONS = {"pub": {"allow": ["foo", "_INBOX.>"], "deny": ["foo.no"]}, "sub": {"allow": ["foo", "bar q"]}}
ALL_DAY = {"start": "00:00:00", "end": "23:59:59"}
LIMITS = {"subs": 2, "data": -1, "payload": 8}
WORLD_MORE = "max_payload: 1000\n"


def _scope(key: Key, role: str = "", **template: Any) -> dict[str, Any]:
    return {"kind": "user_scope", "key": key.public, "role": role, "template": template}


OPERATOR, STRANGER = Operator("O"), Operator("stranger")
SIGNER = operator_key()  # of the operator
PLAIN_KEY, SCOPED, TAGGED, DENYING, LIMITED, BEARING, HALF_TIMED, NOWHERE = (account_key() for _ in range(8))
QUEUED, WITH_QUEUES, DENYING_QUEUES, CAPITALS = (account_key() for _ in range(4))
REVOKED, OLD, ANN = user_key(), user_key(), user_key()

SYSTEM = Account("SYS")
A = Account(
    "A",
    more={
        "tags": ["dept:x", "dept:y"],
        "signing_keys": [
            PLAIN_KEY.public,
            _scope(SCOPED, pub={"allow": ["foo"]}, sub={"allow": ["bar"]}),
            _scope(
                TAGGED,
                pub={"allow": ["foo.{{name()}}", "u.{{subject()}}.>", "t.{{tag(team)}}", "{{account-tag(dept)}}.z"]},
                sub={"allow": ["{{account-name()}}.>", "{{account-subject()}}", "gone.{{tag(nothing)}}"]},
            ),
            _scope(DENYING, pub={"deny": ["{{tag(team)}}.secret"]}, sub={"allow": ["{{tag(nothing)}}"]}),
            _scope(QUEUED, sub={"allow": ["bar q", "baz"], "deny": ["bar other"]}),
            _scope(WITH_QUEUES, sub={"allow": ["bar q", "baz", "{{name()}}"]}),
            _scope(DENYING_QUEUES, sub={"deny": ["bar q", "{{name()}}"]}),
            _scope(CAPITALS, pub={"allow": ["t.{{TAG(team)}}", "foo.{{NAME()}}"]}),
            _scope(LIMITED, subs=1, data=-1, payload=4, allowed_connection_types=["standard"]),
            _scope(BEARING, bearer_token=True),
            _scope(HALF_TIMED, times=[ALL_DAY, {"start": "00:00:01", "end": "17:00"}]),
            _scope(NOWHERE, times=[ALL_DAY], times_location="Nowhere/Land"),
        ],
        "revocations": {REVOKED.public: NOW + DAY, OLD.public: NOW - DAY},
    },
)
DEFAULTS = Account("D", more={"default_permissions": {"pub": {"allow": ["foo"]}, "sub": {"deny": ["bar"]}}})
SMALL = Account("small", limits=account_limits(subs=2, payload=6))
CLOSED = Account("closed", limits=account_limits(conn=0))
NO_BEARER = Account("nobearer", limits=account_limits(disallow_bearer=True))
EXPIRED = Account("expired")
ALL_REVOKED = Account("allrevoked", more={"revocations": {"*": NOW + DAY}})
TOO_MANY = Account("toomany", limits=account_limits(imports=0), more={
    "imports": [{"name": "x", "subject": "x", "account": A.public, "type": "stream"}],
})  # fmt: skip
FOREIGN, UNKNOWN = Account("foreign"), Account("unknown")
OLD_STYLE = Account("v1")


def _old_account(account: Account) -> str:
    names = ("subs", "conn", "leaf", "imports", "exports", "data", "payload")
    limits = {**dict.fromkeys(names, -1), "wildcards": True}
    return OPERATOR.key.token_v1({"name": "v1", "sub": account.public, "type": "account", "nats": {"limits": limits}})


def world() -> str:
    """The configuration."""
    OPERATOR.more = {"system_account": SYSTEM.public, "signing_keys": [SIGNER.public]}
    accounts = [SYSTEM, A, SMALL, CLOSED, NO_BEARER, ALL_REVOKED, TOO_MANY]
    others = {
        DEFAULTS.public: DEFAULTS.token(SIGNER),
        EXPIRED.public: EXPIRED.token(OPERATOR.key, exp=NOW - 10),
        FOREIGN.public: FOREIGN.token(STRANGER.key),
        OLD_STYLE.public: _old_account(OLD_STYLE),
    }
    text = configuration(OPERATOR, accounts, more=WORLD_MORE)
    more = "\n".join(f"  {name}: {token}" for name, token in others.items())
    return text.replace("resolver_preload: {\n", f"resolver_preload: {{\n{more}\n")


@dataclass(frozen=True)
class Row:
    """A client: its user, and what its CONNECT says otherwise. `sign` makes the signature of the nonce."""

    name: str
    user: User | None
    sign: Callable[[str], str] | None = None
    signed: bool = True
    more: dict[str, Any] = field(default_factory=dict)

    def connect(self, nonce: str) -> dict[str, Any]:
        """The fields of CONNECT."""
        fields: dict[str, Any] = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        if self.user is not None:
            fields["jwt"] = self.user.token()
            if self.signed:
                fields["sig"] = (self.sign or self.user.key.signature)(nonce)
        return {**fields, **self.more}


def _nats(account: Account, **nats: Any) -> User:
    return account.user(nats=nats)


def _outer(**outer: Any) -> User:
    return A.user(outer=outer)


def _of_key(signer: Key, **options: Any) -> User:
    return A.user(signer=signer, scoped=True, **options)


def _old_user(**nats: Any) -> str:
    return OLD_STYLE.key.token_v1(
        {"name": "u", "sub": ANN.public, "type": "user", "nats": {"pub": {}, "sub": {}, **nats}}
    )


GOOD = A.user("u")
_ELSEWHERE = ["10.0.0.0/8", "2001:db8::/32"]

ROWS = [
    Row("good", GOOD),
    Row("nothing", None),
    Row("no signature", GOOD, signed=False),
    Row("empty signature", GOOD, sign=lambda nonce: ""),
    Row("another one's signature", GOOD, sign=lambda nonce: user_key().signature(nonce)),
    Row("signature of something else", GOOD, sign=lambda nonce: GOOD.key.signature("x")),
    Row("no base64", GOOD, sign=lambda nonce: "*"),
    Row("padded base64", GOOD, sign=lambda nonce: base64.b64encode(GOOD.key.sign(nonce.encode())).decode()),
    Row("short signature", GOOD, sign=lambda nonce: GOOD.key.signature(nonce)[:40]),
    Row("junk token", GOOD, more={"jwt": "xx"}),
    Row("empty token", GOOD, more={"jwt": ""}),
    Row("an account's token", GOOD, more={"jwt": A.token(OPERATOR.key)}),
    Row("an operator's token", GOOD, more={"jwt": OPERATOR.token()}),
    Row("cut token", GOOD, more={"jwt": GOOD.token()[:-6]}),
    Row("user and password too", GOOD, more={"user": "u", "pass": "p"}),
    Row("token too", GOOD, more={"auth_token": "t"}),
    Row("nkey too", GOOD, more={"nkey": GOOD.key.public}),
    Row("foreign nkey too", GOOD, more={"nkey": ANN.public}),
    Row("user and password only", None, more={"user": "u", "pass": "p"}),
    Row("nkey only", None, more={"nkey": ANN.public}),
    Row("token only", None, more={"auth_token": "t"}),
    Row("names an account", GOOD, more={"account": "X"}),
    Row("bad version of nats", _nats(A, version=3)),
    Row("no version of nats", _nats(A, version=None)),
    Row("expired", _outer(exp=NOW - 5)),
    Row("expires late", _outer(exp=NOW + DAY)),
    Row("not yet", _outer(nbf=NOW + DAY)),
    Row("since yesterday", _outer(nbf=NOW - DAY)),
    Row("unknown account", UNKNOWN.user()),
    Row("unknown operator's account", FOREIGN.user()),
    Row("expired account", EXPIRED.user()),
    Row("invalid account", TOO_MANY.user()),
    Row("account of version 1", OLD_STYLE.user()),
    Row("user of version 1", OLD_STYLE.user(), more={"jwt": _old_user()}, sign=ANN.signature),
    Row("limited user of version 1", OLD_STYLE.user(), more={"jwt": _old_user(**LIMITS)}, sign=ANN.signature),
    Row("system", SYSTEM.user()),
    Row("signing key", A.user(signer=PLAIN_KEY)),
    Row("signing key, no account named", A.user(signer=PLAIN_KEY, nats={"issuer_account": None})),
    Row("unknown signing key", A.user(signer=account_key())),
    Row("account key names another account", SMALL.user(nats={"issuer_account": A.public})),
    Row("account named is none", A.user(signer=PLAIN_KEY, nats={"issuer_account": "A"})),
    Row("scoped", _of_key(SCOPED)),
    Row("scoped with limits", A.user(signer=SCOPED)),
    Row("scoped with permissions", _of_key(SCOPED, nats={"pub": {"allow": ["x"]}})),
    Row("scoped with sources", _of_key(SCOPED, nats={"src": []})),
    Row("scoped bearer", _of_key(SCOPED, nats={"bearer_token": True}), signed=False),
    Row("tags", _of_key(TAGGED, name="foo", nats={"tags": ["team:a", "team:b"]})),
    Row("no tags", _of_key(TAGGED, name="foo")),
    Row("name with blanks", _of_key(TAGGED, name="a b", nats={"tags": ["team:x y"]})),
    Row("name with wildcards", _of_key(TAGGED, name="*", nats={"tags": ["team:>"]})),
    Row("deny by tag", _of_key(DENYING, nats={"tags": ["team:foo"]})),
    Row("deny by a tag that is not there", _of_key(DENYING)),
    Row("queues in a scope without templates", _of_key(QUEUED)),
    Row("queues beside a template", _of_key(WITH_QUEUES, name="foo")),
    Row("denied queues beside a template", _of_key(DENYING_QUEUES, name="foo")),
    Row("operations in capitals", _of_key(CAPITALS, name="foo", nats={"tags": ["team:a"]})),
    Row("scope's limits", _of_key(LIMITED)),
    Row("scope's bearer", _of_key(BEARING), signed=False),
    Row("scope's half a time", _of_key(HALF_TIMED)),
    Row("scope's time nowhere on earth", _of_key(NOWHERE)),
    Row("bearer", _nats(A, bearer_token=True), signed=False),
    Row("bearer, badly signed", _nats(A, bearer_token=True), sign=lambda nonce: "x"),
    Row("bearer where none may", _nats(NO_BEARER, bearer_token=True), signed=False),
    Row("signs where no bearer may", NO_BEARER.user()),
    Row("standard", _nats(A, allowed_connection_types=["STANDARD"])),
    Row("standard in small letters", _nats(A, allowed_connection_types=["standard", "x"])),
    Row("websocket only", _nats(A, allowed_connection_types=["WEBSOCKET"])),
    Row("unknown kinds", _nats(A, allowed_connection_types=["FOO", "BAR"])),
    Row("no kinds", _nats(A, allowed_connection_types=[])),
    Row("from here", _nats(A, src=[*_ELSEWHERE, "127.0.0.0/8"])),
    Row("from elsewhere", _nats(A, src=_ELSEWHERE)),
    Row("from a list in a text", _nats(A, src="10.0.0.0/8,127.0.0.1/32")),
    Row("from nowhere", _nats(A, src=["127.0.0.1"])),
    Row("from a mask", _nats(A, src=["127.0.0.0/255.0.0.0"])),
    Row("at any time", _nats(A, times=[ALL_DAY, {"start": "23:59:58", "end": "23:59:57"}])),
    Row("at no time", _nats(A, times=[{"start": "00:00:00", "end": "00:00:00"}])),
    Row("at a wrong time", _nats(A, times=[{"start": "25:00:00", "end": "26:00:00"}])),
    Row("at half a time", _nats(A, times=[{"start": "00:00:00"}])),
    Row("nowhere on earth", _nats(A, times=[ALL_DAY], times_location="Nowhere/Land")),
    Row("in a zone", _nats(A, times=[{"start": "00:00:01", "end": "00:00:00"}], times_location="Asia/Tokyo")),
    Row("revoked", A.user(key=REVOKED)),
    Row("older one revoked", A.user(key=OLD)),
    Row("older one", A.user(key=OLD, outer={"iat": NOW - 2 * DAY})),
    Row("all revoked", ALL_REVOKED.user()),
    Row("all revoked, issued later", ALL_REVOKED.user(outer={"iat": NOW + 2 * DAY})),
    Row("permissions", _nats(A, **PERMISSIONS)),
    Row("only deny", _nats(A, pub={"deny": ["foo"]}, sub={"deny": ["bar"]})),
    Row("responses", _nats(A, resp={"max": 1, "ttl": 0})),
    Row("permissions with blanks", _nats(A, pub={"allow": ["a b"]})),
    Row("permissions with an empty subject", _nats(A, sub={"allow": [""]})),
    Row("permissions with three words", _nats(A, sub={"allow": ["a b c"]})),
    Row("default permissions", DEFAULTS.user()),
    Row("own instead of default permissions", _nats(DEFAULTS, **PERMISSIONS)),
    Row("limits", _nats(A, **LIMITS)),
    Row("no bytes said", _nats(A, payload=None)),
    Row("account's limits", SMALL.user()),
    Row("smaller limits than the account's", _nats(SMALL, subs=1, payload=3)),
    Row("larger limits than the account's", _nats(SMALL, subs=10, payload=30)),
    Row("larger limits than the server's", _nats(A, payload=100_000)),
    Row("nobody may", CLOSED.user()),
    Row("proxy required", _nats(A, proxy_required=True)),
    Row("permissions of a wrong type", _nats(A, pub="foo")),
    Row("limits of a wrong type", _nats(A, subs="1")),
    Row("times of a wrong type", A.user(outer={"exp": "tomorrow"})),
]  # fmt: skip
