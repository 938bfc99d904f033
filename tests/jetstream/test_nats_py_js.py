"""Streams, consumers and direct gets as nats-py uses them, against a broker process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.js import api
from nats.js.errors import APIError, BadRequestError, NoStreamResponseError, NotFoundError

from tests.conftest import Connect


async def test_publish_with_headers_and_expectations(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="PUBLISH", subjects=["publish.>"])
    ack = await js.publish("publish.a", b"1", headers={"Nats-Msg-Id": "x"})
    assert (ack.stream, ack.seq, ack.duplicate) == ("PUBLISH", 1, None)
    assert (await js.publish("publish.a", b"1", headers={"Nats-Msg-Id": "x"})).duplicate
    assert (await js.publish("publish.a", b"2", stream="PUBLISH")).seq == 2
    for headers, code in (
        ({"Nats-Expected-Last-Sequence": "7"}, 10071),
        ({"Nats-Expected-Last-Subject-Sequence": "1"}, 10071),
        ({"Nats-Expected-Last-Msg-Id": "y"}, 10070),
        ({"Nats-TTL": "1"}, 10166),
    ):
        with pytest.raises(APIError) as caught:
            await js.publish("publish.a", b"3", headers=headers)
        assert caught.value.err_code == code
    with pytest.raises(APIError) as caught:
        await js.publish("publish.a", b"3", stream="OTHER")
    assert caught.value.err_code == 10060
    with pytest.raises(NoStreamResponseError):
        await js.publish("nobody.stores.this", b"")


async def test_asynchronous_publishes(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="ASYNC", subjects=["async"])
    futures = [await js.publish_async("async", b"%d" % number) for number in range(500)]
    await asyncio.wait_for(js.publish_async_completed(), 10)
    assert sorted([(await future).seq for future in futures]) == list(range(1, 501))
    assert js.publish_async_pending() == 0


async def test_stream_management(connect: Connect) -> None:
    js = (await connect()).jetstream()
    info = await js.add_stream(name="MANAGED", subjects=["managed.*"], max_msgs=100, description="one")
    assert info.config.description == "one"
    assert (await js.add_stream(info.config)).created == info.created
    with pytest.raises(BadRequestError):
        await js.add_stream(name="MANAGED", subjects=["managed.*"], max_msgs=5)
    await js.update_stream(info.config, subjects=["managed.*", "more"], max_msgs=3)
    for number in range(5):
        await js.publish("managed.a" if number % 2 else "more", b"%d" % number)
    info = await js.stream_info("MANAGED", subjects_filter=">")
    assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (3, 3, 5)
    assert info.state.subjects == {"managed.a": 1, "more": 2}
    assert await js.find_stream_name_by_subject("managed.x") == "MANAGED"
    with pytest.raises(NotFoundError):
        await js.find_stream_name_by_subject("unknown")
    assert "MANAGED" in [listed.config.name for listed in await js.streams_info()]
    assert "MANAGED" in [listed.config.name for listed in await js.streams_info_iterator()]
    assert await js.delete_msg("MANAGED", 4)
    with pytest.raises(NotFoundError):
        await js.get_msg("MANAGED", 4)
    assert await js.purge_stream("MANAGED", subject="more", keep=1)
    assert (await js.stream_info("MANAGED")).state.messages == 1
    assert await js.delete_stream("MANAGED")
    with pytest.raises(NotFoundError):
        await js.stream_info("MANAGED")


@pytest.mark.parametrize("direct", [False, True])
async def test_reading_single_messages(connect: Connect, direct: bool) -> None:
    js = (await connect()).jetstream()
    name = f"READ{direct}"
    await js.add_stream(name=name, subjects=[f"{name}.>"], allow_direct=True)
    await js.publish(f"{name}.a", b"1", headers={"color": "red"})
    await js.publish(f"{name}.b", b"2")
    await js.publish(f"{name}.a", b"3")
    first = await js.get_msg(name, seq=1, direct=direct)
    assert (first.seq, first.subject, first.data) == (1, f"{name}.a", b"1")
    assert first.headers is not None and first.headers["color"] == "red"
    assert first.time is not None or not direct
    last = await js.get_last_msg(name, f"{name}.a", direct=direct)
    assert (last.seq, last.data) == (3, b"3")
    following = await js.get_msg(name, seq=2, subject=f"{name}.*", next=True, direct=direct)
    assert following.seq == 2
    for wanted in ({"seq": 9}, {"subject": f"{name}.x"}):
        with pytest.raises(NotFoundError):
            await js.get_msg(name, direct=direct, **wanted)


async def test_consumer_management(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="CONSUMERS", subjects=["consumers.>"])
    for number in range(10):
        await js.publish(f"consumers.{number % 2}", b"%d" % number)
    info = await js.add_consumer(
        "CONSUMERS", durable_name="d", ack_policy=api.AckPolicy.EXPLICIT, filter_subject="consumers.0", description="x"
    )
    assert (info.name, info.num_pending, info.config.description) == ("d", 5, "x")
    changed = await js.add_consumer("CONSUMERS", info.config, description="y")
    assert changed.config.description == "y"
    assert [listed.name for listed in await js.consumers_info("CONSUMERS")] == ["d"]
    subscription = await js.pull_subscribe_bind("d", "CONSUMERS")
    messages = await subscription.fetch(3, timeout=5)
    assert [message.data for message in messages] == [b"0", b"2", b"4"]
    assert (await js.consumer_info("CONSUMERS", "d")).num_ack_pending == 3
    assert await js.delete_consumer("CONSUMERS", "d")
    with pytest.raises(NotFoundError):
        await js.consumer_info("CONSUMERS", "d")


async def test_acknowledgements(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="ACKS", subjects=["acks"])
    for number in range(4):
        await js.publish("acks", b"%d" % number)
    config = api.ConsumerConfig(ack_wait=30, max_deliver=3)
    subscription = await js.pull_subscribe("acks", durable="d", config=config)
    first, second, third, fourth = await subscription.fetch(4, timeout=5)
    await first.ack_sync(timeout=30)
    await second.nak()
    await third.term()
    await fourth.in_progress()
    (again,) = await subscription.fetch(1, timeout=5)
    assert (again.data, again.metadata.num_delivered) == (b"1", 2)
    await again.nak(delay=0.2)
    (delayed,) = await subscription.fetch(1, timeout=5)
    assert (delayed.data, delayed.metadata.num_delivered) == (b"1", 3)
    await delayed.ack_sync(timeout=30)
    await fourth.ack_sync(timeout=30)
    info = await subscription.consumer_info()
    assert (info.num_ack_pending, info.num_pending, info.num_redelivered) == (0, 0, 0)


async def test_push_subscriptions(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="PUSHED", subjects=["pushed.>"])
    await js.publish("pushed.old", b"old")
    everything = await js.subscribe("pushed.>")
    only_new = await js.subscribe("pushed.>", config=api.ConsumerConfig(deliver_policy=api.DeliverPolicy.NEW))
    bound = await js.subscribe("pushed.*", durable="bound", manual_ack=True)
    await js.publish("pushed.new", b"new")
    assert [(await everything.next_msg(5)).data for _ in range(2)] == [b"old", b"new"]
    assert (await only_new.next_msg(5)).data == b"new"
    message = await bound.next_msg(5)
    await message.ack_sync(timeout=30)
    assert message.metadata.stream == "PUSHED"
    assert (await bound.consumer_info()).push_bound
    await bound.unsubscribe()


async def test_flow_control_and_heartbeats(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="FLOW", subjects=["flow"])
    payload = b"x" * 10_000
    for _ in range(300):
        await js.publish_async("flow", payload)
    await js.publish_async_completed()
    done = asyncio.Event()
    seen: list[int] = []

    async def keep(message: Any) -> None:
        seen.append(message.metadata.sequence.stream)
        if len(seen) == 300:
            done.set()

    await js.subscribe("flow", cb=keep, flow_control=True, idle_heartbeat=0.5)
    await asyncio.wait_for(done.wait(), 20)
    assert seen == list(range(1, 301))


async def test_ordered_consumers_filter(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="ORDER", subjects=["order.>"])
    for number in range(100):
        await js.publish(f"order.{number % 4}", b"%d" % number)
    subscription = await js.subscribe("order.1", ordered_consumer=True)
    assert [int((await subscription.next_msg(5)).data) for _ in range(25)] == list(range(1, 100, 4))
    with pytest.raises(TimeoutError):
        await subscription.next_msg(0.1)


async def test_pull_requests_end(connect: Connect) -> None:
    js = (await connect()).jetstream()
    await js.add_stream(name="PULLS", subjects=["pulls"])
    subscription = await js.pull_subscribe("pulls", durable="d")
    with pytest.raises(TimeoutError):
        await subscription.fetch(1, timeout=0.2)
    await js.publish("pulls", b"1")
    assert len(await subscription.fetch(10, timeout=3)) == 1
    waiting = asyncio.ensure_future(subscription.fetch(1, timeout=10, heartbeat=1))
    while not (await js.consumer_info("PULLS", "d")).num_waiting:
        pass
    await js.delete_consumer("PULLS", "d")
    with pytest.raises((APIError, TimeoutError)):
        await waiting


async def test_account_info(connect: Connect) -> None:
    js = (await connect()).jetstream()
    before = await js.account_info()
    await js.add_stream(name="COUNTED", subjects=["counted"])
    await js.publish("counted", b"x" * 1000)
    info = await js.account_info()
    assert info.streams == before.streams + 1
    assert info.storage > before.storage + 1000
    assert info.limits.max_streams == -1
    assert info.api.total > before.api.total
