"""A message that is traced over links: each server tells what becomes of it there, and the numbers of hops lead on.

Two spokes and their hub, each of them nats-server or jetbroker: the events are the same as among nats-servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.pairs import JETBROKER, NATS_SERVER, server
from tests.support.process import free_port
from tests.support.traces import Peer, event_of, publish

NAMES = ("hub", "near", "far")
REFERENCE = (NATS_SERVER,) * 3
KINDS = [
    (JETBROKER,) * 3,
    (JETBROKER, NATS_SERVER, NATS_SERVER),
    (NATS_SERVER, JETBROKER, NATS_SERVER),
    (NATS_SERVER, NATS_SERVER, JETBROKER),
]
HUB = """
server_name: hub
leafnodes {{ listen: "127.0.0.1:{port}" }}
accounts {{
  A {{
    users: [
      {{user: hub, password: x}}, {{user: near, password: x}}
      {{user: far, password: x, permissions: {{
        publish: {{deny: ["no.>", "t.no.>"]}}, subscribe: {{deny: ["closed.>"]}}
      }}}}
    ]
    mappings: {{"map.near": "live.mapped"}}
    exports: [{{service: "svc.>", allow_trace: true}}, {{service: "dark.>"}}, {{stream: "out.>"}}]
    msg_trace: "t.parent"
  }}
  B {{ users: [{{user: other, password: x}}], imports: [
    {{service: {{account: A, subject: "svc.>"}}}}, {{service: {{account: A, subject: "dark.>"}}}}
    {{stream: {{account: A, subject: "out.>"}}, allow_trace: true}}
  ] }}
}}
"""
SPOKE = """
server_name: {name}
jetstream {{ store_dir: "{folder}", domain: {name} }}
accounts {{ L {{ jetstream: enabled, users: [{{user: {name}, password: x}}], msg_trace: "t.parent" }} }}
leafnodes {{ remotes: [{{url: "nats-leaf://{name}:x@127.0.0.1:{port}", account: L}}] }}
"""
ONLY = "Nats-Trace-Only: true"
PARENT = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LISTENED = {
    "hub": ["live.>", "q.all g", "t.>"],
    "near": ["live.>", "t.>", "r.>"],
    "far": ["live.>", "far.>", "q.far g", "svc.>", "dark.>", "no.>", "closed.>", "q.all g", "t.no.>"],
    "other": ["out.>", "t.>", "r.>"],
}
ROWS = [
    *[(who, subject, (dest, *only)) for only in ((), (ONLY,)) for who, subject, dest in (
        ("near", "live.x", "Nats-Trace-Dest: t.{n}"), ("far", "live.x", "Nats-Trace-Dest: t.{n}"),
        ("hub", "far.x", "Nats-Trace-Dest: t.{n}"), ("near", "q.far", "Nats-Trace-Dest: t.{n}"),
        ("hub", "q.all", "Nats-Trace-Dest: t.{n}"), ("near", "map.near", "Nats-Trace-Dest: t.{n}"),
        ("near", "nobody", "Nats-Trace-Dest: t.{n}"),
        ("hub", "no.x", "Nats-Trace-Dest: t.{n}"), ("near", "closed.x", "Nats-Trace-Dest: t.{n}"),
        ("other", "svc.x", "Nats-Trace-Dest: t.{n}"), ("other", "dark.x", "Nats-Trace-Dest: t.{n}"),
        ("near", "st.x", "Nats-Trace-Dest: t.{n}"), ("hub", "st.x", "Nats-Trace-Dest: t.{n}"),
        ("far", "out.x", "Nats-Trace-Dest: t.{n}"), ("near", "live.x", PARENT),
        ("far", "live.x", "Nats-Trace-Dest: t.no.{n}"), ("near", "live.x", "Nats-Trace-Dest: t..{n}"),
    )],
]  # fmt: skip


class Servers:
    """Started in the order of NAMES; the spokes find the hub."""

    def __init__(self, kinds: tuple[str, ...], folder: Path, stack: ExitStack) -> None:
        port = free_port()
        self.daemons: dict[str, Daemon] = {}
        for name, kind in zip(NAMES, kinds, strict=True):
            path = folder / f"{name}.conf"
            text = HUB if name == "hub" else SPOKE
            path.write_text(text.format(port=port, name=name, folder=folder / name))
            self.daemons[name] = stack.enter_context(server(kind, path))
        for name in ("near", "far"):
            self.daemons[name].wait_for("JetStream using domains")
        self.daemons["hub"].wait_for("JetStream using domains")

    async def play(self) -> list[Any]:
        """For each row what everybody heard of it."""
        homes = {"hub": "hub", "near": "near", "far": "far", "other": "hub"}
        peers = {name: await Peer.connect(self.daemons[home].port, name) for name, home in homes.items()}
        body = b'{"name":"ST","subjects":["st.>"],"storage":"memory"}'
        peers["far"].say(b"PUB $JS.API.STREAM.CREATE.ST %d\r\n%b\r\n" % (len(body), body))
        for name, subjects in LISTENED.items():
            for sid, subject in enumerate(subjects, 1):
                peers[name].say(f"SUB {subject} {sid}\r\n".encode())
        await asyncio.sleep(1.0)  # interest crosses links in its own time
        await asyncio.gather(*(peer.listen() for peer in peers.values()))
        for peer in peers.values():
            peer.heard.clear()
        for number, (who, subject, headers) in enumerate(ROWS):
            lines = [line.replace("{n}", str(number)) for line in headers]
            peers[who].say(publish(subject, lines, f"r.{number}"))
            await peers[who].settle()
            await asyncio.sleep(0.05)
        await asyncio.gather(*(peer.listen() for peer in peers.values()))
        cids = {(homes[name], peer.cid): name for name, peer in peers.items()}
        heard = [(name, *self._shown(message, cids)) for name, peer in peers.items() for message in peer.heard]
        for peer in peers.values():
            peer.close()
        return sorted(heard, key=repr)

    def _shown(self, message: tuple[Any, ...], cids: dict[Any, str]) -> tuple[Any, ...]:
        if len(message) == 1:
            return message
        subject, reply, lines, body = message
        event = event_of(lines, body, cids)
        if event is None:
            lines = [line for line in lines if not line.startswith(b"Nats-Request-Info")]
        return (subject, reply, event) if event is not None else (subject, reply, lines, body)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield asyncio.run(Servers(REFERENCE, tmp_path_factory.mktemp("reference"), stack).play())


@pytest.mark.differential
@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: ", ".join(kinds))
def test_events_are_those_among_nats_servers(kinds: tuple[str, ...], tmp_path: Path, expected: list[Any]) -> None:
    with ExitStack() as stack:
        heard = asyncio.run(Servers(kinds, tmp_path, stack).play())
    assert [one for one in heard if one not in expected] == [one for one in expected if one not in heard] == []
