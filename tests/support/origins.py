"""What tests of mirrors and sources share: streams by their JSON, what they hold, and waiting until they hold it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.aio.client import Client

from tests.support.process import ServerProcess

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02
SOURCE = "Nats-Stream-Source"


class Streams:
    """A connection, and the JetStream API with plain dictionaries."""

    def __init__(self, client: Client, prefix: str = "$JS.API") -> None:
        self.client = client
        self.prefix = prefix

    async def api(self, subject: str, body: Any = None) -> dict[str, Any]:
        """The decoded answer to one request."""
        data = json.dumps(body).encode() if body is not None else b""
        reply = await self.client.request(f"{self.prefix}.{subject}", data, timeout=WAIT_SECONDS)
        answer: dict[str, Any] = json.loads(reply.data)
        return answer

    async def create(self, name: str, **config: Any) -> dict[str, Any]:
        """A stream; it must be made."""
        answer = await self.api(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert "error" not in answer, answer
        return answer

    async def update(self, name: str, **config: Any) -> dict[str, Any]:
        """The answer to an update."""
        return await self.api(f"STREAM.UPDATE.{name}", {"name": name, **config})

    async def refusal(self, name: str, **config: Any) -> tuple[int, str]:
        """Error code and text of a refused creation."""
        error = (await self.api(f"STREAM.CREATE.{name}", {"name": name, **config}))["error"]
        return error["err_code"], error["description"]

    async def publish(self, subject: str, *payloads: str | bytes, **headers: str) -> None:
        """Publish, each message acknowledged; `Nats_X` is the header `Nats-X`."""
        named = {key.replace("_", "-"): value for key, value in headers.items()} or None
        for payload in payloads:
            data = payload.encode() if isinstance(payload, str) else payload
            reply = await self.client.request(subject, data, timeout=WAIT_SECONDS, headers=named)
            assert "error" not in json.loads(reply.data), reply.data

    async def until(self, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """STREAM.INFO once it is as wanted."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_SECONDS
        while True:
            info = await self.api(f"STREAM.INFO.{name}")
            if "error" not in info and holds(info):
                return info
            assert loop.time() < deadline, info
            await asyncio.sleep(POLL_SECONDS)

    async def until_last(self, name: str, last: int) -> dict[str, Any]:
        """STREAM.INFO once the stream's last sequence is `last`."""
        return await self.until(name, lambda info: info["state"]["last_seq"] >= last)

    async def message(self, name: str, seq: int) -> dict[str, Any] | None:
        """One stored message, headers as a dictionary and data as bytes; None: there is none."""
        found = (await self.api(f"STREAM.MSG.GET.{name}", {"seq": seq})).get("message")
        if found is None:
            return None
        lines = base64.b64decode(found.get("hdrs", "")).decode().split("\r\n")[1:-2]
        headers = dict(line.split(": ", 1) for line in lines)
        data = base64.b64decode(found.get("data", ""))
        return {"subject": found["subject"], "seq": seq, "headers": headers, "data": data, "time": found["time"]}

    async def content(self, name: str) -> list[dict[str, Any]]:
        """Every stored message."""
        state = (await self.api(f"STREAM.INFO.{name}"))["state"]
        found = [await self.message(name, seq) for seq in range(state["first_seq"], state["last_seq"] + 1)]
        return [message for message in found if message is not None]

    async def payloads(self, name: str) -> list[str]:
        """The data of every stored message."""
        return [message["data"].decode() for message in await self.content(name)]


@asynccontextmanager
async def connected(url: str, **options: Any) -> Any:
    """Streams of a server, over a connection of its own."""
    client = await nats.connect(url, allow_reconnect=False, connect_timeout=5, **options)
    try:
        yield Streams(client)
    finally:
        await client.close()


async def flood(url: str, subject: str, count: int, start: int = 0) -> int:
    """Publish numbers `start`.. without waiting for each; returns how many are acknowledged when the server dies or
    all are out."""
    client = await nats.connect(url, allow_reconnect=False, connect_timeout=5)
    js = client.jetstream(timeout=WAIT_SECONDS)
    done = 0
    try:
        while done < count:
            batch = range(start + done, start + min(done + 500, count))
            await asyncio.gather(*[js.publish(subject, b"%d" % number) for number in batch])
            done += len(batch)
    finally:
        await client.close()
    return done


async def kill_at(server: ServerProcess, name: str, *sequences: int) -> None:
    """Kill and start a broker again each time a stream has got that far."""
    for last in sequences:
        async with connected(server.url) as streams:
            await streams.until_last(name, last)
        server.kill()
        server.start()


async def flood_and_kill(server: ServerProcess, subject: str, count: int, parts: int) -> None:
    """Publish `count` numbers in as many parts; kill and start the broker again behind each."""
    for part in range(parts):
        await flood(server.url, subject, count // parts, part * count // parts)
        server.kill()
        server.start()
