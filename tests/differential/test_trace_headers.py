"""Messages that ask for a trace: who gets them, what is stored, and what is refused, as with nats-server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from tests.support.process import ServerProcess

pytestmark = pytest.mark.differential

DEST, ONLY, ORIGIN = "Nats-Trace-Dest: t.x", "Nats-Trace-Only: true", "Nats-Trace-Origin-Account: A"
SAMPLED = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ROWS: list[Sequence[str]] = [
    [DEST, ONLY], [ONLY, DEST], [ONLY], [DEST], [SAMPLED], [SAMPLED, ONLY], [SAMPLED, DEST, ONLY],
    *[[DEST, f"Nats-Trace-Only: {value}"] for value in
      ("", "1", "on", "ON", "True", "TRUE", "0", "false", "yes", "2", "01", "true1", "\t true \t")],
    [DEST, "Nats-Trace-Only: 0", ONLY], [DEST, ONLY, "Nats-Trace-Only: 0"], [DEST, "Nats-Trace-Only:", ONLY],
    [DEST, "nats-trace-only: true"], ["nats-trace-dest: t.x", ONLY], ["Nats-Trace-Dest :t.x", ONLY],
    ["Nats-Trace-Dest:t.x", "Nats-Trace-Only:true"], [" Nats-Trace-Dest: t.x", ONLY],
    *[[f"Nats-Trace-Dest: {value}", *more] for more in ([], [ONLY]) for value in
      ("", " ", "t.*", "t.>", "t..x", ".t", "t x", "trace disabled", "$NRG.x", "_GR_.x", "$SYS.x", "_INBOX.x",
       "x" * 5000, "9" * 5000)],
    ["Nats-Trace-Dest:", DEST, ONLY], ["Nats-Trace-Dest: t..x", DEST, ONLY], [DEST, "Nats-Trace-Dest: t..x", ONLY],
    [DEST, "Nats-Trace-Dest: trace disabled", ONLY], ["Nats-Trace-Dest: trace disabled", DEST, ONLY],
    [DEST, ONLY, ORIGIN], [DEST, ORIGIN], [DEST, ONLY, "Nats-Trace-Origin-Account:"], [ONLY, ORIGIN],
    ["no colon", DEST, ONLY], ["A: b", "no colon", ONLY, DEST], [DEST, ONLY, "Accept-Encoding: snappy"],
    [DEST, ONLY, "Nats-Msg-Id: 1"], [DEST, ONLY, "Nats-Rollup: x"], [DEST, ONLY, "Nats-Trace-Hop: 1"],
    [f"A{n}: b" for n in range(100)] + [DEST, ONLY], ["A: " + "x" * 60_000, DEST, ONLY],
]  # fmt: skip
SUBJECTS = ("u.live", "u.nobody", "u.stored", "denied.x")
CONFIG = """
jetstream { store_dir: STORE }
accounts {
  A { jetstream: enabled, users: [
    {user: free, password: x}
    {user: bound, password: x, permissions: {publish: {deny: ["denied.>", "t.>"]}}}
  ]}
}
"""


class Peer:
    """A raw client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def connect(cls, server: ServerProcess, user: str, verbose: bool = False) -> Peer:
        peer = cls()
        peer.reader, peer.writer = await asyncio.open_connection("127.0.0.1", server.port)
        await peer.reader.readline()
        peer.say(b"CONNECT " + json.dumps({"user": user, "pass": "x", "verbose": verbose, "headers": True,
                                           "no_responders": True}).encode() + b"\r\n")  # fmt: skip
        await peer.heard()
        return peer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def heard(self) -> bytes:
        """Everything up to the answer to a PING."""
        self.say(b"PING\r\n")
        return await asyncio.wait_for(self.reader.readuntil(b"PONG\r\n"), 10)


def publish(subject: str, headers: Sequence[str], reply: str) -> bytes:
    block = ("NATS/1.0\r\n" + "".join(f"{line}\r\n" for line in headers) + "\r\n").encode()
    return f"HPUB {subject} {reply} {len(block)} {len(block) + 1}\r\n".encode() + block + b"x\r\n"


async def play(server: ServerProcess, user: str) -> list[object]:
    """For each row and subject: what the publisher and a subscriber hear; then how much is stored."""
    listener, publisher = await Peer.connect(server, "free"), await Peer.connect(server, user, verbose=True)
    heard: list[object] = []
    request = json.dumps({"name": "S", "subjects": ["u.stored"], "storage": "memory"}).encode()
    listener.say(b"SUB u.live 1\r\nSUB r.> 2\r\n")
    listener.say(b"PUB $JS.API.STREAM.DELETE.S r.gone 0\r\n\r\n")
    await until(listener, b"r.gone")
    listener.say(b"PUB $JS.API.STREAM.CREATE.S r.made %d\r\n%b\r\n" % (len(request), request))
    await until(listener, b'"did_create":true')
    publisher.say(b"SUB answers.> 9\r\n")
    await publisher.heard()
    for headers in ROWS:
        for subject in SUBJECTS:
            publisher.say(publish(subject, headers, "answers.1"))
            told = await publisher.heard()
            refusals = [line for line in told.split(b"\r\n") if line.startswith(b"-ERR")]
            delivered = (await listener.heard()).count(b"HMSG u.live")
            heard.append((headers, subject, b"503" in told, refusals, told.count(b"+OK"), delivered))
    listener.say(b"PUB $JS.API.STREAM.INFO.S r.info 0\r\n\r\n")
    info = await until(listener, b'"messages":')
    heard.append(info[info.index(b'"messages":') :].split(b",")[0])
    for peer in (listener, publisher):
        peer.writer.close()
    return heard


async def until(peer: Peer, part: bytes) -> bytes:
    heard = b""
    while part not in heard:
        heard += await peer.heard()
    return heard


@pytest.mark.parametrize("user", ["free", "bound"])
async def test_only_what_may_be_delivered_is(pair_of: object, user: str) -> None:
    pair = pair_of(CONFIG)  # type: ignore[operator]
    assert await play(pair.broker, user) == await play(pair.reference, user)
