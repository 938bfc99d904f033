"""Compressed streams: the same answers as plain ones, whatever is damaged, removed, or killed on the way."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from jetbroker.errors import StorageError
from jetbroker.store.format import records as store_format
from jetbroker.store.format.documents import segment_sequence
from jetbroker.store.format.frames import FRAME_MAGIC, unpack
from jetbroker.store.format.records import decode_header
from jetbroker.store.offline.reader import open_stream, read_part
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, FaultyDisk, kill, open_store, packed, run, walk
from tests.store.test_log_model import BOUNDS, LogMachine

S2 = {"subjects": ["a.*"], "compression": "s2"}
PLAIN = {"subjects": ["a.*"], "compression": "none"}


def payload(seq: int, size: int) -> bytes:
    return (b"message %d " % seq) * (size // 10)


async def fill(
    path: Path, count: int, size: int = 400, segment_bytes: int = 4000, config: Any = S2, **options: Any
) -> tuple[Store, Any]:
    """A store with one stream of `count` messages, all segments but the last one packed."""
    store = open_store(str(path), segment_bytes=segment_bytes, **options)
    log = await store.create_stream(ACCOUNT, "S", config, "file", 1)
    for seq in range(1, count + 1):
        log.append_message(b"a.%d" % (seq % 3), payload(seq, size), b"", seq)
    await log.commit()
    await packed(store)
    return store, log


def files(path: Path, stream: str = "S") -> list[Path]:
    return sorted((path / "%24G" / stream).glob("*.seg"))


def is_packed(file: Path) -> bool:
    header = decode_header(file.read_bytes())
    assert header is not None
    return header.packed


def assert_sound(log: Any, size: int = 400) -> list[int]:
    """The sequences that can be read; none has wrong bytes."""
    good = []
    for seq in range(1, log.last_seq + 1):
        result, subject, _, data, time_ns = log.get(seq)
        if result == 0:
            assert (subject, data, time_ns) == (b"a.%d" % (seq % 3), payload(seq, size), seq)
            good.append(seq)
    return good


async def reopened(path: Path) -> tuple[Store, Any, list[str]]:
    store = open_store(str(path), segment_bytes=4000)
    (recovered,) = store.recover(ACCOUNT)
    return store, recovered.log, recovered.damage


class PackedLogMachine(LogMachine):
    """The model again, where sealed segments are packed at some times and erased in at others."""

    config = S2

    @rule()
    def pack(self) -> None:
        self.wait(self.log.commit())
        self.wait(packed(self.store))

    @rule(on=st.booleans())
    def update(self, on: bool) -> None:
        self.wait(self.store.update_stream(ACCOUNT, "S", S2 if on else PLAIN))

    @rule(position=st.integers(0, 400))
    def erase_packed(self, position: int) -> None:
        self.pack()
        self.remove(position, True)


TestPackedLog = PackedLogMachine.TestCase
TestPackedLog.settings = BOUNDS


def test_what_is_stored_takes_less_disk_and_reads_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, log = await fill(tmp_path, 300)
        *sealed, active = files(tmp_path)
        assert len(sealed) > 20
        assert all(is_packed(file) for file in sealed)
        assert not is_packed(active)
        assert sum(file.stat().st_size for file in sealed) < log.bytes / 3
        assert assert_sound(log) == walk(log) == list(range(1, 301))
        await store.close()
        store, log, damage = await reopened(tmp_path)
        assert damage == []
        assert assert_sound(log) == list(range(1, 301))
        await store.close()

    run(scenario())


def test_an_update_packs_what_is_sealed_and_another_leaves_it_readable(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path), segment_bytes=4000)
        log: Any = await store.create_stream(ACCOUNT, "S", PLAIN, "file", 1)
        for seq in range(1, 101):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, 400), b"", seq)
        await log.commit()
        assert not any(is_packed(file) for file in files(tmp_path))
        await store.update_stream(ACCOUNT, "S", S2)
        await packed(store)
        before = files(tmp_path)[:-1]
        assert all(is_packed(file) for file in before)
        await store.update_stream(ACCOUNT, "S", PLAIN)
        for seq in range(101, 201):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, 400), b"", seq)
        await log.commit()
        await packed(store)
        assert [is_packed(file) for file in files(tmp_path)].count(True) == len(before)
        assert assert_sound(log) == list(range(1, 201))
        await store.close()

    run(scenario())


def test_a_store_with_packed_segments_is_marked_as_newer(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path), segment_bytes=4000)
        log: Any = await store.create_stream(ACCOUNT, "S", PLAIN, "file", 1)
        await log.commit()
        assert b'"format":1' in (tmp_path / "jetbroker.json").read_bytes()
        await store.close()
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        store, _ = await fill(tmp_path, 30)
        assert b'"format":2' in (tmp_path / "jetbroker.json").read_bytes()
        await store.close()

    run(scenario())


def test_packing_leaves_the_domain_of_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        await open_store(str(tmp_path), domain="edge").close()
        store, _ = await fill(tmp_path, 30, domain="edge")
        assert b'"format":2' in (tmp_path / "jetbroker.json").read_bytes()
        assert open_stream(tmp_path, "S").domain == "edge"
        await store.close()

    run(scenario())


def test_every_crash_state_is_one_form_or_the_other(tmp_path: Path) -> None:
    """The store as it was at each call on the disk, while segments are packed and one is erased in."""
    states = tmp_path / "states"

    async def scenario() -> int:
        path = tmp_path / "s"
        recording = False
        counter = itertools.count()

        def copy(call: str, file: str, size: int) -> None:
            if recording and call in ("open", "write", "fdatasync", "rename", "unlink", "sync_directory"):
                shutil.copytree(path, states / str(next(counter)), dirs_exist_ok=True)

        store = open_store(str(path), segment_bytes=4000, disk=FaultyDisk(copy))
        log: Any = await store.create_stream(ACCOUNT, "S", PLAIN, "file", 1)
        for seq in range(1, 26):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, 400), b"", seq)
        await log.commit()
        recording = True
        await store.update_stream(ACCOUNT, "S", S2)
        await packed(store)
        log.remove(4, True)
        await log.commit()
        recording = False
        await store.close()
        return next(counter)

    count = run(scenario())
    assert count > 15

    async def verify(number: int) -> None:
        store, log, damage = await reopened(states / str(number))
        assert damage == []
        good = assert_sound(log)
        assert [seq for seq in range(1, 26) if seq not in good] in ([], [4])
        assert log.lost() == []
        await packed(store)
        assert assert_sound(log) == good
        assert not list((states / str(number) / "%24G" / "S").glob("*.packing"))
        await store.close()

    for number in range(count):
        run(verify(number))


@pytest.mark.parametrize("plain", [False, True])
def test_an_erased_message_is_gone_from_the_disk(tmp_path: Path, plain: bool) -> None:
    async def scenario() -> None:
        store, log = await fill(tmp_path, 60)
        if plain:
            await store.update_stream(ACCOUNT, "S", PLAIN)
        seed = store_format.seed_of(log.stream_id)

        def stored(seq: int) -> bool:
            found = False
            for file in files(tmp_path)[:-1]:
                content = unpack(file.read_bytes(), seed)
                assert content is not None
                found = found or payload(seq, 400) in content[0]
            return found

        # two of one segment, one of another, one that is removed without being erased
        for seq in (3, 4, 30):
            assert stored(seq)
            assert log.remove(seq, True)
        assert log.remove(31)
        await log.commit()
        assert [stored(seq) for seq in (2, 3, 4, 5, 30, 31)] == [True, False, False, True, False, True]
        assert not list((tmp_path / "%24G" / "S").glob("*.packing"))
        good = [seq for seq in range(1, 61) if seq not in (3, 4, 30, 31)]
        assert assert_sound(log) == good
        await store.close()
        store, log, damage = await reopened(tmp_path)
        assert damage == []
        assert assert_sound(log) == good
        await store.close()

    run(scenario())


def test_erasing_while_the_segment_is_being_packed(tmp_path: Path) -> None:
    """The file that was made from the bytes before is not used."""

    async def scenario() -> None:
        store = open_store(str(tmp_path), segment_bytes=4000)
        log: Any = await store.create_stream(ACCOUNT, "S", PLAIN, "file", 1)
        for seq in range(1, 13):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, 400), b"", seq)
        await log.commit()
        (await asyncio.gather(store.update_stream(ACCOUNT, "S", S2), erase_during(store, log)))
        await packed(store)
        await log.commit()
        await packed(store)
        first = files(tmp_path)[0]
        assert is_packed(first)
        content = unpack(first.read_bytes(), store_format.seed_of(log.stream_id))
        assert content is not None
        assert payload(2, 400) not in content[0]
        assert assert_sound(log) == [1, *range(3, 13)]
        await store.close()

    async def erase_during(store: Store, log: Any) -> None:
        while store._packer._segment is None:
            await asyncio.sleep(0)
        log.remove(2, True)
        await log.commit()

    run(scenario())


def test_an_erasure_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        full = False

        def rule(call: str, file: str, size: int) -> None:
            if full and call == "write" and file.endswith(".packing"):
                raise OSError(28, "No space left on device")

        disk = FaultyDisk(rule)
        store, log = await fill(tmp_path, 30, disk=disk)
        full = True
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
        log.remove(3, True)
        with pytest.raises(StorageError, match="cannot be overwritten"):
            await log.commit()
        full = False
        assert len(reports) == 1
        assert log.get(3)[0] == 1
        store._packer._try_again()
        await log.commit()
        content = unpack(files(tmp_path)[0].read_bytes(), store_format.seed_of(log.stream_id))
        assert content is not None
        assert payload(3, 400) not in content[0]
        await store.close()

    run(scenario())


def test_a_full_disk_leaves_segments_plain(tmp_path: Path) -> None:
    async def scenario() -> None:
        full = True

        def rule(call: str, file: str, size: int) -> None:
            if full and call == "write" and file.endswith(".packing"):
                raise OSError(28, "No space left on device")

        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
        store, log = await fill(tmp_path, 30, disk=FaultyDisk(rule))
        assert reports
        assert not any(is_packed(file) for file in files(tmp_path))
        assert assert_sound(log) == list(range(1, 31))
        assert not list((tmp_path / "%24G" / "S").glob("*.packing"))
        full = False
        await store.close()
        store, log, damage = await reopened(tmp_path)
        await packed(store)
        assert damage == []
        assert all(is_packed(file) for file in files(tmp_path)[:-1])
        await store.close()

    run(scenario())


FLIP_SIZE = 30_000  # two messages to a frame


@pytest.fixture(scope="module")
def three_frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose first segment has six messages in three frames, deletion records among them."""
    path = tmp_path_factory.mktemp("frames") / "s"

    async def scenario() -> None:
        store = open_store(str(path), segment_bytes=190_000)
        log: Any = await store.create_stream(ACCOUNT, "S", S2, "file", 1)
        for seq in range(1, 9):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, FLIP_SIZE), b"", seq)
            if seq == 4:
                await log.commit()
                log.remove(2)
        await log.commit()
        await packed(store)
        kill(store)
        log.abandon()

    run(scenario())
    assert files(path)[0].read_bytes().count(FRAME_MAGIC) == 3
    return path


def test_a_flipped_byte_costs_the_messages_of_one_frame(three_frames: Path, tmp_path: Path) -> None:
    original = files(three_frames)[0].read_bytes()
    frames = [original.index(FRAME_MAGIC)]
    while original.find(FRAME_MAGIC, frames[-1] + 1) > 0:
        frames.append(original.index(FRAME_MAGIC, frames[-1] + 1))
    frames.append(original.index(b"\xabJBI"))
    costs = [{1, 2}, {3, 4}, {5, 6}]
    path = tmp_path / "s"
    shutil.copytree(three_frames, path)
    # every byte of what is not compressed data, and some of that
    places = [at for at in range(len(original)) if at % 15 == 7 or any(0 <= at - start < 32 for start in frames)]

    async def scenario() -> None:
        for at in places:
            shutil.rmtree(path)
            shutil.copytree(three_frames, path)
            flipped = bytearray(original)
            flipped[at] ^= 1 << (at % 8)
            files(path)[0].write_bytes(flipped)
            store, log, _ = await reopened(path)
            missing = {seq for seq in range(1, 9) if seq not in assert_sound(log, FLIP_SIZE)} - {2}
            hit = next((cost for cost, a, b in zip(costs, frames, frames[1:], strict=False) if a <= at < b), set())
            assert missing <= hit - {2}, at
            assert set(log.lost()) == missing, at
            assert log.last_seq == 8
            kill(store)
            log.abandon()

    asyncio.run(scenario())


def test_a_damaged_frame_and_no_footer_at_once(three_frames: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(three_frames, path)
    first = files(path)[0]
    content = bytearray(first.read_bytes())
    second = content.index(FRAME_MAGIC, content.index(FRAME_MAGIC) + 1)
    content[second + 100] ^= 1
    del content[content.index(b"\xabJBI") :]
    first.write_bytes(content)

    async def scenario() -> None:
        store, log, damage = await reopened(path)
        assert damage
        assert assert_sound(log, FLIP_SIZE) == [1, 5, 6, 7, 8]
        assert log.lost() == [3, 4]
        # writing the segment again repairs what can be repaired
        log.remove(5, True)
        await log.commit()
        assert assert_sound(log, FLIP_SIZE) == [1, 6, 7, 8]
        await store.close()
        store, log, damage = await reopened(path)
        assert damage == []
        assert assert_sound(log, FLIP_SIZE) == [1, 6, 7, 8]
        assert log.lost() == [3, 4]
        await store.close()

    run(scenario())
    assert open_stream(path, "S").to_arrow(["seq"])["seq"].to_pylist() == [1, 6, 7, 8]


@pytest.mark.parametrize("footer", [True, False])
@pytest.mark.parametrize(("config", "version"), [(PLAIN, 2), (S2, 1)])
def test_a_damaged_version_costs_no_message(tmp_path: Path, config: Any, version: int, footer: bool) -> None:
    async def scenario() -> None:
        store, _ = await fill(tmp_path, 40, config=config)
        await store.close()
        shutil.rmtree(tmp_path / "cache.mdb")
        hurt = files(tmp_path)[1]
        content = bytearray(hurt.read_bytes())
        assert content[7] != version
        content[7] = version
        if not footer:
            footer_at = int.from_bytes(content[-32:-24], "little")
            content[footer_at] ^= 1
        hurt.write_bytes(content)
        store, log, damage = await reopened(tmp_path)
        assert any(str(hurt) in line and "version" in line for line in damage)
        assert assert_sound(log) == list(range(1, 41))
        assert log.lost() == []
        await store.close()
        assert hurt.exists()

    run(scenario())
    assert [seq for seq, _ in rows(tmp_path)] == list(range(1, 41))


def test_a_packed_segment_of_which_nothing_can_be_read_is_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, _ = await fill(tmp_path, 40)
        await store.close()
        shutil.rmtree(tmp_path / "cache.mdb")
        hurt, following = files(tmp_path)[1:3]
        first_seq, behind = segment_sequence(hurt.name), segment_sequence(following.name)
        assert first_seq is not None and behind is not None
        content = bytearray(hurt.read_bytes())
        header = decode_header(content)
        assert header is not None
        content[header.header_len :] = bytes(len(content) - header.header_len)
        hurt.write_bytes(content)
        store, log, damage = await reopened(tmp_path)
        assert any(str(hurt) in line and "left alone" in line for line in damage)
        assert log.lost() == list(range(first_seq, behind))
        await store.close()
        assert hurt.read_bytes() == content

    run(scenario())


@pytest.mark.parametrize("version", [0, 9])
def test_segments_behind_one_with_a_damaged_header_are_packed(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        store, _ = await fill(tmp_path, 40, config=PLAIN)
        log: Any = await store.create_stream(ACCOUNT, "T", PLAIN, "file", 1)
        for seq in range(1, 41):
            log.append_message(b"a", payload(seq, 400))
        await store.close()
        hurt = files(tmp_path)[1]
        content = bytearray(hurt.read_bytes())
        content[7] = version
        hurt.write_bytes(content)
        reports: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
        store = open_store(str(tmp_path), segment_bytes=4000)
        store.recover(ACCOUNT)
        for stream in ("S", "T"):
            await store.update_stream(ACCOUNT, stream, S2)
        await packed(store)
        assert reports == []
        await store.close()
        sealed = [file for stream in ("S", "T") for file in files(tmp_path, stream)[:-1]]
        assert [file for file in sealed if file != hurt and not is_packed(file)] == []
        assert hurt.read_bytes() == content

    run(scenario())


def test_what_is_to_be_overwritten_does_not_wait_for_a_segment_that_cannot_be_packed(tmp_path: Path) -> None:
    async def scenario() -> None:
        writes, goes_on = threading.Event(), threading.Event()
        broken = False

        def rule(call: str, file: str, size: int) -> None:
            if broken and call == "write" and file.endswith(".packing"):
                writes.set()
                goes_on.wait()
                raise RuntimeError("a bug")

        store, log = await fill(tmp_path, 30, disk=FaultyDisk(rule))
        reports: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
        broken = True
        for seq in range(31, 43):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, 400), b"", seq)
        await asyncio.to_thread(writes.wait)
        log.remove(3, True)
        broken = False
        goes_on.set()
        await log.commit()
        await packed(store)
        assert [str(report["exception"]) for report in reports] == ["a bug"]
        content = unpack(files(tmp_path)[0].read_bytes(), store_format.seed_of(log.stream_id))
        assert content is not None
        assert payload(3, 400) not in content[0]
        await store.close()

    run(scenario())


def test_a_footer_that_goes_bad_while_running_is_made_up_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, log = await fill(tmp_path, 100)
        await store.close()
        store, log, _ = await reopened(tmp_path)
        first = files(tmp_path)[0]
        content = bytearray(first.read_bytes())
        content[-60] ^= 1
        first.write_bytes(content)
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
        assert assert_sound(log) == list(range(1, 101))
        assert "rebuilt" in reports[0]["message"]
        assert log.lost() == []
        await store.close()

    run(scenario())


def rows(path: Path) -> list[tuple[int, bytes]]:
    table = open_stream(path, "S").to_arrow(["seq", "data"])
    return list(zip(table["seq"].to_pylist(), table["data"].to_pylist(), strict=True))


def test_the_offline_reader_reads_both_forms(three_frames: Path, tmp_path: Path) -> None:
    expected = [(seq, payload(seq, FLIP_SIZE)) for seq in (1, *range(3, 9))]
    assert rows(three_frames) == expected
    path = tmp_path / "s"
    shutil.copytree(three_frames, path)
    first = files(path)[0]
    content = bytearray(first.read_bytes())
    content[content.index(FRAME_MAGIC) + 100] ^= 1
    first.write_bytes(content)
    snapshot = open_stream(path, "S")
    assert snapshot.to_arrow(["seq"], verify=True)["seq"].to_pylist() == list(range(3, 9))
    assert snapshot.damaged == [(1, 1)]
    # without a footer its frames are walked
    del content[-32:]
    first.write_bytes(content)
    snapshot = open_stream(path, "S")
    assert snapshot.to_arrow(["seq"])["seq"].to_pylist() == list(range(3, 9))
    assert snapshot.damaged == [(1, 1)]


def test_a_read_that_was_planned_before_packing_goes_on_after_it(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")

    async def scenario() -> None:
        store = open_store(str(tmp_path), segment_bytes=4000)
        log: Any = await store.create_stream(ACCOUNT, "S", PLAIN, "file", 1)
        for seq in range(1, 25):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, 400), b"", seq)
        await log.commit()
        snapshot = open_stream(tmp_path, "S")
        query = snapshot_query()
        schema = pa.schema([("seq", pa.int64()), ("data", pa.binary())])
        # one segment is open already, the others are opened when they are packed
        started = read_part(snapshot.parts[0], query, schema, 1)
        seen = next(started)["seq"].to_pylist()
        for seq in range(25, 49):
            log.append_message(b"a.%d" % (seq % 3), payload(seq, 400), b"", seq)
        await log.commit()
        await store.update_stream(ACCOUNT, "S", S2)
        await packed(store)
        assert all(is_packed(file) for file in files(tmp_path)[:-1])
        seen += [seq for batch in started for seq in batch["seq"].to_pylist()]
        for part in snapshot.parts[1:]:
            seen += [seq for batch in read_part(part, query, schema, 1) for seq in batch["seq"].to_pylist()]
        assert seen == list(range(1, 25))
        await store.close()

    run(scenario())


def snapshot_query() -> Any:
    from jetbroker.store.offline.reader import Query

    return Query(verify=True)
