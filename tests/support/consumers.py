"""One stream and its consumers in this process, driven through the router as a client would."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

from jetbroker.jetstream.consumers.consumer import Consumer
from jetbroker.jetstream.models.config import ConsumerConfig
from jetbroker.routing.router import CallbackReceiver
from jetbroker.routing.subscription import Subscription
from jetbroker.store.disk import Disk
from tests.support.streams import StreamBench

WAIT_SECONDS = 20.0
TURNS = 6  # of the event loop: more than the chain publish, commit, delivery, state needs
SECOND = 1_000_000_000

_numbers = itertools.count(1)


class Delivered(NamedTuple):
    """A message on an inbox; `status` is the text behind NATS/1.0, "" for a stored message."""

    subject: str
    reply: str
    headers: bytes
    payload: bytes

    @property
    def status(self) -> str:
        """The status line of a message without a reply subject."""
        first = self.headers.split(b"\r\n", 1)[0]
        return first.removeprefix(b"NATS/1.0").strip().decode()

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """(deliveries, stream sequence, consumer sequence, pending) of the ack subject."""
        delivered, stream_seq, consumer_seq, _, pending = self.reply.split(".")[-5:]
        return int(delivered), int(stream_seq), int(consumer_seq), int(pending)


class Clock:
    """Monotonic nanoseconds that only move when told."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


class Mailbox:
    """A subject of its own and what came to it."""

    def __init__(self, bench: ConsumerBench, subject: str) -> None:
        self.bench = bench
        self.subject = subject
        self.found: list[Delivered] = []
        self.receiver = CallbackReceiver(bench.tick, self._keep)
        self.subscription: Subscription = bench.router.subscribe(self.receiver, subject.encode())

    def _keep(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: None) -> None:
        self.found.append(Delivered(subject.decode(), (reply or b"").decode(), headers, payload))

    def take(self) -> list[Delivered]:
        """What came since the last call."""
        found, self.found = self.found, []
        return found

    def close(self) -> None:
        """Unsubscribe."""
        self.bench.router.unsubscribe(self.subscription)


class ConsumerBench(StreamBench):
    """A stream with consumers under an injected clock; advisories are kept."""

    def __init__(self, directory: Path, interval: float | None = None, disk: Disk | None = None) -> None:
        super().__init__(directory, interval, disk=disk)
        self.clock = Clock()
        self.errors: list[dict[str, Any]] = []
        self.tick.loop.set_exception_handler(lambda loop, context: self.errors.append(context))
        self.inactive: list[str] = []

    def consumer(self, name: str = "c", state_log: Any = None, **fields: Any) -> Any:
        """Make and start a consumer, with explicit acks unless told otherwise."""
        defaults = {
            "ack_policy": "explicit",
            "ack_wait": 30 * SECOND,
            "max_deliver": -1,
            "max_ack_pending": 1000,
            "max_waiting": 512,
        }
        config = ConsumerConfig.from_json({"durable_name": name, "name": name, **defaults, **fields})
        consumer = Consumer(self.stream, config, state_log, 1, name, self.clock)
        consumer.on_inactive = lambda one: self.inactive.append(one.name)
        self.stream.add_consumer(consumer)
        consumer.start()
        return consumer

    async def fill(self, *subjects: str, payload: bytes = b"data") -> None:
        """Store one message on each subject."""
        for subject in subjects:
            self.publish(subject, payload)
        await self.turn()

    async def turn(self) -> None:
        """Let everything that has been set going come to its end."""
        await self.settle()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if self.errors:
            raise AssertionError(self.errors)

    async def advance(self, seconds: float) -> None:
        """Move the clock and let the consumers look at it."""
        self.clock.now += int(seconds * SECOND)
        for consumer in list(self.stream.consumers.values()):
            consumer.look()
        await self.turn()

    def mailbox(self, subject: str = "") -> Mailbox:
        """A subscription on a subject of its own."""
        return Mailbox(self, subject or f"_INBOX.{next(_numbers)}")

    async def pull(self, body: Any = b"", name: str = "c", mailbox: Mailbox | None = None) -> Mailbox:
        """Send a pull request and let it be served."""
        mailbox = mailbox or self.mailbox()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream.name}.{name}"
        self.router.publish_bytes(subject.encode(), mailbox.subject.encode(), b"", data)
        await self.turn()
        return mailbox

    async def ack(self, message: Delivered, body: bytes = b"+ACK") -> list[Delivered]:
        """Send an ack with a reply subject; the receipts."""
        mailbox = self.mailbox()
        self.router.publish_bytes(message.reply.encode(), mailbox.subject.encode(), b"", body)
        await self.turn()
        mailbox.close()
        return mailbox.take()


def positions(consumer: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """(delivered, ack floor), each as (consumer sequence, stream sequence)."""
    info = consumer.info()
    return (
        (info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]),
        (info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]),
    )


def counts(consumer: Any) -> tuple[int, int, int, int]:
    """(ack pending, redelivered, waiting, pending)."""
    info = consumer.info()
    return info["num_ack_pending"], info["num_redelivered"], info["num_waiting"], info["num_pending"]
