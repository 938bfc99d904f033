"""Publishes to a stream whose disk refuses reads and writes by turns: each is answered, and what is acked is kept."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetbroker.errors import StorageError
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, FaultyDisk, Told, kill, walk, works
from tests.support.consumers import ConsumerBench
from tests.support.streams import ANSWER_SECONDS, stream_config

SUBJECTS = 20
EACH = 10
HEADERS = (b"", b"Nats-Msg-Id: %d", b"Nats-Rollup: sub", b"Nats-Expected-Last-Subject-Sequence: 0", b"Nats-TTL: 1h")


class Disk(FaultyDisk):
    """Refuses the calls in `broken` for the files of segments."""

    def __init__(self) -> None:
        super().__init__(self._rule)
        self.broken: set[str] = set()
        self.refused = 0

    def _rule(self, call: str, path: str, size: int) -> None:
        if call in self.broken and ".seg" in path:
            self.refused += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class Faulty:
    """A stream in many segments, read again from its files; `told` is the store's log, `reported` the tick's."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.path = str(path / "store")
        self.bench = ConsumerBench(path)
        self.disk = Disk()
        self.told = Told()
        self.reported: list[str] = []
        self.config = stream_config(**{"storage": "file", "allow_rollup_hdrs": True, "allow_msg_ttl": True, **config})
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.reported.append(str(context.get("exception"))))

    async def start(self) -> None:
        store = Store.open(self.path, self.bench.tick, segment_bytes=2000)
        log = await store.create_stream(ACCOUNT, "S", self.config.to_json(), "file", 1)
        for number in range(SUBJECTS * EACH):
            log.append_message(b"s.%d" % (number % SUBJECTS), b"old %d" % number)
        await log.commit()
        await store.close()
        self.open()

    def open(self, *broken: str) -> None:
        """Start with what is stored; the disk refuses these calls as soon as that is found."""
        self.store = Store.open(self.path, self.bench.tick, segment_bytes=2000, disk=self.disk, log=self.told)
        (found,) = self.store.recover(ACCOUNT)
        self.log = found.log
        self.disk.broken = set(broken)
        self.bench.start_stream(self.config, self.log)

    async def publish(self, numbers: range, draw: Callable[[], int]) -> list[tuple[int, Any]]:
        """Many at once, with any headers; each one's answer."""
        waiting = []
        for number in numbers:
            wish = HEADERS[draw() % len(HEADERS)]
            wish = wish % number if b"%d" in wish else wish
            block = b"NATS/1.0\r\n%b\r\n\r\n" % wish if wish else b""
            waiting.append((number, self.bench.send(f"s.{number % SUBJECTS}", b"new %d" % number, block)))
        return [
            (number, json.loads((await asyncio.wait_for(queue.get(), ANSWER_SECONDS))[1])) for number, queue in waiting
        ]

    async def refuses(self, calls: int) -> None:
        """Wait until the disk has refused so many."""
        async with asyncio.timeout(20):
            while self.disk.refused < calls:
                await asyncio.sleep(0.01)

    async def until(self, messages: int) -> None:
        """Wait until there are no more than these."""
        async with asyncio.timeout(20):
            while self.log.messages > messages:
                await asyncio.sleep(0.01)

    async def heals(self) -> None:
        self.disk.broken.clear()
        async with asyncio.timeout(20):
            await works(self.log)
            while list(self.store.faults):
                await asyncio.sleep(0.01)
        await self.bench.settle()

    def kept(self) -> dict[bytes, int]:
        """Payloads and their sequences."""
        return {self.log.get(seq)[3]: seq for seq in walk(self.log)}

    async def close(self) -> None:
        self.bench.stream.stop()
        await self.store.close()
        await self.bench.close()


@pytest.mark.parametrize("limits", [{"max_msgs": SUBJECTS * EACH}, {"max_msgs_per_subject": EACH}, {"max_bytes": 9000}])
async def test_what_limits_cannot_read_costs_no_publish_its_answer(tmp_path: Path, limits: dict[str, int]) -> None:
    faulty = Faulty(tmp_path, **limits)
    await faulty.start()
    faulty.disk.broken = {"read"}
    draw = random.Random(1).randrange
    answers = await faulty.publish(range(60), lambda: draw(len(HEADERS)))
    acked = [number for number, answer in answers if "error" not in answer]
    assert acked
    assert faulty.log.last_seq == SUBJECTS * EACH + len(acked)
    await faulty.heals()
    last = dict.fromkeys(range(SUBJECTS), b"")
    for number, answer in await faulty.publish(range(100, 100 + 2 * SUBJECTS), lambda: 0):
        assert "error" not in answer
        last[number % SUBJECTS] = b"new %d" % number
    async with asyncio.timeout(20):
        while faulty.log.messages > SUBJECTS * EACH:
            await faulty.publish(range(1000, 1000 + SUBJECTS), lambda: 0)
            last = {number % SUBJECTS: b"new %d" % number for number in range(1000, 1000 + SUBJECTS)}
    for number, payload in last.items():
        assert faulty.log.get(faulty.log.state_of(b"s.%d" % number).last)[3] == payload
    await faulty.close()


@pytest.mark.parametrize("seed", (3, 4, 5))
async def test_whatever_the_disk_refuses_by_turns(tmp_path: Path, seed: int) -> None:
    faulty = Faulty(tmp_path)
    await faulty.start()
    chance = random.Random(seed)
    acked: dict[bytes, int] = {}
    refused = False
    for first in range(0, 400, 20):
        calls = ("write", "allocate", "fdatasync", "read", "open")
        faulty.disk.broken = set(chance.sample(calls, chance.randrange(len(calls))))
        headers = [chance.choice((0, 0, 1, 3, 4)) for _ in range(20)]
        for number, answer in await faulty.publish(range(first, first + 20), iter(headers).__next__):
            if "error" not in answer:
                acked[b"new %d" % number] = answer["seq"]
        if chance.randrange(3) == 0:
            await faulty.heals()
        refused = refused or bool(faulty.log.failed)
    await faulty.heals()
    answers = await faulty.publish(range(1000, 1010), lambda: 0)
    acked |= {b"new %d" % number: answer["seq"] for number, answer in answers}
    assert {payload: seq for payload, seq in faulty.kept().items() if payload.startswith(b"new")} == acked
    assert len(faulty.kept()) == SUBJECTS * EACH + len(acked)
    assert refused
    assert faulty.told.errors
    assert faulty.told.infos
    before = faulty.kept()
    faulty.bench.stream.stop()
    kill(faulty.store)
    again = Store.open(faulty.path, faulty.bench.tick)
    (found,) = again.recover(ACCOUNT)
    assert {found.log.get(seq)[3]: seq for seq in walk(found.log)} == before
    await again.close()
    await faulty.bench.close()


@pytest.mark.parametrize(("ttl", "refused"), [(False, 1), (True, 3)])
async def test_what_could_not_be_read_when_it_was_too_old_goes_when_it_can(
    tmp_path: Path, ttl: bool, refused: int
) -> None:
    faulty = Faulty(tmp_path, allow_msg_ttl=ttl)
    await faulty.start()
    faulty.disk.broken = {"read", "open"}
    age = {"max_age": 100_000_000, "duplicate_window": 100_000_000}
    faulty.bench.stream.apply_config(stream_config(storage="file", allow_rollup_hdrs=True, allow_msg_ttl=ttl, **age))
    await faulty.refuses(refused)
    await faulty.heals()
    await faulty.until(0)
    assert faulty.reported == []
    await faulty.close()


async def test_a_damaged_message_keeps_none_of_those_behind_it_beyond_their_age(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path)
    await faulty.start()
    file = min(tmp_path.rglob("*.seg"))
    file.write_bytes(file.read_bytes().replace(b"old 0", b"OLD 0"))
    age = {"max_age": 100_000_000, "duplicate_window": 100_000_000}
    faulty.bench.stream.apply_config(stream_config(storage="file", allow_rollup_hdrs=True, allow_msg_ttl=True, **age))
    await faulty.until(0)
    await faulty.close()


@pytest.mark.parametrize("ttl", [False, True])
async def test_messages_of_time_zero_grow_too_old_as_others_do(tmp_path: Path, ttl: bool) -> None:
    faulty = Faulty(tmp_path, allow_msg_ttl=ttl)
    await faulty.start()
    assert faulty.log.time_of(1) == 0
    age = {"max_age": 100_000_000, "duplicate_window": 100_000_000}
    faulty.bench.stream.apply_config(stream_config(storage="file", allow_rollup_hdrs=True, allow_msg_ttl=ttl, **age))
    await faulty.until(0)
    assert faulty.reported == []
    await faulty.close()


async def test_times_to_live_that_a_start_could_not_read_count_when_they_can_be_read(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path)
    await faulty.start()
    answer = await faulty.bench.ask("s.0", b"short", b"NATS/1.0\r\nNats-TTL: 1\r\n\r\n")
    faulty.bench.stream.stop()
    await faulty.store.close()
    faulty.open("read", "open")
    await faulty.refuses(1)
    await faulty.heals()
    await faulty.until(SUBJECTS * EACH)
    assert faulty.log.time_of(answer["seq"]) == 0
    await faulty.close()


async def test_a_time_to_live_that_was_up_while_nothing_could_be_read_ends_afterwards(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path)
    await faulty.start()
    await faulty.bench.ask("s.0", bytes(3000), b"NATS/1.0\r\nNats-TTL: 1\r\n\r\n")
    await faulty.bench.ask("s.1", bytes(3000))
    for seq in range(1, SUBJECTS * EACH):
        faulty.log.get(seq)  # what was written last is kept in memory no longer
    faulty.disk.broken = {"read", "open"}
    await faulty.refuses(2)
    await faulty.heals()
    await faulty.until(SUBJECTS * EACH + 1)
    await faulty.close()


async def test_schedules_that_a_start_could_not_read_are_found_when_they_can_be_read(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path, allow_msg_schedules=True)
    await faulty.start()
    block = b"NATS/1.0\r\nNats-Schedule: @at 2090-01-01T00:00:00Z\r\nNats-Schedule-Target: s.t\r\n\r\n"
    await faulty.bench.ask("s.0", b"", block)
    faulty.bench.stream.stop()
    await faulty.store.close()
    faulty.open("read", "open")
    await faulty.refuses(1)
    assert faulty.bench.stream.waiting_schedules() == 0
    await faulty.heals()
    async with asyncio.timeout(20):
        while faulty.bench.stream.waiting_schedules() < 1:
            await asyncio.sleep(0.01)
    (warning,) = faulty.bench.warnings
    assert warning.startswith("Stream '$G > S': schedules cannot be read, which is tried again: ")
    assert faulty.reported == []
    await faulty.close()


async def test_a_message_whose_bytes_cannot_be_overwritten_is_removed_all_the_same(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path)
    await faulty.start()
    faulty.disk.broken = {"write"}
    with pytest.raises(StorageError):
        faulty.bench.stream.delete_message(1, True)
    assert (faulty.log.first_seq, faulty.log.messages) == (2, SUBJECTS * EACH - 1)
    await faulty.heals()
    assert faulty.reported == []
    await faulty.close()


async def test_what_a_deleted_consumer_leaves_goes_when_it_can_be_read(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path, retention="interest")
    await faulty.start()
    left = faulty.bench.consumer("left", filter_subject="s.0")
    faulty.bench.consumer("other", filter_subject="s.1")
    faulty.disk.broken = {"read", "open"}
    left.stop()
    faulty.bench.stream.remove_consumer(left)
    await faulty.refuses(1)
    assert faulty.log.messages == SUBJECTS * EACH
    await faulty.heals()
    await faulty.until(EACH)
    assert faulty.reported == []
    await faulty.close()
