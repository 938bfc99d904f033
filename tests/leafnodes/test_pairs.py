"""A hub and a spoke, either of them nats-server: what clients at both ends see of each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tests.support.clients import settle
from tests.support.pairs import PAIRS, Pair, told

HUB = """
leafnodes { listen: "127.0.0.1:{leaf_port}", authorization { user: leaf, password: secret, account: A } }
accounts {
    A: { users: [ {user: a, password: a} ] }
    B: { users: [ {user: b, password: b} ] }
}
"""
SPOKE = """
leafnodes { remotes: [ {url: "nats-leaf://leaf:secret@127.0.0.1:{leaf_port}", account: C} ] }
accounts {
    C: { users: [ {user: c, password: c} ], mappings: { "mapped.in": "mapped.out" } }
    D: { users: [ {user: d, password: d} ] }
}
"""


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"hub {pair[0]}, spoke {pair[1]}")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(request.param, tmp_path_factory.mktemp("pair"), HUB, SPOKE) as running:
        running.linked()
        yield running


@asynccontextmanager
async def clients(
    pair: Pair, hub_user: str = "a", spoke_user: str = "c"
) -> AsyncIterator[tuple[NatsClient, NatsClient]]:
    """One at the hub and one at the spoke."""
    hub = await nats.connect(pair.hub.url, user=hub_user, password=hub_user)
    spoke = await nats.connect(pair.spoke.url, user=spoke_user, password=spoke_user)
    try:
        yield hub, spoke
    finally:
        await hub.close()
        await spoke.close()


async def answer(client: NatsClient, subject: str, text: bytes) -> Subscription:
    async def respond(msg: Msg) -> None:
        await msg.respond(text + msg.data)

    subscription = await client.subscribe(subject, cb=respond)
    await settle(client)
    return subscription


@pytest.mark.parametrize("serves", ["hub", "spoke"])
async def test_a_request_is_answered_at_the_other_end(pair: Pair, serves: str) -> None:
    async with clients(pair) as (hub, spoke):
        server, client = (hub, spoke) if serves == "hub" else (spoke, hub)
        await answer(server, f"echo.{serves}", b"heard ")
        await told(client, f"echo.{serves}")
        got = await client.request(f"echo.{serves}", b"this", timeout=5)
        assert got.data == b"heard this"


@pytest.mark.parametrize("publishes", ["hub", "spoke"])
async def test_messages_keep_subject_reply_headers_and_order(pair: Pair, publishes: str) -> None:
    async with clients(pair) as (hub, spoke):
        publisher, listener = (hub, spoke) if publishes == "hub" else (spoke, hub)
        await answer(listener, f"ready.{publishes}", b"")
        messages = await listener.subscribe(f"data.{publishes}.>")
        await settle(listener)
        await told(publisher, f"ready.{publishes}")  # and what was subscribed to behind it
        await told(publisher, f"ready.{publishes}")
        await answer(listener, f"set.{publishes}", b"")
        await told(publisher, f"set.{publishes}")
        for number in range(1000):
            await publisher.publish(
                f"data.{publishes}.{number}", b"%d" % number * 50, reply="back", headers={"N": str(number)}
            )
        for number in range(1000):
            msg = await messages.next_msg(timeout=5)
            assert (msg.subject, msg.reply, msg.data) == (f"data.{publishes}.{number}", "back", b"%d" % number * 50)
            assert msg.headers == {"N": str(number)}


async def test_one_message_for_many_subscriptions_that_match(pair: Pair) -> None:
    """It crosses the link once; each subscriber behind it gets it once."""
    async with clients(pair) as (hub, spoke):
        many = [await spoke.subscribe(subject) for subject in ("over.*", "over.a", ">", "over.>")]
        await answer(spoke, "over-ready", b"")
        await told(hub, "over-ready")
        await hub.publish("over.a", b"first")
        await hub.publish("over.a", b"second")
        for subscription in many:
            found: list[bytes] = []
            while b"second" not in found:  # the one to everything sees probes, too
                found.append((await subscription.next_msg(timeout=5)).data)
            assert [data for data in found if data in (b"first", b"second")] == [b"first", b"second"]


async def test_a_queue_group_over_both_ends_takes_each_message_once_and_the_nearest_member_first(pair: Pair) -> None:
    async with clients(pair) as (hub, spoke):
        taken: dict[str, int] = {"hub": 0, "spoke": 0}

        async def count(client: NatsClient, name: str) -> None:
            async def take(msg: Msg) -> None:
                taken[name] += 1
                await msg.respond(name.encode())

            await client.subscribe("work", queue="q", cb=take)
            await settle(client)

        await count(spoke, "spoke")
        await told(hub, "work")
        assert (await hub.request("work", b"", timeout=5)).data == b"spoke"
        await count(hub, "hub")
        before = dict(taken)
        answers = [(await hub.request("work", b"", timeout=5)).data for _ in range(20)]
        assert answers == [b"hub"] * 20
        assert (taken["hub"], taken["spoke"]) == (before["hub"] + 20, before["spoke"])
        assert (await spoke.request("work", b"", timeout=5)).data == b"spoke"


async def test_accounts_stay_apart(pair: Pair) -> None:
    async with clients(pair, "b", "d") as (other_hub, other_spoke), clients(pair) as (hub, spoke):
        strangers = [await client.subscribe("secret") for client in (other_hub, other_spoke)]
        await answer(spoke, "secret", b"")
        await told(hub, "secret")
        for client in (other_hub, other_spoke):
            await settle(client)
        assert [stranger.pending_msgs for stranger in strangers] == [0, 0]


async def test_interest_that_is_gone_is_told(pair: Pair) -> None:
    async with clients(pair) as (hub, spoke):
        subscription = await answer(spoke, "for-a-while", b"")
        await told(hub, "for-a-while")
        await subscription.unsubscribe()
        await settle(spoke)
        with pytest.raises(nats.errors.NoRespondersError):
            while True:
                with suppress(nats.errors.TimeoutError):  # one may be on its way while the interest ends
                    await hub.request("for-a-while", b"", timeout=0.2)


async def test_a_mapped_subject_is_asked_for_by_its_source(pair: Pair) -> None:
    async with clients(pair) as (hub, spoke):
        await answer(spoke, "mapped.out", b"mapped ")
        # nats-server may lose the answer to a mapped request whose inbox it hears of together with it
        await told(hub, "mapped.out")
        await told(hub, "mapped.in")
        assert (await hub.request("mapped.in", b"x", timeout=5)).data == b"mapped x"


async def test_the_link_comes_back_after_either_end_was_killed(pair: Pair) -> None:
    for victim in (pair.hub, pair.spoke):
        lines = len(pair.hub.log), len(pair.spoke.log)
        victim.kill()
        victim.start()
        await asyncio.to_thread(pair.linked, *lines)
        async with clients(pair) as (hub, spoke):
            await answer(spoke, "again", b"")
            await told(hub, "again")
            await answer(hub, "and-back", b"")
            await told(spoke, "and-back")
