"""The watchdog: a consumer with messages and demand that does not deliver is counted, logged and set going."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats
import pytest

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.jetstream.timing.watchdog import Watchdog
from tests.support import process
from tests.support.consumers import SECOND, ConsumerBench, Mailbox
from tests.support.http import get_json, monitor_port

FAULTY = Path(__file__).resolve().parent.parent / "support" / "deaf_broker.py"


class Watch:
    """A bench with a watchdog whose looks are made by hand."""

    def __init__(self, bench: ConsumerBench) -> None:
        self.bench = bench
        self.told: list[dict[str, Any]] = []
        self.watchdog = Watchdog(bench.tick, lambda: bench.stream.consumers.values(), self.told.append)

    async def look(self, times: int = 1) -> int:
        """Look so often; returns the breaches so far."""
        for _ in range(times):
            self.watchdog.look()
            await self.bench.turn()
        return self.watchdog.breaches

    def make_deaf(self) -> None:
        """A fault: the stream does not tell its consumers of commits any more."""
        stream = self.bench.stream
        kept = dict(stream.consumers)
        stream.consumers.clear()
        stream._tell_ingest()
        stream.consumers.update(kept)


@pytest.fixture
async def watch(tmp_path: Path) -> AsyncIterator[Watch]:
    bench = ConsumerBench(tmp_path)
    bench.open()
    watch = Watch(bench)
    yield watch
    watch.watchdog.stop()
    await bench.close()


def payloads(mailbox: Mailbox) -> list[bytes]:
    return [message.payload for message in mailbox.take() if not message.status]


async def test_a_lost_wake_of_a_pull_consumer_is_found_counted_and_healed(watch: Watch) -> None:
    bench = watch.bench
    bench.consumer("c")
    inbox = await bench.pull({"batch": 10, "expires": 60 * SECOND})
    await bench.fill("s.a")
    assert payloads(inbox) == [b"data"]
    assert await watch.look(3) == 0
    watch.make_deaf()
    await bench.fill("s.b", "s.c")
    assert payloads(inbox) == []
    assert await watch.look() == 0  # for all it knows this was a moment ago
    assert await watch.look() == 1
    assert payloads(inbox) == [b"data", b"data"]
    assert await watch.look(3) == 1
    (state,) = watch.told
    assert (state["account"], state["stream_name"], state["name"]) == (
        bench.router.account_name,
        bench.stream.name,
        "c",
    )
    assert (state["num_waiting"], state["num_pending"], state["next_seq"], state["committed"]) == (1, 2, 2, 3)


async def test_a_lost_wake_of_a_push_consumer_is_found(watch: Watch) -> None:
    bench = watch.bench
    inbox = bench.mailbox("deliver.here")
    bench.consumer("c", deliver_subject="deliver.here")
    await bench.fill("s.a")
    watch.make_deaf()
    await bench.fill("s.b")
    assert len(payloads(inbox)) == 1
    assert await watch.look(2) == 1
    assert len(payloads(inbox)) == 1


async def test_what_may_wait_is_no_breach(watch: Watch) -> None:
    bench = watch.bench
    await bench.fill("s.a", "s.b", "s.c", payload=bytes(700_000))
    bench.consumer("idle")  # nobody asks
    bench.consumer("full", max_ack_pending=1)
    await bench.pull({"batch": 3, "expires": 60 * SECOND}, "full")
    bench.consumer("elsewhere", filter_subject="s.none")
    await bench.pull({"batch": 3, "expires": 60 * SECOND}, "elsewhere")
    bench.consumer("silent", deliver_subject="nobody.here")
    bench.mailbox("slow.here")
    bench.consumer("slow", deliver_subject="slow.here", rate_limit_bps=1)
    gone = bench.mailbox()
    bench.consumer("gone")
    await bench.pull({"batch": 5, "expires": 60 * SECOND}, "gone", gone)
    gone.close()
    bench.consumer("paused", pause_until="2999-01-01T00:00:00Z")
    await bench.pull({"batch": 3, "expires": 60 * SECOND}, "paused")
    watch.make_deaf()
    await bench.fill("s.d")
    assert await watch.look(4) == 0


async def test_a_consumer_that_delivers_is_left_alone(watch: Watch) -> None:
    bench = watch.bench
    bench.consumer("c")
    inbox = await bench.pull({"batch": 100, "expires": 60 * SECOND})
    for _ in range(5):
        await bench.fill("s.a")
        assert await watch.look() == 0
    assert len(payloads(inbox)) == 5


async def test_many_breaches_are_few_lines_and_take_turns(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JS_WORK_NS", 0)
    went: list[int] = []
    stalled = [
        SimpleNamespace(is_stalled=lambda: True, describe=dict, set_going=lambda number=number: went.append(number))
        for number in range(50)
    ]
    watchdog = Watchdog(watch.bench.tick, lambda: stalled, watch.told.append)
    watchdog.look()
    assert len(went) == 1  # each has its turn of the event loop
    async with asyncio.timeout(10):
        while len(went) < 50:
            await asyncio.sleep(0)
    watchdog.stop()
    assert (watchdog.breaches, len(watch.told)) == (50, limits.JS_WATCHDOG_LINES)


async def test_a_consumer_that_cannot_be_looked_at_keeps_no_other_from_being_set_going(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    went: list[str] = []

    def refused() -> Any:
        looks.append("refused")
        raise StorageError("Too many open files")

    monkeypatch.setattr(limits, "JS_WATCHDOG_SECONDS", 0.01)
    consumers = [
        SimpleNamespace(is_stalled=refused, describe=dict, set_going=lambda: went.append("unread")),
        SimpleNamespace(is_stalled=lambda: True, describe=refused, set_going=lambda: went.append("untold")),
        SimpleNamespace(is_stalled=lambda: True, describe=dict, set_going=lambda: went.append("told")),
    ]
    watchdog = Watchdog(watch.bench.tick, lambda: consumers, watch.told.append)
    watchdog.look()
    assert (len(looks), went) == (2, ["untold", "told"])
    async with asyncio.timeout(10):
        while len(looks) < 4:  # it looks again
            await asyncio.sleep(0)
    watchdog.stop()
    assert {str(context["exception"]) for context in watch.bench.errors} == {"Too many open files"}
    watch.bench.errors.clear()


async def test_a_broker_tells_of_a_breach(tmp_path: Path) -> None:
    command = [sys.executable, str(FAULTY)]
    flags = ("-js", "-sd", str(tmp_path), "-m", "-1")
    with process.ServerProcess(command, flags) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        consumer = await js.pull_subscribe("s", durable="c")
        waiting = asyncio.create_task(consumer.fetch(1, timeout=30))
        async with asyncio.timeout(20):
            while (await js.consumer_info("S", "c")).num_waiting == 0:
                await asyncio.sleep(0.01)
        await js.publish("s", b"deaf")
        (message,) = await waiting
        assert message.data == b"deaf"
        assert get_json(monitor_port(server), "/jsz")["watchdog_breaches"] == 1
        assert get_json(monitor_port(server), "/varz")["jetstream"]["watchdog_breaches"] == 1
        await client.close()
    (line,) = [line for line in server.log if "had messages and demand" in line]
    assert "[ERR] Consumer '$G > S > c' had messages and demand, and has delivered nothing for a second: " in line
    assert "'num_pending': 1" in line
