"""The publishers and the workers, each a process with one nats-py connection that outlives the broker's death."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

STREAM = "FLIGHTS"
CONSUMER = "delays"
PUBLISH_WINDOW = 2000  # unacknowledged messages per publisher
FETCH_MESSAGES = 500
ACK_WAIT_SECONDS = 5.0  # messages whose ack died with the broker come again after this
STALL_SECONDS = 5.0  # without an answer: look at the connection again
DUPLICATE_WINDOW_SECONDS = 600.0  # longer than any publisher needs to find its broker again
RECONNECT_SECONDS = 0.1


class Progress:
    """Counters that the processes share; each publisher and worker writes its own."""

    def __init__(self, messages: int, publishers: int, workers: int) -> None:
        self.acked = [RawValue("q", 0) for _ in range(publishers)]
        self.resent = [RawValue("q", 0) for _ in range(publishers)]
        self.handled = [RawValue("q", 0) for _ in range(workers)]
        self.deliveries = [RawArray("B", 2 * messages + 1) for _ in range(workers)]  # by sequence
        self.published_all = RawValue("b", 0)


def total(counters: Sequence[Any]) -> int:
    return sum(counter.value for counter in counters)


async def connected(url: str, lost: asyncio.Event | None = None) -> Client:
    async def on_loss() -> None:
        if lost is not None:
            lost.set()

    async def on_error(error: Exception) -> None:
        """The broker's death is what this demo is about: the reconnect handles it."""

    return await nats.connect(
        url,
        max_reconnect_attempts=-1,
        reconnect_time_wait=RECONNECT_SECONDS,
        disconnected_cb=on_loss,
        error_cb=on_error,
        pending_size=32 * 1024 * 1024,
    )


async def create_stream(url: str) -> None:
    client = await connected(url)
    stream = client.jetstream()
    await stream.add_stream(
        StreamConfig(
            STREAM, subjects=["flights.>"], storage=StorageType.FILE, duplicate_window=DUPLICATE_WINDOW_SECONDS
        )
    )
    await stream.add_consumer(
        STREAM,
        ConsumerConfig(
            durable_name=CONSUMER,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_SECONDS,
            max_ack_pending=20 * FETCH_MESSAGES,
        ),
    )
    await client.close()


async def stored_messages(url: str) -> int:
    client = await connected(url)
    info = await client.jetstream().stream_info(STREAM)
    await client.close()
    return info.state.messages


class Publisher:
    """Publishes its rows until each one has its ack; a row sent twice is stored once, by its Nats-Msg-Id."""

    def __init__(self, url: str, number: int, progress: Progress, subjects: list[str], payloads: list[bytes]) -> None:
        self.url = url
        self.acked = progress.acked[number]
        self.resent = progress.resent[number]
        self.subjects = subjects
        self.payloads = payloads
        self.done: set[int] = set()

    async def run(self, rows: Sequence[int]) -> None:
        self.lost = asyncio.Event()
        client = await connected(self.url, self.lost)
        left = list(rows)
        while left:
            self.lost.clear()
            sent = await self.attempt(client, left)
            left = [row for row in left if row not in self.done]
            self.resent.value += sum(row not in self.done for row in sent)
            while left and not client.is_connected:
                await asyncio.sleep(RECONNECT_SECONDS)
        await client.close()

    async def attempt(self, client: Client, rows: list[int]) -> list[int]:
        """Sends rows until all are acked or the connection is lost; returns those it sent."""
        # a context of its own: the acks that the last one still waits for will never come
        stream = client.jetstream(publish_async_max_pending=PUBLISH_WINDOW)
        waiting: list[tuple[int, asyncio.Future[Any]]] = []
        try:
            for row in rows:
                if self.lost.is_set():
                    break
                future = await stream.publish_async(
                    self.subjects[row],
                    self.payloads[row],
                    wait_stall=STALL_SECONDS,
                    headers={"Nats-Msg-Id": f"flight-{row}"},
                )
                future.add_done_callback(lambda answer, row=row: self.answered(row, answer))
                waiting.append((row, future))
            await self.last_answers(stream)
        except (nats.errors.Error, nats.js.errors.Error, OSError):
            await asyncio.sleep(RECONNECT_SECONDS)  # not connected at the moment: the next attempt sends the rest
        for _, future in waiting:
            future.cancel()
        return [row for row, _ in waiting]

    async def last_answers(self, stream: Any) -> None:
        ends = [asyncio.ensure_future(stream.publish_async_completed()), asyncio.ensure_future(self.lost.wait())]
        await asyncio.wait(ends, timeout=STALL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()

    def answered(self, row: int, answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled() and answer.exception() is None and row not in self.done:
            self.done.add(row)
            self.acked.value += 1


async def work(url: str, number: int, progress: Progress) -> None:
    """Fetches, notes which sequence came, acks; ends when everything is published and nothing is left to fetch."""
    handled, deliveries = progress.handled[number], progress.deliveries[number]
    client = await connected(url)
    stream = client.jetstream()
    subscription = await stream.pull_subscribe_bind(CONSUMER, stream=STREAM)
    while True:
        try:
            batch = await subscription.fetch(FETCH_MESSAGES, timeout=1.0)
            for message in batch:
                await message.ack()
                sequence = message.metadata.sequence.stream
                deliveries[sequence] = min(deliveries[sequence] + 1, 255)
                handled.value += 1
        except (nats.errors.Error, nats.js.errors.Error, OSError):
            if progress.published_all.value and await finished(subscription):
                break
            await asyncio.sleep(RECONNECT_SECONDS)
    await client.close()


async def finished(subscription: Any) -> bool:
    try:
        info = await subscription.consumer_info()
    except (nats.errors.Error, nats.js.errors.Error, OSError):
        return False
    return not info.num_pending and not info.num_ack_pending


def publish(url: str, number: int, progress: Progress, subjects: list[str], payloads: list[bytes],
            rows: Sequence[int]) -> None:  # fmt: skip
    """A publisher process."""
    asyncio.run(Publisher(url, number, progress, subjects, payloads).run(rows))


def consume(url: str, number: int, progress: Progress) -> None:
    """A worker process."""
    asyncio.run(work(url, number, progress))
