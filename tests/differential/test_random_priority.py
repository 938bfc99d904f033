"""Random pull requests with priority groups, publishes, acks and UNPIN: every step has the same outcome as there."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import nats
import pytest

from tests.differential.consumer_scenarios import MS
from tests.differential.priority_scenarios import numbered
from tests.support.jetstream_probe import Inbox, Probe
from tests.support.process import ServerProcess

pytestmark = pytest.mark.differential

STEPS = 25
SEEDS = range(4)
POLICIES = ("overflow", "pinned_client", "prioritized")
GROUPS = ("A", "B")
PATIENCE = (0.02, 0.1, 0.4)  # how long a server says nothing before a step counts as over; busy ones need more

Step = tuple[str, Any]


def plan(policy: str, seed: int) -> list[Step]:
    """What is done, one after the other. Pins are named by their number; -1: the last one that was told."""
    chance = random.Random(f"{policy} {seed}")
    steps: list[Step] = []
    for _ in range(STEPS):
        kind = chance.choices(("pull", "publish", "ack", "unpin"), (5, 5, 3, 1 if policy == "pinned_client" else 0.1))[
            0
        ]
        steps.append((kind, _request(chance, policy) if kind == "pull" else chance.random()))
    return steps


def _request(chance: random.Random, policy: str) -> dict[str, Any]:
    """One pull request, seldom a wrong one."""
    body: dict[str, Any] = {"batch": chance.randint(1, 4), "group": chance.choice(GROUPS), "expires": 60_000 * MS}
    if chance.random() < 0.15:
        body |= {"no_wait": True, "expires": 0}
    if chance.random() < 0.1:
        body["max_bytes"] = chance.choice((20, 90, 200, 500))
    if policy == "prioritized" or chance.random() < 0.05:
        body["priority"] = chance.choice((0, 0, 1, 5, 9, 10))
    if policy == "overflow" and chance.random() < 0.7:
        body["min_pending"] = chance.choice((0, 1, 2, 3, 5))
        body["min_ack_pending"] = chance.choice((0, 0, 1, 2, 4, 6))
    if policy == "pinned_client" and chance.random() < 0.6:
        body["pin"] = chance.choice((-1, -1, -1, 0, 1))
    if chance.random() < 0.05:
        body["group"] = chance.choice(("", "C"))
    return body


class Player:
    """One server, and what has been seen of it."""

    def __init__(self, probe: Probe, name: str, quiet: float) -> None:
        self.probe = probe
        self.name = name
        self.quiet = quiet
        self.boxes: list[Inbox] = []
        self.pins: list[str] = []
        self.unacked: list[str] = []

    async def play(self, policy: str, steps: list[Step]) -> list[Any]:
        """What each step brought."""
        await self.probe.stream(self.name, 0, storage="memory")
        await self.probe.consumer(
            self.name, "c", priority_policy=policy, priority_groups=list(GROUPS), max_ack_pending=8, max_waiting=12
        )
        found = []
        for kind, detail in steps:
            said = await getattr(self, f"_{kind}")(detail)
            found.append((kind, detail, said, await self._outcome()))
        await self.probe.api(f"STREAM.DELETE.{self.name}")
        for box in self.boxes:
            await box.close()
        return found

    async def _pull(self, body: dict[str, Any]) -> None:
        body = dict(body)
        number = body.pop("pin", None)
        if number is not None and self.pins:
            body["id"] = self.pins[number if number < len(self.pins) else 0]
        self.boxes.append(await self.probe.pull(self.name, "c", body))

    async def _publish(self, _: float) -> None:
        await self.probe.fill(self.name, 1)

    async def _ack(self, which: float) -> None:
        if self.unacked:
            await self.probe.client.publish(self.unacked.pop(int(which * len(self.unacked))), b"+ACK")

    async def _unpin(self, _: float) -> Any:
        return await self.probe.api(f"CONSUMER.UNPIN.{self.name}.c", {"group": "A"})

    async def _outcome(self) -> Any:
        """What came to whom, and the consumer's state, once nothing happens any more."""
        came: list[Any] = []
        while True:
            await asyncio.sleep(self.quiet)
            info = await self.probe.api(f"CONSUMER.INFO.{self.name}.c")
            new = [(number, message) for number, box in enumerate(self.boxes) for message in self._new(box)]
            if not new:
                info.pop("config")
                return sorted(came, key=lambda one: one[0]), info
            came += new

    def _new(self, box: Inbox) -> list[Any]:
        found = []
        while not box.queue.empty():
            message = box.queue.get_nowait()
            if message.reply:
                self.unacked.append(message.reply)
                self.unacked.sort(key=lambda reply: int(reply.split(".")[5]))
            pin = (message.headers or {}).get("Nats-Pin-Id")
            if pin and pin not in self.pins:
                self.pins.append(pin)
            found.append(box.describe(message))
        return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
async def test_every_step_has_the_same_outcome(
    seed: int, policy: str, reference_server: ServerProcess, broker: ServerProcess
) -> None:
    steps = plan(policy, seed)
    for quiet in PATIENCE:
        expected, found = await asyncio.gather(
            *(_played(server, policy, steps, f"R-{policy}-{seed}", quiet) for server in (reference_server, broker))
        )
        if found == expected:
            return
    assert found == expected


async def _played(server: ServerProcess, policy: str, steps: list[Step], name: str, quiet: float) -> Any:
    client = await nats.connect(server.url, allow_reconnect=False, connect_timeout=5)
    try:
        return numbered(await Player(Probe(client), name, quiet).play(policy, steps))
    finally:
        await client.close()
