"""The offline reader against a model: what was appended, less what was deleted, in any layout of segments."""

from __future__ import annotations

import itertools
import json
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetbroker.errors import StoreReadError, StoreVersionError
from jetbroker.store.offline import reader
from jetbroker.store.offline.columns import clip_ranges, merge_ranges, ranges_cover
from jetbroker.store.offline.reader import COLUMNS, Query, list_streams, open_stream
from jetbroker.wire.subjects import matches
from tests.support.stores import StreamWriter, write_store_marker

pa = pytest.importorskip("pyarrow")

HEADERS = b"NATS/1.0\r\nNats-Msg-Id: a-1\r\nTag: x\r\nTag:  y \r\nEmpty:\r\n\r\n"
HEADER_MAP = [("Nats-Msg-Id", ["a-1"]), ("Tag", ["x", "y"]), ("Empty", [""])]
SUBJECTS = [b"orders.eu.new", b"orders.us.new", b"orders.eu.paid", b"a", "orders.größe".encode(), b"bad.\xff\xfe"]


@dataclass
class Model:
    """Live messages by sequence: (subject, headers, payload, time)."""

    live: dict[int, tuple[bytes, bytes, bytes, int]] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "stream": "ORDERS",
                "seq": seq,
                "time": time_ns // 1000,
                "subject": subject.decode("utf-8", "replace"),
                "headers": HEADER_MAP if headers else [],
                "data": payload,
                "size": len(headers) + len(payload),
                "domain": None,
            }
            for seq, (subject, headers, payload, time_ns) in sorted(self.live.items())
        ]


def rows_of(table: Any) -> list[dict[str, Any]]:
    if "time" in table.column_names:
        at = table.column_names.index("time")
        table = table.set_column(at, "time", table.column("time").cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


messages = st.tuples(
    st.just("append"), st.sampled_from(SUBJECTS), st.sampled_from([b"", HEADERS]), st.binary(max_size=60)
)
actions = st.one_of(
    messages,
    messages,
    messages,
    st.tuples(st.just("delete"), st.integers(0, 60), st.integers(0, 12)),
    st.tuples(st.just("skip"), st.integers(1, 5)),
    st.tuples(st.sampled_from(["seal", "leave_unsealed"])),
)
plans = st.lists(actions, max_size=60)


def play(writer: StreamWriter, plan: list[tuple]) -> Model:
    model = Model()
    for action, *rest in plan:
        if action == "append":
            subject, headers, payload = rest
            seq = writer.append(subject, payload, headers)
            model.live[seq] = (subject, headers, payload, writer.time_ns)
        elif action == "delete":
            first, count = max(1, writer.last_seq - rest[0]), rest[1]
            last = min(first + count, writer.last_seq)
            if first <= last:
                writer.delete([(first, last)])
                model.live = {seq: kept for seq, kept in model.live.items() if not first <= seq <= last}
        elif action == "skip":
            writer.skip(rest[0])
        elif writer.file is not None and writer.slots:  # a file is named by its first sequence: none without one
            getattr(writer, action)()
    writer.close()
    return model


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One directory for all examples of a property; each one starts by emptying it."""
    yield tmp_path_factory.mktemp("reader")


def fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    return directory


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=plans, verify=st.booleans(), batch_rows=st.integers(1, 9))
def test_everything_live_is_read_once_and_in_order(
    scratch: Path, plan: list[tuple], verify: bool, batch_rows: int
) -> None:
    model = play(StreamWriter(fresh(scratch), "ORDERS"), plan)
    snapshot = open_stream(scratch, "ORDERS")
    expected = model.rows()
    assert rows_of(snapshot.to_arrow(verify=verify, batch_rows=batch_rows)) == expected
    assert snapshot.messages == len(expected)
    assert snapshot.size == sum(row["size"] for row in expected)
    assert snapshot.damaged == []
    assert all(part.messages for part in snapshot.parts)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plan=plans,
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    bounds=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    times=st.none() | st.tuples(st.integers(0, 50), st.integers(0, 50)),
    pattern=st.sampled_from([b"", b">", b"orders.*.new", b"orders.eu.>", b"a", b"none"]),
)
def test_filters_and_columns_choose_what_the_model_chooses(
    scratch: Path,
    plan: list[tuple],
    columns: list[str],
    bounds: tuple[int, int],
    times: tuple[int, int] | None,
    pattern: bytes,
) -> None:
    writer = StreamWriter(fresh(scratch), "ORDERS")
    start_ns = writer.time_ns
    model = play(writer, plan)
    query: dict[str, Any] = {"start_seq": bounds[0], "end_seq": bounds[1], "subject": pattern.decode()}
    if times is not None:
        query |= {"start_ns": start_ns + times[0] * 1_000_000, "end_ns": start_ns + times[1] * 1_000_000}
    model.live = {
        seq: message
        for seq, message in model.live.items()
        if bounds[0] <= seq <= bounds[1]
        and (not pattern or matches(message[0], pattern))
        and (times is None or query["start_ns"] <= message[3] <= query["end_ns"])
    }
    expected = [{name: row[name] for name in columns} for row in model.rows()]
    assert rows_of(open_stream(scratch, "ORDERS").to_arrow(columns, **query)) == expected


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plan=st.lists(st.one_of(messages, messages, st.just(("seal",))), min_size=1, max_size=25),
    place=st.floats(0, 1, exclude_max=True),
    flip=st.integers(1, 255),
    which=st.integers(0, 100),
)
def test_a_flipped_byte_costs_at_most_one_message_and_is_reported(
    scratch: Path, plan: list[tuple], place: float, flip: int, which: int
) -> None:
    model = play(StreamWriter(fresh(scratch), "ORDERS"), plan)
    segments = sorted(scratch.rglob("*.seg"))
    if not segments:
        return
    damaged = segments[which % len(segments)]
    content = bytearray(damaged.read_bytes())
    content[int(place * len(content))] ^= flip
    if content[7] != 1 and content[:7] == b"JBSEG\0\0":
        return  # a segment of another release, perhaps
    damaged.write_bytes(content)
    snapshot = open_stream(scratch, "ORDERS")
    expected = model.rows()
    found = rows_of(snapshot.to_arrow())
    lost = [row for row in expected if row not in found]
    assert [row for row in expected if row in found] == found  # nothing wrong, nothing out of order
    assert len(lost) <= 1
    reported = {seq for first, last in snapshot.damaged for seq in range(first, last + 1)}
    last_of_all = len(expected)
    for row in lost:
        # the very last record cannot be told from one that is just being written
        assert row["seq"] in reported or row["seq"] == last_of_all
    assert len(reported) <= 1


def test_a_torn_end_is_no_damage(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    for i in range(10):
        writer.append(b"a", b"payload %d" % i)
    writer.close()
    path = next(store.rglob("*.seg"))
    whole = path.read_bytes()
    for cut in range(1, 40):
        path.write_bytes(whole[:-cut])
        snapshot = open_stream(store, "ORDERS")
        assert snapshot.to_arrow(["seq"]).num_rows == 9
        assert snapshot.damaged == []
    path.write_bytes(whole + bytes(5000))
    assert open_stream(store, "ORDERS").messages == 10


def test_the_snapshot_does_not_move_while_the_writer_goes_on(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    for i in range(100):
        writer.append(b"a", b"%d" % i)
    writer.flush()
    snapshot = open_stream(store, "ORDERS")
    writer.append(b"a", b"later")
    writer.delete([(1, 50)])
    writer.seal()
    writer.append(b"a", b"even later")
    writer.close()
    assert snapshot.to_arrow(["seq"]).column("seq").to_pylist() == list(range(1, 101))
    assert open_stream(store, "ORDERS").messages == 52


def test_records_behind_the_valid_end_of_an_abandoned_segment_are_not_read(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"kept")
    writer.append(b"a", b"never acked")
    writer.flush()
    whole = writer.position
    record = len(b"never acked") + 1 + 36
    writer.position -= record
    writer.last_seq = 1
    writer.leave_unsealed()
    assert writer.path.stat().st_size == whole
    writer.append(b"a", b"second of that number")
    writer.close()
    assert open_stream(store, "ORDERS").to_arrow(["seq", "data"]).to_pylist() == [
        {"seq": 1, "data": b"kept"},
        {"seq": 2, "data": b"second of that number"},
    ]


def test_a_vanished_segment_is_named(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"1")
    gone = writer.seal()
    writer.append(b"a", b"2")
    writer.close()
    snapshot = open_stream(store, "ORDERS")
    gone.unlink()
    with pytest.raises(StoreReadError, match=f"{gone.name}.*was removed after"):
        snapshot.to_arrow()


def test_sequences_of_a_missing_segment_are_reported(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    paths = []
    for _ in range(4):
        writer.append(b"a", b"1")
        writer.append(b"a", b"2")
        paths.append(writer.seal())
    writer.skip(10)
    writer.append(b"a", b"last")
    writer.close()
    assert open_stream(store, "ORDERS").damaged == []
    paths[0].unlink()
    paths[2].unlink()
    snapshot = open_stream(store, "ORDERS")
    assert snapshot.damaged == [(1, 2), (5, 6)]
    assert snapshot.to_arrow(["seq"]).column("seq").to_pylist() == [3, 4, 7, 8, 19]


def test_dead_segments_are_not_opened_for_reading(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"1")
    dead = writer.seal()
    writer.append(b"a", b"2")
    writer.delete([(1, 1)])
    writer.close()
    snapshot = open_stream(store, "ORDERS")
    dead.unlink()
    assert snapshot.to_arrow(["seq"]).column("seq").to_pylist() == [2]


def test_large_payloads_make_smaller_batches(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = StreamWriter(store, "ORDERS")
    for _ in range(40):
        writer.append(b"a", bytes(1 << 20))
    writer.seal()
    batches = list(open_stream(store, "ORDERS").batches(["data"]))
    assert sum(batch.num_rows for batch in batches) == 40
    assert max(batch.nbytes for batch in batches) < 20 << 20


def test_many_headers_of_one_name_are_gathered(store: Path) -> None:
    block = b"NATS/1.0\r\n" + b"".join(b"K%d: %d\r\n" % (i % 3, i) for i in range(500)) + b"\r\n"
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"", block)
    writer.close()
    [row] = open_stream(store, "ORDERS").to_arrow(["headers"]).to_pylist()
    assert row["headers"] == [(f"K{k}", [str(i) for i in range(k, 500, 3)]) for k in range(3)]


def test_parts_can_be_pickled(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"1")
    writer.close()
    snapshot = open_stream(store, "ORDERS")
    assert pickle.loads(pickle.dumps(snapshot.parts)) == snapshot.parts


def test_both_folders_name_the_store_and_names_are_decoded(store: Path) -> None:
    StreamWriter(store, "Größe.1", account="A/B").seal()
    assert list_streams(store) == [("A/B", "Größe.1")]
    assert open_stream(store / "jetstream", "Größe.1", "A/B").messages == 0
    assert open_stream(store, "Größe.1", "A/B").to_arrow().num_rows == 0


def test_the_domain_of_a_store_stands_in_every_row(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"1")
    writer.seal()
    writer.append(b"a", b"2")
    writer.close()
    write_store_marker(store, domain="edge")
    snapshot = open_stream(store, "ORDERS", domain="edge")
    assert snapshot.domain == "edge"
    assert snapshot.to_arrow(["domain", "seq"]).to_pylist() == [
        {"domain": "edge", "seq": 1},
        {"domain": "edge", "seq": 2},
    ]
    assert snapshot.to_arrow().column_names == [*COLUMNS]
    assert COLUMNS[-1] == "domain"
    assert len(snapshot.plan(Query(domains=frozenset(["hub", "edge"])))) == 2
    assert snapshot.plan(Query(domains=frozenset(["hub", None]))) == []


def test_a_store_of_another_domain_is_refused(store: Path) -> None:
    StreamWriter(store, "ORDERS").seal()
    with pytest.raises(StoreReadError, match=r"names no domain, so it is not that of 'edge'"):
        open_stream(store, "ORDERS", domain="edge")
    write_store_marker(store, domain="hub")
    with pytest.raises(StoreReadError, match=r"jetstream' is of domain 'hub', not 'edge'"):
        open_stream(store, "ORDERS", domain="edge")
    assert open_stream(store, "ORDERS").domain == "hub"


def test_what_is_missing_is_said_clearly(store: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreReadError, match="no such directory"):
        open_stream(tmp_path / "nowhere", "ORDERS")
    with pytest.raises(StoreReadError, match="no store of jetbroker"):
        open_stream(tmp_path, "ORDERS")
    StreamWriter(store, "ORDERS").seal()
    StreamWriter(store, "PAYMENTS").seal()
    with pytest.raises(StoreReadError, match=r"no stream 'NOPE'.*ORDERS, PAYMENTS"):
        open_stream(store, "NOPE")
    with pytest.raises(StoreReadError, match=r"account \$G has a stream of this name"):
        open_stream(store, "ORDERS", "OTHER")
    with pytest.raises(StoreReadError, match="no column 'key'"):
        open_stream(store, "ORDERS").to_arrow(["key"])
    with pytest.raises(StoreReadError, match="not a valid subject"):
        open_stream(store, "ORDERS").to_arrow(subject="a..b")


def test_memory_streams_have_nothing_to_read(store: Path) -> None:
    StreamWriter(store, "MEM", config={"name": "MEM", "storage": "memory"})
    with pytest.raises(StoreReadError, match="memory storage"):
        open_stream(store, "MEM")


def test_a_newer_store_is_refused(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"1")
    path = writer.seal()
    write_store_marker(store, format_version=3)
    with pytest.raises(StoreVersionError, match="format 3"):
        open_stream(store, "ORDERS")
    write_store_marker(store)
    content = bytearray(path.read_bytes())
    content[7] = 3
    path.write_bytes(content)
    with pytest.raises(StoreVersionError, match="version 3"):
        open_stream(store, "ORDERS")


def test_a_damaged_stream_json_is_made_up_for_by_the_segments(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS", config={"name": "ORDERS", "storage": "file", "max_msgs": 7})
    writer.append(b"a", b"1")
    writer.close()
    (writer.directory / "stream.json").write_text("garbage")
    snapshot = open_stream(store, "ORDERS")
    assert snapshot.messages == 1
    assert snapshot.config["max_msgs"] == 7
    assert json.dumps(snapshot.config)


ranges = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 8)).map(lambda r: (r[0], r[0] + r[1])), max_size=12)


@given(pairs=ranges, low=st.integers(1, 60), length=st.integers(0, 9))
def test_merged_ranges_cover_the_same_sequences(pairs: list[tuple[int, int]], low: int, length: int) -> None:
    packed = b"".join(n.to_bytes(8, "little") for pair in pairs for n in pair)
    merged = merge_ranges(packed)
    numbers = [int.from_bytes(merged[at : at + 8], "little") for at in range(0, len(merged), 8)]
    covered = {seq for first, last in pairs for seq in range(first, last + 1)}
    joined = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert {seq for first, last in joined for seq in range(first, last + 1)} == covered
    assert all(left[1] + 1 < right[0] for left, right in itertools.pairwise(joined))
    window = set(range(low, low + length + 1))
    assert ranges_cover(merged, low, low + length) == (window <= covered)
    clipped = clip_ranges(merged, low, low + length)
    assert len(clipped) // 16 == sum(first <= low + length and last >= low for first, last in joined)


def test_a_folder_that_is_deleted_meanwhile_is_no_stream(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StreamWriter(store, "ORDERS").close()
    known = reader._subdirectories
    monkeypatch.setattr(reader, "_subdirectories", lambda of: [*known(of), of / "gone"])
    assert list_streams(store) == [("$G", "ORDERS")]
    assert reader.stream_document(store / "gone") == {}


def test_times_beyond_all_messages_take_nothing(store: Path) -> None:
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"1")
    writer.close()
    snapshot = open_stream(store, "ORDERS")
    for beyond in (Query(start_ns=2**63), Query(end_ns=-(2**63) - 1)):
        assert snapshot.plan(replace(beyond, include_deleted=True)) == []


def test_a_file_that_was_just_made_is_not_the_end_of_its_stream(store: Path) -> None:
    """A broker was killed in the middle of a jump ahead, or is there right now."""
    writer = StreamWriter(store, "ORDERS")
    writer.append(b"a", b"1")
    writer.flush()
    (segment,) = store.rglob("*.seg")
    segment.with_name("00000000000000900000.seg").touch()
    snapshot = open_stream(store, "ORDERS")
    assert (snapshot.last_seq, snapshot.damaged) == (1, [])
    writer.append(b"a", b"2")
    writer.close()
    assert open_stream(store, "ORDERS").to_arrow(["seq"]).column("seq").to_pylist() == [1, 2]


def test_what_is_in_the_segment_before_is_not_read_again(store: Path, tmp_path: Path) -> None:
    """A file that another one replaced is back: its removal was not on disk when the power failed."""
    for place, ends in ((store, (10, 20)), (tmp_path / "other", (5, 20))):
        writer = StreamWriter(place, "ORDERS")
        for number in range(1, 21):
            writer.append(b"a", b"%d" % number)
            if number in ends:
                writer.seal()
        writer.close()
    before = next((tmp_path / "other").rglob("00000000000000000006.seg"))
    shutil.copy(before, next(store.rglob("*.seg")).parent)
    snapshot = open_stream(store, "ORDERS")
    assert snapshot.to_arrow(["seq"]).column("seq").to_pylist() == list(range(1, 21))
    assert (snapshot.messages, snapshot.damaged) == (20, [])
