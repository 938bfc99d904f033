"""sync_interval mode: acks after the write, fdatasync in the background."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from jetbroker.store.log.stream_log import CallbackObserver
from tests.store.support import ACCOUNT, FaultyDisk, Told, kill, open_store, run, walk


def test_commits_follow_writes_and_a_kill_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        store = open_store(str(tmp_path / "s"), disk=disk, sync=3600.0)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        committed: list[int] = []
        log.observer = CallbackObserver(committed.append)
        disk.calls.clear()
        for i in range(50):
            log.append_message(b"a", b"%d" % i)
        await log.commit()
        log.remove(7)
        await log.commit()
        assert committed[-1] == log.committed == log.written == 50
        assert log.synced == 0
        assert not [call for call in disk.calls if call[0] == "fdatasync"]
        assert [log.get(seq)[3] for seq in (1, 50)] == [b"0", b"49"]
        kill(store)
        again = open_store(str(tmp_path / "s"))
        (recovered,) = again.recover(ACCOUNT)
        assert walk(recovered.log) == [seq for seq in range(1, 51) if seq != 7]
        await again.close()

    run(scenario())


def test_the_background_sync_comes_and_covers_what_was_written(tmp_path: Path) -> None:
    """What a power failure may take is what was written behind the last fdatasync: nothing before it."""

    async def scenario() -> None:
        log: Any = None
        covered: list[int] = []

        def rule(call: str, path: str, size: int) -> int | None:
            if call == "fdatasync" and path.endswith(".seg") and log is not None:
                covered.append(log.written)
            return None

        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(rule), sync=0.05)
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        for round_end in (50, 100):
            for i in range(50):
                log.append_message(b"a", b"%d" % i)
            await log.commit()
            assert log.committed == round_end
            async with asyncio.timeout(5):
                while log.synced < round_end:
                    await asyncio.sleep(0.01)
            assert covered[-1] == round_end
        await store.close()

    run(scenario())


@pytest.mark.parametrize("messages", [0, 20])
def test_a_failed_background_sync_is_reported_and_never_repeated(tmp_path: Path, messages: int) -> None:
    async def scenario() -> None:
        told = Told()
        broken = False
        suspect = ""
        again = 0

        def rule(call: str, path: str, size: int) -> int | None:
            nonlocal suspect, again
            if call == "fdatasync" and path.endswith(".seg") and broken:
                if not suspect:
                    suspect = path
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                again += path == suspect
            return None

        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(rule), sync=0.05, log=told)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        broken = True
        for i in range(messages):
            log.append_message(b"a", b"%d" % i)
        if not messages:
            log.skip_to(5)
        log.remove(3)
        await log.commit()
        async with asyncio.timeout(5):
            while not told.errors:
                await asyncio.sleep(0.01)
        assert "fdatasync failed" in told.errors[0]
        first = log.append_message(b"a", b"goes on")
        await log.commit()
        async with asyncio.timeout(5):
            while log.synced < first:
                await asyncio.sleep(0.01)
        assert again == 0
        expected = walk(log)
        await store.close()
        assert len(told.errors) == 1
        again_open = open_store(str(tmp_path / "s"))
        (recovered,) = again_open.recover(ACCOUNT)
        assert walk(recovered.log) == expected
        assert recovered.damage == []
        await again_open.close()

    run(scenario())


@pytest.mark.parametrize(("rounds", "failing"), [(1, ".seg"), (1, (".seg", ".new1")), (2, (".seg", ".new1"))])
def test_what_follows_an_empty_file_that_could_not_be_synced_is_found_after_a_kill(
    tmp_path: Path, rounds: int, failing: str | tuple[str, ...]
) -> None:
    async def scenario() -> None:
        made = 0
        broken = False

        def rule(call: str, path: str, size: int) -> int | None:
            nonlocal made
            made += call == "open" and ".seg" in path
            if broken and call == "fdatasync" and path.endswith(failing):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return None

        store = open_store(str(tmp_path), disk=FaultyDisk(rule), sync=3600)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        broken = True
        log.write_config(log.meta)
        for number in range(rounds):
            wanted = made + 1
            log.group.request(log)
            while made < wanted:
                await asyncio.sleep(0.001)
            log.append_message(b"a", b"%d" % number)
            await log.commit()
        kill(store)
        store = open_store(str(tmp_path))
        (recovered,) = store.recover(ACCOUNT)
        assert [recovered.log.get(seq)[3] for seq in walk(recovered.log)] == [
            b"%d" % number for number in range(rounds)
        ]
        await store.close()

    run(scenario())


def test_idle_logs_give_their_buffer_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path / "s"))
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", bytes(1 << 20))
        await log.commit()
        log.rest()
        assert log.buffer_bytes() >= 1 << 20
        log.rest()
        assert log.buffer_bytes() == 0
        assert log.get(1)[3] == bytes(1 << 20)
        log.append_message(b"a", b"next")
        await log.commit()
        assert walk(log) == [1, 2]
        await store.close()

    run(scenario())


def test_a_footer_that_goes_bad_while_running_is_made_up_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        path = tmp_path / "s"
        store = open_store(str(path), segment_bytes=600)
        log: Any = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        for i in range(200):
            log.append_message(b"a.%d" % (i % 3), b"%d" % i)
        log.remove(3)
        await log.commit()
        state = log.state_of(b"a.1")
        before = [log.get(seq) for seq in range(1, 201)], walk(log), state.count
        files = sorted(path.glob("*/S/*.seg"))
        for file in files[:-1]:
            data = bytearray(file.read_bytes())
            data[-40] ^= 1
            file.write_bytes(data)
        assert ([log.get(seq) for seq in range(1, 201)], walk(log), state.count) == before
        # and with a damaged record besides
        data = bytearray(files[0].read_bytes())
        await store.close()
        store = open_store(str(path), segment_bytes=600)
        (recovered,) = store.recover(ACCOUNT)
        log = recovered.log
        data[data.index(b"a.14") + 2] ^= 255  # sequence 5
        files[0].write_bytes(data)
        messages, state = log.messages, log.state_of(b"a.1")
        assert log.get(1)[0] == 0
        assert log.get(5)[0] == 2
        assert (log.messages, log.lost()) == (messages - 1, [5])
        assert state.count == before[2] - 1
        await store.close()

    run(scenario())


def test_a_folder_without_anything_sound_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path / "s"))
        await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        await store.close()
        folder = tmp_path / "s" / "%24G" / "S"
        for file in [folder / "stream.json", *folder.glob("*.seg")]:
            file.write_bytes(b"damaged")
        store = open_store(str(tmp_path / "s"))
        assert store.recover(ACCOUNT) == []
        (offline,) = store.offline(ACCOUNT)
        assert offline.name == "S"
        assert "is damaged" in offline.reason
        assert (folder / "stream.json").read_bytes() == b"damaged"
        await store.close()

    run(scenario())
