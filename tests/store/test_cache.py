"""The cache never changes an answer: with it, without it, damaged, old or of another store."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from jetbroker.store.cache import cache as store_cache
from jetbroker.store.cache.summary import NUMBERS
from jetbroker.store.disk import Disk
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, FaultyDisk, kill, open_store, run, walk
from tests.store.test_log_model import BOUNDS, LogMachine
from tests.support.depth import IS_DEEP

SEGMENT_BYTES = 600
DAMAGES = 60 if IS_DEEP else 20  # of each kind; bits are many, so three times as many


async def filled(path: Path, messages: int = 120) -> Store:
    """Several segments with deletions of every kind; not stopped."""
    store = open_store(str(path), segment_bytes=SEGMENT_BYTES)
    log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
    for i in range(messages):
        log.append_message(b"a.%d" % (i % 7), b"payload %d" % i, b"", i)
    log.remove(20)
    log.purge(b"a.3", 60, 0)
    log.skip_to(log.last_seq + 5)
    log.append_message(b"b", b"last")
    await log.commit()
    return store


def answers(log: Any) -> Any:
    """Everything a client could ask."""
    states = sorted((s.subject, s.count, s.last, log.first_of(s)) for s in log.matching_subjects(b""))
    messages = [log.get(seq) for seq in range(log.last_seq + 2)]
    head = (log.messages, log.bytes, log.first_seq, log.last_seq, log.deleted(), log.lost(), log.last_time_ns)
    return head, states, messages, walk(log)


def reopened(path: Path, disk: Disk | None = None) -> tuple[Any, list[str]]:
    """What a restart answers, and what the cache was thrown away for."""

    async def scenario() -> tuple[Any, list[str]]:
        reports: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(str(context)))
        store = open_store(str(path), segment_bytes=SEGMENT_BYTES, disk=disk)
        (recovered,) = store.recover(ACCOUNT)
        found = answers(recovered.log)
        kill(store)
        assert isinstance(recovered.log, FileLog)
        recovered.log.abandon()
        return found, reports

    return run(scenario())


@pytest.fixture
def closed(tmp_path: Path) -> tuple[Path, Any]:
    """A store with a cache, stopped, and what it must answer."""
    path = tmp_path / "s"

    async def scenario() -> Any:
        store = await filled(path)
        log = next(iter(store._logs.values()))
        expected = answers(log)
        await store.close()
        return expected

    expected = run(scenario())
    assert (path / "cache.mdb" / "data.mdb").exists()
    return path, expected


def test_with_and_without_the_cache(closed: tuple[Path, Any]) -> None:
    path, expected = closed
    assert reopened(path) == (expected, [])
    shutil.rmtree(path / "cache.mdb")
    assert reopened(path) == (expected, [])


def test_a_segment_that_is_removed_as_it_is_sealed_is_not_described(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        reports: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(str(context)))
        store = open_store(str(tmp_path / "s"), segment_bytes=SEGMENT_BYTES)
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        for jump in (1 << 40, 1 << 43):
            log.purge(b"", jump, 0)
            log.skip_to(jump)
            log.append_message(b"a", b"x")
            await log.commit()
        await store.close()
        return reports

    assert run(scenario()) == []


def test_start_up_opens_no_footer(closed: tuple[Path, Any]) -> None:
    path, _ = closed
    reads: list[tuple[str, int]] = []
    disk = FaultyDisk(lambda call, name, size: reads.append((name, size)) if call == "read" else None)

    async def scenario() -> int:
        store = open_store(str(path), disk=disk, segment_bytes=SEGMENT_BYTES)
        reads.clear()
        (recovered,) = store.recover(ACCOUNT)
        kill(store)
        return int(recovered.log.messages)

    assert run(scenario()) > 50
    segments = sorted(file.name for file in path.glob("*/S/*.seg"))
    assert len(segments) > 8
    assert {size for name, size in reads if name.endswith(".seg") and not name.endswith(segments[-1])} == {32}


def test_removals_after_the_checkpoint_count(closed: tuple[Path, Any]) -> None:
    path, _ = closed

    async def scenario() -> Any:
        store = open_store(str(path), segment_bytes=SEGMENT_BYTES)
        (recovered,) = store.recover(ACCOUNT)
        assert recovered.log.remove(30)
        assert recovered.log.purge(b"a.5", 0, 1)
        await recovered.log.commit()
        expected = answers(recovered.log)
        kill(store)
        return expected

    expected = run(scenario())
    assert reopened(path) == (expected, [])


def damage_and_ask(path: str, at: int, kind: str, answer: multiprocessing.Queue[Any]) -> None:
    file = Path(path) / "cache.mdb" / "data.mdb"
    data = bytearray(file.read_bytes())
    if kind == "flip":
        data[at // 8] ^= 1 << (at % 8)
    elif kind == "zero":
        data[at : at + 4096] = bytes(4096)
    else:
        del data[at:]
    file.write_bytes(data)
    answer.put(reopened(Path(path)))


def damaged_many_times(closed: tuple[Path, Any], kind: str, times: int, place: Callable[[int], int]) -> None:
    """In a process of its own: a signal would end it."""
    path, expected = closed
    kept = path.parent / "kept"
    shutil.copytree(path / "cache.mdb", kept)
    size = (kept / "data.mdb").stat().st_size
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.Queue[Any] = context.Queue()
    for _ in range(times):
        shutil.rmtree(path / "cache.mdb", ignore_errors=True)
        shutil.copytree(kept, path / "cache.mdb")
        at = place(size)
        process = context.Process(target=damage_and_ask, args=(str(path), at, kind, answer))
        process.start()
        found, reports = answer.get(timeout=20)
        process.join()
        assert process.exitcode == 0
        assert found == expected, (kind, at)
        assert len(reports) == 1, (kind, at)


def test_flipped_bits(closed: tuple[Path, Any]) -> None:
    rng = random.Random(1)
    damaged_many_times(closed, "flip", 3 * DAMAGES, lambda size: rng.randrange(size * 8))


def test_truncations(closed: tuple[Path, Any]) -> None:
    rng = random.Random(2)
    # anywhere, or between two pages
    damaged_many_times(closed, "cut", DAMAGES, lambda size: rng.randrange(size) & rng.choice([-1, ~4095]))


def test_zeroed_pages(closed: tuple[Path, Any]) -> None:
    rng = random.Random(3)
    path = closed[0] / "cache.mdb" / "data.mdb"
    data = path.read_bytes()
    used = [at for at in range(0, len(data), 4096) if any(data[at : at + 4096])]
    damaged_many_times(closed, "zero", DAMAGES, lambda size: rng.choice(used))


def test_an_old_cache_beside_newer_segments(closed: tuple[Path, Any], tmp_path: Path) -> None:
    path, _ = closed
    shutil.copytree(path / "cache.mdb", tmp_path / "old")

    async def scenario() -> Any:
        store = open_store(str(path), segment_bytes=SEGMENT_BYTES)
        (recovered,) = store.recover(ACCOUNT)
        for i in range(60):
            recovered.log.append_message(b"c.%d" % i, b"newer")
        recovered.log.remove_before(40)
        recovered.log.remove(70)
        expected = answers(recovered.log)
        await store.close()
        return expected

    expected = run(scenario())
    shutil.rmtree(path / "cache.mdb")
    shutil.copytree(tmp_path / "old", path / "cache.mdb")
    assert reopened(path) == (expected, [])


def test_the_cache_of_another_store(closed: tuple[Path, Any], tmp_path: Path) -> None:
    path, expected = closed

    async def scenario() -> None:
        await (await filled(tmp_path / "other", 70)).close()

    run(scenario())
    shutil.rmtree(path / "cache.mdb")
    shutil.copytree(tmp_path / "other" / "cache.mdb", path / "cache.mdb")
    found, reports = reopened(path)
    assert found == expected
    assert "another store" in reports[0]


def test_other_processes_read_it(closed: tuple[Path, Any]) -> None:
    path, (head, *_) = closed
    env = lmdb.open(str(path / "cache.mdb"), readonly=True, lock=False, max_dbs=8)
    segments = env.open_db(b"segments", create=False)
    with env.begin() as txn:
        values = [store_cache.unframe(b"segments", key, value) for key, value in txn.cursor(db=segments)]
    env.close()
    assert all(value["messages"] <= value["slots"] for value in values)
    assert sum(value["messages"] for value in values) <= head[0]


def test_entries_of_removed_segments_and_streams_go(closed: tuple[Path, Any]) -> None:
    path, _ = closed

    def entries() -> int:
        env = lmdb.open(str(path / "cache.mdb"), readonly=True, lock=False, max_dbs=8)
        segments = env.open_db(b"segments", create=False)
        with env.begin() as txn:
            count = int(txn.stat(db=segments)["entries"])
        env.close()
        return count

    async def scenario(delete: bool) -> None:
        store = open_store(str(path), segment_bytes=SEGMENT_BYTES)
        (recovered,) = store.recover(ACCOUNT)
        recovered.log.remove_before(60)
        if delete:
            await store.delete_stream(ACCOUNT, "S")
        await store.close()

    before = entries()
    run(scenario(False))
    assert 0 < entries() < before
    run(scenario(True))
    assert entries() == 0


def test_the_map_grows(closed: tuple[Path, Any], tmp_path: Path) -> None:
    path, _ = closed
    epoch = json.loads((path / "jetbroker.json").read_bytes().splitlines()[0])["epoch"]
    cache = store_cache.Cache(str(path / "cache.mdb"), Disk(), epoch)
    cache._map_bytes = 1 << 20
    numbers = dict.fromkeys(NUMBERS, 0) | {"first_seq": 1, "slots": 1, "last_seq": 1, "messages": 1, "footer_len": 20}
    subjects = {"text": bytes(3 << 20), "counts": b"\1\0\0\0", "firsts": bytes(4), "lasts": bytes(4)}
    subjects["ends"] = (3 << 20).to_bytes(4, "little")
    big = (numbers, subjects, {"recorded": b"", "empty": b"", "lost": b"", "dead": b""})
    cache.write(store_cache.Changes(summaries={("A/S", 1): big}))
    assert cache.given_up == ""
    with cache.reading() as reader:
        assert reader.stream("A/S") == {1: big}


def test_a_cache_that_cannot_be_written_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "s"

    def rule(call: str, name: str, size: int) -> int | None:
        if "checked.json" in name and call == "write":
            raise OSError(28, "No space left on device")
        return None

    async def scenario() -> None:
        reports: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(str(context)))
        store = open_store(str(path), disk=FaultyDisk(rule), segment_bytes=SEGMENT_BYTES)
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        for i in range(50):
            log.append_message(b"a", b"%d" % i)
        await log.commit()
        async with asyncio.timeout(10):
            while not reports:
                await asyncio.sleep(0.05)
        assert "given up" in reports[0]
        log.append_message(b"a", b"goes on")
        await log.commit()
        await store.close()
        assert len(reports) == 1

    run(scenario())
    assert not (path / "cache.mdb" / "data.mdb").exists()


class CachedLogMachine(LogMachine):
    """The model again, where some restarts find no cache and some an older one."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: Path | None = None

    async def open(self) -> Store:
        folder = Path(self.path) / "cache.mdb"
        choice = random.Random(self.model.last_seq if hasattr(self, "model") else 0).randrange(4)
        if choice == 0 and folder.exists():
            shutil.rmtree(folder)
        if choice == 1 and folder.exists():
            self.kept = Path(self.path) / ".kept"
            shutil.rmtree(self.kept, ignore_errors=True)
            shutil.copytree(folder, self.kept)
        if choice == 2 and getattr(self, "kept", None) is not None and self.kept is not None:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.kept, folder)
        return open_store(self.path, segment_bytes=700)


TestCachedLog = CachedLogMachine.TestCase
TestCachedLog.settings = BOUNDS
