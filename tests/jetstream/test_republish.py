"""What a stream publishes again: when, in which order, and what a failed disk and an update do to it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jetbroker.routing.router import CallbackReceiver
from tests.store.support import FaultyDisk
from tests.support.streams import StreamBench, stream_config

REPUBLISH = {"republish": {"src": ">", "dest": "re.>"}}
BLOCK = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: "
Message = tuple[bytes, bytes, bytes]  # subject, headers, payload


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[StreamBench]:
    made = StreamBench(tmp_path)
    yield made
    await made.close()


def listen(bench: StreamBench, subject: str = "re.>") -> list[Message]:
    """What comes on `subject` from now on."""
    found: list[Message] = []

    def keep(got: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: None) -> None:
        found.append((got, headers, payload))

    bench.router.subscribe(CallbackReceiver(bench.tick, keep), subject.encode())
    return found


def sequences(found: list[Message]) -> list[tuple[int, int]]:
    """(Nats-Sequence, Nats-Last-Sequence) of each."""
    numbers = []
    for _, headers, _ in found:
        lines = dict(line.split(b": ", 1) for line in headers.split(b"\r\n")[1:-2])
        numbers.append((int(lines[b"Nats-Sequence"]), int(lines[b"Nats-Last-Sequence"])))
    return numbers


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_each_stored_message_is_published_again(bench: StreamBench, storage: str) -> None:
    bench.open(storage=storage, **REPUBLISH)
    found = listen(bench)
    for number in range(4):
        bench.publish(f"s.{number % 2}", b"m%d" % number)
    await bench.settle()
    await asyncio.sleep(0)
    assert sequences(found) == [(1, 0), (2, 0), (3, 1), (4, 2)]
    assert [(subject, payload) for subject, _, payload in found] == [
        (b"re.s.0", b"m0"), (b"re.s.1", b"m1"), (b"re.s.0", b"m2"), (b"re.s.1", b"m3"),
    ]  # fmt: skip
    assert found[0][1].startswith(BLOCK % (b"s.0", 1))
    assert found[0][1].endswith(b"Z\r\nNats-Last-Sequence: 0\r\n\r\n")


async def test_nothing_is_published_again_before_it_is_on_disk(tmp_path: Path) -> None:
    gate = threading.Event()

    def rule(call: str, path: str, size: int) -> None:
        if call == "fdatasync" and path.endswith(".seg"):
            gate.wait(20)

    bench = StreamBench(tmp_path, disk=FaultyDisk(rule))
    bench.open(storage="file", **REPUBLISH)
    found = listen(bench)
    answer = bench.send("s.a", b"1")
    for _ in range(20):
        await asyncio.sleep(0)
    assert (found, answer.qsize()) == ([], 0)
    gate.set()
    await bench.settle()
    await asyncio.sleep(0)
    assert (sequences(found), answer.qsize()) == ([(1, 0)], 1)
    await bench.close()


async def test_what_cannot_be_written_is_not_published_again(tmp_path: Path) -> None:
    full = False

    def rule(call: str, path: str, size: int) -> None:
        if full and call == "write" and path.endswith(".seg"):
            raise OSError(errno.ENOSPC, "full")

    bench = StreamBench(tmp_path, disk=FaultyDisk(rule))
    bench.open(storage="file", **REPUBLISH)
    found = listen(bench)
    assert (await bench.ask("s.a", b"1"))["seq"] == 1
    full = True
    for payload in (b"lost", b"lost too"):
        assert (await bench.ask("s.a", payload))["error"]["err_code"] == 10077
    full = False
    answer: dict[str, Any] = {}
    while "error" in answer or not answer:  # a failed log lets an append through now and then
        answer = await bench.ask("s.a", b"2")
    await bench.settle()
    assert [payload for _, _, payload in found] == [b"1", b"2"]
    assert sequences(found)[-1] == (answer["seq"], 1)
    await bench.close()


async def test_a_message_that_is_gone_already_is_published_again_all_the_same(bench: StreamBench) -> None:
    bench.open(storage="file", max_msgs_per_subject=1, allow_rollup_hdrs=True, **REPUBLISH)
    found = listen(bench)
    for number in range(500):
        bench.publish("s.a", b"x" * number)
    bench.publish("s.b", b"", b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n")
    await bench.settle()
    await asyncio.sleep(0)
    assert bench.stream.log.messages == 1
    assert sequences(found) == [*((seq, seq - 1) for seq in range(1, 501)), (501, 0)]
    assert [len(payload) for _, _, payload in found[:500]] == list(range(500))
    assert found[500][1].startswith(b"NATS/1.0\r\nNats-Rollup: all\r\nNats-Stream: S\r\n")


async def test_an_update_holds_for_the_next_message(bench: StreamBench) -> None:
    stream = bench.open(storage="file")
    found = listen(bench, "*.s.a")
    from tests.support.streams import stream_config

    for number, republish in enumerate(
        (None, {"src": ">", "dest": "one.>"}, {"src": "s.a", "dest": "two.s.a", "headers_only": True}, None)
    ):
        # accepted before the update, on disk only after it: goes where it was to go
        bench.publish("s.a", b"%d" % number)
        stream.apply_config(stream_config(storage="file", **({"republish": republish} if republish else {})))
    bench.publish("s.a", b"4")
    await bench.settle()
    await asyncio.sleep(0)
    assert [(subject, payload) for subject, _, payload in found] == [(b"one.s.a", b"2"), (b"two.s.a", b"")]
    assert found[1][1].endswith(b"\r\nNats-Last-Sequence: 3\r\nNats-Msg-Size: 1\r\n\r\n")


async def test_interest_retention_publishes_again_only_what_is_stored(bench: StreamBench) -> None:
    bench.open(storage="file", retention="interest", **REPUBLISH)
    found = listen(bench)
    assert (await bench.ask("s.a"))["seq"] == 1
    assert found == []


async def test_a_destination_that_is_no_subject_is_left_out(bench: StreamBench) -> None:
    bench.open(republish={"src": "s.*", "dest": "re.{{split(1,-)}}.x"})
    found = listen(bench)
    for subject in ("s.-", "s.a-b", "s.-"):
        bench.publish(subject)
    await bench.settle()
    await asyncio.sleep(0)
    assert [subject for subject, _, _ in found] == [b"re.a.b.x"]
    assert len(bench.warnings) == 1 and '"re..x"' in bench.warnings[0]


async def test_no_subject_is_without_its_stream_while_that_is_changed(bench: StreamBench) -> None:
    stream = bench.open(subjects=["s.a", "t.>"])
    await bench.ask("s.a")
    changed = stream_config(subjects=["s.a", "t.>"], **REPUBLISH)
    for _ in stream.applying(changed):
        assert bench.router.interested(b"s.a") and bench.router.interested(b"t.x")
    heard = listen(bench)
    await bench.ask("s.a")
    await bench.settle()
    assert [subject for subject, _, _ in heard] == [b"re.s.a"]
