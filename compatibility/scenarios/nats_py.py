"""nats-py: what its documentation shows."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.js.api import ConsumerConfig, DeliverPolicy, KeyValueConfig
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError, NotFoundError
from nats.micro import add_service
from nats.micro.request import Request
from nats.micro.service import EndpointConfig, ServiceConfig

from compatibility.scenarios.checks import Wrong, expect, play


async def _connected(url: str) -> AbstractAsyncContextManager[Client]:
    client: AbstractAsyncContextManager[Client] = await nats.connect(url)
    return client


async def publish_and_subscribe_with_a_wildcard(url: str) -> None:
    async with await _connected(url) as client:
        subscription = await client.subscribe("time.*.east")
        await client.publish("time.us.east", b"9", headers={"Zone": "EST"})
        message = await subscription.next_msg(10)
        expect((message.subject, message.data, message.headers), ("time.us.east", b"9", {"Zone": "EST"}))


async def request_and_reply(url: str) -> None:
    async with await _connected(url) as client:

        async def answer(message: Msg) -> None:
            await message.respond(message.data.upper())

        await client.subscribe("help", "workers", cb=answer)
        expect((await client.request("help", b"please", timeout=10)).data, b"PLEASE")


async def a_request_without_responders(url: str) -> None:
    async with await _connected(url) as client:
        try:
            await client.request("nobody.home", timeout=10)
        except NoRespondersError:
            return
        raise Wrong("no NoRespondersError")


async def a_queue_group_takes_each_message_once(url: str) -> None:
    async with await _connected(url) as client:
        got: list[bytes] = []

        async def take(message: Msg) -> None:
            got.append(message.data)

        members = [await client.subscribe("jobs", "group", cb=take) for _ in range(3)]
        for number in range(50):
            await client.publish("jobs", b"%d" % number)
        await client.flush()
        for member in members:
            await member.drain()
        expect(sorted(got), sorted(b"%d" % number for number in range(50)))


async def unsubscribe_after_a_number_of_messages(url: str) -> None:
    async with await _connected(url) as client:
        subscription = await client.subscribe("few")
        await subscription.unsubscribe(limit=2)
        for number in range(4):
            await client.publish("few", b"%d" % number)
        got = [(await subscription.next_msg(10)).data for _ in range(2)]
        expect(got, [b"0", b"1"])


async def publish_is_acknowledged_and_a_duplicate_told(url: str) -> None:
    async with await _connected(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="DUPLICATES", subjects=["duplicates.>"])
        first = await stream.publish("duplicates.a", b"1", headers={"Nats-Msg-Id": "one"})
        second = await stream.publish("duplicates.a", b"1", headers={"Nats-Msg-Id": "one"})
        expect((first.seq, first.duplicate, second.seq, second.duplicate), (1, None, 1, True))


async def a_pull_consumer_fetches_and_acks(url: str) -> None:
    async with await _connected(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="PULL", subjects=["pull"])
        for number in range(10):
            await stream.publish("pull", b"%d" % number)
        consumer = await stream.pull_subscribe("pull", "durable")
        got: list[bytes] = []
        while len(got) < 10:
            for message in await consumer.fetch(4, timeout=10):
                got.append(message.data)
                await message.ack_sync()
        info = await consumer.consumer_info()
        expect((got, info.num_pending, info.num_ack_pending), ([b"%d" % n for n in range(10)], 0, 0))


async def a_push_consumer_redelivers_what_is_refused(url: str) -> None:
    async with await _connected(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="PUSH", subjects=["push"])
        await stream.publish("push", b"again")
        subscription = await stream.subscribe("push", durable="pusher", manual_ack=True)
        await (await subscription.next_msg(10)).nak()
        message = await subscription.next_msg(10)
        expect((message.data, message.metadata.num_delivered), (b"again", 2))
        await message.ack()


async def an_ordered_consumer_reads_a_stream(url: str) -> None:
    async with await _connected(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="ORDERED", subjects=["ordered"])
        for number in range(200):
            await stream.publish("ordered", b"%d" % number)
        subscription = await stream.subscribe("ordered", ordered_consumer=True)
        got = [(await subscription.next_msg(10)).data for _ in range(200)]
        expect(got, [b"%d" % number for number in range(200)])


async def a_consumer_starts_where_it_is_told(url: str) -> None:
    async with await _connected(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="START", subjects=["start.*"])
        for number in range(6):
            await stream.publish(f"start.{number % 2}", b"%d" % number)
        config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=3)
        consumer = await stream.pull_subscribe("start.1", "from-three", config=config)
        got = [message.data for message in await consumer.fetch(2, timeout=10)]
        expect(got, [b"3", b"5"])


async def streams_are_managed(url: str) -> None:
    async with await _connected(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="MANAGED", subjects=["managed.*"])
        for number in range(5):
            await stream.publish(f"managed.{number}", b"x")
        message = await stream.get_msg("MANAGED", 2)
        last = await stream.get_last_msg("MANAGED", "managed.4")
        await stream.delete_msg("MANAGED", 3)
        await stream.purge_stream("MANAGED", subject="managed.0")
        info = await stream.stream_info("MANAGED")
        expect((message.subject, last.seq, info.state.messages, info.state.first_seq), ("managed.1", 5, 3, 2))
        await stream.delete_stream("MANAGED")
        try:
            await stream.stream_info("MANAGED")
        except NotFoundError:
            return
        raise Wrong("a deleted stream is still there")


async def a_bucket_keeps_keys_and_history(url: str) -> None:
    async with await _connected(url) as client:
        bucket = await client.jetstream().create_key_value(config=KeyValueConfig(bucket="keys", history=5))
        revision = await bucket.create("color", b"blue")
        await bucket.update("color", b"green", last=revision)
        try:
            await bucket.update("color", b"red", last=revision)
        except KeyWrongLastSequenceError:
            pass
        else:
            raise Wrong("an update of an old revision was taken")
        await bucket.put("size", b"9")
        await bucket.delete("size")
        try:
            await bucket.get("size")
        except KeyNotFoundError:
            pass
        else:
            raise Wrong("a deleted key is still there")
        history = [entry.value for entry in await bucket.history("color")]
        expect((history, await bucket.keys()), ([b"blue", b"green"], ["color"]))


async def a_bucket_is_watched(url: str) -> None:
    async with await _connected(url) as client:
        bucket = await client.jetstream().create_key_value(bucket="watched")
        await bucket.put("a.old", b"1")
        watcher = await bucket.watch("a.>")
        first, end = await watcher.updates(10), await watcher.updates(10)
        await bucket.put("a.new", b"2")
        second = await watcher.updates(10)
        await watcher.stop()
        expect((first.key, end, second.key, second.value), ("a.old", None, "a.new", b"2"))


async def objects_are_stored_in_chunks(url: str) -> None:
    async with await _connected(url) as client:
        store = await client.jetstream().create_object_store("files")
        content = bytes(range(256)) * 2048
        await store.put("large", content)
        got = await store.get("large")
        expect((got.data == content, got.info.size), (True, len(content)))
        expect([info.name for info in await store.list()], ["large"])
        await store.delete("large")


async def a_service_answers_and_is_discovered(url: str) -> None:
    async with await _connected(url) as client:

        async def double(request: Request) -> None:
            await request.respond(b"%d" % (2 * int(request.data)))

        service = await add_service(client, ServiceConfig(name="doubler", version="1.0.0"))
        await service.add_endpoint(EndpointConfig(name="double", handler=double))
        expect((await client.request("double", b"21", timeout=10)).data, b"42")
        ping = await client.request("$SRV.PING.doubler", timeout=10)
        expect(b'"name":"doubler"' in ping.data.replace(b" ", b""), True)
        await service.stop()


async def drain_hands_over_what_has_come(url: str) -> None:
    got: list[bytes] = []
    client = await nats.connect(url)

    async def take(message: Msg) -> None:
        await asyncio.sleep(0)
        got.append(message.data)

    await client.subscribe("last", cb=take)
    for _ in range(20):
        await client.publish("last", b"x")
    await client.drain()
    expect((len(got), client.is_closed), (20, True))


if __name__ == "__main__":
    play(
        [
            publish_and_subscribe_with_a_wildcard,
            request_and_reply,
            a_request_without_responders,
            a_queue_group_takes_each_message_once,
            unsubscribe_after_a_number_of_messages,
            publish_is_acknowledged_and_a_duplicate_told,
            a_pull_consumer_fetches_and_acks,
            a_push_consumer_redelivers_what_is_refused,
            an_ordered_consumer_reads_a_stream,
            a_consumer_starts_where_it_is_told,
            streams_are_managed,
            a_bucket_keeps_keys_and_history,
            a_bucket_is_watched,
            objects_are_stored_in_chunks,
            a_service_answers_and_is_discovered,
            drain_hands_over_what_has_come,
        ]
    )
