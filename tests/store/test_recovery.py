"""Start-up after damage: every length, every byte, every combination."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from jetbroker.errors import StoreLockedError, StoreOpenError, StoreVersionError
from jetbroker.store.disk import Disk
from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.store.recovery.decisions import DECISIONS, Body, Header, Place, write_checked_json
from tests.store.support import ACCOUNT, bury, kill, open_store, run, walk


async def fill(path: Path, count: int, segment_bytes: int = 1 << 20, close: bool = False) -> Path:
    """A stream with `count` messages; left as a kill would leave it unless `close`. Returns its folder."""
    store = open_store(str(path), segment_bytes=segment_bytes)
    log = await store.create_stream(ACCOUNT, "S", {"subjects": ["a.*"]}, "file", 1)
    for i in range(1, count + 1):
        log.append_message(b"a.%d" % (i % 3), b"payload %d" % i, b"", i)
    log.remove(2)
    await log.commit()
    if close:
        await store.close()
    else:
        await log.close()
        kill(store)
    return path / "%24G" / "S"


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def found(path: Path) -> tuple[SegmentedLog, list[str]]:
    store = open_store(str(path), segment_bytes=600)
    recovered = store.recover(ACCOUNT)
    kill(store)
    return recovered[0].log, recovered[0].damage


def assert_sound(log: SegmentedLog) -> list[int]:
    """Nothing wrong is served; returns what is there."""
    seqs = []
    for seq in range(1, log.last_seq + 1):
        result, subject, _, payload, time_ns = log.get(seq)
        if result == 0:
            assert (subject, payload, time_ns) == (b"a.%d" % (seq % 3), b"payload %d" % seq, seq)
            seqs.append(seq)
    return seqs


def test_decisions_are_total() -> None:
    assert set(DECISIONS) == set(itertools.product(Header, Body, Place))


def test_torn_tail_at_every_length(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = await fill(tmp_path / "s", 8)
        (segment,) = segments(folder)
        data = segment.read_bytes()
        previous = 8
        for length in range(len(data) - 1, 200, -1):
            segment.write_bytes(data[:length])
            log, _ = found(tmp_path / "s")
            seqs = assert_sound(log)
            assert log.lost() == []
            assert log.last_seq in (previous, previous - 1)
            assert seqs == [s for s in range(1, log.last_seq + 1) if s != 2 or length < len(data)]
            previous = log.last_seq
            bury()
        assert previous == 0

    run(scenario())


@pytest.mark.parametrize("sealed", [False, True])
def test_a_flip_of_every_byte_costs_at_most_its_record(tmp_path: Path, sealed: bool) -> None:
    async def scenario() -> None:
        folder = await fill(tmp_path / "s", 7, 420 if sealed else 1 << 20)
        segment = segments(folder)[0]
        data = segment.read_bytes()
        total = [1, *range(3, 8)]
        untouched = tmp_path / "untouched"
        shutil.copytree(folder, untouched)
        for at in range(len(data)):
            flipped = bytearray(data)
            flipped[at] ^= 1 << (at % 8)
            shutil.rmtree(folder)
            shutil.copytree(untouched, folder)
            segment.write_bytes(flipped)
            log, _ = found(tmp_path / "s")
            seqs = assert_sound(log)
            missing = [s for s in total if s not in seqs]
            assert len(missing) <= 1, at
            extra = [s for s in seqs if s not in total]
            assert extra == [] or (not sealed and at > len(data) - 80), at
            if log.last_seq == 7:
                assert log.lost() == missing, at
            bury()

    run(scenario())


def test_missing_segment_is_a_lost_range(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = await fill(tmp_path / "s", 30, 600)
        files = segments(folder)
        assert len(files) > 3
        gone = range(int(files[1].stem), int(files[2].stem))
        files[1].unlink()
        (folder / "notes.txt").write_text("mine")
        log, _ = found(tmp_path / "s")
        assert log.lost() == list(gone)
        assert log.last_seq == 30
        assert log.get(gone[0])[0] == 2
        assert assert_sound(log) == [s for s in range(1, 31) if s != 2 and s not in gone]
        assert (folder / "notes.txt").read_text() == "mine"

    run(scenario())


def test_swapped_segments_are_noticed(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = await fill(tmp_path / "s", 30, 600)
        one, two = segments(folder)[:2]
        first, second = one.read_bytes(), two.read_bytes()
        one.write_bytes(second)
        two.write_bytes(first)
        log, damage = found(tmp_path / "s")
        assert len(damage) == 2
        assert_sound(log)
        assert one.read_bytes() == second

    run(scenario())


@pytest.mark.parametrize("content", [b"", b"{}", b"garbage\n", None])
def test_damaged_stream_json_costs_nothing(tmp_path: Path, content: bytes | None) -> None:
    async def scenario() -> None:
        folder = await fill(tmp_path / "s", 5)
        if content is None:
            (folder / "stream.json").unlink()
        else:
            (folder / "stream.json").write_bytes(content)
        store = open_store(str(tmp_path / "s"))
        (recovered,) = store.recover(ACCOUNT)
        assert (recovered.name, recovered.config) == ("S", {"subjects": ["a.*"]})
        assert walk(recovered.log) == [1, 3, 4, 5]
        assert len(recovered.damage) == 1
        await store.close()

    run(scenario())


def test_kill_during_recovery_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        await fill(tmp_path / "s", 30, 600)
        for _ in range(3):
            log, damage = found(tmp_path / "s")
            assert damage == []
            assert assert_sound(log) == [s for s in range(1, 31) if s != 2]

    run(scenario())


def try_to_open(path: str, answer: multiprocessing.Queue[str]) -> None:
    async def attempt() -> None:
        try:
            open_store(path)
        except StoreLockedError as error:
            answer.put(f"locked by {error.pid}")

    run(attempt())


def test_second_process_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path / "s"))
        context = multiprocessing.get_context("spawn")
        answer: multiprocessing.Queue[str] = context.Queue()
        process = context.Process(target=try_to_open, args=(str(tmp_path / "s"), answer))
        process.start()
        assert answer.get(timeout=20) == f"locked by {os.getpid()}"
        process.join()
        await store.close()

    run(scenario())


def test_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        await fill(path, 3)
        write_checked_json(Disk(), f"{path}/jetbroker.json", {"format": 3})
        before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != "lock"}
        with pytest.raises(StoreVersionError):
            open_store(str(path))
        assert before == {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != "lock"}

    run(scenario())


def test_a_file_is_no_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "s").write_text("x")
        for path in (tmp_path / "s", tmp_path / "s" / "below"):
            with pytest.raises(StoreOpenError, match=r"^storage directory is not a directory$"):
                open_store(str(path))

    run(scenario())


def test_a_cut_after_a_clean_stop_is_noticed(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = await fill(tmp_path / "s", 8, close=True)
        (segment,) = segments(folder)
        data = segment.read_bytes()
        # at the record boundary behind message 5
        segment.write_bytes(data[: data.index(b"a.0payload 6") - 36])
        log, damage = found(tmp_path / "s")
        assert log.last_seq == 8
        assert log.lost() == [6, 7, 8]
        assert len(damage) == 1
        assert log.append_message(b"a", b"next") == 9
        await log.commit()
        log, _ = found(tmp_path / "s")
        assert log.lost() == [6, 7, 8]
        assert log.last_seq == 9

    run(scenario())


def test_damaged_state_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        store = open_store(str(path))
        await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        state = await store.create_consumer(ACCOUNT, "S", "C", {"a": 1}, 1, False)
        entries = [b"entry %d" % i for i in range(4)]
        for entry in entries:
            state.append_entry(entry)
        await store.close()
        file = path / "%24G" / "S" / "consumers" / "C.log"
        data = file.read_bytes()
        for at in range(len(data)):
            flipped = bytearray(data)
            flipped[at] ^= 1 << (at % 8)
            for other in file.parent.iterdir():
                other.unlink()
            file.write_bytes(flipped)
            store = open_store(str(path))
            (recovered,) = store.recover(ACCOUNT)
            kill(store)
            (consumer,) = recovered.consumers
            assert consumer.config == {"a": 1}
            got = consumer.state_log.recovered
            assert got == entries[: len(got)]
            hit = (at - data.index(b"entry 0") + 12) // 19 if at >= data.index(b"entry 0") - 12 else 4
            assert len(got) == min(hit, 4), at
            bury()
        for length in range(len(data)):
            for other in file.parent.iterdir():
                other.unlink()
            file.write_bytes(data[:length])
            store = open_store(str(path))
            (recovered,) = store.recover(ACCOUNT)
            kill(store)
            for consumer in recovered.consumers:
                got = consumer.state_log.recovered
                assert got == entries[: len(got)]
            assert recovered.consumers or file.read_bytes() == data[:length]
            bury()

    run(scenario())


@pytest.mark.parametrize("erased", [[1], [5], [3, 4], [4, 5], [1, 2, 3, 4, 5]])
@pytest.mark.parametrize("written", [False, True], ids=["still in memory", "already in the file"])
def test_an_erased_message_is_no_damage(tmp_path: Path, erased: list[int], written: bool) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path))
        log = await store.create_stream(ACCOUNT, "S", {"subjects": ["a.*"]}, "file", 1)
        for i in range(1, 6):
            log.append_message(b"a.%d" % (i % 3), b"payload %d" % i, b"", i)
        if written:
            await log.commit()
        for seq in erased:
            assert log.remove(seq, True)
        await log.commit()
        await log.close()
        kill(store)
        content = segments(tmp_path / "%24G" / "S")[0].read_bytes()
        assert [seq for seq in range(1, 6) if b"payload %d" % seq not in content] == erased
        again, damage = found(tmp_path)
        assert damage == []
        assert (again.lost(), again.last_seq) == ([], 5)
        assert assert_sound(again) == [seq for seq in range(1, 6) if seq not in erased]

    run(scenario())
