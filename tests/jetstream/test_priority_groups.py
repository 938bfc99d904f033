"""Priority groups of pull consumers: what differs from nats-server, what time brings, and very many requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from jetbroker.jetstream.models.config import ConsumerConfig
from tests.jetstream.test_consumer_parts import Parts
from tests.support import process
from tests.support.consumers import SECOND, ConsumerBench, Delivered, Mailbox

STEPS_A_TURN = 16384  # requests looked at, see priority.pxd
UNPINNED = "$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.c"
PINNED = "$JS.EVENT.ADVISORY.CONSUMER.PINNED.S.c"
PIN: dict[str, Any] = {"priority_policy": "pinned_client", "priority_groups": ["A"], "priority_timeout": 10 * SECOND}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ConsumerBench]:
    bench = ConsumerBench(tmp_path)
    bench.open()
    yield bench
    await bench.close()


async def ask(bench: ConsumerBench, mailbox: Mailbox | None = None, **body: Any) -> Mailbox:
    """A request of group A that waits for an hour."""
    return await bench.pull({"group": "A", "expires": 3600 * SECOND, "batch": 1, **body}, mailbox=mailbox)


def pin_of(message: Delivered) -> str:
    """The pin id that a message tells."""
    return message.headers.decode().split("Nats-Pin-Id: ")[1].split("\r\n")[0]


def pinned(consumer: Any) -> str:
    """Who is pinned."""
    found: str = consumer.info()["priority_groups"][0].get("pinned_client_id", "")
    return found


def told(bench: ConsumerBench) -> list[tuple[str, dict[str, Any]]]:
    """The advisories about pins, once."""
    found = [(one[0], one[1]) for one in bench.advisories if "PINNED" in one[0]]
    bench.advisories.clear()
    return found


async def test_a_pin_lasts_as_long_as_its_client_asks(bench: ConsumerBench) -> None:
    consumer = bench.consumer(**PIN)
    await bench.fill("s.1")
    first = await ask(bench)
    pin = pin_of(first.take()[0])
    assert told(bench) == [
        (PINNED, {"type": "io.nats.jetstream.advisory.v1.consumer_group_pinned", "stream": "S", "consumer": "c",
                  "account": "$G", "group": "A", "pinned_id": pin}),
    ]  # fmt: skip
    second = await ask(bench)
    for _ in range(3):
        await bench.advance(9)
        await ask(bench, first, id=pin)
    assert pinned(consumer) == pin
    await bench.fill("s.1")
    assert (len(first.take()), second.take()) == (1, [])
    # a delivery is no sign of life
    await bench.advance(9)
    assert pinned(consumer) == pin
    await bench.advance(1)
    assert pinned(consumer) == ""
    (subject, fields) = told(bench)[-1]
    assert (subject, fields["reason"], fields["group"]) == (UNPINNED, "timeout", "A")


async def test_who_waits_is_pinned_when_the_pin_times_out(bench: ConsumerBench) -> None:
    consumer = bench.consumer(**PIN)
    await bench.fill("s.1", "s.1")
    first = await ask(bench)
    second = await ask(bench)
    old = pin_of(first.take()[0])
    assert second.take() == []
    await bench.advance(10)
    (message,) = second.take()
    assert pin_of(message) == pinned(consumer) != old
    assert [subject for subject, _ in told(bench)] == [PINNED, UNPINNED, PINNED]


async def test_a_requester_that_left_is_not_pinned(bench: ConsumerBench) -> None:
    consumer = bench.consumer(**PIN)
    gone = await ask(bench)
    gone.close()
    await bench.fill("s.1")
    assert (pinned(consumer), told(bench)) == ("", [])
    here = await ask(bench)
    assert pin_of(here.take()[0]) == pinned(consumer) != ""


async def test_an_update_that_ends_the_policy_ends_the_pin_at_once(bench: ConsumerBench) -> None:
    consumer = bench.consumer(**PIN)
    await bench.fill("s.1", "s.1")
    await ask(bench)
    waits = await ask(bench)
    assert waits.take() == []
    told(bench)
    for change in ({"priority_policy": "overflow"}, {"priority_policy": "none", "priority_groups": []}):
        consumer.update(replace(consumer.config, **change))
        await bench.turn()
    (message,) = waits.take()
    assert message.headers == b""
    assert [(subject, fields["reason"]) for subject, fields in told(bench)] == [(UNPINNED, "admin")]
    assert "priority_groups" not in consumer.info()


async def test_requests_that_wait_are_put_in_order_when_priorities_come(bench: ConsumerBench) -> None:
    consumer = bench.consumer(priority_policy="overflow", priority_groups=["A"])
    plan = (7, 0, 7, 3)
    boxes = [await ask(bench, priority=priority, min_pending=100) for priority in plan]
    consumer.update(replace(consumer.config, priority_policy="prioritized"))
    assert await order_of(bench, boxes, 4) == [1, 3, 0, 2]


async def test_levels_hold_when_requests_leave_from_their_midst(bench: ConsumerBench) -> None:
    bench.consumer(priority_policy="prioritized", priority_groups=["A"])
    plan = ((5, 60), (0, 5), (5, 5), (2, 60), (5, 60), (0, 60), (9, 60))
    boxes = [await ask(bench, priority=priority, expires=wait * SECOND) for priority, wait in plan]
    await bench.advance(6)
    assert [[one.status for one in box.take()] for box in boxes] == [
        [], ["408 Request Timeout"], ["408 Request Timeout"], [], [], [], [],
    ]  # fmt: skip
    boxes.append(await ask(bench, priority=5))
    boxes[4].close()
    assert await order_of(bench, boxes, 5) == [5, 3, 0, 7, 6]


async def order_of(bench: ConsumerBench, boxes: list[Mailbox], messages: int) -> list[int]:
    """Which of them get so many messages, one after the other."""
    order = []
    for _ in range(messages):
        await bench.fill("s.1")
        order += [number for number, box in enumerate(boxes) if box.take()]
    return order


async def test_a_search_among_very_many_requests_goes_on_in_turns() -> None:
    parts = Parts(1)
    delivery = parts.pull(priority_policy="overflow", priority_groups=["A"], max_waiting=100_000)
    nobody, last = parts.listen("nobody"), parts.listen("last")
    for _ in range(2 * STEPS_A_TURN):
        parts.ask("nobody", group="A", min_pending=10**9)
    parts.ask("last", group="A", min_pending=1)
    delivery.take_requests()
    found = []
    for _ in range(3):
        delivery.deliver()
        parts.tick.run()
        found.append((len(nobody), len(last)))
    assert found == [(0, 0), (0, 0), (0, 1)]


async def test_who_asks_without_json_needs_no_group(bench: ConsumerBench) -> None:
    consumer = bench.consumer(**PIN)
    await bench.fill("s.1", "s.1")
    (message,) = (await bench.pull(b"1")).take()
    assert (message.headers, pinned(consumer)) == (b"NATS/1.0\r\nNats-Pin-Id: \r\n\r\n", "")
    first = await ask(bench)
    assert pin_of(first.take()[0]) == pinned(consumer)


# --- restarts ---


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[process.ServerProcess]:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as started:
        yield started


async def call(client: Client, subject: str, body: Any = b"") -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", data, 30)).data)
    assert "error" not in answer, answer
    return answer


async def pull(client: Client, **body: Any) -> Any:
    inbox = client.new_inbox()
    sub = await client.subscribe(inbox)
    data = json.dumps({"group": "A", "expires": 60 * SECOND, "batch": 1, **body}).encode()
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", data, reply=inbox)
    return await sub.next_msg(30)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_the_groups_outlive_the_broker_and_the_pin_does_not(server: process.ServerProcess, how: str) -> None:
    client = await nats.connect(server.url, allow_reconnect=False)
    await call(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    await call(client, "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {
        "durable_name": "c", "ack_policy": "explicit", **PIN, "metadata": {"mine": "x"},
    }})  # fmt: skip
    for _ in range(3):
        await client.request("s", b"data", 30)
    pin = (await pull(client)).headers["Nats-Pin-Id"]
    before = await call(client, "CONSUMER.INFO.S.c")
    assert before["priority_groups"][0]["pinned_client_id"] == pin
    if how == "kill":
        server.kill()
    else:
        server.stop()
    server.start()
    client = await nats.connect(server.url, allow_reconnect=False)
    after = await call(client, "CONSUMER.INFO.S.c")
    assert after["config"] == before["config"]
    assert after["priority_groups"] == [{"group": "A", "pinned_ts": "0001-01-01T00:00:00Z"}]
    assert after["config"]["metadata"]["_nats.req.level"] == "1"
    wrong = await pull(client, id=pin)
    assert (wrong.headers["Status"], wrong.headers["Description"]) == ("423", "Nats-Wrong-Pin-Id")
    again = (await pull(client)).headers["Nats-Pin-Id"]
    assert again != pin
    await client.close()


def test_groups_of_a_configuration_are_read_and_written() -> None:
    config = ConsumerConfig.from_json({"durable_name": "c", **PIN})
    assert {key: config.to_json()[key] for key in PIN} == PIN
