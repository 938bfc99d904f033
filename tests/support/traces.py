"""Traces of messages as their subscribers get them, without what differs from run to run."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Sequence
from typing import Any

from jetbroker.jetstream.backup.archive.s2 import S2Reader
from tests.support.jwts import User

QUIET_S = 1.0
GENERATED = re.compile(rb"_R_\.[\w.]+")


class Peer:
    """A raw client with a name. `heard` holds (subject, reply, header lines, body) of each message, and -ERR lines."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self, name: str) -> None:
        self.name = name
        self.cid = 0
        self.heard: list[tuple[Any, ...]] = []

    @classmethod
    async def connect(cls, port: int, user: str, name: str = "", token: User | None = None, **options: Any) -> Peer:
        peer = cls(name or user)
        peer.reader, peer.writer = await asyncio.open_connection("127.0.0.1", port)
        info = json.loads((await peer.reader.readline()).removeprefix(b"INFO "))
        peer.cid = info["client_id"]
        if token is not None:
            options |= {"jwt": token.token(), "sig": token.key.signature(info["nonce"])}
        said = {"user": user, "pass": "x", "name": peer.name, "headers": True, "no_responders": True}
        said |= dict.fromkeys(("verbose", "pedantic"), False)
        peer.say(b"CONNECT " + json.dumps(said | options).encode() + b"\r\n")
        await peer.settle()
        return peer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def settle(self) -> None:
        """Read up to the answer to a PING."""
        self.say(b"PING\r\n")
        while await self._read_one():
            pass

    async def listen(self) -> None:
        """Read until nothing has come for a while."""
        try:
            while True:
                await asyncio.wait_for(self._read_one(), QUIET_S)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            pass

    async def _read_one(self) -> bool:
        line = await self.reader.readline()
        if not line:
            raise ConnectionError
        words = line.split()
        if words[0] in (b"MSG", b"HMSG"):
            size = int(words[-1])
            data = (await self.reader.readexactly(size + 2))[:size]
            head = int(words[-2]) if words[0] == b"HMSG" else 0
            reply = words[3] if len(words) == (5 if words[0] == b"MSG" else 6) else b""
            lines = GENERATED.sub(b"_R_", data[:head]).split(b"\r\n")[:-2] if head else []
            self.heard.append((words[1].decode(), GENERATED.sub(b"_R_", reply).decode(), lines, data[head:]))
        elif words[0] == b"-ERR":
            self.heard.append((line.decode().strip(),))
        return words[0] != b"PONG"

    def close(self) -> None:
        self.writer.close()


def publish(subject: str, headers: Sequence[str], reply: str = "", body: str = "x") -> bytes:
    block = ("NATS/1.0\r\n" + "".join(f"{line}\r\n" for line in headers) + "\r\n").encode()
    words = f"HPUB {subject} {reply} {len(block)} {len(block) + len(body.encode())}\r\n"
    return words.encode() + block + body.encode() + b"\r\n"


def in_order(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Subscribers get a message in any order: sorted, each with the export in front of it."""
    chunks: list[list[dict[str, Any]]] = []
    for step in steps:
        before = chunks[-1][-1] if chunks else step
        if step["type"] == "eg" and before["type"] == "se" and before["acc"] == step.get("acc"):
            chunks[-1].append(step)
        else:
            chunks.append([step])
    fixed = [chunk for chunk in chunks if chunk[0]["type"] not in ("se", "eg")]
    moving = sorted((chunk for chunk in chunks if chunk not in fixed), key=repr)
    return [step for chunk in (*fixed, *moving) for step in chunk]


def event_of(lines: list[bytes], body: bytes, cids: dict[Any, str]) -> dict[str, Any] | None:
    """The event that a message's body is, None: it is none. Connections are named by `cids`."""
    if b"Content-Encoding: gzip" in lines:
        body = gzip.decompress(body)
    elif b"Content-Encoding: snappy" in lines:
        reader = S2Reader()
        reader.feed(body)
        body = reader.next_block() or b""
    try:
        event = json.loads(GENERATED.sub(b"_R_", body))
    except ValueError:
        return None
    if not isinstance(event, dict) or "request" not in event:
        return None
    server = event["server"]
    for step in event["events"]:
        assert step.pop("ts")
        if "cid" in step:
            step["cid"] = cids.get((server["name"], step["cid"]), "?")
    if "Nats-Request-Info" in event["request"]["header"]:  # its round trip time, and generated subjects
        event["request"] = [*event["request"]["header"]]
    event["server"] = [server["name"], *server]
    event["events"] = in_order(event["events"])
    # the order of keys is a part of what is compared
    return {"lines": lines, "text": json.dumps(event)}
