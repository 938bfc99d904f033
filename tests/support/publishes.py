"""The same publishes to the same stream on two servers: each answer byte for byte, and what is stored afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.clients import settle

ANSWER_S = 5.0


@dataclass(frozen=True)
class Publish:
    """One message; `headers` in order, values as they are sent."""

    subject: str
    headers: tuple[tuple[str, str], ...] = ()
    payload: bytes = b""


@dataclass(frozen=True)
class Case:
    """`config`: of the stream beside its name and subjects `s.>`; `updates`: what changes of it before step n.

    A header whose value is STREAM gets the name of the stream.
    """

    name: str
    publishes: Sequence[Publish]
    config: dict[str, Any] = field(default_factory=dict)
    updates: dict[int, dict[str, Any]] = field(default_factory=dict)


def block(headers: Sequence[tuple[str, str]]) -> bytes:
    """A header block."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"NATS/1.0\r\n{lines}\r\n".encode()


class Publisher:
    """Publishes with given header blocks on a client's connection, and waits for the bare bytes of each answer."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.inbox = client.new_inbox()
        # a name of its own for each play: nats-server may find the messages of a deleted stream of the same name
        self.plays = 0
        self.answers: asyncio.Queue[Msg] = asyncio.Queue()

    @property
    def stream(self) -> str:
        return f"S{self.plays}"

    async def start(self) -> None:
        async def take(msg: Msg) -> None:
            self.answers.put_nowait(msg)

        await self.client.subscribe(self.inbox + ".*", cb=take)

    async def send(self, publish: Publish) -> None:
        """Without waiting, and without a reply subject."""
        await self._put(publish, "")
        await settle(self.client)

    async def ask(self, publish: Publish) -> tuple[bytes, dict[str, str] | None]:
        """Payload and headers of the answer."""
        await self._put(publish, f" {self.inbox}.1")
        msg = await asyncio.wait_for(self.answers.get(), ANSWER_S)
        return msg.data, msg.headers

    async def _put(self, publish: Publish, reply: str) -> None:
        text = (
            block(publish.headers).replace(b": STREAM\r\n", b": %b\r\n" % self.stream.encode())
            if publish.headers
            else b""
        )
        if text:
            sizes = f"HPUB {publish.subject}{reply} {len(text)} {len(text) + len(publish.payload)}\r\n"
        else:
            sizes = f"PUB {publish.subject}{reply} {len(publish.payload)}\r\n"
        await self.client._send_command(sizes.encode() + text + publish.payload + b"\r\n")
        await self.client._flush_pending()

    async def api(self, subject: str, body: object = None) -> dict[str, Any]:
        """An API request; raises when it is refused."""
        text = b"" if body is None else json.dumps(body).encode()
        answer: dict[str, Any] = json.loads((await self.client.request(f"$JS.API.{subject}", text, ANSWER_S)).data)
        if "error" in answer:
            raise AssertionError(f"{subject}: {answer['error']}")
        return answer

    async def play(self, case: Case) -> list[Any]:
        """Answers, then the stream's state and messages. The stream is made before and deleted afterwards."""
        self.plays += 1
        config = {"name": self.stream, "subjects": ["s.>"], **case.config}
        await self.api(f"STREAM.CREATE.{self.stream}", config)
        try:
            heard: list[Any] = []
            for step, publish in enumerate(case.publishes):
                if step in case.updates:
                    await self.api(f"STREAM.UPDATE.{self.stream}", config | case.updates[step])
                heard.append(await self.ask(publish))
            return heard + await self.stored()
        finally:
            await self.api(f"STREAM.DELETE.{self.stream}")

    async def stored(self) -> list[Any]:
        """What is in the stream."""
        state = (await self.api(f"STREAM.INFO.{self.stream}", {"deleted_details": True}))["state"]
        if not state["messages"]:
            return [state["last_seq"]]
        found: list[Any] = [{key: state.get(key) for key in ("messages", "first_seq", "last_seq", "bytes", "deleted")}]
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            if seq not in (state.get("deleted") or ()):
                message = (await self.api(f"STREAM.MSG.GET.{self.stream}", {"seq": seq}))["message"]
                found.append({key: message.get(key) for key in ("seq", "subject", "hdrs", "data")})
        return found
