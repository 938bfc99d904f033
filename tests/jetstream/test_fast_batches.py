"""Fast batches in one stream: an answer means what an ack means, idle ones are given up, the server bounds them."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats

from jetbroker.jetstream.models.contracts import BatchLimits
from jetbroker.routing.router import CallbackReceiver
from jetbroker.store.disk import ObservedDisk
from tests.jetstream.test_ttl import FullDisk
from tests.support.clients import settle
from tests.support.fast import APPEND, COMMIT, END, PING, START, Fast, FastPublisher
from tests.support.process import ServerProcess, jetbroker
from tests.support.streams import StreamBench


class HeldDisk(ObservedDisk):
    """An fdatasync takes until it is let go."""

    def __init__(self) -> None:
        self.waiting = False
        self.go = threading.Event()

    def before(self, call: str, path: str, size: int, offset: int) -> None:
        if call == "fdatasync" and path.endswith(".seg"):
            self.waiting = True
            self.go.wait(10)


class Bench(StreamBench):
    """With publishers of fast batches."""

    def __init__(self, directory: Path, bounds: BatchLimits | None = None, **options: Any) -> None:
        super().__init__(directory, **options)
        self.lines: list[Any] = []
        if bounds is not None:
            self.usage.server.fast_batches = bounds
        receiver = CallbackReceiver(self.tick, self._hear)
        self.router.subscribe(receiver, b"f.>")

    def _hear(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: None) -> None:
        self.lines.append(json.loads(payload))

    def put(self, step: Fast) -> None:
        self.router.publish_bytes(step.subject.encode(), f"f.{step.tokens}".encode(), b"", step.payload)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.005)


def run(first: int, last: int, **more: Any) -> list[Fast]:
    return [Fast(seq, START if seq == 1 else APPEND, **more) for seq in range(first, last + 1)]


async def test_an_answer_waits_for_the_disk(tmp_path: Path) -> None:
    disk = HeldDisk()
    bench = Bench(tmp_path, disk=disk)
    bench.open(storage="file", allow_batched=True)
    for step in run(1, 4, flow=2):
        bench.put(step)
    bench.put(Fast(9, gap="fail"))
    await bench.until(lambda: disk.waiting)
    assert bench.lines == [{"type": "ack", "seq": 0, "msgs": 2}]
    disk.go.set()
    await bench.until(lambda: len(bench.lines) == 5)
    assert [line.get("seq") for line in bench.lines] == [0, 2, 4, 9, 4]
    assert bench.lines[-1] == {"stream": "S", "seq": 4, "batch": "b", "count": 4}
    await bench.close()


async def test_an_idle_batch_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BatchLimits(per_stream=5, total=5, idle_seconds=0.1))
    stream = bench.open(allow_batched=True)
    bench.put(Fast(1, START))
    assert bench.usage.server.open_fast_batches == 1
    await bench.until(lambda: bench.usage.server.open_fast_batches == 0)
    bench.put(Fast(2))
    await bench.until(lambda: len(bench.lines) == 2)
    assert bench.lines[1]["error"]["err_code"] == 10208
    assert stream.log.last_seq == 1  # what was stored stays
    assert not bench.advisories
    await bench.close()


async def test_news_keep_a_batch(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BatchLimits(per_stream=5, total=5, idle_seconds=2.0))
    bench.open(allow_batched=True)
    loop = asyncio.get_running_loop()
    end = loop.time() + 2.2
    seq = 0
    bench.put(Fast(1, START))
    while loop.time() < end:
        bench.put(Fast(1, PING))
        await asyncio.sleep(0.01)
        seq += 1
    bench.put(Fast(2, COMMIT))
    await bench.until(lambda: bench.lines[-1].get("count") == 2)
    assert bench.usage.server.open_fast_batches == 0
    await bench.close()


async def test_bounds_of_the_server(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BatchLimits(per_stream=5, total=2))
    stream = bench.open(allow_batched=True)
    for name in "abc":
        bench.put(Fast(1, START, batch=name))
    await bench.until(lambda: len(bench.lines) == 4)
    assert bench.lines[3]["error"]["err_code"] == 10211
    bench.put(Fast(2, END, batch="a"))
    bench.put(Fast(1, START, batch="c"))
    await bench.until(lambda: len(bench.lines) == 7)
    assert bench.lines[6] == {"type": "ack", "seq": 1, "msgs": 2}
    stream.stop()
    assert bench.usage.server.open_fast_batches == 0
    await bench.close()


async def test_a_full_disk_ends_a_batch(tmp_path: Path) -> None:
    disk = FullDisk()
    bench = Bench(tmp_path, disk=disk)
    stream = bench.open(storage="file", allow_batched=True)
    for step in run(1, 3, flow=2):
        bench.put(step)
    await bench.until(lambda: len(bench.lines) == 2)
    disk.full = True
    for step in run(4, 6, flow=2):
        bench.put(step)
    await bench.until(lambda: len(bench.lines) == 3)
    assert bench.lines[2]["error"]["err_code"] == 10077
    assert bench.usage.server.open_fast_batches == 0
    assert stream.log.last_seq == 3
    await bench.close()


async def test_a_stream_without_acks_says_the_least(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stream = bench.open(allow_batched=True, no_ack=True)
    bench.put(Fast(7))
    for step in run(1, 3, flow=2):
        bench.put(step)
    await bench.settle()
    assert stream.log.last_seq == 3
    assert bench.lines == [{"type": "ack", "seq": 2, "msgs": 2}]
    await bench.close()


async def test_what_was_told_is_there_after_a_kill(tmp_path: Path) -> None:
    server = jetbroker("-js", "-sd", str(tmp_path))
    with server:
        nc = await nats.connect(server.url, allow_reconnect=False)
        publisher = FastPublisher(nc)
        await publisher.listen()
        await publisher.api("STREAM.CREATE.S0", {"name": "S0", "subjects": ["s.>"], "allow_batched": True})
        for step in run(1, 1000, flow=50):
            await publisher.put(step)
        await settle(nc)
        await publisher.until("b.50.fail.500.1.$FI", 11)
        server.kill()
        told = max(json.loads(data)["seq"] for _, data in publisher.lines)
        assert told >= 500
    with server:
        nc = await nats.connect(server.url, allow_reconnect=False)
        info = await nc.jetstream().stream_info("S0")
        assert told <= info.state.messages <= 1000
        await nc.close()


async def test_headers_that_are_made_anew_are_judged_as_they_are(tmp_path: Path) -> None:
    # memory that is freed is overwritten
    with ServerProcess([sys.executable, "-X", "dev", "-m", "jetbroker"], ("-js", "-sd", str(tmp_path))) as server:
        nc = await nats.connect(server.url, allow_reconnect=False)
        publisher = FastPublisher(nc)
        await publisher.listen()
        config = {"name": "S0", "subjects": ["s.>"], "storage": "memory", "allow_batched": True}
        more = {"allow_msg_ttl": True, "subject_delete_marker_ttl": 60 * 10**9, "allow_rollup_hdrs": True}
        await publisher.api("STREAM.CREATE.S0", config | more)
        await nc.jetstream().publish("s.a", b"", headers={"Nats-Msg-Id": "x"})
        headers = (("Nats-Request-Info", "{}"), ("Nats-TTL", "1"), ("Nats-Expected-Last-Msg-Id", "x"))
        await publisher.put(Fast(1, COMMIT, headers=headers))
        await publisher.until("b.10.fail.1.2.$FI", 1)
        assert json.loads(publisher.lines[-1][1]) == {"stream": "S0", "seq": 2, "batch": "b", "count": 1}
        stored = await nc.jetstream().get_msg("S0", 2)
        assert stored.headers == {"Nats-Expected-Last-Msg-Id": "x", "Nats-TTL": "60"}
        await nc.close()
