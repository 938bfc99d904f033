"""What a stream does over time: expiry, the duplicate window, failed writes, purges, new configurations."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jetbroker.errors import SequenceError
from jetbroker.jetstream.api.pages import first_of, subjects_page
from jetbroker.jetstream.publish.dedup import DedupWindow
from jetbroker.store.disk import ObservedDisk
from jetbroker.turns import at_once
from tests.support.streams import StreamBench, stream_config

SECOND_NS = 1_000_000_000
STORAGES = ["memory", "file"]
WITH_ID = b"NATS/1.0\r\nNats-Msg-Id: %s\r\n\r\n"


class FullDisk(ObservedDisk):
    """A disk that refuses every write while `full`."""

    full = False

    def before(self, call: str, path: str, size: int, offset: int) -> int | None:
        if self.full and call == "write":
            raise OSError(errno.ENOSPC, "No space left on device")
        return None


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[StreamBench]:
    made = StreamBench(tmp_path)
    yield made
    await made.close()


async def until(condition: Any, seconds: float = 20.0) -> None:
    """Wait for something a timer does."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


# --- age ---


@pytest.mark.parametrize("storage", STORAGES)
async def test_messages_expire_when_they_are_due(bench: StreamBench, storage: str) -> None:
    stream = bench.open(storage=storage, max_age=3 * SECOND_NS)
    loop = asyncio.get_running_loop()
    first_at = loop.time()
    await bench.ask("s.a")
    await asyncio.sleep(1.5)
    second_at = loop.time()
    await bench.ask("s.b")
    await until(lambda: stream.log.first_seq == 2)
    assert stream.log.messages == 1
    assert loop.time() - first_at >= 2.9
    await until(lambda: stream.log.messages == 0)
    assert loop.time() - second_at >= 2.9
    state = stream.state()
    assert (state["first_seq"], state["last_seq"], state["first_ts"]) == (3, 2, "0001-01-01T00:00:00Z")
    # the timer starts again with the next message
    assert (await bench.ask("s.a"))["seq"] == 3
    await until(lambda: stream.log.messages == 0)


async def test_many_messages_expire_in_bounded_steps(bench: StreamBench) -> None:
    stream = bench.open(max_age=SECOND_NS // 10)
    for _ in range(50_000):
        bench.publish("s.a")
    await bench.settle()
    seen = []

    def emptied() -> bool:
        seen.append(stream.log.messages)
        return bool(stream.log.messages == 0)

    await until(emptied)
    assert stream.log.first_seq == 50_001


async def test_a_shorter_age_holds_at_once(bench: StreamBench) -> None:
    stream = bench.open()
    await bench.ask("s.a")
    await asyncio.sleep(0.12)
    stream.config.max_age = SECOND_NS // 10
    stream.apply_config(stream.config)
    await until(lambda: stream.log.messages == 0, 0.5)


# --- the duplicate window ---


@pytest.mark.parametrize("storage", STORAGES)
async def test_ids_are_known_again_after_a_restart(bench: StreamBench, storage: str) -> None:
    before = bench.open(storage=storage)
    for name in (b"a", b"b", b"c"):
        await bench.ask("s.x", b"", WITH_ID % name)
    await bench.ask("s.x", b"none")
    before.stop()
    bench.start_stream(before.config, before.log)
    assert await bench.ask("s.x", b"", WITH_ID % b"b") == {"stream": "S", "seq": 2, "duplicate": True}
    assert (await bench.ask("s.x", b"", WITH_ID % b"d"))["seq"] == 5
    assert await bench.ask("s.x", b"", WITH_ID % b"d") == {"stream": "S", "seq": 5, "duplicate": True}


async def test_ids_leave_the_window(bench: StreamBench) -> None:
    bench.open(duplicate_window=SECOND_NS)
    assert (await bench.ask("s.x", b"", WITH_ID % b"a"))["seq"] == 1
    assert (await bench.ask("s.x", b"", WITH_ID % b"a"))["seq"] == 1
    await asyncio.sleep(1.1)
    assert (await bench.ask("s.x", b"", WITH_ID % b"a"))["seq"] == 2


async def test_an_id_that_has_left_the_window_counts_no_more_although_it_is_still_there(bench: StreamBench) -> None:
    stream = bench.open()
    count = 3000
    for number in range(count):
        bench.publish("s.x", b"", WITH_ID % b"%d" % number)
    stream.apply_config(replace(stream.config, duplicate_window=1))
    assert (await bench.ask("s.x", b"", WITH_ID % b"%d" % (count - 1)))["seq"] == count + 1


async def test_very_many_ids_that_leave_the_window_are_dropped_in_turns(bench: StreamBench) -> None:
    stream = bench.open()
    count = 50_000
    for number in range(count):
        bench.publish("s.x", b"", WITH_ID % b"%d" % number)
    window = DedupWindow(stream.log, bench.host.turns, stream.config.duplicate_window)
    window.start()
    assert len(window) == count
    window.resize(1)
    oldest = window.prune(time.time_ns())
    assert oldest >= stream.log.time_of(1) and len(window) > count - 1000
    async with asyncio.timeout(10):
        while len(window):
            await asyncio.sleep(0)
    assert window.prune(time.time_ns()) == 0


async def test_ids_survive_a_purge(bench: StreamBench) -> None:
    stream = bench.open()
    await bench.ask("s.x", b"", WITH_ID % b"a")
    assert stream.purge() == 1
    assert await bench.ask("s.x", b"", WITH_ID % b"a") == {"stream": "S", "seq": 1, "duplicate": True}


# --- durability ---


async def test_a_duplicate_of_an_uncommitted_message_waits_for_it(bench: StreamBench) -> None:
    stream = bench.open(storage="file")
    first = bench.send("s.x", b"", WITH_ID % b"a")
    second = bench.send("s.x", b"", WITH_ID % b"a")
    assert stream.log.committed == 0
    assert first.empty() and second.empty()
    await stream.commit()
    await asyncio.sleep(0)
    assert bench.answer_json(first) == {"stream": "S", "seq": 1}
    assert bench.answer_json(second) == {"stream": "S", "seq": 1, "duplicate": True}


async def test_a_full_disk_refuses_at_once_and_recovers_alone(tmp_path: Path) -> None:
    disk = FullDisk()
    bench = StreamBench(tmp_path, disk=disk)
    stream = bench.open(storage="file")
    assert (await bench.ask("s.x", b"1", WITH_ID % b"a"))["seq"] == 1
    disk.full = True
    refusals = [await bench.ask("s.x", b"2", WITH_ID % b"b") for _ in range(3)]
    for refusal in refusals:
        assert (refusal["error"]["code"], refusal["error"]["err_code"]) == (503, 10077)
        assert "No space left on device" in refusal["error"]["description"]
    assert stream.log.get(1)[3] == b"1"
    disk.full = False

    async def stored() -> int:
        while "error" in (answer := await bench.ask("s.x", b"2", WITH_ID % b"b")):
            await asyncio.sleep(0.02)
        return int(answer["seq"])

    # the id of the refused publishes has not been remembered
    assert await asyncio.wait_for(stored(), 5) == 2
    assert (await bench.ask("s.x", b"2", WITH_ID % b"b")).get("duplicate")
    await bench.close()


# --- removals and configuration ---


async def test_subjects_follow_the_configuration(bench: StreamBench) -> None:
    stream = bench.open(subjects=["s.>"], allow_direct=True)
    await bench.ask("s.a", b"1")
    stream.config.subjects = ["t.*", "s.>"]
    stream.apply_config(stream.config)
    assert (await bench.ask("t.a"))["seq"] == 2
    stream.config.subjects = ["t.*"]
    stream.config.allow_direct = False
    stream.apply_config(stream.config)
    assert not bench.router.interested(b"s.a")
    assert not bench.router.interested(b"$JS.API.DIRECT.GET.S")
    assert (await bench.ask("t.a"))["seq"] == 3
    stream.stop()
    assert not bench.router.interested(b"t.a")


@pytest.mark.parametrize("storage", STORAGES)
async def test_purge_delete_and_the_subjects_page(bench: StreamBench, storage: str) -> None:
    stream = bench.open(storage=storage)
    for i in range(6):
        await bench.ask(f"s.{i % 3}")
    assert await subjects_page(stream, "s.*", 0, 100) == ({"s.0": 2, "s.1": 2, "s.2": 2}, 3)
    assert await subjects_page(stream, ">", 1, 1) == ({"s.1": 2}, 3)
    assert stream.delete_message(3) and not stream.delete_message(3)
    assert stream.purge("s.0") == 2
    assert (await first_of(stream, "s.1", 1))[1] == 2
    assert (await first_of(stream, "s.1", 6))[1] == 0
    await stream.commit()
    shown, _ = await subjects_page(stream, ">", 0, 100)
    state = stream.state(deleted_details=True, subjects=shown)
    assert list(state) == [
        "messages", "bytes", "first_seq", "first_ts", "last_seq", "last_ts",
        "num_subjects", "subjects", "num_deleted", "deleted", "consumer_count",
    ]  # fmt: skip
    assert (state["messages"], state["first_seq"], state["deleted"]) == (3, 2, [3, 4])


@pytest.mark.parametrize("storage", STORAGES)
async def test_a_purge_behind_the_end_moves_the_stream_on(bench: StreamBench, storage: str) -> None:
    stream = bench.open(storage=storage)
    for _ in range(3):
        await bench.ask("s.a")
    assert stream.purge("", 10) == 3
    assert (stream.log.first_seq, stream.log.last_seq) == (10, 9)
    assert (await bench.ask("s.a"))["seq"] == 10
    assert stream.purge("s.none") == 0
    assert stream.purge(">") == 1
    with pytest.raises(SequenceError):
        stream.purge("", 2**64 - 1)
    assert (await bench.ask("s.a"))["seq"] == 11


async def test_a_first_sequence_of_its_own(bench: StreamBench) -> None:
    stream = bench.open(first_seq=100)
    assert (stream.log.first_seq, stream.log.last_seq) == (100, 99)
    assert (await bench.ask("s.a"))["seq"] == 100


@pytest.mark.parametrize("storage", STORAGES)
async def test_without_consumers_an_interest_stream_only_counts(bench: StreamBench, storage: str) -> None:
    stream = bench.open(storage=storage, retention="interest")
    queues = [bench.send("s.a") for _ in range(2_000)]
    await bench.settle()
    assert [bench.answer_json(queue)["seq"] for queue in queues] == list(range(1, 2_001))
    assert (stream.log.messages, stream.log.first_seq, stream.log.last_seq) == (0, 2_001, 2_000)
    if storage == "file":
        assert len(list(bench.directory.glob("*/*.seg"))) <= 2


ROLLUP = b"NATS/1.0\r\nNats-Rollup: %s\r\n\r\n"


@pytest.mark.parametrize(
    ("config", "headers"),
    [
        ({"max_msgs_per_subject": 3}, b""),
        ({"max_msgs": 3}, b""),
        ({"max_bytes": 120}, b""),
        ({"allow_rollup_hdrs": True}, ROLLUP % b"sub"),
        ({"allow_rollup_hdrs": True}, ROLLUP % b"all"),
    ],
    ids=["per subject", "messages", "bytes", "roll-up of a subject", "roll-up of all"],
)
async def test_what_a_lost_message_evicted_comes_back(tmp_path: Path, config: dict[str, int], headers: bytes) -> None:
    disk = FullDisk()
    bench = StreamBench(tmp_path, disk=disk)
    stream = bench.open(storage="file", **config)
    for payload in (b"0", b"1", b"2"):
        await bench.ask("s.x", payload)
    before = stream.state(deleted_details=True)
    disk.full = True
    assert (await bench.ask("s.x", b"3", headers))["error"]["err_code"] == 10077
    after = stream.state(deleted_details=True)
    del before["last_ts"], after["last_ts"]
    assert after == before
    assert [stream.log.get(seq)[3] for seq in (1, 2, 3)] == [b"0", b"1", b"2"]
    assert stream.log.last_by_subject(b"s.x") == 3
    # a delete holds nevertheless, and goes on to hold when writing works again
    assert stream.delete_message(2, erase=False)
    disk.full = False
    await stream.commit()
    assert [stream.log.get(seq)[0] for seq in (1, 2, 3)] == [0, 1, 0]
    await bench.close()


async def test_a_page_of_many_subjects_is_the_same_as_of_all_sorted(bench: StreamBench) -> None:
    stream = bench.open(storage="memory")
    names = [f"s.{number * 7919 % 10_000}" for number in range(10_000)]
    for name in names:
        stream.log.append_message(name.encode(), b"")
    everything = sorted(names)
    for offset, limit in ((0, 10), (4090, 5000), (9990, 100), (10_000, 5), (0, 20_000)):
        shown, total = await subjects_page(stream, "s.*", offset, limit)
        assert (list(shown), total) == (everything[offset : offset + limit], 10_000)


async def test_very_many_subjects_come_and_go_in_steps(bench: StreamBench) -> None:
    stream = bench.open(storage="memory")
    many = [f"s.{number}" for number in range(10_000)]
    assert sum(1 for _ in stream.applying(stream_config(subjects=many))) > 2 * 10_000 // 256
    assert len(stream.own_subjects.patterns) == 10_000
    assert sum(1 for _ in stream.applying(stream_config(subjects=["s.>"]))) >= 10_000 // 256
    assert (await bench.ask("s.7", b"x"))["seq"] == 1
    at_once(stream.applying(stream_config(subjects=many)))
    assert (await bench.ask("s.7", b"x"))["seq"] == 2
    steps = stream.stopping()
    next(steps)
    assert not stream.running
    assert sum(1 for _ in steps) >= 10_000 // 256 - 1
    assert not bench.router.interested(b"s.7")
