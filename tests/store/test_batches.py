"""Atomic batches on disk: after a cut at any byte, damage, or a failed write they are whole or not there."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from jetbroker.errors import StorageError
from jetbroker.store.offline.reader import open_stream
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, FaultyDisk, kill, open_store, run

BATCH, FIRST, LAST = 8, 16, 32


async def make(path: Path, **options: Any) -> tuple[Store, Any]:
    store = open_store(str(path), **options)
    config = {"name": "S", "subjects": ["s.>"], "storage": "file"}
    return store, await store.create_stream(ACCOUNT, "S", config, "file", 1)


def append_batch(log: Any, count: int, text: bytes = b"batch") -> None:
    """Next to each other in one tick, as the stream engine does."""
    for n in range(count):
        flags = BATCH | (FIRST if n == 0 else 0) | (LAST if n == count - 1 else 0)
        log.append_message(b"s.%d" % n, b"%b %d" % (text, n), b"NATS/1.0\r\nA: b\r\n\r\n", 0, flags)


def segment_of(path: Path) -> Path:
    return max(path.rglob("*.seg"))


async def sequences(path: Path) -> tuple[list[int], list[int]]:
    """Of the messages that are there, and of the damaged ones, as a broker finds them and as the reader does."""
    snapshot = open_stream(path, "S")
    offline = snapshot.to_arrow(["seq"]).column("seq").to_pylist()
    damaged = [seq for first, last in snapshot.damaged for seq in range(first, last + 1)]
    store = open_store(str(path))
    (recovered,) = store.recover(ACCOUNT)
    log: Any = recovered.log
    live = [seq for seq in range(1, log.last_seq + 1) if log.get(seq)[0] == 0]
    lost = log.lost()
    log.abandon()
    kill(store)
    assert offline == live
    assert damaged == lost
    return live, lost


async def prepare(path: Path, behind: int, batch: int = 4) -> tuple[int, int]:
    """Two messages, a batch of four (or `batch`), `behind` messages; where the batch begins and ends in the file."""
    store, log = await make(path)
    for _ in range(2):
        log.append_message(b"s.a", b"x")
    await log.commit()
    start = segment_of(path).stat().st_size
    append_batch(log, batch)
    await log.commit()
    end = segment_of(path).stat().st_size
    for _ in range(behind):
        log.append_message(b"s.a", b"y")
    await log.commit()
    kill(store)
    return start, end


def test_cut_at_every_byte(tmp_path: Path) -> None:
    async def work() -> None:
        start, end = await prepare(tmp_path / "whole", 0, 3)
        for size in range(start, end + 1):
            copy = tmp_path / "cut"
            shutil.copytree(tmp_path / "whole", copy)
            os.truncate(segment_of(copy), size)
            expected = [1, 2, 3, 4, 5] if size == end else [1, 2]
            assert await sequences(copy) == (expected, []), size
            assert segment_of(copy).stat().st_size in (start, end)
            if size % 16 == 0:
                assert await sequences(copy) == (expected, []), size
            shutil.rmtree(copy)

    run(work())


def test_a_hole_in_a_batch_hides_all_of_it(tmp_path: Path) -> None:
    """The disk may have got its pages in any order when the power failed."""

    async def work() -> None:
        start, end = await prepare(tmp_path / "whole", 2)
        for at in range(start, end, 13):
            copy = tmp_path / "hole"
            shutil.copytree(tmp_path / "whole", copy)
            with segment_of(copy).open("r+b") as file:
                file.seek(at)
                file.write(b"\xff" * min(8, end - at))
            live, lost = await sequences(copy)
            assert (live, lost) in (([1, 2, 7, 8], [3, 4, 5, 6]), ([1, 2, 8], [3, 4, 5, 6, 7])), at
            shutil.rmtree(copy)

    run(work())


@pytest.mark.parametrize("erased", [[3], [6], [4, 5], [3, 6], [3, 4, 5, 6]])
@pytest.mark.parametrize("behind", [0, 1])
def test_what_is_erased_does_not_break_its_batch(tmp_path: Path, erased: list[int], behind: int) -> None:
    async def work() -> None:
        store, log = await make(tmp_path)
        for _ in range(2):
            log.append_message(b"s.a", b"x")
        append_batch(log, 4)
        await log.commit()
        for seq in erased:
            log.remove(seq, True)
        await log.commit()
        for _ in range(behind):
            log.append_message(b"s.a", b"y")
        await log.commit()
        kill(store)
        expected = [seq for seq in range(1, 7 + behind) if seq not in erased]
        assert await sequences(tmp_path) == (expected, [])

    run(work())


@pytest.mark.parametrize("interval", [None, 100.0])
def test_a_removal_is_on_disk_before_its_message_is_erased(tmp_path: Path, interval: float | None) -> None:
    """Otherwise a power failure between the two would leave a batch that looks torn."""

    async def work() -> None:
        calls: list[str] = []

        def rule(call: str, path: str, size: int) -> int | None:
            if path.endswith(".seg"):
                calls.append(call)
            return None

        await prepare(tmp_path, 0)
        store = open_store(str(tmp_path), disk=FaultyDisk(rule), sync=interval)
        (recovered,) = store.recover(ACCOUNT)
        log: Any = recovered.log
        calls.clear()
        log.remove(4, True)
        assert [call for call in calls if call in ("write", "fdatasync")] == ["write", "fdatasync", "write"]
        await log.commit()
        kill(store)

    run(work())


@pytest.mark.parametrize("interval", [None, 100.0])
def test_a_write_that_fails_within_a_batch_takes_all_of_it_back(tmp_path: Path, interval: float | None) -> None:
    async def work() -> None:
        left: int | None = None

        def rule(call: str, path: str, size: int) -> int | None:
            nonlocal left
            if left is None or call != "write" or not path.endswith(".seg"):
                return None
            if left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken = min(size, left)
            left -= taken
            return taken

        store, log = await make(tmp_path, disk=FaultyDisk(rule), sync=interval)
        log.append_message(b"s.a", b"x")
        await log.commit()
        for room in range(1, 600, 31):
            before = log.last_seq
            log.append_message(b"s.a", b"x")
            append_batch(log, 5)
            append_batch(log, 2, b"second")
            left = room
            try:
                await log.commit()
            except StorageError:
                assert log.last_seq - before in (0, 1, 6)
            else:
                assert log.last_seq - before == 8
            left = None
            while log.failed is not None:
                try:
                    log.append_message(b"s.a", b"again")
                    await log.commit()
                except StorageError:
                    await asyncio.sleep(0.02)
        kill(store)
        live, lost = await sequences(tmp_path)
        assert (len(live), lost) == (log.last_seq, [])

    run(work())
