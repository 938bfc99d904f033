"""Fast batches on a server: what their publisher hears, line by line, and what is stored afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.clients import settle
from tests.support.publishes import Publish, Publisher, block

START, APPEND, COMMIT, END, PING = range(5)
ANSWERS_S = 30.0
LAST = "last"  # the reply subject's token of a message behind all others


@dataclass(frozen=True)
class Fast:
    """One message of a fast batch. `reply`: its reply subject behind the inbox, instead of one that is well-formed."""

    seq: object
    operation: object = APPEND
    headers: tuple[tuple[str, str], ...] = ()
    payload: bytes = b"x"
    subject: str = "s.a"
    batch: str = "b"
    flow: object = 10
    gap: str = "fail"
    reply: str | None = None

    @property
    def tokens(self) -> str:
        """What the reply subject says."""
        if self.reply is not None:
            return self.reply
        return f"{self.batch}.{self.flow}.{self.gap}.{self.seq}.{self.operation}.$FI"


@dataclass(frozen=True)
class FastCase:
    """As publishes.Case. A plain Publish among the steps is answered, too."""

    name: str
    steps: Sequence[Fast | Publish]
    config: dict[str, Any] = field(default_factory=dict)
    updates: dict[int, dict[str, Any]] = field(default_factory=dict)


class FastPublisher(Publisher):
    """Publishes all steps of a case without waiting, and collects the lines that come."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.lines: list[tuple[str, bytes]] = []
        self.news = asyncio.Event()

    async def listen(self) -> None:
        """Hear what comes to any reply subject."""

        async def take(msg: Any) -> None:
            self.lines.append((msg.subject.removeprefix(self.inbox + "."), msg.data))
            self.news.set()

        await self.client.subscribe(f"{self.inbox}.>", cb=take)

    async def put(self, step: Fast | Publish) -> None:
        """One message."""
        tokens = step.tokens if isinstance(step, Fast) else "plain"
        text = block(step.headers).replace(b": STREAM\r\n", b": %b\r\n" % self.stream.encode()) if step.headers else b""
        size = len(text) + len(step.payload)
        head = f"HPUB {step.subject} {self.inbox}.{tokens} {len(text)} {size}" if text else (
            f"PUB {step.subject} {self.inbox}.{tokens} {size}")  # fmt: skip
        await self.client._send_command(head.encode() + b"\r\n" + text + step.payload + b"\r\n")

    def times(self, tokens: str) -> int:
        """How often something came to this reply subject."""
        return sum(heard == tokens for heard, _ in self.lines)

    async def until(self, tokens: str, lines: int, times: int = 1) -> None:
        """Until something came to this reply subject so many times, and so many lines to all of them."""
        async with asyncio.timeout(ANSWERS_S):
            while len(self.lines) < lines or self.times(tokens) < times:
                self.news.clear()
                await self.news.wait()

    async def play(self, case: Any, lines: int = 0) -> list[Any]:
        """The lines, the stream's state and messages; waits for `lines` of them at least."""
        self.plays += 1
        config = {"name": self.stream, "subjects": ["s.>"], "allow_batched": True, **case.config}
        await self.api(f"STREAM.CREATE.{self.stream}", config)
        self.lines = []
        try:
            for number, step in enumerate(case.steps):
                if number in case.updates:
                    await self._ask("before", config, 0)  # nats-server has taken what came before
                    await self.api(f"STREAM.UPDATE.{self.stream}", config | case.updates[number])
                await self.put(step)
            await self._ask(LAST, config, lines)
            found = await self.stored()
            # refusals do not wait for the disk: those of plain messages may come before acks of older ones
            plain = sorted(line for line in self.lines if line[0] in ("plain", "before", LAST))
            return [[line for line in self.lines if line not in plain], plain, *found]
        finally:
            await self.api(f"STREAM.DELETE.{self.stream}")

    async def _ask(self, tokens: str, config: dict[str, Any], lines: int) -> None:
        """Publish a message that is answered alone, and wait for that."""
        headers = (("Nats-Incr", "1"),) if config.get("allow_msg_counter") else ()
        times = self.times(tokens) + 1
        await self.put(Fast(0, reply=tokens, subject="s.last", headers=headers, payload=b""))
        await settle(self.client)
        await self.until(tokens, lines, times)

    def count(self) -> int:
        """Lines of the last case."""
        return len(self.lines)
