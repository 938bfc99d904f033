"""Disk full, failed writes and failed fdatasyncs."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path

import pytest

from jetbroker.errors import StorageError
from jetbroker.store.log.stream_log import CallbackObserver
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, FaultyDisk, open_store, run, walk, works


def fail(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def reopened(path: Path, copy: Path) -> dict[int, bytes]:
    """What a broker finds after a kill right now: sequence -> payload."""
    shutil.copytree(path, copy)
    store = open_store(str(copy))
    (recovered,) = store.recover(ACCOUNT)
    log = recovered.log
    return {seq: log.get(seq)[3] for seq in walk(log)}


def test_disk_full_answers_and_resumes(tmp_path: Path) -> None:
    async def scenario() -> None:
        full = False

        def rule(call: str, path: str, size: int) -> int | None:
            if full and call in ("write", "allocate") and not path.endswith("reserve"):
                raise fail(errno.ENOSPC)
            if full and call == "allocate":
                raise fail(errno.ENOSPC)
            return None

        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(rule))
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        lost: list[int] = []
        log.observer = CallbackObserver(lambda seq: None, lambda first, error: lost.append(first))
        for _ in range(10):
            log.append_message(b"a", b"kept")
        await log.commit()
        full = True
        for _ in range(5):
            log.append_message(b"a", b"lost")
        await asyncio.sleep(0.01)
        assert lost == [11]
        assert isinstance(log.failed, StorageError)
        assert (log.last_seq, log.messages, log.written) == (10, 10, 10)
        with pytest.raises(StorageError):
            log.append_message(b"a", b"refused")
        assert log.get(3)[3] == b"kept"
        full = False
        assert log.remove(3)
        await log.commit()
        await works(log)
        assert log.append_message(b"a", b"again") == 11
        await log.commit()
        assert log.failed is None
        found = reopened(tmp_path / "s", tmp_path / "copy")
        assert found == {s: b"kept" for s in range(1, 11) if s != 3} | {11: b"again"}
        await store.close()

    run(scenario())


@pytest.mark.parametrize("short", [0, 1, 37, 60, 100])
def test_short_write_keeps_whole_records_only(tmp_path: Path, short: int) -> None:
    async def scenario() -> None:
        armed = False
        left = short

        def rule(call: str, path: str, size: int) -> int | None:
            nonlocal left
            if armed and call == "write":
                if left == 0:
                    raise fail(errno.EIO)
                take, left = min(left, size), 0
                return take
            return None

        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(rule))
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"0")
        await log.commit()
        armed = True
        for i in range(5):
            log.append_message(b"a", b"%d" % i)
        await asyncio.sleep(0.01)
        kept = log.last_seq
        assert kept == 1 + short // 38
        armed = False
        await works(log)
        assert log.append_message(b"b", b"after") == kept + 1
        await log.commit()
        found = reopened(tmp_path / "s", tmp_path / "copy")
        assert list(found) == list(range(1, kept + 2))
        assert found[kept + 1] == b"after"
        await store.close()

    run(scenario())


@pytest.mark.parametrize("synced_before", [0, 5])
@pytest.mark.parametrize("segment_bytes", [400, 1 << 20])
def test_failed_fdatasync_goes_to_a_new_file(tmp_path: Path, synced_before: int, segment_bytes: int) -> None:
    async def scenario() -> None:
        failures = 0
        disk = FaultyDisk()
        store = open_store(str(tmp_path / "s"), disk=disk, segment_bytes=segment_bytes)
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        committed: list[int] = []
        lost: list[int] = []
        log.observer = CallbackObserver(committed.append, lambda first, error: lost.append(first))
        for i in range(synced_before):
            log.append_message(b"a.%d" % i, b"before")
        await log.commit()

        def rule(call: str, path: str, size: int) -> int | None:
            nonlocal failures
            if call == "fdatasync" and path.endswith(".seg") and failures == 0:
                failures += 1
                raise fail(errno.EIO)
            return None

        disk.rule = rule
        for i in range(12):
            log.append_message(b"a.%d" % i, b"after%d" % i, time_ns=i)
        if synced_before:
            log.remove(2)
        log.remove(synced_before + 3)
        await log.commit()
        assert failures == 1
        assert lost == []
        assert committed[-1] == log.last_seq == synced_before + 12
        expected = walk(log)
        assert len(expected) == synced_before + 12 - (2 if synced_before else 1)
        assert [log.time_of(seq) for seq in expected] == [max(0, seq - synced_before - 1) for seq in expected]
        state = log.state_of(b"a.1")
        assert state.count == 1
        log.append_message(b"a.1", b"later")
        await log.commit()
        assert list(reopened(tmp_path / "s", tmp_path / "copy")) == [*expected, log.last_seq]
        assert log.get(log.last_seq)[3] == b"later"
        await store.close()

    run(scenario())


@pytest.mark.parametrize(
    "broken",
    [{"fdatasync": errno.EIO}, {"fdatasync": errno.EIO, "open": errno.EMFILE}],
    ids=["fdatasync fails twice", "no new file can be opened"],
)
def test_what_no_file_keeps_is_taken_back(tmp_path: Path, broken: dict[str, int]) -> None:
    async def scenario() -> None:
        failing: dict[str, int] = {}

        def rule(call: str, path: str, size: int) -> int | None:
            if call in failing:
                raise fail(failing[call])
            return None

        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(rule))
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        lost: list[int] = []
        log.observer = CallbackObserver(lambda seq: None, lambda first, error: lost.append(first))
        for _ in range(4):
            log.append_message(b"a", b"kept")
        await log.commit()
        failing = broken
        for _ in range(3):
            log.append_message(b"a", b"lost")
        log.remove(2)
        with pytest.raises(StorageError):
            await asyncio.wait_for(log.commit(), 2)
        assert lost == [5]
        assert (log.last_seq, log.messages) == (4, 3)
        assert log.get(1)[3] == b"kept"
        failing = {}
        await works(log)
        assert log.append_message(b"a", b"again") == 5
        await log.commit()
        assert reopened(tmp_path / "s", tmp_path / "copy") == {**dict.fromkeys((1, 3, 4), b"kept"), 5: b"again"}
        await store.close()

    run(scenario())


def test_read_error_is_that_read_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken = False

        def rule(call: str, path: str, size: int) -> int | None:
            if broken and call == "read":
                raise fail(errno.EIO)
            return None

        path = str(tmp_path / "s")
        store = open_store(path)
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"1")
        await store.close()
        store = open_store(path, disk=FaultyDisk(rule))
        log = store.recover(ACCOUNT)[0].log
        broken = True
        with pytest.raises(StorageError):
            log.get(1)
        assert log.append_message(b"a", b"2") == 2
        await log.commit()
        broken = False
        assert log.get(1)[3] == b"1"
        await store.close()

    run(scenario())


def test_state_log_survives_failed_write_and_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        left = {"write": 1, "fdatasync": 1}
        armed = False

        def rule(call: str, path: str, size: int) -> int | None:
            if (armed and path.endswith(".log")) or ".log.new" in path:
                if armed and left.get(call, 0):
                    left[call] -= 1
                    raise fail(errno.EIO)
            return None

        path = str(tmp_path / "s")
        store: Store = open_store(path, disk=FaultyDisk(rule))
        await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        state = await store.create_consumer(ACCOUNT, "S", "C", {"a": 1}, 1, False)
        state.append_entry(b"one")
        await state.commit()
        armed = True
        state.append_entry(b"two")
        with pytest.raises(StorageError):
            await state.commit()
        await works(state)
        assert left == {"write": 0, "fdatasync": 0}
        state.append_entry(b"three")
        await store.close()
        store = open_store(path)
        (consumer,) = store.recover(ACCOUNT)[0].consumers
        assert consumer.state_log.recovered == [b"one", b"two", b"three"]
        await store.close()

    run(scenario())
