"""Consumers as nats-py uses them, against a broker process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from tests.conftest import Connect
from tests.support import process
from tests.support.clients import settle


async def test_pull_subscription_fetches_and_acks(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="PULL", subjects=["pull.>"])
    for number in range(250):
        await js.publish(f"pull.{number}", b"%d" % number)
    subscription = await js.pull_subscribe("pull.>", durable="worker")
    seen: list[bytes] = []
    while len(seen) < 250:
        for message in await subscription.fetch(100, timeout=5):
            seen.append(message.data)
            await message.ack_sync(timeout=30)
    assert seen == [b"%d" % number for number in range(250)]
    info = await subscription.consumer_info()
    assert (info.num_pending, info.num_ack_pending) == (0, 0)
    with pytest.raises(TimeoutError):
        await subscription.fetch(1, timeout=0.3)


async def test_push_subscription_with_queue_group(connect: Connect) -> None:
    client = await connect()
    js = client.jetstream()
    await js.add_stream(name="PUSH", subjects=["push.>"])
    first: list[int] = []
    second: list[int] = []
    done = asyncio.Event()

    def keeper(kept: list[int]) -> Any:
        async def keep(message: Any) -> None:
            kept.append(message.metadata.sequence.stream)
            await message.ack()
            if len(first) + len(second) == 200:
                done.set()

        return keep

    for kept in (first, second):
        await js.subscribe("push.>", queue="workers", durable="workers", cb=keeper(kept), manual_ack=True)
    for number in range(200):
        await js.publish("push.x", b"%d" % number)
    await asyncio.wait_for(done.wait(), 10)
    assert sorted(first + second) == list(range(1, 201))
    assert first and second


async def test_ordered_consumer_reads_everything_in_order(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="ORDERED", subjects=["ordered.>"])
    payload = b"x" * 20_000
    for number in range(400):
        await js.publish("ordered.x", b"%d " % number + payload)
    subscription = await js.subscribe("ordered.>", ordered_consumer=True)
    for number in range(400):
        message = await subscription.next_msg(timeout=10)
        assert message.data.split(b" ")[0] == b"%d" % number
    await js.publish("ordered.x", b"last")
    assert (await subscription.next_msg(timeout=5)).data == b"last"


async def test_messages_come_while_a_request_waits(connect: Connect) -> None:
    client = await connect()
    js = client.jetstream()
    await js.add_stream(name="LIVE", subjects=["live.>"])
    subscription = await js.pull_subscribe("live.>", durable="d")
    seen: list[bytes] = []
    for number in range(3):
        waiting = asyncio.ensure_future(subscription.fetch(1, timeout=5))
        await settle(client)
        await js.publish("live.x", b"%d" % number)
        seen += [message.data for message in await waiting]
    assert seen == [b"0", b"1", b"2"]


async def test_what_is_fetched_into_the_stream_itself_is_stored_again(connect: Connect) -> None:
    client = await connect()
    js = client.jetstream()
    await js.add_stream(name="LOOP", subjects=["loop.>"])
    # together they make the log's memory grow again and again while a message of it is delivered
    bodies = [bytes([number]) * 40_000 for number in range(100)]
    for body in bodies:
        await js.publish("loop.in", body)
    await js.add_consumer("LOOP", ConsumerConfig(durable_name="c", filter_subject="loop.in"))
    copied = asyncio.Event()
    acks: list[bytes] = []

    async def count(message: Any) -> None:
        acks.append(message.reply.encode())
        if len(acks) == len(bodies):
            copied.set()

    await client.subscribe("loop.out", cb=count)
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.LOOP.c", b'{"batch": 100}', reply="loop.out")
    await asyncio.wait_for(copied.wait(), 20)
    stored = [(await js.get_msg("LOOP", 101 + number)) for number in range(100)]
    assert {message.subject for message in stored} == {"loop.in"}, "as nats-server stores it"
    assert [message.data for message in stored] == bodies


async def test_ephemeral_consumer_goes_away_when_unused(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="BRIEF", subjects=["brief.>"])
    config = ConsumerConfig(name="e", ack_policy=AckPolicy.EXPLICIT, inactive_threshold=0.2)
    await js.add_consumer("BRIEF", config)
    for _ in range(50):
        if not await js.consumers_info("BRIEF"):
            return
        await asyncio.sleep(0.1)  # the only event is the absence of the consumer
    pytest.fail("the consumer is still there")


async def test_confirmed_acks_survive_a_kill(tmp_path: Path) -> None:
    """What was confirmed never comes back, what was delivered only comes back after its wait."""
    confirmed: set[int] = set()
    store = tmp_path / "store"
    with process.jetbroker("-js", "-sd", str(store)) as broker:
        client = await nats.connect(broker.url, allow_reconnect=False)
        js = client.jetstream()
        await js.add_stream(StreamConfig(name="K", subjects=["k"]))
        for number in range(300):
            await js.publish("k", b"%d" % number)
        subscription = await js.pull_subscribe(
            "k", durable="d", config=ConsumerConfig(ack_wait=1.0, ack_policy=AckPolicy.EXPLICIT)
        )
        for message in await subscription.fetch(200, timeout=5):
            sequence = message.metadata.sequence.stream
            if sequence % 3:
                await message.ack_sync(timeout=30)
                confirmed.add(sequence)
        broker.kill()
        await client.close()
    with process.jetbroker("-js", "-sd", str(store)) as broker:
        client = await nats.connect(broker.url, allow_reconnect=False)
        subscription = await client.jetstream().pull_subscribe("k", durable="d")
        seen: set[int] = set()
        while len(seen) < 300 - len(confirmed):
            for message in await subscription.fetch(100, timeout=5):
                seen.add(message.metadata.sequence.stream)
                await message.ack()
        assert not seen & confirmed
        assert seen | confirmed == set(range(1, 301))
        await client.close()


async def test_a_push_consumer_that_nobody_hears_gives_up_all_the_same(connect: Connect) -> None:
    client = await connect()
    js = client.jetstream()
    await js.add_stream(name="UNHEARD", subjects=["unheard"])
    told = await client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.UNHEARD.C")
    listener = await client.subscribe("to.me")
    config = ConsumerConfig(
        durable_name="C", deliver_subject="to.me", ack_policy=AckPolicy.EXPLICIT, max_deliver=1, ack_wait=2,
        idle_heartbeat=0.5,
    )  # fmt: skip
    await js.add_consumer("UNHEARD", config)
    await js.publish("unheard", b"x")
    await listener.next_msg(timeout=30)
    await listener.unsubscribe()
    await told.next_msg(timeout=30)
    assert (await js.consumer_info("UNHEARD", "C")).num_ack_pending == 0
