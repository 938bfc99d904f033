"""The parts of a log in files, each alone."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from jetbroker.errors import StorageError
from jetbroker.store.faults import Fault, Faults, Retry
from jetbroker.store.format.footers import sound_footer_of
from jetbroker.store.format.records import PREVIOUS_WAS_SEALED, decode_trailer, encode_record, seed_of
from jetbroker.store.log.active_file import ActiveFile
from jetbroker.store.log.commit import GroupCommit
from jetbroker.store.log.health import TRANSITIONS, Health, WriteEvent, Writing
from jetbroker.store.log.removals import PendingRemovals
from jetbroker.store.log.scan import walk_records
from jetbroker.store.log.sealing import Sealing
from jetbroker.store.log.segment_files import FileSegment, SegmentFiles
from jetbroker.store.log.sync_round import SyncRound
from jetbroker.tick import Tick
from tests.store.support import ACCOUNT, FaultyDisk, Told, run

FAULT = Fault(ACCOUNT, "S", "", "1.seg", "No space left on device")
ERROR = StorageError("1.seg: No space left on device")


class Sick:
    """A health with a store's faults and a retry whose tries are counted."""

    def __init__(self, reserve: Any = None) -> None:
        loop = asyncio.get_running_loop()
        self.told = Told()
        self.faults = Faults(loop, self.told)
        self.tries = 0
        self.health = Health(Retry(loop, self.tried), self.faults, reserve)

    def tried(self) -> None:
        self.tries += 1

    def after(self, events: Iterable[WriteEvent]) -> Writing:
        for event in events:
            if event == WriteEvent.REFUSED:
                self.health.refuse(FAULT, ERROR)
            elif event == WriteEvent.NOT_SYNCED:
                self.health.doubt(FAULT)
            else:
                self.health.take(event)
        return self.health.state


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("REFUSED", "REFUSING"),
        ("REFUSED COMMITTED", "REFUSING"),  # of what was written before
        ("REFUSED TRIED", "TRYING"),
        ("REFUSED TRIED REFUSED", "REFUSING"),
        ("REFUSED TRIED COMMITTED", "WORKS"),
        ("REFUSED MOVED", "MOVING"),
        ("REFUSED MOVED COMMITTED", "WORKS"),
        ("REFUSED MOVED REFUSED GIVEN_UP", "PAUSED"),
        ("REFUSED GIVEN_UP REFUSED MOVED COMMITTED", "WORKS"),
        ("REFUSED GIVEN_UP TRIED COMMITTED", "WORKS"),
        ("NOT_SYNCED", "UNSYNCED"),
        ("NOT_SYNCED COMMITTED", "UNSYNCED"),  # written, and no more than that
        ("NOT_SYNCED SYNCED", "WORKS"),
        ("NOT_SYNCED REFUSED SYNCED", "REFUSING"),
        ("REFUSED TRIED NOT_SYNCED", "REFUSING"),
    ],
)
def test_health_follows_what_the_disk_does(events: str, state: str) -> None:
    async def scenario() -> None:
        sick = Sick()
        assert sick.after(WriteEvent[name] for name in events.split()) is Writing[state]
        works = state == "WORKS"
        assert (list(sick.faults) == []) is works
        assert len(sick.told.errors) == 1
        assert len(sick.told.infos) == (1 if works else 0)
        assert sick.health.waits is not works
        assert (sick.health.failed is None) is (works or state == "UNSYNCED")
        sick.health.close()
        assert list(sick.faults) == []

    run(scenario())


def test_every_event_leads_somewhere_from_every_state() -> None:
    assert set(TRANSITIONS) == set(WriteEvent)
    assert {len(row) for row in TRANSITIONS.values()} == {len(Writing)}


def test_appends_fail_in_exactly_the_states_that_say_so() -> None:
    async def scenario() -> None:
        for events in product(WriteEvent, repeat=4):
            sick = Sick()
            reachable = True
            for event in events:
                # what no log does: a file is moved or given up only after its failure
                failed = sick.health.failed is not None
                reachable = reachable and (failed or event not in (WriteEvent.MOVED, WriteEvent.GIVEN_UP))
                if not reachable:
                    break
                state = sick.after([event])
                may_append = state in (Writing.WORKS, Writing.UNSYNCED)
                assert (sick.health.failed is None) is may_append, events
                assert (list(sick.faults) == []) is (state is Writing.WORKS), events
            sick.health.close()

    run(scenario())


def test_the_next_try_comes_by_itself() -> None:
    async def scenario() -> None:
        sick = Sick()
        sick.after([WriteEvent.REFUSED])
        async with asyncio.timeout(5):
            while not sick.tries:
                await asyncio.sleep(0.01)
        assert not sick.health.waits
        sick.health.try_later()
        assert sick.health.waits
        sick.health.close()
        assert not sick.health.waits

    run(scenario())


def test_appends_wait_for_the_reserve() -> None:
    class Reserve:
        held = True

        def restore(self) -> bool:
            return self.held

        def free(self) -> None:
            self.held = False

    async def scenario() -> None:
        reserve = Reserve()
        health = Sick(reserve).health
        assert health.has_reserve()
        health.use_reserve()
        assert not reserve.held
        assert not health.has_reserve()
        bare = Sick().health
        bare.use_reserve()
        assert bare.has_reserve()

    run(scenario())


# --- removals ---


def batch(removals: PendingRemovals) -> list[tuple[int, int]]:
    found = removals.next_batch()
    return [] if found is None else found.pairs()


def test_each_batch_of_removals_is_written_twice() -> None:
    removals = PendingRemovals()
    assert batch(removals) == []
    removals.add(1, 2)
    removals.add(3, 4)
    removals.add(9, 9)
    assert batch(removals) == [(1, 4), (9, 9)]
    removals.written()
    assert batch(removals) == []
    removals.add(6, 6)
    assert batch(removals) == [(1, 4), (6, 6), (9, 9)]
    removals.written()
    removals.new_file()
    removals.add(20, 20)
    assert batch(removals) == [(20, 20)]


def test_removals_that_did_not_get_into_the_file_wait_again() -> None:
    removals = PendingRemovals()
    removals.add(1, 1)
    batch(removals)
    removals.written()
    removals.add(3, 5)
    batch(removals)
    removals.add(8, 20)
    removals.add(30, 30)
    removals.take_back(10)  # appends from 11 on were taken back, too
    assert batch(removals) == [(3, 5), (8, 10)]
    removals.take_back(10)
    assert batch(removals) == [(3, 5), (8, 10)]


def test_a_removal_that_is_not_written_can_be_undone() -> None:
    removals = PendingRemovals()
    removals.add(1, 5)
    removals.add(8, 8)
    removals.undo([0, 1, 3, 8, 99])
    assert batch(removals) == [(2, 2), (4, 5)]


# --- the sync round ---


def refuse(*calls: str) -> Callable[[str, str, int], int | None]:
    def rule(call: str, path: str, size: int) -> int | None:
        if call in calls:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return None

    return rule


class Member:
    """Takes part in the rounds of a group with a round of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = FaultyDisk()
        self.round = SyncRound(self.disk)
        self.group = GroupCommit(Tick(asyncio.get_running_loop()), self.disk)
        self.active = self.segment(1)
        self.errors: list[OSError] = []
        self.rounds = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def segment(self, first_seq: int) -> FileSegment:
        segment = FileSegment(first_seq, str(self.folder / f"{first_seq}.seg"))
        segment.fd = self.disk.open(segment.path, os.O_RDWR | os.O_CREAT)
        return segment

    def roll(self, first_seq: int) -> None:
        self.round.seal(self.active)
        self.active = self.segment(first_seq)
        self.round.changed_directory(str(self.folder))

    def begin_sync(self) -> list[Any]:
        targets = self.round.begin(self.active, 0, 0, 0)
        self.meanwhile()
        return targets

    def end_sync(self, error: OSError | None) -> None:
        self.rounds += 1
        if error is None:
            self.round.end()
        else:
            self.errors.append(error)
            self.round.fail()

    async def sync(self) -> list[str]:
        """One round; returns the files and folders that were synced."""
        self.disk.calls.clear()
        wanted = self.rounds + 1
        self.group.request(self)
        while self.rounds < wanted:
            await asyncio.sleep(0.001)
        return sorted(path for call, path in self.disk.calls if call in ("fdatasync", "sync_directory"))


def test_a_round_syncs_what_waits_and_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path)
        member.roll(5)
        assert await member.sync() == sorted(["1.seg", "5.seg", tmp_path.name])
        assert member.round.unsynced == []
        assert await member.sync() == ["5.seg"]
        member.round.changed_bytes(member.active)
        other = member.segment(3)
        member.round.changed_bytes(other)
        assert "3.seg" in await member.sync()
        assert await member.sync() == ["5.seg"]
        await member.group.close()

    run(scenario())


def test_what_is_sealed_or_made_during_a_round_waits_for_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path)
        first = member.active
        member.meanwhile = lambda: member.roll(member.active.first_seq + 4)
        assert await member.sync() == ["1.seg"]
        assert member.round.active is first
        assert member.round.unsynced == [first]
        assert member.round.held() == {first}
        member.meanwhile = lambda: None
        assert await member.sync() == sorted(["1.seg", "5.seg", tmp_path.name])
        assert member.round.held() == set()
        await member.group.close()

    run(scenario())


def test_a_file_gets_its_name_when_it_is_synced(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path)
        temporary = f"{member.active.path}.new1"
        os.rename(member.active.path, temporary)
        member.active.temporary = temporary
        member.disk.rule = refuse("fdatasync")
        await member.sync()
        assert os.path.exists(temporary)
        assert member.active.temporary == temporary
        member.disk.rule = None
        await member.sync()
        assert os.path.exists(member.active.path)
        assert member.active.temporary is None
        await member.group.close()

    run(scenario())


def test_after_a_round_that_failed_directories_are_synced_again_and_files_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path)
        member.roll(5)
        member.disk.rule = refuse("fdatasync")
        await member.sync()
        assert [error.errno for error in member.errors] == [errno.EIO]
        assert not member.round.running
        assert member.round.leave()
        assert member.round.unsynced == []
        member.disk.rule = None
        member.active = member.segment(9)
        assert await member.sync() == sorted(["9.seg", tmp_path.name])
        await member.group.close()

    run(scenario())


def test_what_was_overwritten_elsewhere_is_synced_by_the_round_after_one_that_failed(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path)
        member.roll(5)
        older = member.segment(3)
        for segment in (older, *member.round.unsynced, member.active):
            member.round.changed_bytes(segment)
        member.disk.rule = refuse("fdatasync")
        await member.sync()
        assert member.round.held() == {older, *member.round.unsynced}
        assert member.round.leave()
        member.disk.rule = None
        member.active = member.segment(9)
        assert await member.sync() == sorted(["3.seg", "9.seg", tmp_path.name])
        await member.group.close()

    run(scenario())


def test_only_the_files_of_the_failed_round_are_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path)
        member.disk.rule = refuse("fdatasync")
        member.meanwhile = lambda: member.roll(member.active.first_seq + 4)
        await member.sync()
        member.roll(9)
        assert not member.round.leave()
        assert [segment.first_seq for segment in member.round.unsynced] == [5]
        await member.group.close()

    run(scenario())


# --- sealing ---


def walked(path: Path, disk: FaultyDisk, count: int = 3) -> FileSegment:
    """A segment of so many messages, written and not sealed."""
    records = b"".join(
        encode_record(ord("M"), 1, seq, 1000 + seq, b"s.%d" % (seq % 2), b"", b"x") for seq in range(1, count + 1)
    )
    segment = FileSegment(1, str(path / "1.seg"))
    segment.header_len = 64
    segment.fd = disk.open(segment.path, os.O_RDWR | os.O_CREAT)
    walk_records(segment, bytes(64) + records, 64 + len(records), seed_of(1), False)
    disk.write_all(segment.fd, bytes(64) + records, 0)
    return segment


def test_a_sealed_segment_ends_in_a_sound_footer(tmp_path: Path) -> None:
    disk = FaultyDisk()
    segment = walked(tmp_path, disk)
    Sealing(disk, True).seal(segment, 64)
    data = Path(segment.path).read_bytes()
    assert decode_trailer(data[-32:]) == (segment.footer_at, segment.footer_len, segment.footer_crc)
    footer = data[segment.footer_at : segment.footer_at + segment.footer_len]
    assert sound_footer_of(footer, False, 1, segment.footer_at) == footer
    assert segment.sealed
    assert ("fdatasync", "1.seg") not in disk.calls


@pytest.mark.parametrize(("syncs", "synced", "expected"), [(True, 64, True), (True, 500, False), (False, 64, False)])
def test_a_footer_vouches_for_batches_only_when_they_are_on_disk(
    tmp_path: Path, syncs: bool, synced: int, expected: bool
) -> None:
    disk = FaultyDisk()
    segment = walked(tmp_path, disk)
    sealing = Sealing(disk, syncs)
    sealing.batches_end = 100
    disk.calls.clear()
    sealing.seal(segment, synced)
    assert [call for call, _ in disk.calls if call in ("fdatasync", "write")] == ["fdatasync"] * expected + ["write"]


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_a_segment_without_room_for_its_footer_is_sealed_without(tmp_path: Path, call: str) -> None:
    disk = FaultyDisk()
    segment = walked(tmp_path, disk)
    sealing = Sealing(disk, True)
    sealing.batches_end = segment.end
    disk.rule = refuse(call)
    with pytest.raises(OSError, match="Input/output error"):
        sealing.seal(segment, 0)
    assert segment.sealed
    assert segment.footer_at == 0


# --- files ---


def test_files_that_the_disk_refuses_are_told_of_and_left_for_the_next_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        told: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["message"]))
        disk = FaultyDisk()
        files = SegmentFiles(disk, loop, 0)
        segment = FileSegment(1, str(tmp_path / "1.seg"))
        segment.temporary = files.temporary_name(segment.path)
        assert segment.temporary != files.temporary_name(segment.path)
        files.make(segment)
        disk.rule = refuse("truncate", "unlink", "write", "open")
        with pytest.raises(StorageError):
            files.overwrite(segment, 0, 8)
        files.cut(segment, 0)
        files.discard(segment)
        assert segment.fd == -1
        assert os.path.exists(segment.temporary)
        assert [text.split()[:2] for text in told] == [["cannot", "cut"], ["cannot", "remove"]]
        with pytest.raises(OSError, match="Input/output error"):
            files.make(segment)
        with pytest.raises(StorageError):
            files.overwrite(segment, 0, 8)
        disk.rule = None
        files.discard(segment)
        assert os.listdir(tmp_path) == []
        files.discard(segment)  # it is gone already

    run(scenario())


def test_a_file_of_another_origin_is_set_aside_for_a_new_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "1.seg"
        path.write_bytes(b"damaged")
        files = SegmentFiles(FaultyDisk(), asyncio.get_running_loop(), 0)
        segment = FileSegment(1, str(path))
        files.make(segment)
        files.close(segment)
        assert path.read_bytes() == b""
        (aside,) = tmp_path.glob("1.seg.damaged-*")
        assert aside.read_bytes() == b"damaged"

    run(scenario())


def test_a_short_write_keeps_whole_records_and_the_rest_is_written_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        files = SegmentFiles(disk, asyncio.get_running_loop(), seed_of(1))
        segment = files.new_segment(str(tmp_path), 1, PREVIOUS_WAS_SEALED, None)
        segment.header_len = segment.end = 8
        files.make(segment)
        file = ActiveFile(disk, seed_of(1))
        file.begin(segment, bytes(8))
        removals = PendingRemovals()
        for seq in (1, 5):
            removals.add(seq, seq)
            file.put_deletions(removals, 9, 1000)
        first_end = 8 + 36 + 16
        left = first_end + 10

        def full(call: str, path: str, size: int) -> int | None:
            nonlocal left
            if call == "write":
                size = min(size, left)
                left -= size
                return size
            return None

        disk.rule = full
        with pytest.raises(OSError, match="No space left"):
            file.write()
        boundary = file.written_boundary(0)
        assert boundary == first_end
        file.cut_back(boundary)
        files.cut(segment, boundary)
        removals.take_back(9)
        assert os.path.getsize(segment.path) == segment.end == boundary
        disk.rule = None
        file.put_deletions(removals, 9, 1000)
        file.write()
        removals.written()
        assert os.path.getsize(segment.path) == segment.end
        again = FileSegment(1, segment.path)
        again.header_len = 8
        data = Path(segment.path).read_bytes()
        walk = walk_records(again, data, len(data), seed_of(1), False)
        assert (walk.end, walk.damaged) == (len(data), 0)

    run(scenario())
