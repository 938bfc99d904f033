"""Who is answered by the JetStream API, when, and what is told about who asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tests.support import process
from tests.support.clients import settle

CONSUMERS = 40


async def ask(client: Client, subject: str, body: object = None) -> dict[str, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", data, timeout=10)).data)
    return answer


@pytest.mark.parametrize("subject", ["FOO", "FOO.BAR", "STREAM.FOO.S", "CONSUMER.FOO.S.C", "CONSUMER.MSG.FOO.S.C"])
async def test_subjects_that_mean_nothing_are_met_with_silence(broker: process.ServerProcess, subject: str) -> None:
    client = await nats.connect(broker.url)
    with pytest.raises(nats.errors.TimeoutError):
        await client.request(f"$JS.API.{subject}", b"", timeout=0.2)
    await client.close()


@pytest.mark.parametrize("subject", ["CONSUMER.MSG.NEXT.NONE.NONE", "DIRECT.GET.NONE", "DIRECT.GET.NONE.a.b"])
async def test_pulls_and_direct_gets_of_what_is_not_there_have_no_responder(
    broker: process.ServerProcess, subject: str
) -> None:
    client = await nats.connect(broker.url)
    with pytest.raises(NoRespondersError):
        await client.request(f"$JS.API.{subject}", b"", timeout=5)
    await client.close()


async def test_audits_name_who_asked(broker: process.ServerProcess) -> None:
    client = await nats.connect(broker.url, name="the asker")
    audits = await client.subscribe("$JS.EVENT.ADVISORY.API")
    await settle(client)
    await ask(client, "STREAM.NAMES", {})
    await ask(client, "STREAM.DELETE.NONE")
    audit = json.loads((await audits.next_msg(timeout=5)).data)
    told = audit["client"]
    assert told.pop("start")[:2] == "20"
    assert told.pop("id") > 0
    assert told.pop("ver")
    told.pop("rtt", None)
    assert told == {
        "host": "127.0.0.1",
        "acc": "$G",
        "name": "the asker",
        "lang": "python3",
        "server": audit["server"],
        "kind": "Client",
        "client_type": "nats",
    }
    await client.close()


async def test_consumers_that_were_answered_are_there_after_a_kill(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        answered: set[str] = set()

        async def create(name: str) -> None:
            config = {"durable_name": name, "ack_policy": "explicit", "deliver_policy": "new"}
            answer = await ask(client, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
            assert answer["name"] == name
            answered.add(name)

        tasks = [asyncio.create_task(create(f"c{number}")) for number in range(CONSUMERS)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        server.kill()
        known = set(answered)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
        server.start()
        client = await nats.connect(server.url, allow_reconnect=False)
        found = set((await ask(client, "CONSUMER.NAMES.S"))["consumers"])
        assert known
        assert known <= found <= {f"c{number}" for number in range(CONSUMERS)}
        # made and deleted while the first answer is still out
        config = {"stream_name": "S", "config": {"durable_name": "x", "ack_policy": "explicit"}}
        created, again, deleted = await asyncio.gather(
            ask(client, "CONSUMER.CREATE.S.x", config),
            ask(client, "CONSUMER.CREATE.S.x", config),
            ask(client, "CONSUMER.DELETE.S.x"),
        )
        assert created["config"] == again["config"]
        assert deleted["success"]
        server.kill()
        await client.close()
        server.start()
        client = await nats.connect(server.url)
        assert "x" not in (await ask(client, "CONSUMER.NAMES.S"))["consumers"]
        await client.close()
