"""The words in which conversations of leafnodes are written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tests.support.leaf_conversations import PONG, Step

# of account X
SERVICES = (
    "imports [ {service: {account: X, subject: svc.there}, to: svc.here}, {service: {account: X, subject: svc.too}} ]"
)
STREAMS = "imports [ {stream: {account: X, subject: str.a}}, {stream: {account: X, subject: tick.>}, prefix: p} ]"
CONNECT_X = 'CONNECT {"verbose":false,"headers":true,"user":"x","pass":"p"}'

BASE = {"user": "USER", "pass": "p", "version": "2.14.5", "server_id": "PEER", "name": "peer", "headers": True}

FIRST = {
    "server_id": "HUB",
    "server_name": "hub",
    "version": "2.14.5",
    "proto": 3,
    "go": "go1",
    "host": "127.0.0.1",
    "port": 7422,
    "headers": True,
    "auth_required": True,
    "max_payload": 1048576,
    "ip": "127.0.0.1:7422",
    "client_id": 5,
    "nonce": "abcdefghijk",
    "compression": "off",
    "api_lvl": 4,
    "info_on_connect": True,
    "leafnode_urls": ["127.0.0.1:PEER"],
}
SECOND = {
    **{key: value for key, value in FIRST.items() if key not in ("nonce", "compression")},
    "connect_info": True,
    "remote_account": "H",
}


def says(who: str, *lines: str | bytes, until: str = PONG, shown: bool = True) -> Step:
    """Lines that `who` says; bytes are sent as they are."""
    data = b"".join(line if isinstance(line, bytes) else f"{line}\r\n".encode() for line in lines)
    return Step(who, data, until, shown)


def leaf(*lines: str | bytes, until: str = PONG, who: str = "leaf") -> Step:
    """What a server that dialled the hub says."""
    return says(who, *lines, until=until)


def hub(*lines: str | bytes, until: str = PONG) -> Step:
    """What a server that was dialled says."""
    return says("hub", *lines, until=until)


def client(*lines: str | bytes, who: str = "client") -> Step:
    """What a client of the server under test says."""
    return says(who, *lines)


def connect(**more: object) -> bytes:
    """CONNECT of a peer; None leaves a key out."""
    fields = {key: value for key, value in {**BASE, "remote_account": "R", **more}.items() if value is not None}
    return b"CONNECT %b\r\n" % json.dumps(fields, separators=(",", ":")).encode()


def info(fields: Mapping[str, object], more: Mapping[str, object]) -> bytes:
    """An INFO; None leaves a key out."""
    said = {key: value for key, value in {**fields, **more}.items() if value is not None}
    return b"INFO %b \r\n" % json.dumps(said, separators=(",", ":")).encode()


def first(given: Mapping[str, object] | None = None, until: str = "CONNECT", who: str = "hub", **more: object) -> Step:
    """A hub's first INFO; `given` is for keys that are no names in Python."""
    return Step(who, info(FIRST, {**(given or {}), **more}), until)


def second(given: Mapping[str, object] | None = None, until: str = PONG, who: str = "hub", **more: object) -> Step:
    """A hub's answer to CONNECT."""
    return Step(who, info(SECOND, {**(given or {}), **more}), until)


def published(subjects: Sequence[bytes]) -> bytes:
    return b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in subjects)


def request(subject: bytes, body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"PUB $JS.API.%b r %d\r\n%b\r\n" % (subject, len(text), text)


HELLO = leaf(connect())
OTHER = leaf(connect(name="other", cluster="other"), who="leaf2")
UP = [first(), second()]
