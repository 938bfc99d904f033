"""Rounds of syncs: whom a failure hits, and what goes to the disk in which order."""

from __future__ import annotations

import asyncio
import errno
import gc
import math
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jetbroker.store.disk import Disk, ObservedDisk
from jetbroker.store.log.commit import GroupCommit
from jetbroker.tick import Tick
from tests.store.support import ACCOUNT, FaultyDisk, open_store, run

Target = int | str | Callable[[], None]


class Member:
    """Wants its targets synced once, and keeps the outcome."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.targets = list(targets)
        self.outcome: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()

    def begin_sync(self) -> list[Target] | None:
        return self.targets

    def end_sync(self, error: OSError | None) -> None:
        self.outcome.set_result(error)


class Files:
    """Open files of a test, on a disk that counts its calls."""

    def __init__(self, directory: Path, *names: str) -> None:
        self.disk = FaultyDisk()
        self.fds = [self.disk.open(str(directory / name), os.O_RDWR | os.O_CREAT) for name in names]
        self.disk.calls.clear()

    def close(self) -> None:
        for fd in self.fds:
            self.disk.close(fd)


def new_threads(known: list[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread not in known]


async def one_round(group: GroupCommit, *members: Member) -> list[OSError | None]:
    """Have them all take part in one round: the first one asks while the others' requests are waiting already."""
    busy = Member([lambda: None])
    group.request(busy)
    for member in members:
        group.request(member)
    return [await member.outcome for member in members]


def test_a_failure_hits_its_member_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Files(tmp_path, "a", "b", "c")
        group = GroupCommit(Tick(asyncio.get_running_loop()), files.disk)

        def rule(call: str, path: str, size: int) -> int | None:
            if call == "fdatasync" and path.endswith("/b"):
                raise OSError(errno.ENOSPC, "full")
            return None

        files.disk.rule = rule
        after: list[str] = []
        members = [Member([fd, partial(after.append, str(fd))]) for fd in files.fds]
        outcome = await one_round(group, *members)
        assert [error and error.errno for error in outcome] == [None, errno.ENOSPC, None]
        # what stands behind a failed sync is not done
        assert after == [str(files.fds[0]), str(files.fds[2])]
        await group.close()
        files.close()

    run(scenario())


def test_syncs_and_failures_are_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Files(tmp_path, "a", "b")
        group = GroupCommit(Tick(asyncio.get_running_loop()), files.disk)
        assert (group.figures.seconds.cumulated()[-1], group.figures.failures) == ((math.inf, 0), 0)

        def rule(call: str, path: str, size: int) -> int | None:
            if call == "fdatasync" and path.endswith("/b"):
                raise OSError(errno.EIO, "broken")
            return None

        files.disk.rule = rule
        await one_round(group, Member([files.fds[0], str(tmp_path)]), Member([files.fds[1]]))
        await one_round(group, Member([files.fds[0]]))
        figures = group.figures
        counts = [count for _, count in figures.seconds.cumulated()]
        assert counts[-1] == 3 and counts == sorted(counts)  # of files; directories are not counted
        assert 0 < figures.seconds.sum < 60
        assert figures.failures == 1
        assert figures.changes.cumulated()[-1] == (math.inf, 0)  # these members have none
        await group.close()
        files.close()

    run(scenario())


def test_the_kernels_own_error_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Files(tmp_path, "a")
        group = GroupCommit(Tick(asyncio.get_running_loop()), files.disk)
        read_end, write_end = os.pipe()
        bad, good = await one_round(group, Member([read_end]), Member(files.fds))
        assert bad is not None
        assert bad.errno == errno.EINVAL
        assert good is None
        os.close(read_end)
        os.close(write_end)
        await group.close()
        files.close()

    run(scenario())


def test_first_everybodys_first_step_and_each_directory_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Files(tmp_path, "a", "b")
        group = GroupCommit(Tick(asyncio.get_running_loop()), files.disk)
        folder = str(tmp_path)
        outcome = await one_round(group, Member([files.fds[0], folder]), Member([files.fds[1], folder, files.fds[1]]))
        assert outcome == [None, None]
        assert files.disk.calls == [
            ("fdatasync", "a"),
            ("fdatasync", "b"),
            ("sync_directory", tmp_path.name),
            ("fdatasync", "b"),
        ]
        missing = str(tmp_path / "missing")
        outcome = await one_round(group, Member([missing]), Member([missing]), Member([folder]))
        assert [error and error.errno for error in outcome] == [errno.ENOENT, errno.ENOENT, None]
        await group.close()
        files.close()

    run(scenario())


def test_our_own_bug_is_loud_and_counts_as_a_failure(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Files(tmp_path, "a")
        loop = asyncio.get_running_loop()
        reports: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: reports.append(context))
        group = GroupCommit(Tick(loop), files.disk)

        def broken() -> None:
            raise ValueError("a bug")

        bad, good = await one_round(group, Member([broken]), Member(files.fds))
        assert bad is not None
        assert bad.errno == errno.EIO
        assert good is None
        assert [str(report["exception"]) for report in reports] == ["a bug"]
        await group.close()
        files.close()

    run(scenario())


def test_a_bug_below_a_shared_directory_passes_for_nobodys_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Files(tmp_path, "a")
        loop = asyncio.get_running_loop()
        reports: list[str] = []
        loop.set_exception_handler(lambda _, context: reports.append(str(context["exception"])))
        group = GroupCommit(Tick(loop), files.disk)
        folder = str(tmp_path)

        def rule(call: str, path: str, size: int) -> int | None:
            raise ValueError("a bug")

        files.disk.rule = rule
        outcome = await one_round(group, Member([folder]), Member([folder]), Member(files.fds))
        assert [error and error.errno for error in outcome] == [errno.EIO] * 3
        assert reports == ["a bug", "a bug"]
        await group.close()
        files.disk.rule = None
        files.close()

    run(scenario())


def test_rounds_share_one_thread_that_ends_with_the_group(tmp_path: Path) -> None:
    before = threading.enumerate()

    async def scenario() -> None:
        disk = Disk()
        fd = disk.open(str(tmp_path / "a"), os.O_RDWR | os.O_CREAT)
        group = GroupCommit(Tick(asyncio.get_running_loop()), disk)
        for _ in range(100):
            member = Member([fd])
            group.request(member)
            assert await member.outcome is None
        assert len(new_threads(before)) == 1
        await group.close()
        assert new_threads(before) == []
        disk.close(fd)

    run(scenario())


def open_files_at_rest() -> int:
    """How many files are open when the threads of groups that other tests left behind have ended."""
    gc.collect()
    count = -1
    while count != (count := len(os.listdir("/proc/self/fd"))):
        for thread in threading.enumerate():
            if thread.name == "jetbroker-sync":
                thread.join(0.1)
    return count


def test_a_group_that_is_not_closed_leaves_nothing_behind(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    async def scenario() -> None:
        files = Files(tmp_path, "a")
        group = GroupCommit(Tick(asyncio.get_running_loop()), files.disk)
        assert await one_round(group, Member(files.fds)) == [None]
        threads.extend(new_threads(known))
        files.close()

    before = open_files_at_rest()
    known = threading.enumerate()
    run(scenario())
    gc.collect()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(threads) == 1
    assert len(os.listdir("/proc/self/fd")) == before


class HeldDisk(ObservedDisk):
    """Holds back what is synced in a folder until it may go on."""

    def __init__(self) -> None:
        self.folder = "nothing yet"
        self.go_on = threading.Event()
        self.held = 0

    def before(self, call: str, path: str, size: int, offset: int) -> None:
        if call == "fdatasync" and path.startswith(self.folder):
            self.held += 1
            self.go_on.wait(10)


def test_nobody_waits_for_a_stream_that_arrives(tmp_path: Path) -> None:
    """Its rounds are apart until it is published, and count like all others."""

    async def scenario() -> None:
        disk = HeldDisk()
        store = open_store(str(tmp_path), disk=disk)
        other: Any = await store.create_stream(ACCOUNT, "OTHER", {"subjects": ["o"]}, "file", 1)
        staging = await store.stage_stream(ACCOUNT, "S", {"subjects": ["s"]}, 1)
        disk.folder = staging.log.directory
        staging.log.append_message(b"s", b"arrives")
        arrives = asyncio.create_task(staging.log.commit())
        while not disk.held:
            await asyncio.sleep(0.001)
        synced = store.group.figures.seconds.cumulated()[-1][1]
        other.append_message(b"o", b"published")
        await other.commit()
        assert not arrives.done()
        disk.go_on.set()
        await arrives
        assert store.group.figures.seconds.cumulated()[-1][1] == synced + 2
        await store.publish_stream(staging)
        staging.log.append_message(b"s", b"published")
        await staging.log.commit()
        assert staging.log.group is store.group
        await store.close()

    run(scenario())
