"""Traces of messages: every event that a message brings about, and what else happens to it, as with nats-server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.jwts import Account, Operator, User, configuration
from tests.support.process import ServerProcess
from tests.support.traces import Peer, event_of, publish

pytestmark = pytest.mark.differential

ONLY = "Nats-Trace-Only: true"
STEP_S = 0.2  # what streams and services answer comes in front of what is said next
PARENT = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
CONFIG = """
jetstream { store_dir: STORE, domain: dom }
system_account: SYS
accounts {
  SYS { users: [{user: sys, password: x}] }
  A { jetstream: enabled
    users: [
      {user: free, password: x}
      {user: bound, password: x, permissions: {publish: {deny: ["denied.>", "t.denied.>"]}}}
      {user: blind, password: x, permissions: {subscribe: {deny: ["s.no", "s.q g"]}}}
    ]
    mappings: {"map.from": "map.to", "map.lost": [{destination: "map.to", weight: 0%}]}
    exports: [
      {stream: "ex.>"}, {service: "svc.yes", allow_trace: true}, {service: "svc.no"},
      {service: "svc.map", allow_trace: true}
    ]
  }
  B { users: [{user: b, password: x}]
    imports: [
      {stream: {account: A, subject: "ex.>"}, prefix: "in", allow_trace: true}
      {service: {account: A, subject: "svc.yes"}, to: "ask.yes"}
      {service: {account: A, subject: "svc.no"}, to: "ask.no"}
      {service: {account: C, subject: "far.yes"}}
    ]
    exports: [{service: "ask.yes", allow_trace: true}]
    msg_trace: {dest: "tr.b", sampling: "100%"}
  }
  C { users: [{user: c, password: x}]
    imports: [{stream: {account: A, subject: "ex.>"}}, {service: {account: B, subject: "ask.yes"}, to: "ask.far"}]
    exports: [{service: "far.yes", allow_trace: true}]
    trace_dest: "tr.c"
  }
}
"""
STREAMS: dict[str, dict[str, Any]] = {
    "S": {"subjects": ["st.>"]},
    "I": {"subjects": ["it.>"], "retention": "interest"},
    "T": {"subjects": ["tf.>"], "subject_transform": {"src": "tf.>", "dest": "out.>"}},
    "F": {"subjects": ["full.>"], "max_msgs": 1, "discard": "new", "max_msg_size": 500},
    "X": {"subjects": ["u.both"]},
    "N": {"subjects": ["na.>"], "no_ack": True, "allow_msg_ttl": True, "allow_rollup_hdrs": True},
}


class Row(NamedTuple):
    """What one client publishes. `{n}` in a header stands for the row's number."""

    publisher: str
    subject: str
    headers: Sequence[str] = ("Nats-Trace-Dest: t.{n}",)
    reply: bool = True
    body: str = "x"


def asked(*more: str) -> tuple[str, ...]:
    return ("Nats-Trace-Dest: t.{n}", *more)


def rows(*only: str) -> list[Row]:
    """The same messages, traced and delivered, or only traced."""
    expected = "Nats-Expected-Last"
    stored = [
        ["Nats-Expected-Stream: Y"], [f"{expected}-Sequence: 77"], [f"{expected}-Subject-Sequence: 78"],
        [f"{expected}-Msg-Id: x"], ["Nats-Msg-Id: 1"], ["Nats-Msg-Id: 1"], ["Nats-TTL: 5"], ["Nats-Rollup: sub"],
        ["Nats-Incr: 1"], ["Nats-Schedule: @at 2099-01-01T00:00:00Z"], [f"{expected}-Subject-Sequence-Subject: st.x"],
        ["Nats-Request-Info: {}"],
    ]  # fmt: skip
    return [
        *(Row("free", subject, asked(*only)) for subject in (
            "u.live", "u.nobody", "u.q", "u.both", "map.from", "map.lost", "ex.a", "s.no", "s.yes", "s.q", "st.a",
            "it.a", "tf.a", "tf.b", "na.a", "full.a", "full.b", "svc.yes", "t..x", "u.*",
        )),
        *(Row("free", "st.a", asked(*only, *headers)) for headers in stored),
        Row("free", "na.a", asked(*only, "Nats-TTL: x")), Row("free", "na.a", asked(*only, "Nats-Rollup: x")),
        Row("free", "full.a", asked(*only), body="x" * 600), Row("free", "st.a", asked(*only, "A: " + "x" * 70_000)),
        Row("quiet", "quiet", asked(*only)), Row("quiet", "u.live", asked(*only)),
        Row("bound", "denied.a", asked(*only)), Row("bound", "u.live", ("Nats-Trace-Dest: t.denied.{n}", *only)),
        *(Row("free", subject, asked(*only), body="") for subject in (
            "$JS.API.INFO", "$JS.API.STREAM.INFO.S", "$JS.dom.API.INFO", "$JS.API.DIRECT.GET.S",
            "$JS.API.CONSUMER.MSG.NEXT.S.C", "$JS.API.NOTHING", "$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.STATZ",
            "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER.PING",
        )),
        *(Row("b", subject, asked(*only), reply=reply) for subject in ("ask.yes", "ask.no", "far.yes")
          for reply in (True, False)),
        Row("c", "ask.far", asked(*only)),
        *(Row("b", "in.ex.q", (PARENT + flags, *only)) for flags in ("01", "00", "03", "7f", "80", "81", "1", "0x")),
        Row("b", "in.ex.q", (PARENT.title() + "01", *only)), Row("c", "c.x", (PARENT + "01", *only)),
        Row("free", "u.live", (PARENT + "01", *only)), Row("b", "in.ex.q", (*asked(PARENT + "01"), *only)),
        *(Row("free", "u.live", asked(*only, f"Accept-Encoding: {name}")) for name in (
            "gzip", "snappy", "s2", "GZIP, br", "br", "gzip, snappy", "",
        )),
        Row("free", "u.live", asked(*only, "Nats-Trace-Origin-Account: A")),
        Row("free", "u.live", asked(*only, "Nats-Trace-Hop: 7", "b: 2", "a: <1>", "b: 1", "B: 3", "é: ü")),
        Row("free", "u.live", ("Nats-Trace-Dest: trace disabled", *only)),
        Row("free", "u.live", ("Nats-Trace-Dest: t.*", *only)),
    ]  # fmt: skip


async def make_streams(setup: Peer) -> None:
    """All anew, one request after the other: nats-server works on those that come together side by side."""
    for name, config in STREAMS.items():
        body = json.dumps({"name": name, "storage": "memory", **config}).encode()
        for request in (
            b"PUB $JS.API.STREAM.DELETE.%b r.gone 0\r\n\r\n" % name.encode(),
            b"PUB $JS.API.STREAM.CREATE.%b r.made %d\r\n%b\r\n" % (name.encode(), len(body), body),
        ):
            answered = len(setup.heard)
            setup.say(request)
            while len(setup.heard) == answered:
                await setup.settle()
        assert b'"did_create":true' in setup.heard[-1][-1]


async def play(server: ServerProcess, played: list[Row]) -> list[Any]:
    """For each row what everybody heard of it."""
    peers = {
        name: await Peer.connect(server.port, user, name, None, **options)
        for name, user, options in (
            ("free", "free", {}), ("bound", "bound", {}), ("blind", "blind", {}), ("quiet", "free", {"echo": False}),
            ("b", "b", {}), ("c", "c", {}), ("old", "free", {"headers": False, "no_responders": False}),
        )
    }  # fmt: skip
    setup = await Peer.connect(server.port, "free", "setup")
    setup.say(b"SUB r.> 1\r\n")
    await make_streams(setup)
    setup.close()
    for name, subjects in {
        "free": ["t.>", "u.live", "u.q g", "u.both", "map.to", "svc.*", "r.>"],
        "bound": ["u.live"],
        "blind": ["s.*"],
        "quiet": ["quiet", "q.>"],
        "old": ["u.live"],
        "b": ["in.ex.>", "t.>", "tr.b", "r.>"],
        "c": ["ex.>", "far.yes", "tr.c", "t.>", "r.>"],
    }.items():
        for sid, subject in enumerate(subjects, 1):
            peers[name].say(f"SUB {subject} {sid}\r\n".encode())
    peers["blind"].say(b"SUB s.q g 9\r\n")
    for peer in peers.values():
        await peer.settle()
    cids = {("same", peer.cid): name for name, peer in peers.items()}
    told: list[Any] = []
    for number, row in enumerate(played):
        headers = [line.replace("{n}", str(number)) for line in row.headers]
        reply = f"r.{number}" if row.reply else ""
        peers[row.publisher].say(publish(row.subject, headers, reply, row.body))
        await asyncio.gather(*(peer.settle() for peer in peers.values()))
        if row.subject[:3] in ("st.", "it.", "tf.", "na.", "ful", "$JS", "$SY", "u.b"):
            await asyncio.sleep(STEP_S)
    await asyncio.gather(*(peer.listen() for peer in peers.values()))
    for name, peer in peers.items():
        heard = [_shown(message, cids) for message in peer.heard]
        told += [(name, *found) for found in heard]
        peer.close()
    return sorted(told, key=repr)


def _shown(message: tuple[Any, ...], cids: dict[Any, str]) -> tuple[Any, ...]:
    if len(message) == 1:
        return message
    subject, reply, lines, body = message
    event = event_of(lines, body, cids)
    if event is not None:
        return subject, reply, event
    # what the servers' own services answer is compared elsewhere
    if body.startswith(b'{"server"') or b"_response" in body:
        body = b"an answer"
    lines = [line for line in lines if not line.startswith(b"Nats-Request-Info")]
    return subject, reply, lines, body


@pytest.mark.parametrize("only", [(), (ONLY,)], ids=["delivered", "only"])
async def test_events_are_those_of_nats_server(pair_of: object, only: tuple[str, ...]) -> None:
    pair = pair_of(CONFIG)  # type: ignore[operator]
    played = rows(*only)
    theirs = await play(pair.reference, played)
    ours = await play(pair.broker, played)
    for number, row in enumerate(played):
        print(number, row)
    assert [one for one in ours if one not in theirs] == [one for one in theirs if one not in ours] == []
    assert ours == theirs


def _tokens() -> tuple[str, dict[str, User]]:
    """A configuration of operator mode, and a user of each account."""
    operator, system, giver, taker = Operator(), Account("SYS"), Account("G"), Account("T")
    exports = [("ex.>", "stream", False), ("svc.yes", "service", True), ("svc.no", "service", False)]
    giver.more["exports"] = [
        {"name": subject, "subject": subject, "type": kind, **({"allow_trace": True} if allowed else {})}
        for subject, kind, allowed in exports
    ]
    giver.more["trace"] = {"dest": "tr.g", "sampling": 100}
    taker.more["imports"] = [
        {"name": subject, "subject": subject, "account": giver.public, "type": kind,
         **({"allow_trace": True} if kind == "stream" else {})}
        for subject, kind, _ in exports
    ]  # fmt: skip
    taker.more["trace"] = {"dest": "tr.t"}
    operator.more["system_account"] = system.public
    users = {"g": giver.user("g"), "t": taker.user("t")}
    return configuration(operator, [system, giver, taker], more="server_name: same"), users


async def test_accounts_that_tokens_make(tmp_path: Path, commands: list[tuple[str, ...]]) -> None:
    text, users = _tokens()
    path = tmp_path / "server.conf"
    path.write_text(text)
    told = []
    for command in commands:
        with ServerProcess(command, ("-c", str(path))) as server:
            peers = {name: await Peer.connect(server.port, "", name, user) for name, user in users.items()}
            for name, peer in peers.items():
                listened = ["ex.>", "t.>", f"tr.{name}", *(["svc.>"] if name == "g" else [])]
                peer.say("".join(f"SUB {subject} {sid}\r\n" for sid, subject in enumerate(listened, 1)).encode())
                await peer.settle()
            for number, (name, subject) in enumerate((("g", "ex.a"), ("t", "svc.yes"), ("t", "svc.no"))):
                for headers in (
                    [f"Nats-Trace-Dest: t.{number}"],
                    [f"Nats-Trace-Dest: t.{number}", ONLY],
                    [PARENT + "01"],
                ):
                    peers[name].say(publish(subject, headers))
                    await peers[name].settle()
            await asyncio.gather(*(peer.listen() for peer in peers.values()))
            cids = {("same", peer.cid): name for name, peer in peers.items()}
            heard = [(name, *_shown(message, cids)) for name, peer in peers.items() for message in peer.heard]
            told.append(sorted(heard, key=repr))
            for peer in peers.values():
                peer.close()
    theirs, ours = told
    assert len(theirs) > 15
    assert ours == theirs
