"""Priority groups, one conversation each; every function gives what the server answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.differential.consumer_scenarios import MS, Scenario
from tests.support.jetstream_probe import ANSWER_SECONDS, QUIET_SECONDS, Inbox, Probe

PINS = ("Nats-Pin-Id", "pinned_client_id", "pinned_id")
POLICIES = ("none", "overflow", "pinned_client", "prioritized")
LONG = 30_000 * MS


def numbered(found: Any, names: dict[str, str] | None = None) -> Any:
    """The same with pin ids numbered as they turn up, and without what is one moment's."""
    names = {"": "nobody", "wrong": "wrong"} if names is None else names
    if isinstance(found, dict):
        out = {}
        for key, value in found.items():
            if key in ("id", "timestamp", "created", "ts", "last_active", "pause_remaining"):
                continue
            if key in PINS:
                value = names.setdefault(value, f"pin {len(names) - 1}")
            elif key == "pinned_ts":
                value = value if value.startswith("0001") else "now"
            out[key] = numbered(value, names)
        return out
    if isinstance(found, list | tuple):
        return [numbered(one, names) for one in found]
    if isinstance(found, str) and found.startswith("$JS.ACK."):
        # how many more are waiting depends on whether the next one was published already
        return found.rpartition(".")[0]
    return found


class Groups:
    """A stream with a consumer that has priority groups, and its advisories."""

    def __init__(self, probe: Probe, name: str) -> None:
        self.probe = probe
        self.name = name
        self.told: Inbox | None = None

    async def make(self, policy: str, messages: int = 0, groups: tuple[str, ...] = ("A",), **config: Any) -> Groups:
        """Both, and who listens."""
        self.told = await self.probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.*.{self.name}.c")
        await self.probe.stream(self.name, messages)
        settings = {"priority_policy": policy, "priority_groups": list(groups), **config}
        await self.probe.consumer(self.name, "c", **(settings if policy != "none" else config))
        return self

    async def pull(self, *, inbox: Inbox | None = None, group: str = "A", **body: Any) -> Inbox:
        """A request that waits long, unless `body` says otherwise."""
        return await self.probe.pull(self.name, "c", {"expires": LONG, "group": group, "batch": 1, **body}, inbox)

    async def info(self) -> Any:
        """All that is neither the configuration nor one moment's."""
        info = await self.probe.api(f"CONSUMER.INFO.{self.name}.c")
        return {key: value for key, value in info.items() if key != "config"}

    async def waiting(self, count: int) -> None:
        """Until so many requests wait: nobody answers those."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while (await self.info())["num_waiting"] != count:
                await asyncio.sleep(0.01)

    async def unpin(self, body: Any = None, consumer: str = "") -> Any:
        """The answer to UNPIN."""
        request = {"group": "A"} if body is None else body
        return await self.probe.api(f"CONSUMER.UNPIN.{consumer or self.name + '.c'}", request)

    async def update(self, **config: Any) -> Any:
        """The answer to an update."""
        settings = {"durable_name": "c", "ack_policy": "explicit", **config}
        return await self.probe.api(
            f"CONSUMER.CREATE.{self.name}.c", {"stream_name": self.name, "config": settings, "action": "update"}
        )

    async def advisories(self) -> Any:
        """Those since the last time; of the consumer's creation, nothing."""
        assert self.told is not None
        return [
            (subject, json.loads(data)) for subject, _, _, data in await self.told.rest() if ".CREATED." not in subject
        ]


async def taken(inbox: Inbox, count: int = 1) -> list[tuple[Any, ...]]:
    """`count` messages, or what came instead until nothing came for a while."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        try:
            found.append(inbox.describe(await asyncio.wait_for(inbox.queue.get(), QUIET_SECONDS)))
        except TimeoutError:
            return found + await inbox.rest()
    return found


async def rests(*inboxes: Inbox) -> list[Any]:
    """What came to each of them."""
    return list(await asyncio.gather(*(inbox.rest() for inbox in inboxes)))


def pin_of(message: Any) -> str:
    """The pin id that a delivered message tells."""
    found: str = message.headers["Nats-Pin-Id"]
    return found


async def priority_bodies(probe: Probe, name: str) -> Any:
    """Requests that each policy takes and refuses."""
    seen: list[Any] = []
    for policy in POLICIES:
        groups = await Groups(probe, f"{name}-{policy}").make(policy, 30, ("A", "B"), max_batch=5)
        for body in (
            b"", b"1", b"{}", b'{"group":""}', b'{"group":"A"}', b'{"group":"B"}', b'{"group":"C"}', b'{"group":"a"}',
            b'{"group":1}', b'{"id":1}', b'{"min_pending":"x"}', b'{"priority":1.5}', b'{"group":null}',
            b'{"min_pending":1}', b'{"min_ack_pending":1}', b'{"min_pending":-1}', b'{"id":"wrong"}', b'{"priority":3}',
            b'{"priority":10}', b'{"priority":-1}', b'{"group":"A","priority":9}', b'{"group":"A","priority":10}',
            b'{"group":"A","min_pending":1}', b'{"group":"A","min_ack_pending":-1}', b'{"group":"A","min_pending":-1}',
            b'{"group":"A","id":"wrong"}', b'{"group":"C","id":"wrong","priority":10}', b'{"priority":10,"batch":6}',
            b'{"min_pending":1,"id":"wrong","priority":10}', b'{"id":"wrong","priority":10}', b'{"priority":10} x',
            b'{"group":"A","no_wait":true,"batch":2}', b'{"GROUP":"A"}', b'{"min_pending":99999999999999999999}',
        ):  # fmt: skip
            inbox = await probe.pull(groups.name, "c", body)
            seen.append((policy, body, await taken(inbox, 2 if b"no_wait" in body else 1)))
            await inbox.close()
        seen.append((await groups.info(), await groups.advisories()))
    return numbered(seen)


async def pinned_life(probe: Probe, name: str) -> Any:
    """Who is pinned, who waits, and how the pin changes hands."""
    groups = await Groups(probe, name).make("pinned_client", 0, priority_timeout=LONG)
    seen: list[Any] = [await groups.info()]
    first = await groups.pull(batch=3)
    second = await groups.pull(batch=3)
    await groups.waiting(2)
    seen += [await groups.info(), await groups.advisories()]
    await probe.fill(name, 1)
    message = await first.raw()
    pin = pin_of(message)
    seen += [first.describe(message), await groups.info(), await groups.advisories()]
    await probe.fill(name, 3)
    seen += [await rests(first, second), await groups.info()]
    third = await groups.pull(id=pin)
    fourth = await groups.pull(id=pin, batch=5)
    fifth = await groups.pull(id="wrong")
    seen += [await rests(third, fourth, fifth), await groups.info()]
    seen += [await groups.unpin(), await groups.info()]
    sixth = await groups.pull(id=pin)
    await groups.waiting(3)
    seen += [await sixth.rest(), await groups.info(), await groups.advisories()]
    await probe.fill(name, 5)
    seen += [await rests(fourth, second, sixth), await groups.info()]
    seen += [await groups.advisories(), await groups.unpin(), await groups.unpin(), await groups.advisories()]
    seen.append(await probe.api(f"CONSUMER.DELETE.{name}.c"))
    return numbered([*seen, await second.rest(), await groups.advisories()])


async def pinned_timeout(probe: Probe, name: str) -> Any:
    """The pin is lost when its client does not ask for a while."""
    groups = await Groups(probe, name).make("pinned_client", 1, priority_timeout=1000 * MS)
    assert groups.told is not None
    first = await groups.pull()
    pin = pin_of(await first.raw())
    second = await groups.pull(batch=2)
    seen: list[Any] = []
    while not seen or ".UNPINNED." not in seen[-1][0]:
        subject, _, _, data = await groups.told.next()
        seen.append((subject, json.loads(data)))
    late = await groups.pull(id=pin)
    await groups.waiting(2)
    seen += [await groups.info()]
    await probe.fill(name, 1)
    return numbered([*seen, await second.next(), await rests(first, late)])


async def pinned_forms(probe: Probe, name: str) -> Any:
    """The header in messages of all kinds; what is too large pins nobody; requests without a group."""
    seen: list[Any] = []
    for headers_only in (False, True):
        groups = await Groups(probe, f"{name}-{headers_only}").make("pinned_client", 1, headers_only=headers_only)
        subject = f"{groups.name}.1"
        await probe.client.request(subject, b"payload", headers={"A": "b"}, timeout=5)
        await probe.client.request(subject, b"", headers={"Nats-Pin-Id": "wrong"}, timeout=5)
        await probe.client.request(subject, b"", timeout=5)
        await probe.client.request(subject, b"x" * 500, timeout=5)
        seen += [await taken(await probe.pull(groups.name, "c", b"1")), await groups.info()]
        small = await groups.pull(max_bytes=10)
        seen += [await taken(small), await groups.info(), await groups.advisories()]
        inbox = await groups.pull(max_bytes=400, batch=4)
        found = await inbox.rest()
        seen += [found, await groups.info(), await groups.advisories()]
        pin = found[0][2]["Nats-Pin-Id"]
        seen += [await taken(await groups.pull(id=pin, max_bytes=100)), await groups.info()]
        plain = await probe.pull(groups.name, "c", b"1")
        seen += [await plain.rest(), await taken(await groups.pull(id=pin)), await groups.unpin()]
        await probe.fill(groups.name, 1)
        seen += [await taken(plain), await groups.info(), await groups.advisories()]
    return numbered(seen)


async def pinned_groups(probe: Probe, name: str) -> Any:
    """There is one pin for all groups; it is told with the first."""
    groups = await Groups(probe, name).make("pinned_client", 1, ("A", "B"))
    first = await groups.pull(group="B", batch=2)
    pin = pin_of(await first.raw())
    second = await groups.pull(group="A")
    await groups.waiting(2)
    seen = [await groups.info(), await groups.advisories()]
    await probe.fill(name, 2)
    seen += [await rests(first, second), await taken(await groups.pull(id=pin))]
    seen += [await groups.unpin({"group": "A"}), await groups.info(), await groups.advisories()]
    await probe.fill(name, 1)
    return numbered([*seen, await second.rest(), await groups.info(), await groups.advisories()])


async def pinned_no_wait(probe: Probe, name: str) -> Any:
    """Requests that do not wait, beside a pinned client."""
    groups = await Groups(probe, name).make("pinned_client", 1)
    first = await groups.pull()
    pin = pin_of(await first.raw())
    seen: list[Any] = [await taken(await groups.pull(no_wait=True, expires=0))]
    await probe.fill(name, 2)
    plan: tuple[dict[str, Any], ...] = (
        {"expires": 0}, {"expires": 0, "batch": 3}, {"expires": 300 * MS}, {"expires": 300 * MS, "batch": 2},
    )  # fmt: skip
    for body in plan:
        seen.append((body, await taken(await groups.pull(no_wait=True, **body))))
    seen.append(await groups.info())
    mine = await groups.pull(no_wait=True, expires=0, batch=2, id=pin)
    return numbered([*seen, await taken(mine, 2), await groups.info()])


async def pinned_blocked(probe: Probe, name: str) -> Any:
    """Nobody is pinned without a message for him: max_ack_pending, a pause; redeliveries go to who is pinned."""
    groups = await Groups(probe, name).make("pinned_client", 6, max_ack_pending=2)
    first = await groups.pull(batch=4)
    message = await first.raw()
    seen = [first.describe(message), await taken(first)]
    second = await groups.pull(batch=4)
    await groups.waiting(2)
    seen += [await groups.unpin(), await groups.info(), await groups.advisories(), await rests(first, second)]
    await probe.client.publish(message.reply, b"-NAK")
    seen += [await rests(first, second), await groups.info()]
    await probe.api(f"CONSUMER.PAUSE.{name}.c", {"pause_until": "2098-01-01T00:00:00Z"})
    seen += [await groups.unpin(), await groups.info()]
    await probe.client.publish(message.reply, b"+ACK")
    third = await groups.pull(batch=1)
    await groups.waiting(2)
    seen += [await rests(second, third), await groups.info()]
    return numbered([*seen, [one for one in await groups.advisories() if ".PAUSE." not in one[0]]])


async def unpin_requests(probe: Probe, name: str) -> Any:
    """What UNPIN takes, and what it says to the rest."""
    groups = await Groups(probe, name).make("overflow", 0, ("A", "B"))
    await probe.consumer(name, "plain")
    seen: list[Any] = []
    for body in (
        b"", b" ", b"{}", b"x", b"[]", b'"A"', b'{"group":1}', b'{"group":""}', b'{"group":"a b"}', b'{"group":"C"}',
        b'{"group":"AAAAAAAAAAAAAAAAA"}', b'{"group":"A"} x', b'{"group":"A","x":1}', b'{"GROUP":"B"}', b'{"group":',
        b'{"group":"B"}',
    ):  # fmt: skip
        seen.append((body, await groups.unpin(body)))
    for consumer in (f"{name}.none", "NONE.c", f"{name}.plain"):
        seen += [(consumer, body, await groups.unpin(body, consumer)) for body in ({"group": "A"}, b"x")]
    return numbered([*seen, await groups.info(), await groups.advisories()])


async def overflow(probe: Probe, name: str) -> Any:
    """Requests that wait for enough messages ahead, or enough unacknowledged."""
    groups = await Groups(probe, name).make("overflow", 3, max_ack_pending=20)
    ahead = await groups.pull(min_pending=5, batch=2)
    unacked = await groups.pull(min_ack_pending=3, batch=2)
    both = await groups.pull(min_ack_pending=100, min_pending=6)
    await groups.waiting(3)
    seen: list[Any] = [await rests(ahead, unacked, both), await groups.info()]
    for _ in range(2):
        await probe.fill(name, 1)
        seen += [await rests(ahead, unacked), await groups.info()]
    plain = await groups.pull(batch=2)
    seen += [await rests(plain, unacked, ahead), await groups.info()]
    for _ in range(3):
        await probe.fill(name, 1)
        seen += [await rests(ahead, both, unacked), await groups.info()]
    quick = await groups.pull(min_pending=50, no_wait=True, expires=0)
    timed = await groups.pull(min_pending=50, no_wait=True, expires=400 * MS)
    seen += [await taken(quick), [await timed.next()]]
    return numbered([*seen, await groups.info(), await groups.advisories()])


async def overflow_again(probe: Probe, name: str) -> Any:
    """A redelivery counts as one more ahead."""
    groups = await Groups(probe, name).make("overflow", 3)
    reply = (await (await groups.pull()).raw()).reply
    waits = await groups.pull(min_pending=4)
    serves = await groups.pull(min_pending=3)
    await groups.waiting(2)
    seen = await rests(waits, serves)
    await probe.client.publish(reply, b"-NAK")
    return numbered([*seen, await rests(serves, waits), await groups.info()])


async def prioritized(probe: Probe, name: str) -> Any:
    """Lower numbers first, in turn within a number."""
    groups = await Groups(probe, name).make("prioritized", 0, max_waiting=7)
    plan = ((5, 2), (0, 1), (9, 2), (5, 2), (None, 2), (0, 2))
    boxes = []
    for priority, batch in plan:
        body: dict[str, Any] = {} if priority is None else {"priority": priority}
        boxes.append(await groups.pull(batch=batch, **body))
    boxes.append(await probe.pull(name, "c", b"2"))
    full = await taken(await groups.pull(priority=0))
    order: list[Any] = [full, await groups.info()]
    for number in range(13):
        await probe.fill(name, 1, start=number)
        ready = [box for box in boxes if not box.queue.empty()]
        while not ready:
            await asyncio.sleep(0.001)
            ready = [box for box in boxes if not box.queue.empty()]
        order.append((boxes.index(ready[0]), len(ready), await ready[0].next()))
    return numbered([*order, await groups.info(), await groups.advisories()])


async def priority_updates(probe: Probe, name: str) -> Any:
    """Policies and groups may be set, changed and taken away."""
    groups = await Groups(probe, name).make("none", 2)
    waiting = await probe.pull(name, "c", {"batch": 5, "expires": LONG})
    seen = [await waiting.rest()]
    plan: tuple[dict[str, Any], ...] = (
        {"priority_policy": "overflow", "priority_groups": ["A"]}, {"priority_policy": "prioritized"},
        {"priority_policy": "prioritized", "priority_groups": ["B", "A"]}, {"priority_groups": ["B"]},
        {"priority_policy": "pinned_client", "priority_groups": ["B"]}, {"priority_timeout": 5},
        {"priority_policy": "pinned_client", "priority_groups": ["C"], "priority_timeout": LONG},
    )  # fmt: skip
    for config in plan:
        answer = await groups.update(**config)
        seen += [answer, await taken(await groups.pull(group="A", batch=1, no_wait=True, expires=0))]
        await probe.fill(name, 1)
        seen += [await taken(waiting), await groups.info()]
    await groups.update()
    await probe.fill(name, 2)
    seen += [await taken(await groups.pull(group="Z")), await groups.info()]
    return numbered(seen)


PRIORITY_SCENARIOS: tuple[Scenario, ...] = (
    priority_bodies, pinned_life, pinned_timeout, pinned_forms, pinned_groups, pinned_no_wait, pinned_blocked,
    unpin_requests, overflow, overflow_again, prioritized, priority_updates,
)  # fmt: skip
