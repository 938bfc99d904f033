"""kill -9 while streams and consumers come and go: what was answered holds, what was not may be either."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from tests.support import process

ROUNDS = 6
NAMES = 6
GONE = None  # the asset does not exist


class Assets:
    """What the broker has confirmed, and what else is possible because an answer did not come."""

    def __init__(self) -> None:
        self.possible: dict[str, list[str | None]] = {}

    def asked(self, asset: str, wanted: str | None) -> None:
        self.possible.setdefault(asset, [GONE]).append(wanted)

    def answered(self, asset: str, state: str | None) -> None:
        self.possible[asset] = [state]

    def found(self, asset: str, state: str | None) -> None:
        """After a restart: the state must be one of the possible; from now on it is the only one."""
        assert state in self.possible.get(asset, [GONE]), f"{asset}: {state!r} is none of {self.possible.get(asset)}"
        self.possible[asset] = [state]


async def request(client: Client, subject: str, body: object = b"") -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", data, 30)).data)
    return answer


async def work(client: Client, name: str, assets: Assets, rng: random.Random) -> None:
    """Change one stream and its consumer without end."""
    while True:
        text = str(rng.random())
        config = {"name": name, "subjects": [f"{name}.>"], "description": text}
        consumer = {"stream_name": name, "config": {"durable_name": "C", "description": text}}
        has_stream = assets.possible.get(name, [GONE]) != [GONE]
        kind = rng.choice(["stream", "stream", "consumer", "delete consumer", "delete"])
        if kind == "stream" or not has_stream:
            assets.asked(name, text)
            answer = await request(client, f"STREAM.{'UPDATE' if has_stream else 'CREATE'}.{name}", config)
            assert "error" not in answer, answer
            assets.answered(name, text)
        elif kind == "consumer":
            assets.asked(f"{name}.C", text)
            answer = await request(client, f"CONSUMER.CREATE.{name}.C", consumer)
            assert "error" not in answer, answer
            assets.answered(f"{name}.C", text)
        elif kind == "delete consumer":
            assets.asked(f"{name}.C", GONE)
            await request(client, f"CONSUMER.DELETE.{name}.C")
            assets.answered(f"{name}.C", GONE)
        else:
            assets.asked(name, GONE)
            assets.asked(f"{name}.C", GONE)
            assert "error" not in await request(client, f"STREAM.DELETE.{name}")
            assets.answered(name, GONE)
            assets.answered(f"{name}.C", GONE)


async def look(client: Client, assets: Assets) -> None:
    listed = (await request(client, "STREAM.LIST"))["streams"]
    streams = {entry["config"]["name"]: entry["config"]["description"] for entry in listed}
    for name in (f"N{number}" for number in range(NAMES)):
        assets.found(name, streams.get(name))
        consumers = {}
        if name in streams:
            entries = (await request(client, f"CONSUMER.LIST.{name}"))["consumers"]
            consumers = {entry["name"]: entry["config"].get("description", "") for entry in entries}
        assets.found(f"{name}.C", consumers.get("C"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_answers_hold_over_kill_9(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    assets = Assets()
    server = process.jetbroker("-js", "-sd", str(tmp_path))
    try:
        for _ in range(ROUNDS):
            server.start()
            client = await nats.connect(server.url, allow_reconnect=False, error_cb=ignore)
            await look(client, assets)
            workers = [
                asyncio.create_task(work(client, f"N{number}", assets, random.Random(rng.random())))
                for number in range(NAMES)
            ]
            done, _ = await asyncio.wait(workers, timeout=rng.uniform(0.2, 1.0), return_when=asyncio.FIRST_EXCEPTION)
            server.kill()
            with contextlib.suppress(ConnectionError):
                await client.close()
            for worker in workers:
                worker.cancel()
            for worker in done:
                error = worker.exception()
                if isinstance(error, AssertionError):
                    raise error
        server.start()
        client = await nats.connect(server.url, allow_reconnect=False)
        await look(client, assets)
        await client.close()
        server.stop()
    finally:
        server.kill()


async def ignore(error: Exception) -> None:
    """The connection breaks: that is the point."""
    assert isinstance(error, Exception | NatsError)
