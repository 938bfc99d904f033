"""Core NATS with an official client against a real jetbroker process."""

from __future__ import annotations

import asyncio
from collections import Counter

import nats
import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.conftest import Connect
from tests.support.clients import settle
from tests.support.process import ServerProcess


async def test_a_message_reaches_every_subscription_that_matches(connect: Connect) -> None:
    client = await connect()
    subjects = ("a.b.c", "a.*.c", "a.>", ">", "*.b.*")
    subscriptions = [await client.subscribe(subject) for subject in subjects]
    other = await client.subscribe("a.b")
    await client.publish("a.b.c", b"hello")
    for subscription in subscriptions:
        message = await subscription.next_msg(timeout=5)
        assert (message.subject, message.data, message.reply) == ("a.b.c", b"hello", "")
    assert other.pending_msgs == 0


async def test_order_is_kept_over_many_messages(connect: Connect) -> None:
    publisher, subscriber = await connect(), await connect()
    subscription = await subscriber.subscribe("ordered.*")
    await settle(subscriber)
    for number in range(5000):
        await publisher.publish(f"ordered.{number % 7}", b"%d" % number)
    await settle(publisher)
    received = [int((await subscription.next_msg(timeout=5)).data) for _ in range(5000)]
    assert received == list(range(5000))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65_536, 300_000, 1_048_576])
async def test_payloads_of_any_size_arrive_whole(connect: Connect, size: int) -> None:
    publisher, subscriber = await connect(), await connect()
    subscription = await subscriber.subscribe("sized")
    await settle(subscriber)
    payload = bytes(number & 0xFF for number in range(size))
    await publisher.publish("sized", payload)
    await publisher.publish("sized", b"next")
    assert (await subscription.next_msg(timeout=5)).data == payload
    assert (await subscription.next_msg(timeout=5)).data == b"next"


async def test_a_queue_group_shares_the_work(connect: Connect) -> None:
    publisher = await connect()
    counts: Counter[int] = Counter()
    done = asyncio.Event()

    def member(number: int) -> object:
        async def count(_: Msg) -> None:
            counts[number] += 1
            if counts.total() == 3000:
                done.set()

        return count

    for number in range(3):
        client = await connect()
        await client.subscribe("work", queue="workers", cb=member(number))  # type: ignore[arg-type]
        await settle(client)
    everything = await publisher.subscribe("work")
    for _ in range(3000):
        await publisher.publish("work", b"")
    for _ in range(3000):
        await everything.next_msg(timeout=5)
    await asyncio.wait_for(done.wait(), 10)
    assert counts.total() == 3000
    assert min(counts.values()) > 500


async def test_two_queue_groups_get_one_copy_each(connect: Connect) -> None:
    client = await connect()
    first = [await client.subscribe("jobs", queue="first") for _ in range(2)]
    second = [await client.subscribe("jobs.>", queue="second"), await client.subscribe("jobs", queue="second")]
    await client.publish("jobs", b"")
    assert (await second[1].next_msg(timeout=5)).data == b""
    last = await client.subscribe("last")
    await client.publish("last", b"")
    await last.next_msg(timeout=5)  # what was sent before has arrived
    assert sum(subscription.pending_msgs for subscription in first) == 1
    assert [subscription.pending_msgs for subscription in second] == [0, 0]


async def test_a_member_that_leaves_its_queue_group_gets_no_more(connect: Connect) -> None:
    publisher, stays, leaves = await connect(), await connect(), await connect()
    subscription = await stays.subscribe("tasks", queue="q")
    await leaves.subscribe("tasks", queue="q")
    await settle(stays)
    await leaves.drain()
    for number in range(100):
        await publisher.publish("tasks", b"%d" % number)
    assert [(await subscription.next_msg(timeout=5)).data for _ in range(100)] == [
        b"%d" % number for number in range(100)
    ]


async def test_request_and_reply(connect: Connect) -> None:
    requester, responder = await connect(), await connect()

    async def answer(message: Msg) -> None:
        await message.respond(b"re: " + message.data)

    await responder.subscribe("service", cb=answer)
    await settle(responder)
    replies = await asyncio.gather(*(requester.request("service", b"%d" % number, timeout=5) for number in range(200)))
    assert [reply.data for reply in replies] == [b"re: %d" % number for number in range(200)]


async def test_a_request_nobody_serves_fails_at_once(connect: Connect) -> None:
    client = await connect()
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("nobody.home", b"", timeout=5)


async def test_headers_arrive_as_sent(connect: Connect) -> None:
    client = await connect()
    subscription = await client.subscribe("with.headers")
    headers = {"Key": "value", "key": "other case", "Empty": "", "Utf": "\u00e4\u20ac"}
    await client.publish("with.headers", b"body", headers=headers)
    message = await subscription.next_msg(timeout=5)
    assert (message.headers, message.data) == (headers, b"body")


async def test_unsubscribe_after_a_number_of_messages(connect: Connect) -> None:
    client = await connect()
    subscription = await client.subscribe("limited")
    await subscription.unsubscribe(limit=3)
    for number in range(5):
        await client.publish("limited", b"%d" % number)
    await settle(client)
    received = [(await subscription.next_msg(timeout=5)).data for _ in range(3)]
    assert received == [b"0", b"1", b"2"]
    # the server's side is gone too: somebody who asks for responders learns that there are none
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("limited", b"", timeout=5)


async def test_echo_off_hides_a_connections_own_messages(connect: Connect) -> None:
    silent, other = await connect(no_echo=True), await connect()
    own = await silent.subscribe("echo")
    others = await other.subscribe("echo")
    await settle(other)
    await silent.publish("echo", b"mine")
    await settle(silent)
    await other.publish("echo", b"theirs")
    assert (await others.next_msg(timeout=5)).data == b"mine"
    assert (await own.next_msg(timeout=5)).data == b"theirs"
    assert own.pending_msgs == 0


async def test_max_payload_is_announced_and_kept(connect: Connect) -> None:
    client = await connect()
    assert client.max_payload == 1_048_576
    with pytest.raises(nats.errors.MaxPayloadError):
        await client.publish("big", b"x" * (client.max_payload + 1))


async def test_many_subscriptions_come_and_go(connect: Connect) -> None:
    client = await connect()
    subscriptions = [await client.subscribe(f"many.{number}") for number in range(2000)]
    for subscription in subscriptions[::2]:
        await subscription.unsubscribe()
    for number in range(2000):
        await client.publish(f"many.{number}", b"%d" % number)
    received = [int((await subscription.next_msg(timeout=5)).data) for subscription in subscriptions[1::2]]
    assert received == list(range(1, 2000, 2))
    assert not any(subscription.pending_msgs for subscription in subscriptions)


async def test_interest_may_change_under_a_known_subject(connect: Connect) -> None:
    publisher, subscriber = await connect(), await connect()
    await publisher.publish("warm", b"0")
    await settle(publisher)
    subscription = await subscriber.subscribe("warm")
    await settle(subscriber)
    await publisher.publish("warm", b"1")
    assert (await subscription.next_msg(timeout=5)).data == b"1"
    await subscription.unsubscribe()
    await settle(subscriber)
    again = await subscriber.subscribe("*")
    await settle(subscriber)
    await publisher.publish("warm", b"2")
    assert (await again.next_msg(timeout=5)).data == b"2"


async def test_a_drained_connection_loses_nothing(connect: Connect) -> None:
    publisher, subscriber = await connect(), await connect()
    received: list[bytes] = []

    async def keep(message: Msg) -> None:
        received.append(message.data)

    await subscriber.subscribe("drained", cb=keep)
    await settle(subscriber)
    for number in range(1000):
        await publisher.publish("drained", b"%d" % number)
    await settle(publisher)
    await subscriber.drain()
    assert received == [b"%d" % number for number in range(1000)]


async def test_info_names_the_version_that_clients_expect(connect: Connect, broker: ServerProcess) -> None:
    client = await connect()
    version = client.connected_server_version
    assert (version.major, version.minor, version.patch) == (2, 14, 5)
    assert broker.process is not None and broker.process.poll() is None
