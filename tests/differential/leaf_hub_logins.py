"""Logins of leafs."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.leaf_steps import connect, leaf
from tests.support import jwts
from tests.support.leaf_conversations import END, PONG, Conversation, Step
from tests.support.nkeys import UserKey

KEY = UserKey()
OTHER_KEY = UserKey()


def signed(key: UserKey, **more: object) -> Callable[[str], bytes]:
    return lambda nonce: connect(user=None, **{"pass": None, "nkey": key.public, "sig": key.signature(nonce), **more})


LOGINS = [
    Conversation("a user of the block", [leaf(connect(user="a"))]),
    Conversation("a user without account", [leaf(connect(user="b"))]),
    Conversation("another password", [leaf(connect(user="b", **{"pass": "x"}), until=END)]),
    Conversation("a user of an account", [leaf(connect(), until=END)]),
    Conversation("nobody", [leaf(connect(user=None, **{"pass": None}), until=END)]),
]

KEYS = [
    Conversation("an nkey", [Step("leaf", signed(KEY))]),
    Conversation("an nkey nobody knows", [Step("leaf", signed(OTHER_KEY), END)]),
    Conversation("an nkey of another", [Step("leaf", signed(KEY, sig=OTHER_KEY.signature("x")), END)]),
    Conversation("an nkey without signature", [Step("leaf", signed(KEY, sig=None), END)]),
    Conversation("an nkey that is none", [Step("leaf", signed(KEY, nkey="UX"), END)]),
    Conversation("a signature that is none", [Step("leaf", signed(KEY, sig="%%"), END)]),
]

USERS = "authorization { users: [ {user: a, password: p, account: X}, {user: b, password: p} ] }"


OPERATOR = jwts.Operator()
MEMBER = jwts.Account("member")
FULL = jwts.Account("full", limits=jwts.account_limits(leaf=0))
STRANGER = jwts.Account("stranger")
ACCOUNTS = jwts.configuration(OPERATOR, [MEMBER, FULL])
SIGNER = jwts.account_key()


def shown(user: jwts.User, **more: object) -> Callable[[str], bytes]:
    """CONNECT with a user's token, and the nonce signed by its key."""
    return lambda nonce: connect(
        user=None, **{"pass": None, "jwt": user.token(), "sig": user.key.signature(nonce), **more}
    )


def presents(user: jwts.User, until: str = PONG, **more: object) -> Step:
    return Step("leaf", shown(user, **more), until)


TOKENS = [
    Conversation("a token", [presents(MEMBER.user())]),
    Conversation(
        "a token with permissions",
        [
            presents(MEMBER.user(nats={"pub": {"allow": ["a.>"]}, "sub": {"deny": ["b"]}})),
            leaf("LS+ b", until=END),
        ],
    ),
    Conversation("a bearer token without signature", [presents(MEMBER.user(nats={"bearer_token": True}), sig=None)]),
    Conversation("no signature", [presents(MEMBER.user(), END, sig=None)]),
    Conversation("another's signature", [presents(MEMBER.user(), END, sig=STRANGER.user().key.signature("x"))]),
    Conversation("a token that is none", [presents(MEMBER.user(), END, jwt="x.y.z")]),
    Conversation("an expired token", [presents(MEMBER.user(outer={"exp": 1}), END)]),
    Conversation("a stranger", [presents(STRANGER.user(), END)]),
    Conversation("a token of another signer", [presents(MEMBER.user(signer=SIGNER), END)]),
    Conversation("an account without links", [presents(FULL.user(), END)]),
    Conversation("not for links", [presents(MEMBER.user(nats={"allowed_connection_types": ["STANDARD"]}), END)]),
    Conversation("for links", [presents(MEMBER.user(nats={"allowed_connection_types": ["LEAFNODE"]}))]),
    Conversation("a password", [leaf(connect(), until=END)]),
]
