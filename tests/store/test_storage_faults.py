"""What the disk refuses is told, tried again with growing pauses, and leaves nothing unanswered or behind."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetbroker import limits
from jetbroker.errors import StorageError, StoreOpenError
from jetbroker.store.faults import Retry
from jetbroker.store.format.footers import sound_footer_of
from jetbroker.store.log.stream_log import CallbackObserver
from tests.store.support import ACCOUNT, FaultyDisk, Told, kill, open_store, run, walk, works

Rule = Callable[[str, str, int], int | None]


def refusing(calls: set[str], code: int = errno.ENOSPC, only: str = "") -> Rule:
    """A rule that fails these calls as long as they are in the set."""

    def rule(call: str, path: str, size: int) -> int | None:
        if call in calls and only in path:
            raise OSError(code, os.strerror(code))
        return None

    return rule


def segments(path: Path) -> list[str]:
    return sorted(file.name for file in path.rglob("*.seg*"))


def test_pauses_between_tries_grow_to_a_bound() -> None:
    class Loop:
        def __init__(self) -> None:
            self.delays: list[float] = []
            self.fire: Callable[[], None] = lambda: None

        def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
            self.delays.append(delay)
            self.fire = callback
            return self

        def cancel(self) -> None:
            pass

    loop = Loop()
    retry = Retry(loop, lambda: retry.again())  # type: ignore[arg-type]
    retry.again()
    retry.again()  # one that waits is enough
    for _ in range(8):
        loop.fire()
    assert loop.delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert loop.delays[-1] == limits.STORAGE_RETRY_MAX_SECONDS
    retry.worked()
    retry.again()
    assert loop.delays[-1] == limits.STORAGE_RETRY_SECONDS


def test_a_full_disk_is_told_once_and_so_is_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken: set[str] = set()
        told = Told()
        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(refusing(broken)), log=told)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"kept")
        await log.commit()
        broken.update({"write", "allocate"})
        log.append_message(b"a", b"lost")
        with pytest.raises(StorageError):
            await log.commit()
        for _ in range(3):
            with pytest.raises(StorageError):
                log.append_message(b"a", b"refused")
            log.try_again()
            await asyncio.sleep(0)
        (fault,) = store.faults.of_stream(ACCOUNT, "S")
        assert fault.reason == os.strerror(errno.ENOSPC)
        assert told.errors == [f"JetStream storage of '$G > S' failed, {fault.file}: {fault.reason}"]
        assert os.path.exists(fault.file)
        broken.clear()
        # without anybody publishing
        await works(log)
        assert not list(store.faults)
        assert told.infos == ["JetStream storage of '$G > S' works again"]
        assert log.append_message(b"a", b"again") == 2
        await log.commit()
        assert len(told.errors) == 1
        await store.close()

    run(scenario())


@pytest.mark.parametrize("sync", [None, 0.01])
def test_a_disk_that_never_syncs_leaves_one_file(tmp_path: Path, sync: float | None) -> None:
    async def scenario() -> None:
        broken: set[str] = set()
        told = Told()
        disk = FaultyDisk(refusing(broken, errno.EIO, ".seg"))
        store = open_store(str(tmp_path / "s"), disk=disk, log=told, sync=sync)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"kept")
        await log.commit()
        broken.add("fdatasync")
        synced = disk.calls.count(("fdatasync", segments(tmp_path)[0]))
        failures = 0
        for _ in range(6):
            if sync is None:
                with pytest.raises(StorageError):
                    log.append_message(b"a", b"lost")
                    await log.commit()
            else:
                log.append_message(b"a", b"written")
                await log.commit()
            failures = len([call for call in disk.calls if call[0] == "fdatasync"])
            log.try_again()
            await asyncio.sleep(0.02)
        assert failures > synced
        assert len([call for call in disk.calls if call[0] == "fdatasync"]) < 40
        if sync is None:
            assert len(segments(tmp_path)) <= 2
        assert len(told.errors) == 1
        assert "fdatasync failed" in told.errors[0]
        broken.clear()
        async with asyncio.timeout(20):
            while list(store.faults):
                await asyncio.sleep(0.01)
        assert told.infos == ["JetStream storage of '$G > S' works again"]
        assert not [name for name in segments(tmp_path) if ".new" in name]
        log.append_message(b"a", b"again")
        await log.commit()
        expected = walk(log)
        await store.close()
        again = open_store(str(tmp_path / "s"))
        (recovered,) = again.recover(ACCOUNT)
        assert walk(recovered.log) == expected
        assert recovered.log.lost_count() == 0
        await again.close()

    run(scenario())


@pytest.mark.parametrize("sync", [None, 3600.0])
@pytest.mark.parametrize("skipped", [0, 3])
@pytest.mark.parametrize("short", [0, 38, 70, 115])
def test_every_append_of_a_short_write_is_answered(
    tmp_path: Path, short: int, skipped: int, sync: float | None
) -> None:
    async def scenario() -> None:
        left = -1

        def rule(call: str, path: str, size: int) -> int | None:
            nonlocal left
            if call == "allocate" and left >= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if call != "write" or left < 0:
                return None
            if left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            take, left = min(left, size), 0
            return take

        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(rule), sync=sync)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"0")
        await log.commit()
        committed: list[int] = []
        lost: list[int] = []
        log.observer = CallbackObserver(committed.append, lambda first, error: lost.append(first))
        left = short
        for i in range(4):
            log.append_message(b"a", b"%d" % i)
        if skipped:
            log.skip_to(log.last_seq + 1 + skipped)
        while not lost:
            await asyncio.sleep(0)
        (first_lost,) = lost
        assert first_lost == 2 + short // 38
        # nothing else happens to the log: what was written is committed all the same
        async with asyncio.timeout(5):
            while log.committed < first_lost - 1:
                await asyncio.sleep(0.005)
        assert log.last_seq == first_lost - 1
        assert [log.get(seq)[0] for seq in range(1, first_lost)] == [0] * (first_lost - 1)
        left = -1
        await works(log)
        assert log.append_message(b"a", b"after") == first_lost
        await log.commit()
        assert walk(log) == list(range(1, first_lost + 1))
        await store.close()

    run(scenario())


def test_a_write_that_fails_behind_a_damaged_message_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        store = open_store(str(path))
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        for _ in range(4):
            log.append_message(b"a", b"kept")
        log.append_message(b"a", b"broken")
        await log.commit()
        log.remove(2)
        await log.commit()
        kill(store)
        (file,) = path.rglob("*.seg")
        content = file.read_bytes().replace(b"broken", b"BROKEN")
        file.write_bytes(content)
        broken: set[str] = set()
        store = open_store(str(path), disk=FaultyDisk(refusing(broken)))
        log = store.recover(ACCOUNT)[0].log
        broken.update({"write", "allocate"})
        log.append_message(b"a", b"lost")
        with pytest.raises(StorageError):
            await log.commit()
        assert file.stat().st_size == len(content)
        assert file.read_bytes() == content
        broken.clear()
        await works(log)
        assert log.append_message(b"a", b"again") == 6
        await log.commit()
        kill(store)
        store = open_store(str(path))
        (recovered,) = store.recover(ACCOUNT)
        assert [seq for seq in walk(recovered.log) if recovered.log.get(seq)[0] == 0] == [1, 3, 4, 6]
        assert recovered.log.lost() == [5]
        await store.close()

    run(scenario())


def test_a_removal_that_was_not_written_is_in_no_footer(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken: set[str] = set()
        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(refusing(broken)), segment_bytes=700)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        sealed: list[Any] = []
        log.on_sealed = sealed.append
        log.append_message(b"a", b"kept")
        await log.commit()
        log.observer = CallbackObserver(lambda seq: None, lambda first, error: log.restore([1]))
        broken.update({"write", "allocate"})
        for _ in range(3):
            log.append_message(b"a", b"lost")
        # as limits do it, and somebody who deletes
        log.remove(1)
        log.remove(3)
        with pytest.raises(StorageError):
            await log.commit()
        assert walk(log) == [1]
        broken.clear()
        await works(log)
        while not sealed:
            log.append_message(b"a", b"again")
        await log.commit()
        kill(store)
        store = open_store(str(tmp_path / "s"))
        (recovered,) = store.recover(ACCOUNT)
        assert walk(recovered.log) == list(range(1, log.last_seq + 1))
        assert recovered.damage == []
        await store.close()

    run(scenario())


def test_the_footer_is_sound_when_messages_with_ids_were_taken_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        has_id = 1
        broken: set[str] = set()
        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(refusing(broken)), segment_bytes=700)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        sealed: list[Any] = []
        log.on_sealed = sealed.append
        log.append_message(b"a", b"", flags=has_id)
        await log.commit()
        broken.update({"write", "allocate"})
        for _ in range(5):
            log.append_message(b"a", b"", flags=has_id)
        with pytest.raises(StorageError):
            await log.commit()
        broken.clear()
        await works(log)
        while not sealed:
            log.append_message(b"a", b"x" * 400, flags=has_id)
        await log.commit()
        kill(store)
        (segment,) = sealed
        footer = Path(segment.path).read_bytes()[segment.footer_at :][: segment.footer_len]
        assert sound_footer_of(footer, False, 1, segment.footer_at) == footer

    run(scenario())


def test_a_segment_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken: set[str] = set()
        told = Told()
        disk = FaultyDisk(refusing(broken, errno.EMFILE, ".seg"))
        store = open_store(str(tmp_path / "s"), disk=disk, log=told, segment_bytes=400)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        broken.add("open")
        with pytest.raises(StorageError):
            for _ in range(50):
                log.append_message(b"a", bytes(40))
                await log.commit()
        for _ in range(3):
            log.try_again()
            await asyncio.sleep(0)
        assert len(told.errors) == 1
        assert "no new segment can be made" in told.errors[0]
        broken.clear()
        await works(log)
        last = log.append_message(b"a", b"again")
        await log.commit()
        assert walk(log) == list(range(1, last + 1))
        await store.close()

    run(scenario())


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_a_consumers_state_follows_the_same_rules(tmp_path: Path, call: str) -> None:
    async def scenario() -> None:
        broken: set[str] = set()
        told = Told()
        disk = FaultyDisk(refusing(broken, errno.EIO, ".log"))
        store = open_store(str(tmp_path / "s"), disk=disk, log=told)
        await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        state = await store.create_consumer(ACCOUNT, "S", "C", {"a": 1}, 1, False)
        refused: list[int] = []
        state.observer = CallbackObserver(lambda position: None, lambda first, error: refused.append(first))
        state.append_entry(b"one")
        await state.commit()
        broken.add(call)
        state.append_entry(b"two")
        with pytest.raises(StorageError):
            await asyncio.wait_for(state.commit(), 5)
        assert refused
        for _ in range(3):
            with pytest.raises(StorageError):
                state.update_config({"a": 2})
        (fault,) = store.faults.of_stream(ACCOUNT, "S")
        assert fault.consumer == "C"
        assert len(told.errors) == 1
        assert "'$G > S > C'" in told.errors[0]
        broken.clear()
        await works(state)
        assert not list(store.faults)
        assert told.infos == ["JetStream storage of '$G > S > C' works again"]
        state.append_entry(b"three")
        await state.commit()
        assert os.listdir(os.path.dirname(state.path)) == ["C.log"]
        await store.close()
        again = open_store(str(tmp_path / "s"))
        (recovered,) = again.recover(ACCOUNT)
        assert recovered.consumers[0].state_log.recovered == [b"one", b"two", b"three"]
        assert recovered.consumers[0].config == {"a": 1}
        await again.close()

    run(scenario())


class SlowDisk(FaultyDisk):
    """An fdatasync of a state log waits, once `hold` was called, until `go_on` says how it ends."""

    def __init__(self) -> None:
        super().__init__(self._rule)
        self.broken: set[str] = set()
        self._gate: threading.Event | None = None
        self._holds = threading.Event()
        self._error: OSError | None = None

    def _rule(self, call: str, path: str, size: int) -> int | None:
        if ".log" in path and call in self.broken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if ".log" in path and call == "fdatasync" and self._gate is not None:
            gate, self._gate = self._gate, None
            self._holds.set()
            gate.wait()
            if self._error is not None:
                raise self._error
        return None

    async def hold(self, state: Any) -> Callable[[OSError | None], None]:
        """Wait until a round syncs what was appended; returns what lets it go on."""
        gate = self._gate = threading.Event()
        self._holds.clear()
        state.request_sync()
        await asyncio.to_thread(self._holds.wait)

        def go_on(error: OSError | None) -> None:
            self._error = error
            gate.set()

        return go_on


async def slow_state(path: Path) -> tuple[Any, SlowDisk, Any]:
    """A store, its disk and the state of a consumer."""
    disk = SlowDisk()
    store = open_store(str(path), disk=disk)
    await store.create_stream(ACCOUNT, "S", {}, "file", 1)
    return store, disk, await store.create_consumer(ACCOUNT, "S", "C", {"a": 1}, 1, False)


async def recovered_entries(path: Path) -> list[bytes]:
    store = open_store(str(path))
    (recovered,) = store.recover(ACCOUNT)
    found: list[bytes] = recovered.consumers[0].state_log.recovered
    await store.close()
    return found


def test_a_rewrite_that_fails_does_not_hide_that_the_round_under_way_fails(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, disk, state = await slow_state(tmp_path / "s")
        state.append_entry(b"one")
        go_on = await disk.hold(state)
        disk.broken.add("open")
        with pytest.raises(StorageError):
            state.rewrite(b"snapshot")
        waits = asyncio.ensure_future(state.commit())
        await asyncio.sleep(0)
        disk.broken.clear()
        go_on(OSError(errno.EIO, "failed"))
        with pytest.raises(StorageError, match="fdatasync failed"):
            await waits
        await works(state)
        await state.commit()
        await store.close()
        assert await recovered_entries(tmp_path / "s") == [b"one"]

    run(scenario())


def test_rounds_that_a_rewrite_overtakes_confirm_what_they_synced(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, disk, state = await slow_state(tmp_path / "s")
        position = state.append_entry(b"one")
        go_on = await disk.hold(state)
        for number in range(3):
            state.rewrite(b"snapshot %d" % number)
            overtaken, position = position, state.append_entry(b"more")
            goes_on = asyncio.ensure_future(disk.hold(state))
            await asyncio.sleep(0)
            go_on(None)
            go_on = await goes_on
            assert state.committed >= overtaken
        go_on(None)
        await state.commit()
        assert os.listdir(os.path.dirname(state.path)) == ["C.log"]
        await store.close()
        assert await recovered_entries(tmp_path / "s") == [b"snapshot 2", b"more"]

    run(scenario())


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "failed")])
def test_rewrites_during_one_round_leave_one_file(tmp_path: Path, error: OSError | None) -> None:
    async def scenario() -> None:
        store, disk, state = await slow_state(tmp_path / "s")
        state.rewrite(b"first")  # the round is to give this file its name
        go_on = await disk.hold(state)
        for number in range(3):
            state.rewrite(b"snapshot %d" % number)
        go_on(error)
        await state.commit()
        await store.group.drain()
        assert os.listdir(os.path.dirname(state.path)) == ["C.log"]
        await store.close()
        assert await recovered_entries(tmp_path / "s") == [b"snapshot 2"]

    run(scenario())


def test_a_configuration_that_cannot_be_stored_is_told_until_files_can_be_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken: set[str] = set()
        told = Told()
        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(refusing(broken, only=".")), log=told)
        await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        broken.add("write")
        for _ in range(3):
            with pytest.raises(StorageError, match=r"stream\.json: No space left"):
                await store.update_stream(ACCOUNT, "S", {"max_msgs": 1})
        assert [fault.where() for fault in store.faults] == ["the store"]
        assert len(told.errors) == 1
        assert "stream.json: No space left" in told.errors[0]
        broken.clear()
        async with asyncio.timeout(5):
            while list(store.faults):
                await asyncio.sleep(0.01)
        assert told.infos == ["JetStream storage of 'the store' works again"]
        await store.close()

    run(scenario())


def test_a_start_that_the_disk_refuses_says_where(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "s")
        disk = FaultyDisk(refusing({"fdatasync"}, errno.EIO))
        with pytest.raises(StoreOpenError, match=r"jetbroker\.json: Input/output error; the broker starts when"):
            open_store(path, disk=disk)
        store = open_store(path)
        await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        await store.close()
        store = open_store(path, disk=FaultyDisk(refusing({"read"}, errno.EIO, ".seg")))
        with pytest.raises(StoreOpenError, match=r"Input/output error; the broker starts when"):
            store.recover(ACCOUNT)

    run(scenario())


def test_files_in_the_making_are_removed_by_the_next_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        store = open_store(str(path))
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"")
        await store.close()
        (segment,) = path.rglob("*.seg")
        left = Path(f"{segment}.new3")
        left.write_bytes(b"half")
        store = open_store(str(path))
        (recovered,) = store.recover(ACCOUNT)
        assert walk(recovered.log) == [1]
        assert not left.exists()
        await store.close()

    run(scenario())


def test_a_stream_that_could_not_be_deleted_can_be_deleted_later(tmp_path: Path) -> None:
    """One that a start could not open, and one whose disk takes nothing."""
    broken: set[str] = set()

    async def play() -> None:
        store = open_store(str(tmp_path), disk=FaultyDisk(refusing(broken, errno.EIO)))
        log: Any = await store.create_stream(ACCOUNT, "S", {"name": "S", "subjects": ["s"]}, "file", 1)
        await log.commit()
        await store.close()
        store = open_store(str(tmp_path), disk=FaultyDisk(refusing(broken, errno.EIO)))
        for file in (*tmp_path.rglob("*.seg"), *tmp_path.rglob("stream.json")):
            file.write_bytes(bytes(100))
        assert store.recover(ACCOUNT) == []
        assert [stream.name for stream in store.offline(ACCOUNT)] == ["S"]
        for refused in ("rename", "unlink"):
            broken.add(refused)
            with pytest.raises(StorageError):
                await store.delete_stream(ACCOUNT, "S")
            broken.clear()
        await store.delete_stream(ACCOUNT, "S")
        assert store.offline(ACCOUNT) == []
        log = await store.create_stream(ACCOUNT, "S", {"name": "S", "subjects": ["s"]}, "file", 1)
        broken.update(("write", "fdatasync"))
        log.append_message(b"s", b"x")
        await store.delete_stream(ACCOUNT, "S")
        assert not list(tmp_path.rglob("S/*.seg"))
        broken.clear()
        await store.close()

    run(play())
