"""A look at all of the broker: what changes is read once for all pages, in turns, at most once a second."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from jetbroker import limits
from jetbroker.monitor import traffic
from jetbroker.monitor.connz import is_link
from jetbroker.monitor.sources import Sources, paced
from jetbroker.turns import Turn

if TYPE_CHECKING:
    from jetbroker.connections.connected import Connected
    from jetbroker.jetstream.account import JetStream
    from jetbroker.jetstream.streams.stream import Stream


class StreamRow(NamedTuple):
    """A stream. `rate`: messages stored in a second, None as long as nobody can say."""

    account: str
    name: str
    stream: "Stream"
    last_seq: int
    messages: int
    bytes: int
    rate: float | None


class ConsumerRow(NamedTuple):
    """A consumer. `lag`: sequences of its stream behind the last one it delivered, filtered ones among them."""

    account: str
    stream: str
    name: str
    consumer: Any
    lag: int
    ack_pending: int
    redelivered: int


class ConnectionRow(NamedTuple):
    """A client, or a link to another server. `rate`: messages of both directions in a second."""

    account: str
    cid: int
    name: str
    connection: "Connected"
    moved: int
    rate: float | None


class AccountRow(NamedTuple):
    """An account; `rates`: messages and bytes in, messages and bytes out, in a second."""

    account: str
    connections: int
    subscriptions: int
    streams: int
    consumers: int
    messages: int
    stored: int
    in_memory: int
    moved: tuple[int, int, int, int]
    rates: tuple[float, float, float, float] | None

    @property
    def rate(self) -> float | None:
        """Messages of both directions."""
        return None if self.rates is None else self.rates[0] + self.rates[2]


class Problem(NamedTuple):
    """Something that an operator should know of."""

    account: str  # "": of the server
    text: str


@dataclass(slots=True)
class Part:
    """What one account has."""

    row: AccountRow | None = None
    streams: list[StreamRow] = field(default_factory=list)
    consumers: list[ConsumerRow] = field(default_factory=list)
    connections: list[ConnectionRow] = field(default_factory=list)
    links: list[ConnectionRow] = field(default_factory=list)


class Sample:
    """What a look has found. `at`: the event loop's time when it began; `seconds`: since the one before, 0: none."""

    def __init__(self, at: float, seconds: float) -> None:
        self.at = at
        self.seconds = seconds
        self.unix_ms = time.time_ns() // 1_000_000
        self.parts: dict[str, Part] = {}
        self.problems: list[Problem] = []

    def part(self, account: str) -> Part:
        """Of one account, to be filled."""
        return self.parts.setdefault(account, Part())

    def parts_of(self, account: str | None) -> list[Part]:
        """Of one account, or of all."""
        if account is None:
            return list(self.parts.values())
        return [self.parts[account]] if account in self.parts else []


class Sampler:
    """Makes them. `fresh()` gives the same one to all who ask within a second."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last: Sample | None = None
        self._next_at = 0.0
        self._under_way: asyncio.Task[Sample] | None = None
        self._forgetting: asyncio.TimerHandle | None = None

    async def fresh(self, sources: Sources) -> Sample:
        """One that is at most about a second old."""
        if self._last is not None and self._loop.time() < self._next_at:
            return self._last
        if self._under_way is None:
            self._under_way = self._loop.create_task(self._take(sources))
            self._under_way.add_done_callback(self._taken)
        return await asyncio.shield(self._under_way)

    def _taken(self, task: "asyncio.Task[Sample]") -> None:
        self._under_way = None
        if task.cancelled() or task.exception() is not None:
            return  # whoever waits for it is told
        self._last, now = task.result(), self._loop.time()
        took = now - self._last.at
        # a little before the next tick of the pages, so that it finds a new one
        self._next_at = self._last.at + max(limits.DASHBOARD_SECONDS * 0.9, took * (limits.DASHBOARD_SHARE - 1))
        if self._forgetting is not None:
            self._forgetting.cancel()
        kept = max(limits.DASHBOARD_KEPT_SECONDS, 2 * (self._next_at - now))
        self._forgetting = self._loop.call_later(kept, self._forget)

    def _forget(self) -> None:
        self._last = self._forgetting = None

    async def _take(self, sources: Sources) -> Sample:
        before, now = self._last, self._loop.time()
        sample = Sample(now, 0.0 if before is None else now - before.at)
        look = _Look(sources, sample, before)
        await look.connections()
        await look.streams()
        await look.accounts()
        look.faults()
        return sample


class _Look:
    """One look: each of its parts goes through all there is of one kind."""

    def __init__(self, sources: Sources, sample: Sample, before: Sample | None) -> None:
        self._sources = sources
        self._sample = sample
        self._before = before if sample.seconds > 0 else None
        self._room = dict.fromkeys(("streams", "consumers", "connections"), limits.MONITOR_ROWS)
        self._named = dict.fromkeys(("damaged", "offline"), limits.DASHBOARD_PROBLEMS)

    def _rate(self, now: int, then: int | None) -> float | None:
        if self._before is None:
            return None
        return max(now - (then or 0), 0) / self._sample.seconds

    async def connections(self) -> None:
        """Clients and links."""
        known = await self._known_connections()
        async for connection in paced(self._sources.connected[: self._room["connections"]]):
            moved = connection.in_msgs + connection.out_msgs
            rate = self._rate(moved, known.get(connection.cid))
            name = connection.name or connection.user or ""
            row = ConnectionRow(connection.account.name, connection.cid, name, connection, moved, rate)
            part = self._sample.part(row.account)
            (part.links if is_link(connection) else part.connections).append(row)

    async def _known_connections(self) -> dict[int, int]:
        known: dict[int, int] = {}
        for part in [] if self._before is None else self._before.parts_of(None):
            async for row in paced(part.connections + part.links):
                known[row.cid] = row.moved
        return known

    async def streams(self) -> None:
        """Streams and consumers."""
        server = self._sources.jetstream
        for jetstream in [] if server is None else [found for found in server.by_account.values() if found.enabled]:
            part = self._sample.part(jetstream.account_name)
            known = await self._known_streams(jetstream.account_name)
            self._tell_offline(jetstream.account_name, jetstream.offline)
            turn = Turn()
            for stream in list(jetstream.streams.values()):
                if not self._room["streams"]:
                    break
                self._room["streams"] -= 1
                self._stream(part, jetstream, stream, known)
                await turn.rest()

    async def _known_streams(self, account: str) -> dict[str, int]:
        known: dict[str, int] = {}
        for part in [] if self._before is None else self._before.parts_of(account):
            async for row in paced(part.streams):
                known[row.name] = row.last_seq
        return known

    def _stream(self, part: Part, jetstream: "JetStream", stream: "Stream", known: dict[str, int]) -> None:
        account, log = jetstream.account_name, stream.log
        last, rate = log.last_seq, None
        if stream.name in known:  # a stream that is new may have come with messages
            rate = self._rate(last, known[stream.name])
        part.streams.append(StreamRow(account, stream.name, stream, last, log.messages, log.bytes, rate))
        listed = list(stream.listed_consumers().items())[: self._room["consumers"]]
        self._room["consumers"] -= len(listed)
        for name, consumer in listed:
            delivered, ack_pending, redelivered = consumer.standing()
            lag = max(last - max(delivered, log.first_seq - 1), 0)
            part.consumers.append(ConsumerRow(account, stream.name, name, consumer, lag, ack_pending, redelivered))
        if lost := log.lost_count():
            self._tell("damaged", account, f"Stream {stream.name}: {lost} messages are lost to a damaged disk.")
        self._tell_offline(account, stream.offline, f"{stream.name} > ")

    def _tell_offline(self, account: str, offline: dict[str, str], before: str = "") -> None:
        for name, reason in islice(offline.items(), limits.DASHBOARD_PROBLEMS):
            self._tell("offline", account, f"{before}{name} is offline: {reason}")

    def _tell(self, kind: str, account: str, text: str) -> None:
        if self._named[kind]:
            self._named[kind] -= 1
            self._sample.problems.append(Problem(account, text))

    async def accounts(self) -> None:
        """What each has moved and stores."""
        sample, server = self._sample, self._sources.jetstream
        moved = await traffic.by_account(self._sources)
        async for name, account in paced(list(self._sources.accounts.items())):
            part, total = sample.part(name), moved[name].total
            now = (total.in_msgs, total.in_bytes, total.out_msgs, total.out_bytes)
            stored = None if server is None else server.by_account.get(name)
            part.row = AccountRow(
                name,
                len(part.connections),
                account.router.subscriptions,
                len(part.streams),
                len(part.consumers),
                sum(row.messages for row in part.streams),
                0 if stored is None else stored.usage.used_bytes("file"),
                0 if stored is None else stored.usage.used_bytes("memory"),
                now,
                self._account_rates(name, now),
            )

    def _account_rates(self, name: str, now: tuple[int, int, int, int]) -> tuple[float, float, float, float] | None:
        if self._before is None:
            return None
        part = self._before.parts.get(name)
        then = (0, 0, 0, 0) if part is None or part.row is None else part.row.moved
        rates = [max(new - old, 0) / self._sample.seconds for new, old in zip(now, then, strict=True)]
        return rates[0], rates[1], rates[2], rates[3]

    def faults(self) -> None:
        """What the disk refuses, and what the watchdog had to do."""
        self._sample.problems.extend(_of_server(self._sources))


def _of_server(sources: Sources) -> Iterator[Problem]:
    if not sources.ready():
        yield Problem("", "The broker takes no more clients: it is about to end.")
    server = sources.jetstream
    if server is None:
        return
    for fault in islice(server.store.faults if server.store is not None else (), limits.DASHBOARD_PROBLEMS):
        yield Problem(fault.account, f"{fault.where()} cannot be written: {fault.file}: {fault.reason}")
    if server.watchdog.breaches:
        text = f"The watchdog had to set consumers going {server.watchdog.breaches} times: please report its log lines."
        yield Problem("", text)
