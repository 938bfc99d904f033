"""One publish may make very many messages superfluous: they are removed in turns, and others are served in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jetbroker import limits
from tests.jetstream.test_removals import MESSAGES, call, consumer, fill, pair, pending
from tests.jetstream.test_stream_life import FullDisk
from tests.jetstream.test_turns import Peer
from tests.support import process
from tests.support.consumers import ConsumerBench, counts, positions
from tests.support.streams import StreamBench

__all__ = ["pair"]

ROLL_UP = b"NATS/1.0\r\nNats-Rollup: %s\r\n\r\n"
SECONDS = 30


def stored(bench: StreamBench, count: int, storage: str, **config: Any) -> Any:
    """A stream with messages on 200 subjects, and its log."""
    stream = bench.open(storage=storage, allow_rollup_hdrs=True, **config)
    for number in range(count):
        stream.log.append_message(b"s.%d" % (number % 200), b"x")
    return stream


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize(("scope", "before", "gone"), [(b"all", 400_000, 400_000), (b"sub", 40_000, 200)])
async def test_a_large_roll_up_takes_turns_and_is_acked_at_the_end(
    tmp_path: Path, storage: str, scope: bytes, before: int, gone: int
) -> None:
    bench = StreamBench(tmp_path)
    log = stored(bench, before, storage).log
    await bench.settle()
    answer = bench.send("s.7", b"new", ROLL_UP % scope)
    assert log.messages == before + 1  # nothing is removed while its publisher waits
    turns = 0
    async with asyncio.timeout(SECONDS):
        while answer.empty():
            bench.publish("s.7")
            await asyncio.sleep(0)
            turns += 1
    assert bench.answer_json(answer)["seq"] == before + 1
    assert turns >= (2 if scope == b"all" else 1)
    assert log.messages == before - gone + 1 + turns
    assert log.read_next(None, 1)[1] == (before + 1 if scope == b"all" else 1)
    assert log.last_by_subject(b"s.7") == log.last_seq == before + 1 + turns
    await bench.close()


async def test_roll_ups_of_the_same_are_done_together(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    log = stored(bench, 10_000, "file").log
    answers = [bench.send("s.7", b"new", ROLL_UP % b"all") for _ in range(20)]
    async with asyncio.timeout(SECONDS):
        acks = [await answer.get() for answer in answers]
    assert [ack[1] for ack in acks] == [b'{"stream":"S","seq":%d}' % (10_001 + number) for number in range(20)]
    assert (log.messages, log.first_seq) == (1, 10_020)
    await bench.close()


async def test_the_roll_up_of_an_atomic_batch_is_acked_at_the_end(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    log = stored(bench, 10_000, "file", allow_atomic=True).log
    head = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n%s\r\n"
    bench.publish("s.a", b"1", head % (1, b"Nats-Rollup: all\r\n"))
    answer = await bench.ask("s.b", b"2", head % (2, b"Nats-Batch-Commit: 1\r\n"))
    assert (answer["seq"], answer["count"], log.messages, log.first_seq) == (10_002, 2, 2, 10_001)
    await bench.close()


@pytest.mark.parametrize("scope", [b"all", b"sub"])
async def test_a_large_roll_up_that_cannot_be_written_removes_nothing(tmp_path: Path, scope: bytes) -> None:
    disk = FullDisk()
    bench = StreamBench(tmp_path, disk=disk)
    stream = stored(bench, 40_000, "file")
    await bench.settle()
    before = stream.state()
    disk.full = True
    assert (await bench.ask("s.7", b"new", ROLL_UP % scope))["error"]["err_code"] == 10077
    assert stream.state() == before | {"last_ts": stream.state()["last_ts"]}
    disk.full = False
    async with asyncio.timeout(SECONDS):
        while "error" in (answer := await bench.ask("s.7", b"new", ROLL_UP % scope)):
            await asyncio.sleep(0.02)
    assert answer["seq"] == 40_001
    assert stream.log.messages == (1 if scope == b"all" else 39_801)
    await bench.close()


@pytest.mark.parametrize("scope", [b"all", b"sub"])
@pytest.mark.parametrize("count", [3, 100])
async def test_consumers_get_what_a_roll_up_that_cannot_be_written_would_have_replaced(
    tmp_path: Path, scope: bytes, count: int
) -> None:
    disk = FullDisk()
    bench = ConsumerBench(tmp_path, disk=disk)
    bench.open(storage="file", allow_rollup_hdrs=True)
    consumers = [bench.consumer("all"), bench.consumer("one", filter_subject="s.a")]
    await bench.fill(*["s.a"] * count)
    disk.full = True
    assert (await bench.ask("s.a", b"new", ROLL_UP % scope))["error"]["err_code"] == 10077
    disk.full = False
    for one in consumers:
        assert (positions(one), counts(one)) == (((0, 0), (0, 0)), (0, 0, 0, count))
        got = (await bench.pull({"batch": count, "no_wait": True}, one.name)).take()
        assert [message.numbers[1] for message in got if not message.status] == list(range(1, count + 1))
    async with asyncio.timeout(SECONDS):
        while "error" in await bench.ask("s.a", b"new", ROLL_UP % scope):
            await asyncio.sleep(0.02)
    for one in consumers:
        assert positions(one)[1][1] == bench.stream.log.first_seq - 1 > count - 1
        assert counts(one) == (0, 0, 0, 1)
    await bench.close()


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_large_message_evicts_many_small_ones_in_turns(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    log = stored(bench, 20_000, storage, max_bytes=1_000_000).log
    await bench.settle()
    answer = bench.send("s.big", bytes(900_000))
    assert log.messages == 20_001 - limits.JS_EVICTED_AT_ONCE
    async with asyncio.timeout(SECONDS):
        while log.bytes > 1_000_000:
            before = log.messages
            bench.publish("s.7", b"x")
            assert log.messages > before - limits.JS_EVICTED_AT_ONCE
            await asyncio.sleep(0)
        await answer.get()
    assert log.bytes > 950_000
    assert log.get(20_001)[3] == bytes(900_000)
    await bench.close()


@pytest.mark.parametrize(("scope", "left"), [("all", 1), ("sub", MESSAGES - 299)])
def test_consumers_know_what_a_large_roll_up_has_left(pair: tuple[Peer, Peer], scope: str, left: int) -> None:
    asker, bystander = pair
    config = call(asker, "STREAM.INFO.S")["config"] | {"allow_rollup_hdrs": True}
    assert "error" not in call(asker, "STREAM.UPDATE.S", config)
    consumer(asker, "all")
    consumer(asker, "one", filter_subject="s.1")
    block = f"NATS/1.0\r\nNats-Rollup: {scope}\r\n\r\n"
    asker.socket.sendall(f"HPUB s.1 {asker.inbox}.9 {len(block)} {len(block)}\r\n{block}\r\n".encode())
    bystander.ping()
    asker.until(b"}\r\n")
    assert pending(bystander, "all") == left
    assert pending(bystander, "one") == 1


@pytest.mark.parametrize("pings", [0, 1, 3])
def test_a_kill_in_the_middle_of_a_roll_up_leaves_the_newest(tmp_path: Path, pings: int) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        asker, bystander = Peer(server.port), Peer(server.port)
        fill(asker, "file")
        config = call(asker, "STREAM.INFO.S")["config"] | {"allow_rollup_hdrs": True}
        assert "error" not in call(asker, "STREAM.UPDATE.S", config)
        block = "NATS/1.0\r\nNats-Rollup: all\r\n\r\n"
        asker.socket.sendall(f"HPUB s.1 {asker.inbox}.9 {len(block)} {len(block)}\r\n{block}\r\n".encode())
        for _ in range(pings):
            bystander.ping()
        was_answered = asker.has_heard(b"}\r\n")
        server.kill()
        server.start()
        state = call(Peer(server.port), "STREAM.INFO.S")["state"]
    assert state["last_seq"] in (MESSAGES, MESSAGES + 1)
    assert state["messages"] == state["last_seq"] - state["first_seq"] + 1
    if state["last_seq"] == MESSAGES:
        assert state["messages"] == MESSAGES and not was_answered
    assert not was_answered or state["messages"] == 1
