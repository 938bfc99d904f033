"""Retention by interest and work queues, KV buckets and dedup, through a real broker and nats-py; also over kill -9."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from tests.support import process

STORAGES = [StorageType.MEMORY, StorageType.FILE]


async def live_of(js: Any, stream: str) -> tuple[int, int, int]:
    state = (await js.stream_info(stream)).state
    return state.messages, state.first_seq, state.last_seq


async def until_live(js: Any, stream: str, messages: int) -> None:
    async with asyncio.timeout(5):
        while (await live_of(js, stream))[0] != messages:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("storage", STORAGES)
async def test_interest_keeps_what_some_consumer_still_needs(
    broker: process.ServerProcess, storage: StorageType
) -> None:
    client = await nats.connect(broker.url)
    js = client.jetstream()
    await js.add_stream(StreamConfig("I", subjects=["i.>"], retention=RetentionPolicy.INTEREST, storage=storage))
    assert (await js.publish("i.a")).seq == 1
    one = await js.pull_subscribe("i.a", durable="one")
    two = await js.pull_subscribe("i.>", durable="two")
    for _ in range(3):
        await js.publish("i.a")
    await js.publish("i.b")
    assert await live_of(js, "I") == (4, 2, 5)
    for message in await one.fetch(3):
        await message.ack_sync(timeout=30)
    assert await live_of(js, "I") == (4, 2, 5)
    for message in await two.fetch(2):
        await message.ack_sync(timeout=30)
    await until_live(js, "I", 2)
    assert await live_of(js, "I") == (2, 4, 5)
    # what only the deleted consumer waited for goes with it
    await js.delete_consumer("I", "two")
    await until_live(js, "I", 0)
    # a subject nobody listens to is counted, not stored
    assert (await js.publish("i.b")).seq == 6
    assert (await live_of(js, "I"))[0] == 0
    await js.publish("i.a")
    assert (await live_of(js, "I"))[0] == 1
    await js.delete_consumer("I", "one")
    await until_live(js, "I", 0)
    await js.delete_stream("I")
    await client.close()


@pytest.mark.parametrize("storage", STORAGES)
async def test_the_first_ack_removes_from_a_work_queue(broker: process.ServerProcess, storage: StorageType) -> None:
    client = await nats.connect(broker.url)
    js = client.jetstream()
    await js.add_stream(StreamConfig("W", subjects=["w"], retention=RetentionPolicy.WORK_QUEUE, storage=storage))
    for _ in range(3):
        await js.publish("w")
    workers = await js.pull_subscribe("w", durable="workers")
    messages = await workers.fetch(3)
    await messages[1].ack_sync(timeout=30)
    await until_live(js, "W", 2)
    await js.delete_consumer("W", "workers")
    assert (await live_of(js, "W"))[0] == 2
    await js.delete_stream("W")
    await client.close()


async def test_acked_work_stays_removed_after_kill(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(StreamConfig("W", subjects=["w"], retention=RetentionPolicy.WORK_QUEUE))
        for i in range(20):
            await js.publish("w", b"%d" % i, headers={"Nats-Msg-Id": f"id-{i}"})
        workers = await js.pull_subscribe("w", durable="workers", config=ConsumerConfig(ack_wait=1))
        for message in await workers.fetch(10):
            await message.ack_sync(timeout=30)
        await client.close()
        server.kill()
        server.start()
        client = await nats.connect(server.url)
        js = client.jetstream()
        await until_live(js, "W", 10)
        assert (await live_of(js, "W"))[1:] == (11, 20)
        duplicate = await js.publish("w", b"15", headers={"Nats-Msg-Id": "id-15"})
        assert (duplicate.seq, duplicate.duplicate) == (16, True)
        workers = await js.pull_subscribe_bind("workers", "W")
        assert [message.data for message in await workers.fetch(10)] == [b"%d" % i for i in range(10, 20)]
        await client.close()


async def test_a_bucket(broker: process.ServerProcess) -> None:
    client = await nats.connect(broker.url)
    js = client.jetstream()
    bucket = await js.create_key_value(bucket="b", history=3)
    for i in range(5):
        await bucket.put("k", b"%d" % i)
    entry = await bucket.get("k")
    assert (entry.value, entry.revision) == (b"4", 5)
    assert [entry.value for entry in await bucket.history("k")] == [b"2", b"3", b"4"]
    assert await bucket.update("k", b"5", last=5) == 6
    with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
        await bucket.update("k", b"6", last=5)
    await bucket.purge("k")
    with pytest.raises(nats.js.errors.KeyNotFoundError):
        await bucket.get("k")
    assert len(await bucket.history("k")) == 1
    assert await bucket.create("k", b"again") == 8
    await js.delete_key_value("b")
    await client.close()
