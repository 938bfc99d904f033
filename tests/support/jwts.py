"""Operators, accounts, users and what they sign for each other: the tokens of operator mode, made anew."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

from nacl.signing import SigningKey

from jetbroker.config import nkeys

OPERATOR = 14 << 3  # 'O'
SEED = 18 << 3  # 'S'
UNLIMITED = -1
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_HEADER_V1 = {"typ": "jwt", "alg": "ed25519"}


def encoded(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Key:
    """A key pair of one kind (the prefix byte of its public key)."""

    def __init__(self, prefix: int) -> None:
        self._private = SigningKey.generate()
        self.public = nkeys.encode(prefix, bytes(self._private.verify_key))
        body = bytes([SEED | prefix >> 5, (prefix & 31) << 3]) + bytes(self._private)
        self.seed = base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data).signature

    def signature(self, nonce: str) -> str:
        """Of INFO's nonce, as clients send it."""
        return encoded(self.sign(nonce.encode()))

    def token(self, claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
        """The claims, issued and signed by this key. What stands in `claims` already stays."""
        claims = {"iat": int(time.time()), "iss": self.public, **claims}
        identified = {"jti": _digest(claims), **claims}
        text = f"{encoded(as_json(header or _HEADER))}.{encoded(as_json(identified))}"
        return f"{text}.{encoded(self.sign(text.encode()))}"

    def token_v1(self, claims: dict[str, Any]) -> str:
        """A token of version 1: the kind stands outside of `nats`, and only the claims are signed."""
        claims = {"iat": int(time.time()), "iss": self.public, **claims}
        body = encoded(as_json({"jti": _digest(claims), **claims}))
        return f"{encoded(as_json(_HEADER_V1))}.{body}.{encoded(self.sign(body.encode()))}"


def _digest(claims: dict[str, Any]) -> str:
    return base64.b32encode(hashlib.new("sha512_256", as_json(claims)).digest()).decode().rstrip("=")


def operator_key() -> Key:
    return Key(OPERATOR)


def account_key() -> Key:
    return Key(nkeys.ACCOUNT)


def user_key() -> Key:
    return Key(nkeys.USER)


def account_limits(**more: Any) -> dict[str, Any]:
    """No limits, no JetStream, unless `more` says so."""
    names = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
    return {**dict.fromkeys(names, UNLIMITED), "wildcards": True, **more}


def jetstream_limits(**more: Any) -> dict[str, Any]:
    """JetStream without limits, unless `more` says so."""
    return {**dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), UNLIMITED), **more}


@dataclass
class Operator:
    """An operator and its token, always the same one. `more` goes into its claims, `outer` beside them."""

    name: str = "O"
    key: Key = field(default_factory=operator_key)
    more: dict[str, Any] = field(default_factory=dict)
    outer: dict[str, Any] = field(default_factory=dict)
    made_at: int = field(default_factory=lambda: int(time.time()))

    def token(self) -> str:
        nats = {"type": "operator", "version": 2, **self.more}
        fixed = {"iat": self.made_at, "name": self.name, "sub": self.key.public}
        return self.key.token({**fixed, **self.outer, "nats": nats})


@dataclass
class Account:
    """An account: what its operator says of it, and the users it lets in."""

    name: str
    key: Key = field(default_factory=account_key)
    limits: dict[str, Any] = field(default_factory=account_limits)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def public(self) -> str:
        return self.key.public

    def token(self, signer: Key, **outer: Any) -> str:
        nats = {"limits": self.limits, **self.more, "type": "account", "version": 2}
        return signer.token({"name": self.name, "sub": self.public, **outer, "nats": nats})

    def user(self, name: str = "u", key: Key | None = None, signer: Key | None = None, **options: Any) -> User:
        """A user; with a `signer` it is signed by that key for this account. See User for the options."""
        return User(name, self, key or user_key(), signer, **options)

    def activation(self, importer: str, subject: str, kind: str, signer: Key | None = None, **outer: Any) -> str:
        """The token that lets another account import."""
        nats: dict[str, Any] = {"subject": subject, "kind": kind, "type": "activation", "version": 2}
        if signer is not None:
            nats["issuer_account"] = self.public
        claims = {"name": subject, "sub": importer, **outer, "nats": {**nats, **outer.pop("nats", {})}}
        return (signer or self.key).token(claims)


@dataclass
class User:
    """A user: `nats` goes into the claims' block of that name, `outer` beside it. `scoped`: no limits are said."""

    name: str
    account: Account
    key: Key
    signer: Key | None = None
    nats: dict[str, Any] = field(default_factory=dict)
    outer: dict[str, Any] = field(default_factory=dict)
    scoped: bool = False

    def token(self) -> str:
        limits = {} if self.scoped else dict.fromkeys(("subs", "data", "payload"), UNLIMITED)
        nats: dict[str, Any] = {"pub": {}, "sub": {}, **limits, "type": "user", "version": 2}
        if self.signer is not None:
            nats["issuer_account"] = self.account.public
        claims = {"name": self.name, "sub": self.key.public, **self.outer, "nats": {**nats, **self.nats}}
        return (self.signer or self.account.key).token(claims)

    def creds(self) -> str:
        """A creds file."""
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.token()}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.key.seed}\n------END USER NKEY SEED------\n"
        )


def configuration(
    operator: Operator, accounts: list[Account], signer: Key | None = None, more: str = "", resolver: str = "MEMORY"
) -> str:
    """A configuration file of operator mode with these accounts preloaded."""
    tokens = "\n".join(f"  {one.public}: {one.token(signer or operator.key)}" for one in accounts)
    return f"operator: {operator.token()}\nresolver: {resolver}\nresolver_preload: {{\n{tokens}\n}}\n{more}\n"
