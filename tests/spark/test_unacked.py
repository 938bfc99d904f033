"""What a consumer has not acked, read from its log, equals what it still gets from the broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType, StreamConfig
from nats.js.client import JetStreamContext

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.stores import consumer_logs, open_stream
from spark_jobs.consumers import ahead, messages_of, stored_consumer
from tests.spark.test_batch_options import sequences
from tests.support import process

FETCH_S = 30
ACK_WAIT_S = 3600  # nothing comes again by itself


@dataclass
class Broker:
    store: Path
    stream: JetStreamContext

    async def consumer(self, name: str, **config: Any) -> JetStreamContext.PullSubscription:
        defaults = {"ack_policy": AckPolicy.EXPLICIT, "ack_wait": ACK_WAIT_S}
        wanted = ConsumerConfig(durable_name=name, **{**defaults, **config})
        await self.stream.add_consumer("ORDERS", wanted)
        return await self.stream.pull_subscribe_bind(name, "ORDERS")

    async def counts(self, name: str) -> tuple[int, int]:
        info = await self.stream.consumer_info("ORDERS", name)
        return info.num_ack_pending or 0, info.num_pending or 0

    def stored_counts(self, name: str) -> tuple[int, int]:
        snapshot = open_stream(self.store, "ORDERS")
        consumer = stored_consumer(snapshot, consumer_logs(self.store, "ORDERS"), name)
        return len(consumer.waiting), messages_of(ahead(snapshot, consumer))

    def unacked(self, name: str, **options: str) -> list[int]:
        return sorted(sequences(self.store, stream="ORDERS", unackedBy=name, **options))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream(timeout=2 * FETCH_S)
        await stream.add_stream(StreamConfig("ORDERS", subjects=["orders.>"]))
        for i in range(1, 61):
            await stream.publish(f"orders.{('eu', 'us', 'asia')[i % 3]}.{i % 5}", b"%d" % i)
        yield Broker(tmp_path, stream)
        await client.close()


def seq_of(message: Msg) -> int:
    return message.metadata.sequence.stream


async def fetched(subscription: JetStreamContext.PullSubscription, count: int) -> list[Msg]:
    found: list[Msg] = []
    while len(found) < count:
        found += await subscription.fetch(count - len(found), timeout=FETCH_S)
    return found


async def still_to_come(subscription: JetStreamContext.PullSubscription, waiting: list[Msg], count: int) -> list[int]:
    """What the consumer gets when those that wait are given back."""
    for message in waiting:
        await message.nak()
    return sorted({seq_of(message) for message in await fetched(subscription, count)})


Prepare = Callable[[Broker], Awaitable[tuple[JetStreamContext.PullSubscription, list[Msg]]]]


async def some_acked(broker: Broker) -> tuple[JetStreamContext.PullSubscription, list[Msg]]:
    subscription = await broker.consumer("C")
    messages = await fetched(subscription, 20)
    for message in messages[::2] + messages[1:6:2]:
        await message.ack_sync(timeout=FETCH_S)
    return subscription, messages[7::2]


async def filtered(broker: Broker) -> tuple[JetStreamContext.PullSubscription, list[Msg]]:
    subscription = await broker.consumer("C", filter_subjects=["orders.eu.*", "orders.us.>"])
    messages = await fetched(subscription, 9)
    await messages[3].ack_sync(timeout=FETCH_S)
    return subscription, [*messages[:3], *messages[4:]]


async def last_of_each(broker: Broker) -> tuple[JetStreamContext.PullSubscription, list[Msg]]:
    subscription = await broker.consumer("C", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="orders.>")
    messages = await fetched(subscription, 4)
    await messages[1].ack_sync(timeout=FETCH_S)
    for i in range(3):
        await broker.stream.publish(f"orders.eu.{i}", b"later")
    return subscription, [messages[0], *messages[2:]]


async def only_new(broker: Broker) -> tuple[JetStreamContext.PullSubscription, list[Msg]]:
    subscription = await broker.consumer("C", deliver_policy=DeliverPolicy.NEW)
    await broker.stream.publish("orders.eu.1", b"later")
    return subscription, []


async def some_removed(broker: Broker) -> tuple[JetStreamContext.PullSubscription, list[Msg]]:
    subscription = await broker.consumer("C")
    messages = await fetched(subscription, 10)
    await messages[0].ack_sync(timeout=FETCH_S)
    for seq in (3, 30):
        await broker.stream.delete_msg("ORDERS", seq)
    await broker.stream.purge_stream("ORDERS", subject="orders.us.>")
    gone = {3} | {seq for seq in range(1, 61) if seq % 3 == 1}
    return subscription, [message for message in messages[1:] if seq_of(message) not in gone]


@pytest.mark.parametrize("prepare", [some_acked, filtered, last_of_each, only_new, some_removed])
async def test_it_equals_what_the_consumer_still_gets(broker: Broker, prepare: Prepare) -> None:
    subscription, waiting = await prepare(broker)
    counts = await broker.counts("C")
    assert broker.stored_counts("C") == counts
    read = broker.unacked("C")
    assert len(read) == sum(counts) > 0
    assert read == await still_to_come(subscription, waiting, len(read))


async def test_it_is_the_same_when_the_broker_has_stopped(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        await client.jetstream(timeout=2 * FETCH_S).add_stream(StreamConfig("ORDERS", subjects=["orders.>"]))
        for i in range(6):
            await client.jetstream(timeout=2 * FETCH_S).publish("orders.a", b"%d" % i)
        broker = Broker(tmp_path, client.jetstream(timeout=2 * FETCH_S))
        for message in await fetched(await broker.consumer("C", ack_policy=AckPolicy.ALL), 4):
            if seq_of(message) == 2:
                await message.ack_sync(timeout=FETCH_S)
        assert broker.unacked("C") == [3, 4, 5, 6]
        await client.close()
    assert broker.unacked("C") == [3, 4, 5, 6]
    assert broker.unacked("C", subject="orders.b") == []
    assert broker.unacked("C", startSeq="4", endSeq="5", maxMessagesPerPartition="1") == [4, 5]


async def test_without_acks_only_what_is_ahead_counts(broker: Broker) -> None:
    subscription = await broker.consumer("C", ack_policy=AckPolicy.NONE)
    await fetched(subscription, 7)
    assert broker.unacked("C") == list(range(8, 61))


async def test_the_subject_of_a_query_narrows_the_filters_of_the_consumer(broker: Broker) -> None:
    await broker.consumer("C", filter_subjects=["orders.eu.*", "orders.us.>"])
    assert broker.unacked("C", subject="orders.*.0") == [seq for seq in range(5, 61, 5) if seq % 3 != 2]
    assert broker.unacked("C", subject="orders.asia.>") == []


async def test_an_unknown_consumer_names_the_known_ones(broker: Broker) -> None:
    await broker.consumer("known")
    await broker.consumer("passing", mem_storage=True)
    for name in ("unknown", "passing"):
        with pytest.raises(StoreReadError, match=f"no consumer '{name}' of stream 'ORDERS'.*there is known"):
            broker.unacked(name)


async def test_a_log_that_cannot_be_followed_is_named(broker: Broker) -> None:
    await broker.stream.add_stream(StreamConfig("OTHER", subjects=["other"], storage=StorageType.FILE))
    await broker.consumer("C")
    log = next(broker.store.rglob("C.log"))
    aside = broker.store / "jetstream" / "%24G" / "OTHER" / "consumers"
    aside.mkdir(exist_ok=True)
    (aside / "C.log").write_bytes(log.read_bytes())  # its checksums are those of another stream
    with pytest.raises(StoreReadError, match="no consumer 'C' of stream 'OTHER'"):
        sequences(broker.store, stream="OTHER", unackedBy="C")
