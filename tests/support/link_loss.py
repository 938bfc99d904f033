"""Two servers copy each other's streams while both are published to and the link between them is lost again and again.

`python -m tests.support.link_loss [--cuts N] [--seed N] [--hub SERVER] [--leaf SERVER]`: without `--cuts` until it is
interrupted. At the end every copy is compared with its origin, message by message.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from tests.support.cuts import Proxy
from tests.support.origins import Streams
from tests.support.process import ServerProcess
from tests.support.walkthroughs import Place

JETBROKER = "jetbroker"
ROLES = ("hub", "leaf")
WINDOW = 25  # messages published at once
PAUSE_SECONDS = 0.02
LONGEST_CUT_SECONDS = 3.0
BETWEEN_CUTS_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.01
LOGIN = {"user": "acc", "password": "acc"}
WAYS = ("cut", "cut", "hold", "kill the hub", "kill the leaf")

Record = tuple[int, int, str, bytes]  # sequence, time, subject, data


@dataclass
class Side:
    """One server, and what is published there: numbers, each once, to its stream."""

    role: str
    server: ServerProcess
    published: int = 0

    @property
    def other(self) -> str:
        return "leaf" if self.role == "hub" else "hub"

    async def publish(self, stop: asyncio.Event) -> None:
        """Until told to stop; the server may go and come back meanwhile."""
        while not stop.is_set():
            with contextlib.suppress(NatsError, JetStreamError, OSError, TimeoutError):
                gone = asyncio.Event()
                client = await connect(self.server, gone)
                try:
                    while not stop.is_set() and not gone.is_set():
                        await until_gone(self._window(client), gone)
                        await asyncio.sleep(PAUSE_SECONDS)
                finally:
                    await client.close()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _window(self, client: Client) -> None:
        """What was stored of a window before the server died is not stored again: each message has its id."""
        numbers = range(self.published, self.published + WINDOW)
        context = client.jetstream(timeout=5)
        subject = f"{self.role}.numbers"
        await asyncio.gather(
            *[
                context.publish(subject, b"%09d" % number * 20, headers={"Nats-Msg-Id": f"{number}"})
                for number in numbers
            ]
        )
        self.published += WINDOW


async def connect(server: ServerProcess, gone: asyncio.Event | None = None) -> Client:
    """`gone` is set when the connection ends."""

    async def quiet(_: Exception) -> None:
        """A server that dies under its clients is what is played here."""

    async def ended() -> None:
        if gone is not None:
            gone.set()

    return await nats.connect(
        server.url, **LOGIN, allow_reconnect=False, connect_timeout=5, reconnect_time_wait=PAUSE_SECONDS,
        error_cb=quiet, disconnected_cb=ended, closed_cb=ended,
    )  # fmt: skip


async def until_gone(work: Coroutine[Any, Any, None], gone: asyncio.Event) -> None:
    """Do it, unless the connection ends meanwhile: nobody would answer any more."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(gone.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Report:
    """`seconds`: from each return of the link to the first message that a copy took."""

    cuts: int = 0
    seconds: list[float] = field(default_factory=list)
    messages: int = 0

    def __str__(self) -> str:
        ordered = sorted(self.seconds)
        shown = f"median {ordered[len(ordered) // 2]:.2f} s, longest {ordered[-1]:.2f} s" if ordered else "none"
        return f"{self.cuts} cuts, {self.messages} messages; first message of a copy behind the link: {shown}"


class LinkLoss:
    """Plays it. Copies are made where a jetbroker is: it is that one's mirrors and sources that are tried."""

    def __init__(self, place: Place, kinds: tuple[str, str], chance: random.Random, proxy: Proxy) -> None:
        self.report = Report()
        self._place = place
        self._chance = chance
        self._proxy = proxy
        self._copying = [role for role, kind in zip(ROLES, kinds, strict=True) if kind == JETBROKER] or list(ROLES)
        self._sides = {
            "hub": Side("hub", place.start("hub", "hub.conf")),
            "leaf": Side("leaf", place.start("leaf", "leaf.conf")),
        }

    async def play(self, cuts: int | None) -> Report:
        """So many cuts, or without end until cancelled; then everything has to be everywhere."""
        await self._create()
        stop = asyncio.Event()
        publishers = [asyncio.create_task(side.publish(stop)) for side in self._sides.values()]
        try:
            await self._copies_grow(dict.fromkeys(self._copying, (0, 0)))
            while cuts is None or self.report.cuts < cuts:
                await asyncio.sleep(self._chance.uniform(0, BETWEEN_CUTS_SECONDS))
                await self._lose_link()
        except asyncio.CancelledError:
            print("interrupted", flush=True)
        finally:
            stop.set()
            self._proxy.restore()
            await asyncio.gather(*publishers)
        await self._compare()
        return self.report

    async def _create(self) -> None:
        for side in self._sides.values():
            client = await connect(side.server)
            streams = Streams(client)
            await streams.create(side.role, subjects=[f"{side.role}.>"])
            if side.role in self._copying:
                origin = {"name": side.other, "external": {"api": f"$JS.{side.other}.API", "deliver": ""}}
                await streams.create("mirror", mirror=origin)
                await streams.create("source", sources=[origin])
            await client.close()

    async def _lose_link(self) -> None:
        way = self._chance.choice(WAYS)
        seconds = self._chance.uniform(0, LONGEST_CUT_SECONDS)
        published = {role: side.published for role, side in self._sides.items()}
        if way == "cut":
            self._proxy.cut()
        elif way == "hold":
            self._proxy.hold()
        else:
            side = self._sides[way.rpartition(" ")[2]]
            await asyncio.to_thread(side.server.kill)
        await asyncio.sleep(seconds)
        if way == "hold" and self._chance.random() < 0.5:
            self._proxy.cut()
        self._proxy.restore()
        if way.startswith("kill"):
            await asyncio.to_thread(side.server.start)
        else:
            await self._publishers_go_on(published)
        self.report.cuts += 1
        before = {role: await self._lasts(role) for role in self._copying}
        print(f"{self.report.cuts}: {way} for {seconds:.2f} s", end="", flush=True)
        found = await self._copies_grow(before)
        self.report.seconds += found
        print(";", " ".join(f"{second:.2f}" for second in found), flush=True)

    async def _publishers_go_on(self, before: dict[str, int]) -> None:
        """Clients at both ends do not notice."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(self._sides[role].published <= count for role, count in before.items()):
                await asyncio.sleep(POLL_SECONDS)

    async def _lasts(self, role: str) -> tuple[int, int]:
        """Last sequences of the two copies there."""
        client = await connect(self._sides[role].server)
        try:
            return await lasts(Streams(client))
        finally:
            await client.close()

    async def _copies_grow(self, before: dict[str, tuple[int, int]]) -> list[float]:
        """Seconds from the moment the other domain answers until each copy has got something."""
        found = await asyncio.gather(*[self._grow(role, lasts) for role, lasts in before.items()])
        return [seconds for of_role in found for seconds in of_role]

    async def _grow(self, role: str, before: tuple[int, int]) -> list[float]:
        client = await connect(self._sides[role].server)
        streams = Streams(client)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._until_reached(client, self._sides[role].other)
                start = time.monotonic()
                found: dict[int, float] = {}
                while len(found) < len(before):
                    now = await lasts(streams)
                    grown = [at for at in range(len(before)) if now[at] > before[at]]
                    found |= {at: time.monotonic() - start for at in grown if at not in found}
                    await asyncio.sleep(POLL_SECONDS)
                return list(found.values())
        except TimeoutError as error:
            info = [await streams.api(f"STREAM.INFO.{name}") for name in ("mirror", "source")]
            raise AssertionError(f"the copies of {role} do not grow: {info}") from error
        finally:
            await client.close()

    async def _until_reached(self, client: Client, domain: str) -> None:
        while True:
            with contextlib.suppress(NatsError):
                await client.request(f"$JS.{domain}.API.INFO", timeout=1)
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _compare(self) -> None:
        """Every copy is its origin, and every origin has each number once, in order."""
        clients = {role: await connect(side.server) for role, side in self._sides.items()}
        origins: dict[str, list[Record]] = {}
        for role, client in clients.items():
            origins[role] = await content(Streams(client), role)
            numbers = [int(data[:9]) for _, _, _, data in origins[role]]
            assert numbers == list(range(len(numbers))) and len(numbers) >= self._sides[role].published
            self.report.messages += len(numbers)
        for role in self._copying:
            origin = origins[self._sides[role].other]
            streams = Streams(clients[role])
            async with asyncio.timeout(PATIENCE_SECONDS):
                while min(await lasts(streams)) < len(origin):
                    await asyncio.sleep(POLL_SECONDS)
            assert await content(streams, "mirror") == origin
            sourced = await content(streams, "source")
            assert [one[2:] for one in sourced] == [one[2:] for one in origin]
            for name in ("mirror", "source"):
                info = await streams.api(f"STREAM.INFO.{name}")
                told = info["mirror"] if name == "mirror" else info["sources"][0]
                assert told["lag"] == 0 and "error" not in told, told
        for client in clients.values():
            await client.close()


async def lasts(streams: Streams) -> tuple[int, int]:
    found = [(await streams.api(f"STREAM.INFO.{name}"))["state"]["last_seq"] for name in ("mirror", "source")]
    return found[0], found[1]


async def content(streams: Streams, name: str) -> list[Record]:
    """Everything that a stream holds."""
    client = streams.client
    inbox = client.new_inbox()
    messages = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
    last = (await streams.api(f"STREAM.INFO.{name}"))["state"]["last_seq"]
    config: dict[str, Any] = {"deliver_subject": inbox, "ack_policy": "none", "mem_storage": True}
    created = await streams.api(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config})
    assert "error" not in created, created
    found: list[Record] = []
    while not found or found[-1][0] < last:
        message = await messages.next_msg(timeout=PATIENCE_SECONDS)
        words = message.reply.split(".")
        found.append((int(words[5]), int(words[7]), message.subject, message.data))
    await messages.unsubscribe()
    return found


async def play(folder: Path, kinds: tuple[str, str], cuts: int | None, seed: int) -> Report:
    """The whole of it, in a folder for the servers' files."""
    with Place(folder, "leafnodes", kinds) as place:
        async with Proxy(int(place.ports["7422"])) as proxy:
            config = folder / "leaf.conf"
            config.write_text(config.read_text().replace(place.ports["7422"], str(proxy.port)))
            return await LinkLoss(place, kinds, random.Random(seed), proxy).play(cuts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cuts", type=int, help="how many; without end when it is left out")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--hub", default=JETBROKER, choices=(JETBROKER, "nats-server"))
    parser.add_argument("--leaf", default=JETBROKER, choices=(JETBROKER, "nats-server"))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(play(Path(folder), (chosen.hub, chosen.leaf), chosen.cuts, chosen.seed)))


if __name__ == "__main__":
    main()
