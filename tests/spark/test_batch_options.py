"""Which rows and columns the options of a batch choose. The source's own classes read here; no Spark runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jetbroker.errors import StoreReadError
from spark_jobs.patterns import intersection, named_by
from spark_jobs.source import JetStreamDataSource
from tests.support.stores import StreamWriter

Row = dict[str, Any]


def partitions(path: Path, **options: str) -> list[list[Row]]:
    """What each task reads."""
    source = JetStreamDataSource({"path": str(path), **options})
    reader = source.reader(source.schema())
    tasks = reader.partitions()
    return [[row for batch in reader.read(task) for row in batch.to_pylist()] for task in tasks]


def rows(path: Path, **options: str) -> list[Row]:
    return [row for task in partitions(path, **options) for row in task]


def sequences(path: Path, **options: str) -> list[int]:
    return [row["seq"] for row in rows(path, columns="seq", **options)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """ORDERS_EU and ORDERS_US with 30 messages in three segments each, the first segment deleted; BILLS; an account."""
    for number, name in enumerate(("ORDERS_EU", "ORDERS_US", "BILLS")):
        writer = StreamWriter(tmp_path, name, stream_id=number + 1)
        for i in range(30 if number < 2 else 2):
            writer.append(b"%s.%d" % (name.lower().encode(), i % 3), b"%d" % i)
            if i in (9, 19):
                writer.seal()
        if number < 2:
            writer.delete([(1, 10), (15, 15)])
        writer.close()
    writer = StreamWriter(tmp_path, "ORDERS_EU", account="shop", stream_id=9)
    writer.append(b"a", b"of the shop")
    writer.close()
    return tmp_path


LIVE = [*range(11, 15), *range(16, 31)]


@pytest.mark.parametrize("stream", ["ORDERS_EU,ORDERS_US", "ORDERS_*", " ORDERS_US , ORDERS_EU", "*_EU,*_US,*_EU"])
def test_several_streams_are_one_frame(store: Path, stream: str) -> None:
    found = sorted((row["stream"], row["seq"]) for row in rows(store, stream=stream, columns="stream,seq"))
    assert found == [(name, seq) for name in ("ORDERS_EU", "ORDERS_US") for seq in LIVE]


def test_an_unknown_stream_names_the_known_ones(store: Path) -> None:
    for stream in ("NOPE", "BILLS,NOPE", "NOPE*"):
        with pytest.raises(StoreReadError, match=r"'NOPE\*?'.*there is BILLS, ORDERS_EU, ORDERS_US"):
            rows(store, stream=stream)
    with pytest.raises(StoreReadError, match=r"no stream 'A' of account 'nobody'"):
        rows(store, stream="A,*", account="nobody")


def test_a_stream_whose_name_has_a_comma_is_meant_by_it() -> None:
    assert named_by("A,B", ["A", "B", "A,B"]) == ["A,B"]
    assert named_by("A,B", ["A", "B"]) == ["A", "B"]
    assert named_by("A*,B", ["AB", "A.B", "B", "BA"]) == ["AB", "A.B", "B"]


def test_removed_messages_come_when_asked_for(store: Path) -> None:
    assert sequences(store, stream="ORDERS_EU") == LIVE
    found = rows(store, stream="ORDERS_EU", includeDeleted="true", columns="seq,deleted,data")
    assert [row["seq"] for row in found] == list(range(1, 31))
    assert [row["seq"] for row in found if row["deleted"]] == [*range(1, 11), 15]
    assert [row["data"] for row in found] == [b"%d" % i for i in range(30)]
    some = sequences(store, stream="ORDERS_EU", includeDeleted="true", subject="orders_eu.0", endSeq="16")
    assert some == [1, 4, 7, 10, 13, 16]
    assert not any(row["deleted"] for row in rows(store, stream="ORDERS_EU", columns="deleted"))


def test_what_was_overwritten_does_not_come_back(store: Path) -> None:
    sealed = next((store / "jetstream").rglob("ORDERS_EU/00000000000000000001.seg"))
    content = bytearray(sealed.read_bytes())
    content[content.index(b"orders_eu.1") : content.index(b"orders_eu.1") + 11] = bytes(11)
    sealed.write_bytes(content)
    wanted = [1, *range(3, 31)]
    for columns in ("seq", "seq,data"):
        found = rows(store, stream="ORDERS_EU", includeDeleted="true", columns=columns, failOnDataLoss="true")
        assert [row["seq"] for row in found] == wanted


def test_a_row_tells_its_account_and_segment(store: Path) -> None:
    found = rows(store, stream="ORDERS_EU", account="shop", columns="*,account,segment")
    assert list(found[0])[-3:] == ["domain", "account", "segment"]
    assert found[0]["account"] == "shop"
    assert Path(found[0]["segment"]).name == "00000000000000000001.seg"
    assert Path(found[0]["segment"]).is_file()


def test_a_row_tells_where_a_source_took_it_from(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path, "ALL")
    for header in (b"Nats-Stream-Source: ORDERS 42 > > orders.new", b"Nats-Stream-Source: X:hash 7", b"Tag: x", b"",
                   b"Nats-Stream-Source: odd"):  # fmt: skip
        writer.append(b"a", b"", b"NATS/1.0\r\n%s\r\n\r\n" % header if header else b"")
    writer.close()
    found = rows(tmp_path, stream="ALL", columns="source_stream,source_seq")
    assert [tuple(row.values()) for row in found] == [("ORDERS", 42), ("X:hash", 7), *[(None, None)] * 3]


@pytest.mark.parametrize("more", [{}, {"includeDeleted": "true"}, {"subject": "orders_eu.0"}, {"startSeq": "12"}])
@pytest.mark.parametrize("most", [1, 4, 7, 100])
def test_tasks_are_no_longer_than_asked(store: Path, most: int, more: dict[str, str]) -> None:
    whole = rows(store, stream="ORDERS_EU", columns="seq", **more)
    tasks = partitions(store, stream="ORDERS_EU", columns="seq", maxMessagesPerPartition=str(most), **more)
    assert [row for task in tasks for row in task] == whole
    assert all(len(task) <= most for task in tasks)
    assert len(tasks) >= -(-len(whole) // most)


def test_a_large_segment_is_cut(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(store, stream="ORDERS_EU")
    monkeypatch.setattr("spark_jobs.partitions.PIECE_BYTES", 200)
    tasks = partitions(store, stream="ORDERS_EU")
    assert len(tasks) > 5
    assert [row for task in tasks for row in task] == whole


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ("", "", ""),
        ("", "a.>", "a.>"),
        ("a.*", "", "a.*"),
        ("a.*", "*.b", "a.b"),
        ("a.>", "a.b.*", "a.b.*"),
        ("a.*.c", "a.>", "a.*.c"),
        ("a.>", "*.*", "a.*"),
        (">", ">", ">"),
        ("a.>", "a", None),
        ("a.b", "a.c", None),
        ("a.*", "a", None),
        ("a", "a.*", None),
    ],
)
def test_what_two_patterns_have_in_common(left: str, right: str, both: str | None) -> None:
    assert intersection(left, right) == both


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"includeDeleted": "true", "unackedBy": "C"}, "unackedBy and includeDeleted exclude each other"),
        ({"maxMessagesPerPartition": "0"}, "is not a number from 1"),
        ({"includeDeleted": "perhaps"}, "neither true nor false"),
        ({"columns": "seq,key"}, "no column 'key'; there are stream, seq"),
        ({"unackedBy": "C"}, "no consumer 'C' of stream 'ORDERS_EU'.*it has none on disk"),
    ],
)
def test_mistakes_are_named(store: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(StoreReadError, match=text):
        rows(store, stream="ORDERS_EU", **options)


def test_a_stream_in_takes_one_stream(store: Path) -> None:
    source = JetStreamDataSource({"path": str(store), "stream": "ORDERS_*"})
    with pytest.raises(StoreReadError, match="readStream reads one stream"):
        source.streamReader(source.schema())
    with pytest.raises(StoreReadError, match="option unackedBy is for read, not for readStream"):
        source = JetStreamDataSource({"path": str(store), "stream": "ORDERS_EU", "unackedBy": "C"})
        source.streamReader(source.schema())


@pytest.mark.parametrize("more", [{}, {"includeDeleted": "true"}])
def test_a_range_without_a_message_makes_no_task(tmp_path: Path, more: dict[str, str]) -> None:
    writer = StreamWriter(tmp_path, "HOLES")
    for number in range(40):
        writer.append(b"a", b"%d" % number)
    writer.delete([(11, 20)])
    writer.seal()
    writer.close()
    for start, end in ((11, 20), (41, 50)):
        asked = {"stream": "HOLES", "columns": "seq", "startSeq": str(start), "endSeq": str(end), **more}
        wanted = list(range(start, end + 1)) if more and end <= 40 else []
        tasks = partitions(tmp_path, maxMessagesPerPartition="4", **asked)
        assert [row["seq"] for task in tasks for row in task] == wanted
