"""Raw conversations with a JetStream server: requests as written, replies with what differs from run to run removed."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.clients import settle

QUIET_SECONDS = 0.2  # a server that has not answered by then stays silent
PROMPT_SECONDS = 0.02  # the answer to a request takes a millisecond while there is nothing else to do
MOST_BUSY = 25
ANSWER_SECONDS = 20.0
TIME_TOKEN = 7  # of an ack subject: the message's timestamp

_numbers = itertools.count(1)


KEPT = "kept"
SETTLED_READS = 20  # this many equal answers in a row, a few milliseconds


class Inbox:
    """A subject with a subscription; `next()` and `rest()` give what came, as comparable tuples."""

    def __init__(self, client: Client, subject: str) -> None:
        self.client = client
        self.subject = subject
        self.queue: asyncio.Queue[Msg] = asyncio.Queue()
        self.subscription: Any = None

    async def open(self, **options: Any) -> Inbox:
        """Subscribe."""

        async def keep(message: Msg) -> None:
            self.queue.put_nowait(message)

        self.subscription = await self.client.subscribe(self.subject, cb=keep, **options)
        await settle(self.client)
        return self

    async def close(self) -> None:
        """Unsubscribe."""
        await self.subscription.unsubscribe()
        await settle(self.client)

    async def raw(self) -> Msg:
        """The next message; TimeoutError when none comes."""
        return await asyncio.wait_for(self.queue.get(), ANSWER_SECONDS)

    async def next(self) -> tuple[Any, ...]:
        """The next message, comparable."""
        return self.describe(await self.raw())

    async def rest(self, quiet: float = QUIET_SECONDS) -> list[tuple[Any, ...]]:
        """Everything until nothing comes for a while; on a busy machine, which answers others late too, for longer."""
        found = []
        busy = 0
        while True:
            try:
                found.append(self.describe(await asyncio.wait_for(self.queue.get(), quiet)))
            except TimeoutError:
                begun = time.monotonic()
                await self.client.request("$JS.API.INFO", timeout=ANSWER_SECONDS)
                await settle(self.client)
                late = time.monotonic() - begun > PROMPT_SECONDS
                busy += late
                if self.queue.empty() and (not late or busy > MOST_BUSY):
                    return found

    async def ended(self, quiet: float) -> list[tuple[Any, ...]]:
        """The answers to a pull request up to the status that ends it, which has no reply, and what comes behind it.

        Raises TimeoutError when none ends it.
        """
        found = [await self.next()]
        while found[-1][1]:
            found.append(await self.next())
        return found + await self.rest(quiet)

    def describe(self, message: Msg) -> tuple[Any, ...]:
        """(subject, reply without the time, headers, data)."""
        subject = "inbox" if message.subject == self.subject else message.subject
        reply = message.reply.split(".")
        if len(reply) > TIME_TOKEN and reply[:2] == ["$JS", "ACK"]:
            reply[TIME_TOKEN] = "time"
        elif reply[:2] == ["$JS", "FC"]:
            reply[-1] = "id"
        return subject, ".".join(reply), dict(message.headers or {}), bytes(message.data)


class Probe:
    """One connection and what a scenario needs."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def api(self, subject: str, body: Any = b"") -> dict[str, Any]:
        """A JetStream API call; the decoded reply."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await self.client.request(f"$JS.API.{subject}", data, timeout=ANSWER_SECONDS)
        decoded: dict[str, Any] = json.loads(reply.data)
        return decoded

    async def clear(self) -> None:
        """Delete all streams but one: when a comparison is played a second time, it meets none of the first.

        One stays because nats-server removes the folder of an account a moment after its last stream: what is made in
        that moment fails.
        """
        names = (await self.api("STREAM.NAMES"))["streams"] or []
        if KEPT not in names:
            await self.stream(KEPT)
        for name in names:
            if name != KEPT:
                await self.api(f"STREAM.DELETE.{name}")

    async def stream(self, name: str, messages: int = 0, **config: Any) -> None:
        """A stream on `<name>.>` with some messages on `<name>.0`, `.1`, `.2` in turn."""
        settings = {"name": name, "subjects": [f"{name}.>"], "storage": "file", **config}
        answer = await self.api(f"STREAM.CREATE.{name}", settings)
        assert "error" not in answer, answer
        await self.fill(name, messages)

    async def fill(self, name: str, messages: int, start: int = 0, payload: bytes = b"m%d") -> None:
        """Publish, each message acknowledged."""
        for number in range(start, start + messages):
            data = payload % number if b"%" in payload else payload
            await self.client.request(f"{name}.{number % 3}", data, timeout=ANSWER_SECONDS)

    async def consumer(self, stream: str, name: str, **config: Any) -> dict[str, Any]:
        """A durable consumer with explicit acks, unless `config` says otherwise."""
        settings = {"durable_name": name, "ack_policy": "explicit", **config}
        answer = await self.api(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": settings})
        assert "error" not in answer, answer
        return answer

    async def state(self, stream: str, name: str) -> dict[str, Any]:
        """The consumer's positions and counts."""
        info = await self.api(f"CONSUMER.INFO.{stream}.{name}")
        keys = ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending")
        return {
            "delivered": (info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]),
            "ack_floor": (info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]),
            **{key: info[key] for key in keys},
        }

    async def settled(self, stream: str, name: str) -> dict[str, Any]:
        """The state once it stays the same: nats-server counts what limits removed a moment after the publish."""
        found = await self.state(stream, name)
        same = 0
        while same < SETTLED_READS:
            again = await self.state(stream, name)
            same = same + 1 if again == found else 0
            found = again
        return found

    async def inbox(self, subject: str = "", **options: Any) -> Inbox:
        """A subscription on a subject of its own."""
        return await Inbox(self.client, subject or f"_INBOX.probe.{next(_numbers)}").open(**options)

    async def pull(self, stream: str, name: str, body: Any = b"", inbox: Inbox | None = None) -> Inbox:
        """Send a pull request; the inbox it answers to."""
        inbox = inbox or await self.inbox()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", data, reply=inbox.subject)
        await settle(self.client)
        return inbox

    async def ack(self, subject: str, body: bytes = b"+ACK") -> Any:
        """Send an ack and wait for its receipt: its data, or "silence". `clear` has to be called before.

        Our receipt waits for the disk. So silence counts once the disk has taken a message that was sent later.
        """
        inbox = await self.inbox()
        await self.client.publish(subject, body, reply=inbox.subject)
        found = await inbox.rest()
        if not found:
            await self.fill(KEPT, 1)
            found = await inbox.rest(PROMPT_SECONDS)
        await inbox.close()
        return found or "silence"
