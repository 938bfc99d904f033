"""Where the messages of sealed segments are: read from footers, and kept in memory within bounds."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path
from typing import Any

from jetbroker import limits
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, FaultyDisk, open_store, run


async def _log(path: Path, messages: int, disk: FaultyDisk | None = None) -> tuple[Store, Any]:
    """Many small segments."""
    store = open_store(str(path), segment_bytes=600, disk=disk)
    return store, await _stream(store, "S", messages)


def _read_here_and_there(log: Any) -> None:
    last = log.last_seq
    for step in range(2 * last):
        seq = step * 37 % last + 1
        assert log.get(seq)[2:4] == (b"", b"payload %d" % (seq - 1))


async def _stream(store: Store, name: str, messages: int) -> Any:
    log: Any = await store.create_stream(ACCOUNT, name, {}, "file", 1)
    for number in range(messages):
        log.append_message(b"a.%d" % (number % 7), b"payload %d" % number)
    await log.commit()
    return log


def _open_files(folder: Path) -> int:
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{number}").startswith(str(folder))
        except FileNotFoundError:
            continue  # that of the list itself
    return found


def test_whoever_reads_here_and_there_opens_each_file_once(tmp_path: Path) -> None:
    opened: Counter[str] = Counter()
    disk = FaultyDisk(lambda call, name, size: opened.update([name]) if call == "open" else None)

    async def scenario() -> int:
        store, log = await _log(tmp_path, 200, disk)
        opened.clear()
        _read_here_and_there(log)
        await store.close()
        return len(list(tmp_path.rglob("*.seg")))

    assert 10 < run(scenario()) < limits.STREAM_COLUMN_FILES
    assert set(opened.values()) == {1}


def test_so_many_files_stay_open_for_that(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, int]:
        store, log = await _log(tmp_path, 1300)
        _read_here_and_there(log)
        opened = _open_files(tmp_path)
        await store.close()
        return len(list(tmp_path.rglob("*.seg"))), opened

    segments, opened = run(scenario())
    assert segments > limits.STREAM_COLUMN_FILES + 10
    assert limits.STREAM_COLUMN_FILES // 2 < opened < limits.STREAM_COLUMN_FILES + 10  # others: the lock, the marker


def test_all_streams_together_have_a_bound_too(tmp_path: Path) -> None:
    streams = limits.STORE_COLUMN_FILES // limits.STREAM_COLUMN_FILES + 2

    async def scenario() -> list[int]:
        found: list[int] = []
        for _ in range(2):  # what a closed store had is free again
            store = open_store(str(tmp_path / str(len(found))), segment_bytes=600)
            for number in range(streams):
                _read_here_and_there(await _stream(store, f"S{number}", 1300))
            found.append(_open_files(tmp_path))
            await store.close()
            del store
            gc.collect()
        return found

    most = limits.STORE_COLUMN_FILES + 10 * streams  # with those that each one keeps
    assert [limits.STORE_COLUMN_FILES // 2 < opened < most for opened in run(scenario())] == [True, True]
