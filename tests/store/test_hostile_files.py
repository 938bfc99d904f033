"""Files with sound checksums that say what cannot be: they cost what they describe, never the store or the process."""

from __future__ import annotations

import asyncio
import json
import mmap
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetbroker.errors import StoreReadError
from jetbroker.jetstream.consumers.state import replay
from jetbroker.limits import SEGMENT_GAP_SLOTS
from jetbroker.store.cache.cache import PARTS, frame, unframe
from jetbroker.store.cache.pages import pages_are_sound
from jetbroker.store.disk import Disk
from jetbroker.store.format import records as store_format
from jetbroker.store.format.footers import pack_footer, sound_footer_of
from jetbroker.store.format.frames import FRAME_MAGIC, decompress, encode_frame, encode_index, new_compressor, unpack
from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.store.offline.reader import open_stream
from jetbroker.store.recovery.decisions import read_checked_json, write_checked_json
from jetbroker.store.store import RecoveredStream, Store
from tests.store.support import ACCOUNT, bury, kill, open_store, packed, run, walk

U64 = 2**64 - 1
FOLDER = "%24G/S"


async def make(path: Path, *, compression: str = "none", segment_bytes: int = 600, close: bool = True) -> SegmentedLog:
    """A stream of 20 messages in several segments, and one of 3 beside it."""
    store = open_store(str(path), segment_bytes=segment_bytes)
    good = await store.create_stream(ACCOUNT, "GOOD", {"subjects": ["g"]}, "file", 1)
    for number in range(3):
        good.append_message(b"g", b"good %d" % number, b"", 1)
    log = await store.create_stream(ACCOUNT, "S", {"subjects": ["a.*"], "compression": compression}, "file", 1)
    for i in range(1, 21):
        log.append_message(b"a.%d" % (i % 3), b"payload %d" % i, b"", i)
    await store.create_consumer(ACCOUNT, "S", "C", {"a": 1}, 1, False)
    await log.commit()
    await packed(store)
    if close:
        await store.close()
    else:
        await log.close()
        kill(store)
    return log


def segments(path: Path) -> list[Path]:
    return sorted((path / FOLDER).glob("*.seg"))


def recovered(path: Path) -> tuple[Store, dict[str, RecoveredStream]]:
    """The store opened again; the good stream is as it was."""
    store = open_store(str(path), segment_bytes=600)
    found = {stream.name: stream for stream in store.recover(ACCOUNT)}
    assert walk(found["GOOD"].log) == [1, 2, 3]
    assert found["GOOD"].damage == []
    return store, found


def change_footer(file: Path, stream_id: int, change: Callable[[bytearray, int], None]) -> None:
    """Let `change` alter the plain footer, whose slots it is told, and make all checksums right."""
    data = file.read_bytes()
    trailer = store_format.decode_trailer(data)
    assert trailer is not None
    at, length, _ = trailer
    is_packed = data[7] == store_format.PACKED_VERSION
    plain = sound_footer_of(data[at : at + length], is_packed, int(file.stem), at)
    assert plain is not None
    changed = bytearray(plain)
    change(changed, int.from_bytes(changed[:8], "little"))
    footer = pack_footer(bytes(changed), new_compressor()) if is_packed else bytes(changed)
    index_len = int.from_bytes(data[-12:-8], "little")
    file.write_bytes(data[:at] + footer + store_format.encode_trailer(at, footer, index_len))


def column_at(slots: int, column: str) -> int:
    """Where a column of a plain footer begins."""
    four = (4 * slots + 7) & ~7
    return {"offsets": 24, "times": 24 + four, "sizes": 24 + four + 8 * slots, "ids": 24 + 2 * four + 8 * slots}[column]


def set_slot(column: str, slot: int, value: int) -> Callable[[bytearray, int], None]:
    width = 8 if column == "times" else 4

    def change(footer: bytearray, slots: int) -> None:
        at = column_at(slots, column) + width * slot
        footer[at : at + width] = value.to_bytes(width, "little")

    return change


def dictionary_at(slots: int) -> int:
    return column_at(slots, "ids") + ((4 * slots + 7) & ~7) + 8


def descending_dictionary(footer: bytearray, slots: int) -> None:
    at = dictionary_at(slots) + 4
    footer[at : at + 4] = (2**32 - 1).to_bytes(4, "little")


def too_many_ids(footer: bytearray, slots: int) -> None:
    footer[-8:] = U64.to_bytes(8, "little")


def overlapping_records(footer: bytearray, slots: int) -> None:
    at = column_at(slots, "offsets")
    footer[at + 4 : at + 8] = footer[at : at + 4]


FOOTER_LIES = {
    "a subject that is not in the dictionary": set_slot("ids", 2, 2**31),
    "an offset behind the records": set_slot("offsets", 2, 2**32 - 2),
    "a size that reaches out of the file": set_slot("sizes", 2, 2**31 - 1),
    "records over each other": overlapping_records,
    "a time before the others": set_slot("times", 2, 2**64 - 5),
    "a dictionary that does not rise": descending_dictionary,
    "more message ids than messages": too_many_ids,
    "an empty slot with a subject": set_slot("offsets", 2, 0),
}


@pytest.mark.parametrize("compression", ["none", "s2"])
@pytest.mark.parametrize("lie", FOOTER_LIES)
def test_a_footer_that_lies_is_rebuilt_from_the_records(tmp_path: Path, lie: str, compression: str) -> None:
    async def scenario() -> None:
        log = await make(tmp_path, compression=compression)
        change_footer(segments(tmp_path)[1], log.stream_id, FOOTER_LIES[lie])
        for entry in (tmp_path / "cache.mdb").iterdir():
            entry.unlink()
        snapshot = open_stream(tmp_path, "S")
        assert sum(batch.num_rows for batch in snapshot.batches()) == 20
        store, found = recovered(tmp_path)
        assert walk(found["S"].log) == list(range(1, 21))
        assert any("the footer is damaged" in line for line in found["S"].damage)
        assert found["S"].log.append_message(b"a.1", b"next") == 21
        await store.close()

    run(scenario())


def test_deletions_reach_no_farther_than_their_segment(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = await make(tmp_path, segment_bytes=1 << 20, close=False)
        (file,) = segments(tmp_path)
        pairs = [(5, 5), (9, 3), (18, U64), (U64, U64), (U64, 0), (6, 6), (5, 6)]
        record = store_format.encode_deletions(log.stream_id, 20, 20, pairs)
        file.write_bytes(file.read_bytes() + record)
        left = [seq for seq in range(1, 18) if seq not in (5, 6)]
        snapshot = open_stream(tmp_path, "S")
        assert [seq for batch in snapshot.batches(["seq"]) for seq in batch["seq"].to_pylist()] == left
        store, found = recovered(tmp_path)
        assert walk(found["S"].log) == left
        assert found["S"].log.append_message(b"a.1", b"next") == 21
        await found["S"].log.commit()
        kill(store)
        store, found = recovered(tmp_path)
        assert walk(found["S"].log) == [*left, 21]
        await store.close()

    run(scenario())


@pytest.mark.parametrize("ahead", [60_000_000, 2**40, U64 - 20])
def test_a_record_far_ahead_is_damage_and_costs_no_memory(tmp_path: Path, ahead: int) -> None:
    async def scenario() -> None:
        log = await make(tmp_path, segment_bytes=1 << 20, close=False)
        (file,) = segments(tmp_path)
        encode = store_format.encode_record
        far = encode(store_format.MESSAGE, log.stream_id, 20 + ahead, 20, b"a.1", b"", b"far")
        far += store_format.encode_deletions(log.stream_id, 20 + ahead, 20, [(1, 20 + ahead)])
        file.write_bytes(file.read_bytes() + far)
        snapshot = open_stream(tmp_path, "S")
        assert (snapshot.messages, snapshot.last_seq) == (20, 20)
        store, found = recovered(tmp_path)
        assert found["S"].log.slots_held() == 20
        assert found["S"].log.last_seq == 20
        assert found["S"].damage
        await store.close()

    run(scenario())


def test_gaps_that_are_written_can_be_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path))
        log = await store.create_stream(ACCOUNT, "S", {"subjects": ["a.*"]}, "file", 1)
        written = []
        for _ in range(SEGMENT_GAP_SLOTS // 60_000 * 2):
            log.skip_to(log.last_seq + 60_000)
            written.append(log.append_message(b"a.1", b"x"))
        await log.commit()
        await log.close()
        kill(store)
        assert len(segments(tmp_path)) > 4, "no segment has all of these empty slots"
        store = open_store(str(tmp_path))
        (found,) = store.recover(ACCOUNT)
        assert found.damage == []
        assert walk(found.log) == written
        await store.close()

    run(scenario())


def test_the_time_of_a_message_does_not_go_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = await make(tmp_path, segment_bytes=1 << 20, close=False)
        (file,) = segments(tmp_path)
        records = [
            store_format.encode_record(store_format.MESSAGE, log.stream_id, seq, time_ns, b"a.1", b"", b"x")
            for seq, time_ns in ((21, 19), (22, -(2**63)), (23, 30))
        ]
        file.write_bytes(file.read_bytes() + b"".join(records))
        snapshot = open_stream(tmp_path, "S")
        assert (snapshot.messages, snapshot.parts[0].first_ns, snapshot.parts[0].last_ns) == (23, 1, 30)
        store, found = recovered(tmp_path)
        log = found["S"].log
        assert walk(log) == list(range(1, 24))
        assert [log.get(seq)[4] for seq in (20, 21, 22, 23)] == [20, 20, 20, 30]
        assert log.seq_at_time(21) == 23
        await store.close()

    run(scenario())


@pytest.mark.parametrize("content", [b"", b"JBSEG\0\0\x01 the power failed here", b"no segment at all " * 100])
def test_what_lies_where_the_next_segment_begins_costs_no_message(tmp_path: Path, content: bytes) -> None:
    async def scenario() -> None:
        await make(tmp_path)
        following = tmp_path / FOLDER / f"{21:020d}.seg"
        following.write_bytes(content)
        store, found = recovered(tmp_path)
        log = found["S"].log
        assert log.append_message(b"a.1", b"acknowledged") == 21
        await log.commit()
        assert log.append_message(b"a.1", b"and another") == 22
        await log.commit()
        await log.close()
        kill(store)
        store, found = recovered(tmp_path)
        assert walk(found["S"].log) == list(range(1, 23))
        kept = [file.read_bytes() for file in following.parent.glob(f"{following.name}.damaged-*")]
        assert kept == ([content] if content else [])
        await store.close()

    run(scenario())


META = {"account": ACCOUNT, "stream": "S", "name": "S", "created": 1, "config": {}}


@pytest.mark.parametrize(
    "document",
    [
        *([], 7, {}, {"config": []}, {**META, "stream_id": -1}, {**META, "stream_id": 2**70}, {**META, "name": 5}),
        *({**META, "stream_id": 1, "created": "x"}, {**META, "stream_id": 1, "config": None}),
    ],
)
def test_a_description_of_another_shape_is_made_up_for(tmp_path: Path, document: Any) -> None:
    async def scenario() -> None:
        log = await make(tmp_path, segment_bytes=1 << 20, close=False)
        (file,) = segments(tmp_path)
        text = json.dumps(document).encode()
        file.write_bytes(
            file.read_bytes() + store_format.encode_record(store_format.CONFIG, log.stream_id, 20, 20, payload=text)
        )
        write_checked_json(Disk(), f"{tmp_path}/{FOLDER}/stream.json", document)
        write_checked_json(Disk(), f"{tmp_path}/%24G/account.json", document)
        assert open_stream(tmp_path, "S").messages == 20
        store, found = recovered(tmp_path)
        assert found["S"].config == {"subjects": ["a.*"], "compression": "none"}
        assert walk(found["S"].log) == list(range(1, 21))
        await store.close()

    run(scenario())


@pytest.mark.parametrize("positions", [None, [], {"x": 1}, {"1": "x"}, {"1": -1}, "S", {"1": 2**70}])
def test_positions_of_a_clean_stop_of_another_shape_are_left_out(tmp_path: Path, positions: Any) -> None:
    async def scenario() -> None:
        log = await make(tmp_path)
        if isinstance(positions, dict):
            positions.update({str(log.stream_id): positions.pop("1")} if "1" in positions else {})
        write_checked_json(Disk(), f"{tmp_path}/clean.json", {"positions": positions})
        store, found = recovered(tmp_path)
        assert found["S"].log.last_seq == 20
        await store.close()

    run(scenario())


def test_the_folder_of_another_stream_is_offline_with_its_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        await make(tmp_path)
        other = tmp_path / "%24G" / "T"
        (tmp_path / FOLDER).rename(other)
        with pytest.raises(StoreReadError, match="of another stream"):
            open_stream(tmp_path, "T")
        store, found = recovered(tmp_path)
        assert set(found) == {"GOOD"}
        (offline,) = store.offline(ACCOUNT)
        assert offline.name == "T"
        assert "stream 'S'" in offline.reason
        assert other.exists()
        await store.delete_stream(ACCOUNT, "T")
        assert not other.exists()
        assert store.offline(ACCOUNT) == []
        await store.close()

    run(scenario())


@pytest.mark.parametrize(
    "head",
    [
        *([], {"name": "C"}, {"name": 5, "config": {}}, {"name": "D", "config": {}}),
        *({"name": "C", "config": {}, "account": 5}, {"name": "C", "config": {}, "created": -1}),
    ],
)
def test_a_state_log_of_another_shape_is_left_alone(tmp_path: Path, head: Any) -> None:
    async def scenario() -> None:
        log = await make(tmp_path)
        file = tmp_path / FOLDER / "consumers" / "C.log"
        text = json.dumps(head).encode()
        sized = len(text).to_bytes(4, "little") + text
        crc = store_format.crc32c(sized, store_format.seed_of(log.stream_id) ^ ord("H")).to_bytes(4, "little")
        file.write_bytes(file.read_bytes()[:8] + (b"\xabJSH" + crc + sized) * 2)
        content = file.read_bytes()
        store, found = recovered(tmp_path)
        assert found["S"].consumers == []
        assert any("C.log" in line for line in found["S"].damage)
        await store.close()
        assert file.read_bytes() == content

    run(scenario())


def test_a_state_log_that_was_set_aside_goes_on_in_its_own_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        await make(tmp_path)
        store, found = recovered(tmp_path)
        (consumer,) = found["S"].consumers
        for entry in (b"one", b"two", b"three"):
            consumer.state_log.append_entry(entry)
        await store.close()
        file = tmp_path / FOLDER / "consumers" / "C.log"
        data = bytearray(file.read_bytes())
        data[data.index(b"two")] ^= 1
        file.write_bytes(data)
        store, found = recovered(tmp_path)
        found["S"].consumers[0].state_log.append_entry(b"four")
        await store.close()  # raised "Bad file descriptor"
        store, found = recovered(tmp_path)
        assert found["S"].consumers[0].state_log.recovered == [b"one", b"four"]
        await store.close()

    run(scenario())


def test_a_kill_before_a_damaged_state_log_is_replaced_costs_no_consumer(tmp_path: Path) -> None:
    async def scenario() -> None:
        store_path, killed = tmp_path / "s", tmp_path / "killed"
        await make(store_path)
        store, found = recovered(store_path)
        for entry in (b"one", b"two", b"three"):
            found["S"].consumers[0].state_log.append_entry(entry)
        await store.close()
        file = store_path / FOLDER / "consumers" / "C.log"
        data = bytearray(file.read_bytes())
        data[data.index(b"two")] ^= 1
        file.write_bytes(data)
        store, found = recovered(store_path)
        shutil.copytree(store_path, killed)
        kill(store)
        store, found = recovered(killed)
        (consumer,) = found["S"].consumers
        assert consumer.state_log.recovered == [b"one"]
        await store.close()
        kept = [path for path in (killed / FOLDER / "consumers").iterdir() if ".damaged-" in path.name]
        assert [path.read_bytes() for path in kept] == [bytes(data)]
        store, found = recovered(killed)
        assert found["S"].damage == []
        await store.close()

    run(scenario())


HEAD = struct.Struct("<IIqQQQQ")
OP = struct.Struct("<QQII")
BATCH, SNAPSHOT = 0x42, 0x53


@pytest.mark.parametrize(
    "record",
    [
        HEAD.pack(BATCH, 1, 0, 9, 9, 0, 0) + OP.pack(1, 1, 2**32 - 1, 1),  # four billion messages in a row
        HEAD.pack(BATCH, 1, 0, 9, 9, 0, 0) + OP.pack(1, 1, 2**32 - 1, 6) + b"\xff" * 64,  # a list that does not end
        HEAD.pack(BATCH, 1, 0, 9, 9, 0, 0) + OP.pack(1, 1, 50, 6) + b"\1" * 8,  # a list longer than its record
        HEAD.pack(BATCH, 2**32 - 1, 0, 9, 9, 0, 0),
        HEAD.pack(BATCH, 1, 0, 9, 9, 0, 0) + OP.pack(1, 1, 1, 99),
        HEAD.pack(BATCH, 0, 0, 9, 9, 10, 0),  # acknowledged what was not delivered
        HEAD.pack(BATCH, 0, 0, 9, U64, 0, 0),
        HEAD.pack(SNAPSHOT, 2**32 - 1, 0, 9, 9, 0, 0) + bytes(8),
        HEAD.pack(7, 0, 0, 9, 9, 0, 0),
        b"short",
    ],
)
def test_a_consumers_record_that_cannot_be_is_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match=r"consumer|pending"):
        replay([record], 1, 10_000_000, 20)


def test_pending_are_messages_that_the_stream_has() -> None:
    record = HEAD.pack(BATCH, 2, 7, 9, 9, 0, 0) + OP.pack(1, 1, 2**31, 1) + OP.pack(3, U64, 0, 8)
    state = replay([record], 1, 20, 20)
    assert list(state.pending) == list(range(1, 21))
    assert state.pending[3].wait_ns == 2**63 - 1


SEED = 5
CLAIMS = b"\x28\xb5\x2f\xfd\xc0\x00" + (2**40).to_bytes(8, "little") + b"\x01\x00\x00"  # "I am 2^40 bytes"


def test_a_frame_that_claims_much_is_not_believed() -> None:
    assert decompress(CLAIMS, 100) is None
    assert decompress(new_compressor().compress(bytes(10_000)), 100) is None
    assert decompress(new_compressor().compress(bytes(100)), 100) == bytes(100)
    frame_of = bytearray(encode_frame(b"r" * 1000, 60, SEED, new_compressor()))
    for at, width, value in ((24, 4, 2**32 - 1), (24, 4, 999), (16, 8, 2**40), (12, 4, 9)):
        changed = bytearray(frame_of)
        changed[at : at + width] = value.to_bytes(width, "little")
        changed[4:8] = store_format.crc32c(bytes(changed[8:]), SEED).to_bytes(4, "little")
        data = b"JBSEG\0\0\x02" + bytes(52) + bytes(changed) + bytes(100)
        found = unpack(data, SEED)
        plain = b"" if found is None else found[0]
        assert len(plain) < 2**28
        assert b"rr" not in plain


@pytest.mark.parametrize(
    "pairs",
    [
        [(60, 2**64 - 8), (760, 90)],
        [(0, 0), (2**40, 90)],
        [(60, 60), (1060, 2**50)],
        [(60, 90), (50, 60)],
        [(2**63, 1)],
    ],
)
def test_a_frame_index_that_lies_is_not_used(pairs: list[tuple[int, int]]) -> None:
    raw = b"record " * 100
    body = b"JBSEG\0\0\x02" + bytes(52) + encode_frame(raw, 60, SEED, new_compressor())
    assert body[60:64] == FRAME_MAGIC
    index = encode_index(pairs, SEED)
    data = body + index + store_format.encode_trailer(len(body) + len(index), b"", len(index))
    found = unpack(data, SEED)
    assert found is not None
    assert found[0][60:] == raw


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (0, {"slots": 2**40}),
        (0, {"slots": "x"}),
        (0, {"messages": 1}),
        (0, {"created": -1}),
        (0, {"first_time": 2**64 - 1}),
        (1, {"counts": b"\xff" * 4}),
        (1, {"lasts": None}),
        (1, {"text": b""}),
        (2, {"empty": bytes(8) + b"\xff" * 8}),
        (2, {"recorded": bytes(8) + b"\xff" * 8}),
        (2, {"dead": b"\xff" * 800}),
    ],
)
def test_a_cached_value_that_lies_costs_the_cache(tmp_path: Path, part: int, change: dict[str, Any]) -> None:
    lmdb = pytest.importorskip("lmdb")

    async def scenario() -> None:
        await make(tmp_path)
        folder = tmp_path / "cache.mdb"
        with lmdb.open(str(folder), max_dbs=8) as env:
            database = env.open_db(PARTS[part])
            with env.begin(write=True) as txn:
                key = next(bytes(key) for key, _ in txn.cursor(db=database) if b"/S/" in key)
                value = unframe(PARTS[part], key, bytes(txn.get(key, db=database)))
                txn.put(key, frame(PARTS[part], key, {**value, **change}), db=database)
        note = json.loads((folder / "checked.json").read_bytes())
        data = (folder / "data.mdb").read_bytes()
        note.update(size=len(data), crc=store_format.crc32c(data))
        (folder / "checked.json").write_text(json.dumps(note))
        reports: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(str(context["exception"])))
        store, found = recovered(tmp_path)
        assert walk(found["S"].log) == list(range(1, 21))
        assert "thrown away" in reports[0]
        await store.close()

    run(scenario())


def test_a_cached_page_that_lies_costs_the_cache(tmp_path: Path) -> None:
    """LMDB itself would end the process, or read elsewhere."""

    async def scenario() -> None:
        await make(tmp_path)
        untouched = (tmp_path / "cache.mdb" / "data.mdb").read_bytes()
        note = json.loads((tmp_path / "cache.mdb" / "checked.json").read_bytes())
        assert pages_are_sound(untouched, mmap.PAGESIZE)
        newest = max((0, mmap.PAGESIZE), key=lambda at: untouched[at + 144 : at + 152][::-1])
        lies = {newest + 128: 2**40, newest + 80: 2**32, newest + 40: 2**47}  # roots, depth, kind
        for page in range(2 * mmap.PAGESIZE, len(untouched), mmap.PAGESIZE):
            lies |= {page + 12: 2**14, page + 14: 0, page + 16: 2**16 - 8, page + 10: 7}  # lower, upper, a node, kind
        last = len(untouched) - mmap.PAGESIZE
        lies[last + 16] = mmap.PAGESIZE - 2  # a node whose key length stands behind the file
        for at, value in lies.items():
            data = bytearray(untouched)
            width = 8 if at < 2 * mmap.PAGESIZE else 2
            data[at : at + width] = value.to_bytes(width, "little")
            folder = tmp_path / "cache.mdb"
            folder.mkdir(exist_ok=True)
            (folder / "data.mdb").write_bytes(data)
            note.update(size=len(data), crc=store_format.crc32c(bytes(data)))
            (folder / "checked.json").write_text(json.dumps(note))
            asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
            store, found = recovered(tmp_path)
            assert walk(found["S"].log) == list(range(1, 21))
            kill(store)
            bury()

    run(scenario())


@pytest.mark.parametrize("version", ["x", None, [3], 1.5])
def test_a_marker_of_another_shape_is_damaged_not_newer(tmp_path: Path, version: Any) -> None:
    async def scenario() -> None:
        await make(tmp_path)
        marker = read_checked_json(Disk(), f"{tmp_path}/jetbroker.json")
        assert marker is not None
        write_checked_json(Disk(), f"{tmp_path}/jetbroker.json", {**marker, "format": version})
        store, found = recovered(tmp_path)
        assert walk(found["S"].log) == list(range(1, 21))
        await store.close()

    run(scenario())
