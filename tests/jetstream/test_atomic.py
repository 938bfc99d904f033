"""Atomic batches in one stream: given up, bounded, refused by the disk, and never seen in part."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from jetbroker import limits
from jetbroker.jetstream.models.contracts import BatchLimits
from jetbroker.wire.headers import header_value
from tests.jetstream.test_ttl import FullDisk, header, stored
from tests.support.process import ServerProcess
from tests.support.publishes import Publish, Publisher
from tests.support.streams import StreamBench

ADVISORY = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"


def part(batch: str, seq: int, commit: str = "", **more: str) -> bytes:
    end = {"Nats_Batch_Commit": commit} if commit else {}
    return header(Nats_Batch_Id=batch, Nats_Batch_Sequence=str(seq), **end, **more)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


class Bench(StreamBench):
    """With limits of batches."""

    def __init__(self, directory: Path, batches: BatchLimits | None = None, **options: Any) -> None:
        super().__init__(directory, **options)
        if batches is not None:
            self.usage.server.batches = batches


async def empty(queue: asyncio.Queue[tuple[bytes, bytes]]) -> bool:
    """Is the answer the empty ack?"""
    return await asyncio.wait_for(queue.get(), 5) == (b"", b"")


async def test_a_batch_without_news_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BatchLimits(idle_seconds=0.1))
    bench.open(allow_atomic=True)
    begun = time.monotonic()
    assert await empty(bench.send("s.a", b"x", part("b", 1)))
    await until(lambda: bench.advisories)
    assert time.monotonic() - begun >= 0.1
    assert bench.advisories == [
        (ADVISORY, {"stream": "S", "batch": "b", "reason": "timeout"}, "stream_batch_abandoned")
    ]
    assert (bench.usage.server.open_batches, bench.usage.server.staged_bytes) == (0, 0)
    assert (await bench.ask("s.a", b"x", part("b", 2, "1")))["error"]["err_code"] == 10176
    await bench.close()


async def test_news_keep_a_batch(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BatchLimits(idle_seconds=3.0))
    bench.open(allow_atomic=True)
    begun = time.monotonic()
    count = 0
    while time.monotonic() - begun < 3.5:
        count += 1
        bench.publish("s.a", b"x", part("b", count))
        await asyncio.sleep(0.01)
    assert (await bench.ask("s.a", b"x", part("b", count + 1, "1")))["count"] == count + 1
    await bench.close()


async def test_bounds_of_the_server_and_of_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BatchLimits(total=2, messages=100))
    stream = bench.open(allow_atomic=True)
    large = bytes(4 * 1024 * 1024)
    for batch in ("a", "b"):
        assert await empty(bench.send("s.a", large, part(batch, 1)))
    assert (await bench.ask("s.a", b"", part("c", 1)))["error"]["err_code"] == 10210
    kept = bench.usage.server.staged_bytes
    assert kept > 2 * len(large)
    seq = 1
    while True:
        seq += 1
        answer = await asyncio.wait_for(bench.send("s.a", large, part("a", seq)).get(), 5)
        if answer != (b"", b""):
            break
    assert json.loads(answer[1])["error"]["err_code"] == 10023
    assert seq * len(large) >= limits.JS_BATCH_BYTES - len(large)
    assert bench.advisories[-1][1] == {"stream": "S", "batch": "a", "reason": "large"}
    assert (bench.usage.server.open_batches, bench.usage.server.staged_bytes) == (1, kept // 2)
    stream.stop()
    assert (bench.usage.server.open_batches, bench.usage.server.staged_bytes) == (0, 0)
    await bench.close()


@pytest.mark.parametrize(("patterns", "code"), [(200, None), (400, 10199)])
async def test_expectations_of_a_batch_look_at_a_bounded_number_of_subjects(
    tmp_path: Path, patterns: int, code: int | None
) -> None:
    bench = Bench(tmp_path)
    bench.open(allow_atomic=True)
    for number in range(1000):
        bench.publish(f"s.{number}", b"")
    for seq in range(1, patterns + 1):
        commit = "1" if seq == patterns else ""
        expected = {"Nats_Expected_Last_Subject_Sequence": "0"}
        expected["Nats_Expected_Last_Subject_Sequence_Subject"] = f"s.*.{seq}"
        answers = bench.send(f"s.x.y.{seq}", b"x", part("b", seq, commit, **expected))
    answer = json.loads((await asyncio.wait_for(answers.get(), 5))[1])
    assert answer.get("error", {}).get("err_code") == code
    await bench.close()


async def test_no_ack_means_no_answer_at_all(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stream = bench.open(allow_atomic=True, no_ack=True)
    answers = [bench.send("s.a", b"", part("b", 1)), bench.send("s.a", b"", part("b", 2, "1"))]
    answers.append(bench.send("s.a", b"", part("c", 5)))
    await bench.settle()
    assert [seq for seq, _, _ in stored(stream)] == [1, 2]
    assert all(queue.empty() for queue in answers)
    await bench.close()


async def test_a_full_disk_takes_all_of_a_batch_back(tmp_path: Path) -> None:
    disk = FullDisk()
    bench = Bench(tmp_path, disk=disk)
    stream = bench.open(storage="file", allow_atomic=True, max_msgs_per_subject=1, allow_rollup_hdrs=True)
    for subject in ("s.a", "s.b", "s.c"):
        await bench.ask(subject, b"old", header(Nats_Msg_Id=f"of {subject}"))
    before = stored(stream)
    disk.full = True
    messages: tuple[tuple[str, dict[str, str]], ...] = (
        ("s.a", {}),
        ("s.b", {"Nats_Rollup": "sub"}),
        ("s.d", {"Nats_Msg_Id": "new"}),
    )
    for seq, (subject, more) in enumerate(messages, 1):
        bench.publish(subject, b"new", part("b", seq, **more))
    answer = await bench.ask("s.a", b"new", part("b", 4, "1"))
    assert answer["error"]["err_code"] == 10077
    assert stored(stream) == before
    disk.full = False

    async def again() -> dict[str, Any]:
        for seq, (subject, more) in enumerate(messages, 1):
            bench.publish(subject, b"new", part("b", seq, **more))
        answer: dict[str, Any] = await bench.ask("s.a", b"new", part("b", 4, "1"))
        return answer

    async with asyncio.timeout(10):
        while "error" in (answer := await again()):
            assert stored(stream) == before
    assert answer == {"stream": "S", "seq": 7, "batch": "b", "count": 4}
    assert [(seq, subject) for seq, subject, _ in stored(stream)] == [(3, "s.c"), (5, "s.b"), (6, "s.d"), (7, "s.a")]
    await bench.close()


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_nobody_sees_a_part(broker: ServerProcess, storage: str) -> None:
    """Each look at the stream while batches are committed finds whole ones only."""
    writer, reader = [await nats.connect(broker.url, allow_reconnect=False) for _ in range(2)]
    publisher = Publisher(writer)
    await publisher.start()
    config = {"name": "PARTS", "subjects": ["parts"], "storage": storage, "allow_atomic": True, "allow_direct": True}
    await publisher.api("STREAM.CREATE.PARTS", config)
    js = reader.jetstream()
    size = 10
    seen: list[int | None] = []
    done = asyncio.Event()

    async def write() -> None:
        for batch in range(20):
            for seq in range(1, size):
                headers = (("Nats-Batch-Id", f"b{batch}"), ("Nats-Batch-Sequence", str(seq)))
                await publisher.send(Publish("parts", headers, b"x"))
            last = (*headers[:1], ("Nats-Batch-Sequence", str(size)), ("Nats-Batch-Commit", "1"))
            ack, _ = await publisher.ask(Publish("parts", last, b"x"))
            assert json.loads(ack)["seq"] == (batch + 1) * size
        done.set()

    async def look() -> None:
        subscription = await js.pull_subscribe("parts", "looker")
        while not done.is_set():
            seen.append((await js.stream_info("PARTS")).state.last_seq)
            seen.append((await subscription.consumer_info()).num_pending)
            seen.append((await js.get_last_msg("PARTS", "parts", direct=True)).seq if seen[-1] else 0)

    await asyncio.gather(write(), look())
    assert [number for number in seen if number is None or number % size] == []
    message = await js.get_msg("PARTS", 1)
    assert message.headers is not None
    assert header_value(part("b0", 1), b"Nats-Batch-Id") == message.headers["Nats-Batch-Id"].encode()
    await js.delete_stream("PARTS")
    await writer.close()
    await reader.close()
