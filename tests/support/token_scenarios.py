"""What happens to clients of operator mode when tokens change, for two servers."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon
from tests.support.jwts import (
    Account,
    Operator,
    account_key,
    account_limits,
    configuration,
    jetstream_limits,
    user_key,
)
from tests.support.leaf_peer import Peer, dial
from tests.support.token_clients import Member, update

Told = list[object]
MORE = "debug: true\nserver_name: same\n"
LEAFNODES = 'leafnodes { listen: "127.0.0.1:-1", compression: off }\n'


@dataclass
class World:
    """An operator, three accounts, and the server that knows them."""

    daemon: Daemon
    path: Path
    operator: Operator
    system: Account
    a: Account
    b: Account
    extra: list[Account] = field(default_factory=list)
    more: str = MORE

    def member(self, account: Account, **options: Any) -> Member:
        return Member(self.daemon, account.user(**options))

    def link(self, account: Account, **options: Any) -> Peer:
        """A server that has dialled as a user of the account."""
        user = account.user(**options)
        peer = Peer(dial(int(self.daemon.wait_for("Listening for leafnode connections").rpartition(":")[2])), {})
        peer.until("INFO")
        fields = {
            "jwt": user.token(), "sig": user.key.signature(peer.nonce), "name": user.key.public,
            "server_id": user.key.public, "version": "2.14.5",
        }  # fmt: skip
        peer.say(b"CONNECT " + json.dumps(fields).encode() + b"\r\n")
        peer.until_pong()
        assert not peer.closed
        return peer

    def sys(self) -> Member:
        return Member(self.daemon, self.system.user("sys"))

    def update(self, system: Member, account: Account, **outer: Any) -> str:
        return update(system, account, self.operator.key, **outer)

    def text(self, accounts: list[Account] | None = None) -> str:
        found = [self.system, self.a, self.b, *self.extra] if accounts is None else accounts
        return configuration(self.operator, found, more=self.more)

    def reload(self, accounts: list[Account] | None = None) -> list[str]:
        """SIGHUP with these accounts; what the log tells of it."""
        seen = len(self.daemon.log)
        self.path.write_text(self.text(accounts))
        self.daemon.send(signal.SIGHUP)
        self.daemon.wait_for("eload", seen)
        self.daemon.wait_for("server configuration", seen)
        words = (line.partition("] ")[2] for line in self.daemon.log[seen:])
        return [line.partition("[INF] ")[2] for line in words if "Reloaded" in line and "sha256" not in line]


def fewer_connections(world: World) -> Told:
    members = [world.member(world.a) for _ in range(3)]
    system = world.sys()
    world.a.limits = account_limits(conn=2)
    told: Told = [world.update(system, world.a)]
    told += [member.hears() for member in members]
    return [*told, world.member(world.a).greeting]


def revoked(world: World) -> Told:
    gone, stays = user_key(), world.member(world.a)
    member, system = world.member(world.a, key=gone), world.sys()
    world.a.more["revocations"] = {gone.public: int(time.time()) + 10}
    told: Told = [world.update(system, world.a), member.waits_for_end(), stays.hears()]
    told.append(world.member(world.a, key=gone).greeting)
    world.a.more["revocations"] = {}
    told.append(world.update(system, world.a))
    return [*told, world.member(world.a, key=gone).greeting]


def all_revoked(world: World) -> Told:
    now = int(time.time())
    old, new = world.member(world.a, outer={"iat": now - 100}), world.member(world.a, outer={"iat": now + 100})
    world.a.more["revocations"] = {"*": now}
    return [world.update(world.sys(), world.a), old.waits_for_end(), new.hears()]


def signing_keys(world: World) -> Told:
    gone, stays, scoped = account_key(), account_key(), account_key()
    scope = {"kind": "user_scope", "key": scoped.public, "role": "", "template": {"pub": {"allow": ["x"]}}}
    world.a.more["signing_keys"] = [gone.public, stays.public, scope]
    system, first = world.sys(), world.member(world.a)
    told: Told = [first.greeting, world.update(system, world.a)]
    members = [
        world.member(world.a),
        world.member(world.a, signer=gone),
        world.member(world.a, signer=stays),
        world.member(world.a, signer=scoped, scoped=True),
    ]
    told += [member.says("PUB x 1\r\n1\r\nPUB y 1\r\n1\r\n") for member in members]
    changed = {**scope, "template": {"pub": {"allow": ["x", "y"]}}}
    world.a.more["signing_keys"] = [stays.public, changed]
    told.append(world.update(system, world.a))
    told += [member.hears() for member in members]
    told.append(world.member(world.a, signer=gone).greeting)
    return [*told, world.member(world.a, signer=scoped, scoped=True).says("PUB y 1\r\n1\r\n")]


def default_permissions(world: World) -> Told:
    plain, own, system = world.member(world.a), world.member(world.a, nats={"pub": {"allow": ["x"]}}), world.sys()
    told: Told = [plain.says("SUB x 1\r\nSUB y 2\r\n"), own.says("SUB x 1\r\n")]
    for permissions in ({"sub": {"allow": ["y"]}, "pub": {"deny": ["y"]}}, {"pub": {"allow": ["x"]}}, {}):
        world.a.more["default_permissions"] = permissions
        told.append(world.update(system, world.a))
        told += [member.says("PUB x 1\r\n1\r\nPUB y 1\r\n2\r\nSUB x 7\r\nUNSUB 7\r\n") for member in (plain, own)]
    removed = world.daemon.wait_for("Removed sub").partition("[INF] ")[2]
    return [*told, re.sub(r'"U\w+"', "KEY", removed)]


def no_bearer(world: World) -> Told:
    bearer, signs, system = world.member(world.a, nats={"bearer_token": True}), world.member(world.a), world.sys()
    world.a.limits = account_limits(disallow_bearer=True)
    return [world.update(system, world.a), bearer.waits_for_end(), signs.hears()]


def smaller_limits(world: World) -> Told:
    member, limited, system = world.member(world.a), world.member(world.a, nats={"subs": 5, "payload": 3}), world.sys()
    told: Told = [member.says("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\n"), limited.says("PUB x 3\r\n123\r\n")]
    world.a.limits = account_limits(subs=8, payload=4)
    told.append(world.update(system, world.a))
    return [*told, member.says("PUB x 4\r\n1234\r\nPUB x 5\r\n12345\r\n"), limited.says("PUB x 4\r\n1234\r\n")]


def account_expires(world: World) -> Told:
    member, system = world.member(world.a), world.sys()
    told: Told = [world.update(system, world.a, exp=int(time.time()) + 2), member.waits_for_end()]
    told.append(world.member(world.a).greeting)
    return [*told, world.update(system, world.a), world.member(world.a).greeting]


def user_expires(world: World) -> Told:
    member = world.member(world.a, outer={"exp": int(time.time()) + 2})
    return [member.greeting, member.waits_for_end()]


def wrong_updates(world: World) -> Told:
    member, system = world.member(world.a), world.sys()
    stranger = Operator("stranger")
    subject = f"$SYS.REQ.ACCOUNT.{world.a.public}.CLAIMS.UPDATE"
    told: Told = [system.asks(subject), system.asks(subject, "junk"), system.asks(subject, world.b.token(stranger.key))]
    told += [update(system, world.a, stranger.key), world.update(system, world.a, exp=int(time.time()) - 10)]
    told += [world.update(system, world.b), system.asks("$SYS.REQ.CLAIMS.LIST"), member.hears()]
    old = world.a.token(world.operator.key)
    told.append(
        [line.replace(world.a.public, "A") for line in system.asks(f"$SYS.ACCOUNT.{world.a.public}.CLAIMS.UPDATE", old)]
    )
    world.a.limits = account_limits(imports=0)
    world.a.more["imports"] = [{"name": "x", "subject": "x", "account": world.b.public, "type": "stream"}]
    told.append(world.update(system, world.a))
    return [_without_keys(world, entry) for entry in told]


def _without_keys(world: World, entry: object) -> object:
    if isinstance(entry, list):
        return [_without_keys(world, line) for line in entry]
    return str(entry).replace(world.a.public, "A").replace(world.b.public, "B")


def share_streams(world: World) -> Told:
    """Streams from B appear in A, as exports and imports come and go."""
    system = world.sys()
    world.b.more["exports"] = [
        {"name": "all", "subject": "all.>", "type": "stream"},
        {"name": "own", "subject": "to.*.>", "type": "stream", "account_token_position": 2},
    ]
    world.a.more["imports"] = [
        {"name": "1", "subject": "all.x.*", "account": world.b.public, "type": "stream", "local_subject": "x.$1"},
        {"name": "2", "subject": "all.y", "account": world.b.public, "type": "stream", "to": "pre"},
        {"name": "3", "subject": "all.z.>", "account": world.b.public, "type": "stream"},
        {"name": "4", "subject": f"to.{world.a.public}.>", "account": world.b.public, "type": "stream"},
        {"name": "5", "subject": f"to.{world.b.public}.>", "account": world.b.public, "type": "stream"},
        {"name": "6", "subject": "secret", "account": world.b.public, "type": "stream"},
    ]
    taker, giver = world.member(world.a), world.member(world.b)
    told: Told = [world.update(system, world.b), world.update(system, world.a)]
    taker.says("SUB > 1\r\nSUB x.q 2\r\n")
    subjects = ["all.x.q", "all.y", "all.z.1.2", f"to.{world.a.public}.1", f"to.{world.b.public}.1", "secret", "all"]
    publish = "".join(f"PUB {subject} 1\r\n{at}\r\n" for at, subject in enumerate(subjects))
    told += [giver.says(publish), sorted(taker.hears())]
    world.b.more["exports"] = world.b.more["exports"][1:]
    told += [world.update(system, world.b), giver.says(publish), sorted(taker.hears())]
    world.a.more["imports"] = []
    told += [world.update(system, world.a), giver.says(publish), sorted(taker.hears())]
    return [_without_keys(world, entry) for entry in told]


def share_services(world: World) -> Told:
    """A asks services of B, the old and the new way to say so."""
    system = world.sys()
    world.b.more["exports"] = [
        {"name": "one", "subject": "svc.>", "type": "service"},
        {"name": "many", "subject": "many", "type": "service", "response_type": "Stream"},
    ]
    world.a.more["imports"] = [
        {"name": "1", "subject": "svc.one", "account": world.b.public, "type": "service", "local_subject": "l.one"},
        {"name": "2", "subject": "old.two", "account": world.b.public, "type": "service", "to": "svc.two"},
        {"name": "3", "subject": "svc.three", "account": world.b.public, "type": "service", "share": True},
        {"name": "4", "subject": "many", "account": world.b.public, "type": "service"},
        {"name": "5", "subject": "svc.in.*", "account": world.b.public, "type": "service", "local_subject": "in.$1"},
        {"name": "6", "subject": "none", "account": world.b.public, "type": "service"},
    ]
    asker, server = world.member(world.a, name="asker"), world.member(world.b)
    told: Told = [world.update(system, world.b), world.update(system, world.a)]
    server.says("SUB svc.> 1\r\nSUB many 2\r\nSUB none 3\r\n")
    for subject in ("l.one", "old.two", "many", "in.q", "none", "svc.one"):
        told += [asker.says(f"SUB r 1\r\nPUB {subject} r 1\r\n1\r\nUNSUB 1\r\n"), server.hears()]
    world.b.more["exports"] = []
    told += [world.update(system, world.b), asker.says("SUB r 1\r\nPUB l.one r 1\r\n1\r\n"), server.hears()]
    return [_without_keys(world, entry) for entry in told]


def system_services(world: World) -> Told:
    """Services that the system account gives, though its token names none; those about other accounts it keeps."""
    a, b = world.a.public, world.b.public
    given = {
        "connections": f"$SYS.REQ.ACCOUNT.{a}.CONNZ",
        "figures": f"$SYS.REQ.ACCOUNT.{a}.STATZ",
        "me": f"$SYS.REQ.USER.{a}.INFO",
        "count": "$SYS.DEBUG.SUBSCRIBERS",
    }
    kept = {
        "others": f"$SYS.REQ.ACCOUNT.{b}.CONNZ",
        "any.*": "$SYS.REQ.ACCOUNT.*.CONNZ",
        "links": f"$SYS.REQ.ACCOUNT.{a}.LEAFZ",
    }
    system, asker = world.sys(), world.member(world.a)
    told: Told = []
    for services in (given, given | kept):
        world.a.more["imports"] = [
            {"name": to, "subject": subject, "account": world.system.public, "type": "service", "local_subject": to}
            for to, subject in services.items()
        ]
        told.append(world.update(system, world.a))
        for to in services:
            answer = asker.asks(to.replace("*", a))[0]
            told.append(sorted(json.loads(answer)) if answer.startswith("{") else answer)
        told.append(json.loads(system.asks(f"$SYS.REQ.ACCOUNT.{a}.INFO")[0])["data"]["complete"])
    return told


def activations(world: World) -> Told:
    """Imports that need a token of the exporter."""
    system, signer, stranger = world.sys(), account_key(), account_key()
    now = int(time.time())
    mine, kind = world.a.public, "stream"
    world.b.more["signing_keys"] = [signer.public]
    tokens = {
        "good": world.b.activation(mine, "good", kind),
        "wide": world.b.activation(mine, "wide.>", kind),
        "none": "",
        "junk": "junk",
        "other": world.b.activation(world.system.public, "other", kind),
        "service": world.b.activation(mine, "service", "service"),
        "past": world.b.activation(mine, "past", kind, exp=now - 10),
        "later": world.b.activation(mine, "later", kind, nbf=now + 100),
        "signed": world.b.activation(mine, "signed", kind, signer),
        "stranger": world.b.activation(mine, "stranger", kind, stranger),
        "revoked": world.b.activation(mine, "revoked", kind),
        "old": world.b.activation(mine, "old", kind, iat=now - 100),
        "new": world.b.activation(mine, "new", kind, iat=now + 100),
    }
    marked = {"revoked": {mine: now + 10}, "old": {"*": now}, "new": {"*": now}}
    told: Told = []
    taker, giver = world.member(world.a), world.member(world.b)
    taker.says("SUB > 1\r\n")
    for name, token in tokens.items():
        subject = "wide.x" if name == "wide" else name
        export = {"name": name, "subject": "wide.*" if name == "wide" else name, "type": kind, "token_req": True}
        world.b.more["exports"] = [{**export, "revocations": marked.get(name, {})}]
        entry = {"name": name, "subject": subject, "account": world.b.public, "type": kind, "token": token}
        world.a.more["imports"] = [entry]
        told += [name, world.update(system, world.b), world.update(system, world.a)]
        giver.says(f"PUB {subject} 1\r\n1\r\n")
        told.append(taker.hears())
    return [_without_keys(world, entry) for entry in told]


def activation_revoked(world: World) -> Told:
    """An import that was good until its exporter took it back."""
    system, taker, giver = world.sys(), world.member(world.a), world.member(world.b)
    export = {"name": "x", "subject": "x", "type": "stream", "token_req": True}
    world.b.more["exports"] = [export]
    token = world.b.activation(world.a.public, "x", "stream")
    world.a.more["imports"] = [
        {"name": "x", "subject": "x", "account": world.b.public, "type": "stream", "token": token}
    ]
    told: Told = [world.update(system, world.b), world.update(system, world.a), taker.says("SUB x 1\r\n")]
    for revocations in ({}, {world.a.public: int(time.time()) + 10}):
        export["revocations"] = revocations
        told += [world.update(system, world.b, jti=str(len(told))), giver.says("PUB x 1\r\n1\r\n"), taker.hears()]
    return told


def activation_of_another_issuer(world: World) -> Told:
    """Signed by the exporter, for whom it names another account."""
    system = world.sys()
    world.b.more["exports"] = [{"name": "x", "subject": "x", "type": "service", "token_req": True}]
    stranger = {"issuer_account": world.system.public}
    token = world.b.activation(world.a.public, "x", "service", nats=stranger)
    world.a.more["imports"] = [
        {"name": "x", "subject": "x", "account": world.b.public, "type": "service", "token": token}
    ]
    asker, server = world.member(world.a), world.member(world.b)
    told: Told = [world.update(system, world.b), world.update(system, world.a), server.says("SUB x 1\r\n")]
    told.append(asker.asks("x")[0])
    found = {line.partition("[ERR] ")[2] for line in world.daemon.log if "[ERR]" in line}
    told.append([line.replace(world.system.public, "SYS") for line in found])
    return [_without_keys(world, entry) for entry in told]


def mappings(world: World) -> Told:
    system, member = world.sys(), world.member(world.a)
    member.says("SUB > 1\r\n")
    told: Told = []
    for found in (
        {"a.*": [{"subject": "b.$1"}], "c": [{"subject": "d", "weight": 100}]},
        {"a.*": [{"subject": "e"}]},
        {},
    ):
        world.a.more["mappings"] = found
        told += [world.update(system, world.a), member.says("PUB a.1 1\r\n1\r\nPUB c 1\r\n2\r\n")]
    return told


def reload_same(world: World) -> Told:
    member = world.member(world.a)
    return [world.reload(), member.hears()]


def reload_removed(world: World) -> Told:
    gone, stays = world.member(world.a), world.member(world.b)
    told: Told = [world.reload([world.system, world.b]), gone.hears(), stays.hears(), world.member(world.a).greeting]
    told += [world.reload(), world.member(world.a).greeting]
    return [_without_keys(world, entry) for entry in told]


def reload_revoked(world: World) -> Told:
    key = user_key()
    gone, stays = world.member(world.a, key=key), world.member(world.a)
    world.a.more["revocations"] = {key.public: int(time.time()) + 10}
    return [world.reload(), gone.waits_for_end(), stays.hears()]


def reload_other_limits(world: World) -> Told:
    members = [world.member(world.a) for _ in range(3)]
    world.a.limits = account_limits(conn=1, payload=3)
    told: Told = [world.reload()]
    return told + [member.says("PUB x 4\r\n1234\r\n") for member in members]


def reload_undoes_update(world: World) -> Told:
    member, system = world.member(world.a), world.sys()
    world.a.limits = account_limits(payload=3)
    told: Told = [world.update(system, world.a)]
    world.a.limits = account_limits()
    return [*told, world.reload(), member.says("PUB x 4\r\n1234\r\n")]


def jetstream(world: World) -> Told:
    """Accounts with and without it; limits that come and go."""
    system = world.sys()
    told: Told = []
    member = world.member(world.a)
    info, create = "$JS.API.INFO", '{"name":"S%d","subjects":["s%d"],"storage":"%s","max_bytes":%d}'
    for limits in (
        {},
        jetstream_limits(disk_storage=1000, mem_storage=0, streams=2),
        jetstream_limits(streams=1, consumer=1),
        {"tiered_limits": {"R1": jetstream_limits(disk_storage=5000)}},
        {},
    ):
        world.a.limits = account_limits(**limits)
        told += [world.update(system, world.a), [_limits(line) for line in member.asks(info)]]
        for at, storage, size in ((1, "file", 500), (2, "file", 800), (3, "memory", 10)):
            told.append(
                [_error(line) for line in member.asks(f"$JS.API.STREAM.CREATE.S{at}", create % (at, at, storage, size))]
            )
        for at in (1, 2, 3):
            told.append([_error(line) for line in member.asks(f"$JS.API.STREAM.DELETE.S{at}")])
    return told


def _limits(line: str) -> object:
    if not line.startswith("{"):
        return line
    answer = json.loads(line)
    return {key: answer.get(key) for key in ("limits", "tiers", "error", "streams")}


def _error(line: str) -> object:
    return json.loads(line).get("error") if line.startswith("{") else line


def _said(lines: list[str]) -> list[str]:
    """What a link hears beside interest, of which each server tells what it has."""
    return [line for line in lines if not line.startswith("LS")]


def link_ends_with_its_token(world: World) -> Told:
    stays, ends = world.link(world.a), world.link(world.a, outer={"exp": int(time.time()) + 3})
    return [_said(ends.to_end()), _said(stays.until_pong())]


def link_ends_with_its_token_after_a_reload(world: World) -> Told:
    ends = world.link(world.a, outer={"exp": int(time.time()) + 3})
    return [world.reload(), _said(ends.to_end())]


def link_ends_with_its_account(world: World) -> Told:
    link, other, system = world.link(world.a), world.link(world.b), world.sys()
    told: Told = [world.update(system, world.a, exp=int(time.time()) + 2)]
    return [*told, _said(link.to_end()), _said(other.until_pong())]


def links_revoked(world: World) -> Told:
    gone = user_key()
    revoked, stays, system = world.link(world.a, key=gone), world.link(world.a), world.sys()
    world.a.more["revocations"] = {gone.public: int(time.time()) + 10}
    return [world.update(system, world.a), _said(revoked.to_end()), _said(stays.until_pong())]


def links_by_bearer_tokens(world: World) -> Told:
    bearer, signs, system = world.link(world.a, nats={"bearer_token": True}), world.link(world.a), world.sys()
    world.a.limits = account_limits(disallow_bearer=True)
    return [world.update(system, world.a), _said(bearer.to_end()), _said(signs.until_pong())]


def links_by_signing_keys(world: World) -> Told:
    gone, stays, scoped = account_key(), account_key(), account_key()
    scope = {"kind": "user_scope", "key": scoped.public, "role": "", "template": {"pub": {"allow": ["x"]}}}
    world.a.more["signing_keys"] = [gone.public, stays.public, scope]
    system, first = world.sys(), world.member(world.a)
    told: Told = [first.greeting, world.update(system, world.a)]
    links = [
        world.link(world.a, signer=gone),
        world.link(world.a, signer=scoped, scoped=True),
        world.link(world.a, signer=stays),
    ]
    world.a.more["signing_keys"] = [stays.public, {**scope, "template": {"pub": {"allow": ["x", "y"]}}}]
    told.append(world.update(system, world.a))
    return [*told, _said(links[0].to_end()), _said(links[1].to_end()), _said(links[2].until_pong())]


def links_by_limits(world: World) -> Told:
    few, many, limited = world.link(world.a), world.link(world.a), world.link(world.a, nats={"subs": 5})
    system = world.sys()
    told: Told = []
    for link, subjects in ((few, "a"), (many, "abcd"), (limited, "ab")):
        link.say(b"".join(b"LS+ %b\r\n" % subject.encode() for subject in subjects))
        told.append(_said(link.until_pong()))
    world.a.limits = account_limits(subs=3, payload=4)
    told += [world.update(system, world.a), _said(many.to_end()), _said(limited.until_pong())]
    few.say(b"LMSG x 4\r\n1234\r\nLS+ b\r\nLS+ c\r\nLS+ d\r\n")
    told.append(_said(few.until_pong()))
    world.a.limits = account_limits()
    told.append(world.update(system, world.a))
    few.say(b"LS+ d\r\nLS+ e\r\n")
    return [*told, _said(few.until_pong())]


SCENARIOS: list[Callable[[World], Told]] = [
    fewer_connections, revoked, all_revoked, signing_keys, default_permissions, no_bearer, smaller_limits,
    account_expires, user_expires, wrong_updates, share_streams, share_services, system_services,
    activations, activation_revoked, activation_of_another_issuer, mappings, reload_same, reload_removed,
    reload_revoked, reload_other_limits, reload_undoes_update, jetstream,
]  # fmt: skip
LINK_SCENARIOS: list[Callable[[World], Told]] = [
    link_ends_with_its_token, link_ends_with_its_token_after_a_reload, link_ends_with_its_account, links_revoked,
    links_by_bearer_tokens, links_by_signing_keys, links_by_limits,
]  # fmt: skip


def fresh() -> tuple[Operator, Account, Account, Account]:
    """New ones for a scenario."""
    operator, system = Operator("O"), Account("SYS")
    operator.more = {"system_account": system.public}
    return operator, system, Account("A"), Account("B")
