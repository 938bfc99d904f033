"""Paused and reset consumers: through restarts and kill -9, in the middle of deliveries, when the clock is set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import RetentionPolicy

from jetbroker.forms.gotext import Timestamp
from tests.support import process
from tests.support.clients import settle
from tests.support.consumers import SECOND, ConsumerBench, counts, positions

FAR = "2098-12-31T22:00:00Z"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[process.ServerProcess]:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as started:
        yield started


async def connect(server: process.ServerProcess) -> tuple[Client, JetStreamContext]:
    client = await nats.connect(server.url, allow_reconnect=False, connect_timeout=5)
    return client, client.jetstream()


async def api(client: Client, subject: str, body: Any = b"") -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", data, 30)).data)
    assert "error" not in answer, answer
    return answer


async def prepare(client: Client, js: JetStreamContext, **config: Any) -> None:
    await js.add_stream(name="S", subjects=["s"])
    for number in range(6):
        await js.publish("s", b"%d" % number)
    settings = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": 3600 * SECOND, **config}
    await api(client, "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": settings})


async def fetched(client: Client, batch: int = 10) -> list[bytes]:
    """What there is to get now."""
    inbox = client.new_inbox()
    sub = await client.subscribe(inbox)
    request = json.dumps({"batch": batch, "no_wait": True}).encode()
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", request, reply=inbox)
    found: list[bytes] = []
    while len(found) < batch:
        message = await sub.next_msg(timeout=30)
        if "Status" in (message.headers or {}):
            break
        found.append(message.data)
    await sub.unsubscribe()
    return found


def _timestamp(seconds: float) -> Timestamp:
    return Timestamp(int((datetime.now(UTC).timestamp() + seconds) * SECOND))


def restart(server: process.ServerProcess, how: str) -> None:
    if how == "kill":
        server.kill()
    else:
        server.stop()
    server.start()


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_pause_outlives_the_broker_and_so_does_its_end(server: process.ServerProcess, how: str) -> None:
    client, js = await connect(server)
    await prepare(client, js)
    assert (await api(client, "CONSUMER.PAUSE.S.c", {"pause_until": FAR}))["paused"]
    restart(server, how)
    client, js = await connect(server)
    info = await api(client, "CONSUMER.INFO.S.c")
    assert (info["paused"], info["config"]["pause_until"]) == (True, FAR)
    assert await fetched(client) == []
    assert not (await api(client, "CONSUMER.PAUSE.S.c"))["paused"]
    restart(server, how)
    client, js = await connect(server)
    assert "paused" not in await api(client, "CONSUMER.INFO.S.c")
    assert len(await fetched(client)) == 6
    await client.close()


async def test_a_pause_that_ends_while_the_broker_is_down(server: process.ServerProcess) -> None:
    client, js = await connect(server)
    await prepare(client, js)
    until = datetime.now(UTC) + timedelta(seconds=0.3)
    await api(client, "CONSUMER.PAUSE.S.c", {"pause_until": until.isoformat()})
    server.kill()
    async with asyncio.timeout(5):
        while datetime.now(UTC) < until:
            await asyncio.sleep(0.05)
    server.start()
    client, js = await connect(server)
    assert len(await fetched(client)) == 6
    await client.close()


async def test_a_pause_that_goes_on_after_a_restart_ends_in_time(server: process.ServerProcess) -> None:
    client, js = await connect(server)
    await prepare(client, js)
    until = datetime.now(UTC) + timedelta(seconds=5)  # later than the broker is back
    await api(client, "CONSUMER.PAUSE.S.c", {"pause_until": until.isoformat()})
    server.kill()
    server.start()
    client, js = await connect(server)
    told = await client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.c")
    sub = await js.pull_subscribe_bind("c", "S")
    messages = await sub.fetch(6, timeout=30)
    assert (len(messages), datetime.now(UTC) >= until) == (6, True)
    assert json.loads((await told.next_msg(30)).data)["paused"] is False
    await client.close()


async def test_nothing_is_delivered_after_the_answer_to_a_pause(server: process.ServerProcess) -> None:
    client, js = await connect(server)
    await prepare(client, js, max_ack_pending=-1)
    await asyncio.gather(*[js.publish("s", b"x" * 512, timeout=30) for _ in range(6_000)])
    seen: list[int] = []

    async def keep(message: Any) -> None:
        seen.append(message.metadata.sequence.stream)

    await client.subscribe("in.*", cb=keep)
    for number in range(31):
        await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", b"200", reply=f"in.{number}")
    # right behind the requests: their messages go out some at a time
    assert (await api(client, "CONSUMER.PAUSE.S.c", {"pause_until": FAR}))["paused"]
    await settle(client)
    before, delivered = len(seen), (await api(client, "CONSUMER.INFO.S.c"))["delivered"]["stream_seq"]
    for _ in range(3):
        await settle(client)
    assert len(seen) == before
    assert delivered < 6_006, "all was delivered before the pause: the test says nothing"
    await api(client, "CONSUMER.PAUSE.S.c")
    async with asyncio.timeout(20):
        while len(seen) < 6_006:
            await asyncio.sleep(0.01)
    assert seen == list(range(1, len(seen) + 1))
    await client.close()


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_reset_outlives_the_broker(server: process.ServerProcess, how: str) -> None:
    client, js = await connect(server)
    await prepare(client, js)
    sub = await js.pull_subscribe_bind("c", "S")
    first = await sub.fetch(4)
    await first[0].ack_sync(timeout=30)
    assert (await api(client, "CONSUMER.RESET.S.c"))["reset_seq"] == 2
    restart(server, how)
    client, js = await connect(server)
    info = await api(client, "CONSUMER.INFO.S.c")
    assert info["delivered"] == {"consumer_seq": 0, "stream_seq": 1}
    assert info["num_ack_pending"] == 0
    assert await fetched(client) == [b"1", b"2", b"3", b"4", b"5"]
    assert (await api(client, "CONSUMER.RESET.S.c", {"seq": 9}))["reset_seq"] == 9
    restart(server, how)
    client, js = await connect(server)
    for number in range(6, 10):
        await js.publish("s", b"%d" % number)
    assert await fetched(client) == [b"8", b"9"]
    await client.close()


async def test_a_pause_survives_that_the_clock_is_set(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    consumer = bench.consumer("c", pause_until=FAR)
    await bench.fill("s.0")
    mailbox = await bench.pull({"batch": 5})
    for _ in range(3):
        await bench.advance(3600)
    assert mailbox.take() == []
    # the wall clock jumped beyond the end while the monotonic one hardly moved: as if the end were now
    until = datetime.now(UTC) + timedelta(seconds=0.05)
    config = consumer.config
    config.pause_until = Timestamp(int(until.timestamp() * SECOND))
    consumer.pause(config)
    async with asyncio.timeout(5):
        while datetime.now(UTC) < until:
            await asyncio.sleep(0.01)
    await bench.advance(0)
    assert [one.numbers[1] for one in mailbox.take()] == [1]
    kinds = [(subject, fields["paused"]) for subject, fields in bench.advisories if "PAUSE" in subject]
    assert kinds == [("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.c", False)]
    await bench.close()


async def test_redeliveries_wait_for_the_end_of_a_pause(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0", "s.1")
    consumer = bench.consumer("c", ack_wait=SECOND)
    mailbox = await bench.pull({"batch": 9})
    assert len(mailbox.take()) == 2
    config = consumer.config
    config.pause_until = _timestamp(3600)
    consumer.pause(config)
    await bench.advance(5)
    assert (mailbox.take(), counts(consumer)[0]) == ([], 2)
    config.pause_until = None
    consumer.pause(config)
    await bench.turn()
    assert [one.numbers[:2] for one in mailbox.take()] == [(2, 1), (2, 2)]
    await bench.close()


async def test_a_reset_forgets_redeliveries_and_what_was_given_up(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill(*[f"s.{number}" for number in range(4)])
    consumer = bench.consumer("c", max_deliver=1, ack_wait=SECOND)
    found = (await bench.pull({"batch": 4})).take()
    await bench.ack(found[1], b"-NAK")
    await bench.advance(5)
    await bench.pull({"batch": 1})
    assert counts(consumer)[0] == 0
    assert consumer.reset(2) == 2
    assert (positions(consumer), counts(consumer)) == (((0, 1), (0, 1)), (0, 0, 1, 3))
    await bench.turn()
    # the request that waited for the message that was given up is served now
    mailbox = await bench.pull({"batch": 4})
    assert [one.numbers[:3] for one in mailbox.take()] == [(1, 3, 2), (1, 4, 3)]
    await bench.close()


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_what_a_reset_skips_stays_in_a_work_queue(server: process.ServerProcess, how: str) -> None:
    client, js = await connect(server)
    await js.add_stream(name="S", subjects=["s"], retention=RetentionPolicy.WORK_QUEUE)
    settings = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": 3600 * SECOND}
    await api(client, "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": settings})
    for number in range(6):
        await js.publish("s", b"%d" % number)
    await api(client, "CONSUMER.RESET.S.c", {"seq": 3})
    sub = await js.pull_subscribe_bind("c", "S")
    for message in await sub.fetch(2):
        await message.ack_sync(timeout=30)
    for _ in range(2):
        restart(server, how)
        client, js = await connect(server)
        state = (await api(client, "STREAM.INFO.S"))["state"]
        assert (state["messages"], state["first_seq"]) == (4, 1)
    await api(client, "CONSUMER.RESET.S.c", {"seq": 1})
    assert await fetched(client) == [b"0", b"1", b"4", b"5"]
    await client.close()
