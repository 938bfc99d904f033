"""Deleted streams and consumers are freed at once: no cycle of references waits for the collector."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client

from jetbroker.jetstream.consumers.consumer import Consumer
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.statelog import StateLog
from jetbroker.testing import embedded
from tests.support.memory import instances

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER_S = 30.0
KINDS = (Stream, FileLog, MemoryLog, Consumer, StateLog)
STREAMS: dict[str, dict[str, Any]] = {
    "in files": {"storage": "file"},
    "in memory": {"storage": "memory"},
    "with all features": {
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 1_000_000_000,
        "allow_msg_schedules": True,
        "allow_atomic": True,
        "allow_batched": True,
        "allow_direct": True,
        "max_age": 3_600_000_000_000,
        "max_msgs_per_subject": 5,
        "subject_transform": {"src": "s.>", "dest": "t.>"},
        "republish": {"src": ">", "dest": "again.>"},
        "metadata": {"jetbroker.hash_chain": "sha256"},
    },
    "of a work queue": {"retention": "workqueue"},
    "of interest": {"retention": "interest"},
}
CONSUMERS: dict[str, dict[str, Any]] = {
    "pull": {"durable_name": "c", "ack_policy": "explicit"},
    "push": {"durable_name": "c", "deliver_subject": "out", "ack_policy": "all"},
    "in memory": {"name": "c", "ack_policy": "explicit", "mem_storage": True},
    "pinned": {"durable_name": "c", "priority_groups": ["g"], "priority_policy": "pinned_client"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with embedded() as broker:
        opened = await nats.connect(broker.url)
        await api(opened, "INFO")
        yield opened
        await opened.close()


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def api(client: Client, subject: str, body: Any = None) -> dict[str, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", data, ANSWER_S)).data)
    assert "error" not in answer, answer
    return answer


async def freed(client: Client, before: list[Any]) -> None:
    """Until there are only those from before; the last turns of what was asked may still be under way."""
    known = set(map(id, before))
    async with asyncio.timeout(ANSWER_S):
        while any(id(found) not in known for found in instances(*KINDS)):
            await api(client, "INFO")
            await asyncio.sleep(0.01)


async def use(client: Client) -> None:
    """Messages, some of them delivered and acked, and a pull request that waits."""
    for number in range(10):
        await client.request(f"s.{number % 3}", b"x", ANSWER_S)
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":2,"group":"g"}', inbox)
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":2}', inbox)
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":100,"expires":60000000000}', inbox)
    message = await subscription.next_msg(ANSWER_S)
    if message.reply:
        await client.publish(message.reply, b"")
    await subscription.unsubscribe()


@pytest.mark.parametrize("kind", STREAMS)
async def test_a_deleted_stream_is_freed_with_its_consumers(client: Client, kind: str) -> None:
    before = instances(*KINDS)
    config: dict[str, Any] = {"name": "S", "subjects": ["s.>"], **STREAMS[kind]}
    await api(client, "STREAM.CREATE.S", config)
    for name, deliver in (("c", {}), ("d", {"deliver_subject": "out"})):
        consumer = {"durable_name": name, "ack_policy": "explicit", "filter_subject": f"*.{name == 'c':d}", **deliver}
        await api(client, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": consumer})
    await use(client)
    await api(client, "STREAM.UPDATE.S", config | {"max_msgs": 100})
    await api(client, "STREAM.DELETE.S")
    await freed(client, before)


@pytest.mark.parametrize("kind", CONSUMERS)
async def test_a_deleted_consumer_is_freed(client: Client, kind: str) -> None:
    await api(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    before = instances(*KINDS)
    listener = await client.subscribe("out")
    await api(client, "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": CONSUMERS[kind]})
    await use(client)
    await api(client, "CONSUMER.INFO.S.c")
    await api(client, "CONSUMER.DELETE.S.c")
    await freed(client, before)
    await listener.unsubscribe()
    await api(client, "STREAM.DELETE.S")


@pytest.mark.parametrize("origin", ["mirror", "sources"])
async def test_a_deleted_copy_is_freed(client: Client, origin: str) -> None:
    await api(client, "STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
    before = instances(*KINDS)
    await api(
        client, "STREAM.CREATE.S", {"name": "S"} | ({origin: {"name": "O"} if origin == "mirror" else [{"name": "O"}]})
    )
    await client.request("o", b"x", ANSWER_S)
    async with asyncio.timeout(ANSWER_S):
        while not (await api(client, "STREAM.INFO.S"))["state"]["messages"]:
            await asyncio.sleep(0.01)
    await api(client, "STREAM.DELETE.S")
    await freed(client, before)
    await api(client, "STREAM.DELETE.O")
