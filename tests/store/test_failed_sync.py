"""An fdatasync that fails while a log goes on: what is on disk stays, what was acked is found again."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import threading
import tracemalloc
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import pytest

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.store.log.stream_log import CallbackObserver, SubjectFilter
from tests.store.support import ACCOUNT, FaultyDisk, kill, open_store, run, walk, works


class Syncs:
    """A rule for the fdatasyncs of segments: the next ones are held, or fail."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.failing = 0
        self.failed: set[str] = set()
        self.again: list[str] = []  # files that were synced after that had failed
        self.reached = asyncio.Event()
        self.opened = threading.Event()
        self.opened.set()

    def __call__(self, call: str, path: str, size: int) -> int | None:
        if call != "fdatasync" or ".seg" not in path:
            return None
        if path in self.failed:
            self.again.append(path)
        if not self.opened.is_set():
            self.loop.call_soon_threadsafe(self.reached.set)
            self.opened.wait(20)
        if self.failing:
            self.failing -= 1
            self.failed.add(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return None

    async def hold(self, work: Callable[[], object]) -> None:
        """`work` asks for a sync, which is held until `release`."""
        self.reached.clear()
        self.opened.clear()
        work()
        await self.reached.wait()

    def release(self, failing: int = 0) -> None:
        self.failing = failing
        self.opened.set()


async def begun(path: Path, syncs: Syncs, **options: Any) -> tuple[Any, Any]:
    """A store whose disk follows the rule, and a stream's log in it."""
    store = open_store(str(path), disk=FaultyDisk(syncs), **options)
    return store, await store.create_stream(ACCOUNT, "S", {}, "file", 1)


def restarted(path: Path, copy: Path) -> Any:
    """The log that a broker finds after a kill right now."""
    shutil.copytree(path, copy)
    store = open_store(str(copy))
    kill(store)
    (recovered,) = store.recover(ACCOUNT)
    return recovered.log


def contents(log: Any) -> dict[int, bytes]:
    return {seq: log.get(seq)[3] for seq in walk(log)}


@pytest.mark.parametrize("skip_is_synced", [True, False])
def test_skipped_sequences_in_front_of_a_failed_sync_cost_no_message(tmp_path: Path, skip_is_synced: bool) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs)
        for seq in range(1, 6):
            log.append_message(b"a", b"%d" % seq)
        await log.commit()
        log.skip_to(7)
        if skip_is_synced:
            await log.commit()
        syncs.failing = 1
        log.append_message(b"a", b"7")
        await log.commit()
        assert syncs.failed
        log.append_message(b"a", b"8")
        await log.commit()
        found = restarted(tmp_path / "s", tmp_path / "copy")
        assert contents(found) == {seq: b"%d" % seq for seq in (1, 2, 3, 4, 5, 7, 8)}
        assert found.lost() == []
        assert found.append_message(b"a", b"9") == 9
        await store.close()

    run(scenario())


async def with_a_damaged_end(path: Path, messages: int) -> None:
    """A store whose last message cannot be read, with a deletion behind it."""
    store = open_store(str(path))
    log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
    for seq in range(1, messages + 1):
        log.append_message(b"a", b"message %d" % seq)
    await log.commit()
    log.remove(1)
    await log.commit()
    kill(store)
    (segment,) = path.rglob("*.seg")
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"message %d" % messages, b"damaged %d" % messages))


@pytest.mark.parametrize("messages", [2, 5])
def test_a_damaged_message_in_front_of_a_failed_sync_costs_no_other(tmp_path: Path, messages: int) -> None:
    async def scenario() -> None:
        await with_a_damaged_end(tmp_path / "s", messages)
        syncs = Syncs()
        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(syncs))
        (recovered,) = store.recover(ACCOUNT)
        log: Any = recovered.log
        assert log.lost() == [messages]
        syncs.failing = 1
        log.append_message(b"a", b"next")
        await log.commit()
        assert syncs.failed
        assert log.lost() == [messages]
        found = restarted(tmp_path / "s", tmp_path / "copy")
        kept = {seq: b"message %d" % seq for seq in range(2, messages)}
        assert {seq: log.get(seq)[3] for seq in kept} == kept
        assert contents(found) == kept | {messages: b"", messages + 1: b"next"}
        assert found.lost() == [messages]
        await store.close()

    run(scenario())


def test_what_was_acked_stays_when_the_next_sync_fails_after_a_roll(tmp_path: Path) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs, segment_bytes=700)
        lost: list[int] = []

        def committed(seq: int) -> None:
            if seq == 3:  # the round for all the others begins with the outcome of this one
                syncs.failing = 1 << 30

        log.observer = CallbackObserver(committed, lambda first, error: lost.append(first))
        log.append_message(b"a", b"1")
        await log.commit()
        await syncs.hold(lambda: [log.append_message(b"a", b"%d" % seq) for seq in (2, 3)])
        files = len(list(tmp_path.rglob("*.seg")))
        while len(list(tmp_path.rglob("*.seg"))) == files:
            log.append_message(b"a", b"%d" % (log.last_seq + 1))
        unsynced = log.last_seq
        committing = asyncio.ensure_future(log.commit())
        await asyncio.sleep(0)
        syncs.release()
        with pytest.raises(StorageError):
            await committing
        assert (lost, log.last_seq, log.committed) == ([4], 3, 3)
        assert unsynced > 4
        syncs.failing = 0
        await works(log)
        assert log.append_message(b"a", b"again") == 4
        await log.commit()
        expected = {1: b"1", 2: b"2", 3: b"3", 4: b"again"}
        assert contents(log) == expected
        assert contents(restarted(tmp_path / "s", tmp_path / "copy")) == expected
        await store.close()

    run(scenario())


def test_sealed_segments_that_are_on_disk_take_no_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path / "s"), segment_bytes=100_000)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        tracemalloc.start()
        try:
            for _ in range(40):
                for _ in range(5):
                    log.append_message(b"a", bytes(30_000))
                await log.commit()
            assert tracemalloc.get_traced_memory()[0] < 500_000
        finally:
            tracemalloc.stop()
        await store.close()

    run(scenario())


def test_other_subjects_follow_those_that_were_taken_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs)
        log.append_message(b"kept", b"")
        await log.commit()
        syncs.failing = 1 << 30
        for subject in (b"x", b"y"):
            log.append_message(subject, b"lost")
        with pytest.raises(StorageError):
            await log.commit()
        syncs.failing = 0
        await works(log)
        expected = [b"kept", b"z", b"x", b"w", b"y", b"kept", b"z"]
        for subject in expected[1:]:
            log.append_message(subject, subject)
        await log.commit()
        for found in (log, restarted(tmp_path / "s", tmp_path / "copy")):
            assert [found.get(seq)[:2] for seq in range(1, 8)] == [(0, subject) for subject in expected]
            for subject in set(expected):
                at = [seq for seq in range(1, 8) if expected[seq - 1] == subject]
                assert walk(found, SubjectFilter(subject)) == at
                assert found.state_of(subject).count == len(at)
        assert log.remove(3)
        assert log.last_by_subject(b"x") == 0
        assert log.last_by_subject(b"z") == 7
        await store.close()

    run(scenario())


def test_a_removal_that_was_taken_back_with_its_message_removes_no_later_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs)
        log.append_message(b"a", b"kept")
        await log.commit()
        syncs.failing = 1 << 30
        for _ in range(2):
            log.append_message(b"a", b"lost")
        log.remove(2)
        log.skip_to(6)
        with pytest.raises(StorageError):
            await log.commit()
        assert log.last_seq == 1
        syncs.failing = 0
        await works(log)
        for seq in range(2, 7):
            assert log.append_message(b"a", b"again") == seq
        await log.commit()
        log.remove(4)
        await log.commit()
        expected = {1: b"kept"} | dict.fromkeys((2, 3, 5, 6), b"again")
        assert contents(log) == expected
        assert contents(restarted(tmp_path / "s", tmp_path / "copy")) == expected
        await store.close()

    run(scenario())


def test_a_file_whose_end_was_taken_back_says_nothing_of_later_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs)
        log.append_message(b"a", b"1")
        await log.commit()
        syncs.failing = 1 << 30
        log.append_message(b"a", b"lost")
        log.append_message(b"a", b"lost")
        log.remove_before(3)
        with pytest.raises(StorageError):
            await log.commit()
        assert log.last_seq == 1
        syncs.failing = 0
        await works(log)
        log.append_message(b"a", b"again")
        log.skip_to(4)  # the emptied file of the first message goes
        await log.commit()
        assert contents(log) == {2: b"again"}
        assert contents(restarted(tmp_path / "s", tmp_path / "copy")) == {2: b"again"}
        await store.close()

    run(scenario())


def test_the_end_of_a_file_that_was_taken_back_never_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs, segment_bytes=1000)
        log.append_message(b"a", b"1")
        await log.commit()
        syncs.failing = 1 << 30
        for _ in range(8):
            log.append_message(b"a", b"lost")
        with pytest.raises(StorageError):
            await log.commit()
        syncs.failing = 0
        await works(log)
        log.append_message(b"a", bytes(900))
        log.append_message(b"a", b"3")
        await log.commit()
        # the file that says what is valid of the first one is empty now
        log.remove(2)
        await log.commit()
        found = restarted(tmp_path / "s", tmp_path / "copy")
        assert contents(found) == {1: b"1", 3: b"3"}
        assert found.append_message(b"a", b"4") == 4
        log.remove(1)
        await log.commit()
        assert [file.name for file in tmp_path.glob("s/**/*.seg")] == [f"{3:020d}.seg"]
        await store.close()

    run(scenario())


@pytest.mark.parametrize("older", [True, False], ids=["with an older one", "alone"])
def test_a_file_that_is_dropped_while_its_sync_fails_takes_no_ack_with_it(tmp_path: Path, older: bool) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs, segment_bytes=700)
        files: list[str] = []
        log.on_sealed = lambda segment: files.append(segment.path)

        def fill(sealed: int) -> int:
            """Append until so many segments more are sealed; returns the first sequence behind them."""
            wanted = len(files) + sealed
            while len(files) < wanted:
                log.append_message(b"a", b"%d" % (log.last_seq + 1))
            return int(log.last_seq)

        start = 1
        if older:
            await syncs.hold(lambda: fill(1))
            start = log.last_seq
        else:
            await syncs.hold(lambda: log.append_message(b"a", b"1"))
        end = fill(1)
        for seq in range(start, end):
            assert log.remove(seq)
        committing = asyncio.ensure_future(log.commit())
        await asyncio.sleep(0)
        syncs.release(failing=1)
        await committing
        assert syncs.failed
        assert syncs.again == []
        expected = {seq: b"%d" % seq for seq in [*range(1, start), end]}
        assert contents(log) == expected
        await works(log)
        assert log.append_message(b"a", b"again") == end + 1
        await log.commit()
        found = restarted(tmp_path / "s", tmp_path / "copy")
        assert contents(found) == expected | {end + 1: b"again"}
        await store.close()
        assert syncs.again == []

    run(scenario())


@pytest.mark.parametrize("rolled", [False, True])
def test_what_was_overwritten_is_in_no_file_and_no_damage_after_a_failed_sync(tmp_path: Path, rolled: bool) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs, segment_bytes=700)
        files: list[str] = []
        log.on_sealed = lambda segment: files.append(segment.path)
        log.append_message(b"a", b"1")
        await log.commit()
        await syncs.hold(lambda: [log.append_message(b"a", payload) for payload in (b"secret", b"3")])
        while rolled and not files:
            log.append_message(b"a", b"%d" % (log.last_seq + 1))
        assert log.remove(2, True)
        expected = {seq: b"%d" % seq for seq in range(1, log.last_seq + 1) if seq != 2}
        committing = asyncio.ensure_future(log.commit())
        await asyncio.sleep(0)
        syncs.release(failing=1)
        await committing
        assert syncs.failed
        assert not [file for file in tmp_path.rglob("*.seg*") if b"secret" in file.read_bytes()]
        for found in (log, restarted(tmp_path / "s", tmp_path / "copy")):
            assert contents(found) == expected
            assert (found.get(2)[0], found.lost()) == (1, [])
        await store.close()

    run(scenario())


def test_what_one_file_cannot_hold_after_a_failed_sync_is_not_acked(tmp_path: Path) -> None:
    async def scenario() -> None:
        far = limits.STREAM_SKIP_SEQUENCE
        syncs = Syncs()
        store, log = await begun(tmp_path / "s", syncs)
        log.append_message(b"a", b"near")
        await log.commit()
        syncs.failing = 1
        log.append_message(b"a", b"near too")
        log.skip_to(far)
        log.append_message(b"a", b"far")
        committing = asyncio.ensure_future(log.commit())
        while log.failed is None:
            await asyncio.sleep(0)
        with pytest.raises(StorageError):
            log.append_message(b"a", b"refused")
        assert [log.get(seq)[3] for seq in (1, 2, far)] == [b"near", b"near too", b"far"]
        log.try_again()
        await asyncio.sleep(0.01)
        assert (log.committed, syncs.again, committing.done()) == (1, [], False)
        (fault,) = store.faults.of_stream(ACCOUNT, "S")
        assert "more sequences are skipped than one segment can have" in fault.reason
        committing.cancel()
        kill(store)

    run(scenario())


class Play:
    """A log that is played with at random, and the messages that have to be in it."""

    def __init__(self, log: Any, syncs: Syncs, choice: random.Random) -> None:
        self.log, self.syncs, self.choice = log, syncs, choice
        self.expected: dict[int, bytes] = {}
        log.observer = CallbackObserver(lambda seq: None, lambda first, error: self.keep(range(first)))

    def keep(self, sequences: Container[int]) -> None:
        self.expected = {seq: payload for seq, payload in self.expected.items() if seq in sequences}

    def change(self) -> None:
        log, choice = self.log, self.choice
        change = choice.choice(["append", "append", "append", "skip", "remove", "erase", "purge"])
        stored = sorted(self.expected)
        if change == "append" and log.failed is None:
            for _ in range(choice.randint(1, 6)):
                payload = b"%d " % (log.last_seq + 1) + bytes(choice.randint(0, 60))
                self.expected[log.append_message(b"a.%d" % choice.randint(0, 5), payload)] = payload
        elif change == "skip" and log.failed is None:
            log.skip_to(log.last_seq + choice.randint(2, 4))
        elif change in ("remove", "erase") and stored:
            seq = choice.choice([stored[0], *stored])
            assert log.remove(seq, change == "erase")
            del self.expected[seq]
        elif change == "purge" and stored and choice.random() < 0.3:
            seq = choice.choice(stored)
            log.remove_before(seq)
            self.keep(range(seq, log.last_seq + 1))

    async def commit(self) -> None:
        """Some changes and a commit, with some more while a sync runs; up to three syncs fail."""
        waiting: list[asyncio.Future[None]] = []
        if self.log.failed is None and self.choice.random() < 0.4:
            await self.syncs.hold(lambda: self.log.write_config(self.log.meta))
        for _ in range(2):
            for _ in range(self.choice.randint(1, 5)):
                self.change()
            waiting.append(asyncio.ensure_future(self.log.commit()))
            await asyncio.sleep(0)
        self.syncs.release(failing=self.choice.choice([0, 1, 1, 2, 3]))
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert result is None or isinstance(result, StorageError)
        self.syncs.failing = 0
        await works(self.log)
        await self.log.commit()


@pytest.mark.parametrize("seed", range(6))
def test_what_was_acked_is_found_again_whatever_else_failed(tmp_path: Path, seed: int) -> None:
    async def scenario() -> None:
        syncs = Syncs()
        choice = random.Random(seed)
        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(syncs), segment_bytes=choice.choice([500, 900, 5000]))
        play = Play(await store.create_stream(ACCOUNT, "S", {}, "file", 1), syncs, choice)
        for number in range(12):
            await play.commit()
            assert contents(play.log) == play.expected
            found = restarted(tmp_path / "s", tmp_path / f"copy{number}")
            assert (contents(found), found.last_seq) == (play.expected, play.log.last_seq)
            assert (play.log.lost(), found.lost()) == ([], [])
        await store.close()

    run(scenario())
