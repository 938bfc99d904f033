"""FastStream: handlers, JetStream, buckets and the life of an application."""

from __future__ import annotations

import asyncio

from faststream import FastStream
from faststream.nats import JStream, NatsBroker, NatsMessage, NatsResponse, NatsRouter, PullSub
from faststream.nats.schemas import KvWatch, ObjWatch

from compatibility.scenarios.checks import expect, play


async def publish_and_subscribe(url: str) -> None:
    got: asyncio.Queue[dict[str, int]] = asyncio.Queue()
    async with NatsBroker(url) as broker:

        @broker.subscriber("orders.*")
        async def handle(body: dict[str, int]) -> None:
            await got.put(body)

        await broker.start()
        await broker.publish({"amount": 3}, "orders.new")
        expect(await got.get(), {"amount": 3})


async def a_path_is_taken_from_the_subject(url: str) -> None:
    got: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    async with NatsBroker(url) as broker:

        @broker.subscriber("logs.{level}")
        async def handle(body: str, message: NatsMessage) -> None:
            await got.put((body, message.path["level"]))

        await broker.start()
        await broker.publish("hot", "logs.warning")
        expect(await got.get(), ("hot", "warning"))


async def an_answer_is_published_on(url: str) -> None:
    got: asyncio.Queue[str] = asyncio.Queue()
    async with NatsBroker(url) as broker:

        @broker.subscriber("in")
        @broker.publisher("out")
        async def handle(body: str) -> str:
            return body.upper()

        @broker.subscriber("out")
        async def end(body: str) -> None:
            await got.put(body)

        await broker.start()
        await broker.publish("word", "in")
        expect(await got.get(), "WORD")


async def a_queue_group_takes_each_message_once(url: str) -> None:
    got: asyncio.Queue[int] = asyncio.Queue()
    async with NatsBroker(url) as one, NatsBroker(url) as two:
        for broker in (one, two):

            @broker.subscriber("jobs", "group")
            async def handle(body: int) -> None:
                await got.put(body)

            await broker.start()
            await broker.ping(10)
        for number in range(30):
            await one.publish(number, "jobs")
        expect(sorted([await got.get() for _ in range(30)]), list(range(30)))
        await two.ping(10)
        expect(got.empty(), True)


async def request_and_reply(url: str) -> None:
    async with NatsBroker(url) as broker:

        @broker.subscriber("ask")
        async def handle(body: str) -> NatsResponse:
            return NatsResponse(f"Hi {body}", headers={"lang": "en"})

        await broker.start()
        answer = await broker.request("Ann", "ask", timeout=10)
        expect((await answer.decode(), answer.headers["lang"]), ("Hi Ann", "en"))


async def a_push_consumer_of_a_stream(url: str) -> None:
    got: asyncio.Queue[int] = asyncio.Queue()
    async with NatsBroker(url) as broker:

        @broker.subscriber("pushed", stream=JStream("FASTPUSH", subjects=["pushed"]), durable="push")
        async def handle(body: int) -> None:
            await got.put(body)

        await broker.start()
        for number in range(20):
            await broker.publish(number, "pushed", stream="FASTPUSH", timeout=10)
        expect([await got.get() for _ in range(20)], list(range(20)))


async def a_pull_consumer_of_a_stream(url: str) -> None:
    got: list[int] = []
    full = asyncio.Event()
    async with NatsBroker(url) as broker:

        @broker.subscriber(
            "pulled", stream=JStream("FASTPULL", subjects=["pulled"]), durable="pull", pull_sub=PullSub(5, batch=True)
        )
        async def handle(bodies: list[int]) -> None:
            got.extend(bodies)
            if len(got) == 20:
                full.set()

        await broker.start()
        for number in range(20):
            await broker.publish(number, "pulled", stream="FASTPULL", timeout=10)
        await full.wait()
        expect(got, list(range(20)))


async def a_handler_refuses_a_message_once(url: str) -> None:
    got: asyncio.Queue[int | None] = asyncio.Queue()
    async with NatsBroker(url) as broker:

        @broker.subscriber("refused", stream=JStream("FASTNACK", subjects=["refused"]), durable="nack")
        async def handle(body: str, message: NatsMessage) -> None:
            delivered = message.raw_message.metadata.num_delivered
            await got.put(delivered)
            if delivered == 1:
                await message.nack()
            else:
                await message.ack()

        await broker.start()
        await broker.publish("x", "refused", stream="FASTNACK", timeout=10)
        expect([await got.get(), await got.get()], [1, 2])


async def a_bucket_is_watched(url: str) -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()
    async with NatsBroker(url) as broker:

        @broker.subscriber("setting", kv_watch=KvWatch("fastkeys"))
        async def handle(body: bytes) -> None:
            await got.put(body)

        await broker.start()
        bucket = await broker.key_value("fastkeys")
        await bucket.put("setting", b"on")
        expect(await got.get(), b"on")


async def an_object_store_is_watched(url: str) -> None:
    got: asyncio.Queue[str] = asyncio.Queue()
    async with NatsBroker(url) as broker:

        @broker.subscriber("fastfiles", obj_watch=ObjWatch(declare=True))
        async def handle(name: str) -> None:
            await got.put(name)

        await broker.start()
        store = await broker.object_storage("fastfiles")
        await store.put("report.pdf", b"%PDF")
        expect(await got.get(), "report.pdf")


async def a_router_is_included(url: str) -> None:
    got: asyncio.Queue[str] = asyncio.Queue()
    router = NatsRouter(prefix="shop.")

    @router.subscriber("sold")
    async def handle(body: str) -> None:
        await got.put(body)

    async with NatsBroker(url) as broker:
        broker.include_router(router)
        await broker.start()
        await broker.publish("shoes", "shop.sold")
        expect(await got.get(), "shoes")


async def an_application_starts_and_ends(url: str) -> None:
    told: list[str] = []
    broker = NatsBroker(url)
    application = FastStream(broker)

    @application.on_startup
    async def starts() -> None:
        told.append("starts")

    @application.after_startup
    async def started() -> None:
        told.append(f"ping {await broker.ping(10)}")
        application.exit()

    @application.after_shutdown
    async def ended() -> None:
        told.append("ended")

    await application.run()
    expect(told, ["starts", "ping True", "ended"])


if __name__ == "__main__":
    play(
        [
            publish_and_subscribe,
            a_path_is_taken_from_the_subject,
            an_answer_is_published_on,
            a_queue_group_takes_each_message_once,
            request_and_reply,
            a_push_consumer_of_a_stream,
            a_pull_consumer_of_a_stream,
            a_handler_refuses_a_message_once,
            a_bucket_is_watched,
            an_object_store_is_watched,
            a_router_is_included,
            an_application_starts_and_ends,
        ]
    )
