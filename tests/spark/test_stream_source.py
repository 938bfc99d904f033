"""What a streaming query asks of the source, step by step; no Spark runs here (see test_streaming for that)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.stores import open_stream
from jetbroker.testing import Server
from spark_jobs import streams
from spark_jobs.progress import lag
from spark_jobs.source import JetStreamDataSource
from spark_jobs.stream_source import JetStreamStreamReader
from tests.support.stores import StreamWriter

ALL = ReadAllAvailable()


def reader_of(store: Path, **options: str) -> JetStreamStreamReader:
    source = JetStreamDataSource({"path": str(store), "stream": "ORDERS", "columns": "seq", **options})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, JetStreamStreamReader)
    return reader


def filled(store: Path, messages: int = 30, segment: int = 10) -> StreamWriter:
    writer = StreamWriter(store, "ORDERS")
    for i in range(messages):
        writer.append(b"orders.%d" % (i % 2), b"%d" % i)
        if writer.last_seq % segment == 0 and i + 1 < messages:
            writer.seal()
    writer.flush()
    return writer


def rows(reader: JetStreamStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    batches = (reader.read(partition) for partition in reader.partitions(start, end))
    return [seq for batch in itertools.chain(*batches) for seq in batch.column("seq").to_pylist()]


def seq_of(offset: dict[str, Any]) -> int:
    return int(offset["ORDERS"]["seq"])


def played(reader: JetStreamStreamReader, limit: Any = ALL) -> list[list[int]]:
    """The batches of a query from its start until nothing is new."""
    batches = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, limit)) != start:
        batches.append(rows(reader, start, end))
        start = end
    return batches


def joined(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain(*batches))


def test_every_message_comes_once_and_in_order(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    assert seq_of(start) == 0
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end) == list(range(1, 31))
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []
    writer.append(b"orders.1", b"later")
    writer.flush()
    assert rows(reader, end, reader.latestOffset(end, ALL)) == [31]


def test_a_batch_is_limited_to_messages_not_to_sequences(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    writer.delete([(3, 12)])
    writer.flush()
    limited = reader_of(tmp_path, maxMessagesPerTrigger="7")
    assert limited.getDefaultReadLimit() == ReadMaxRows(7)
    batches = played(limited, ReadMaxRows(7))
    assert [len(batch) for batch in batches] == [7, 7, 6]
    assert joined(batches) == [1, 2, *range(13, 31)]
    odd = played(reader_of(tmp_path, subject="orders.1"), ReadMaxRows(4))
    assert joined(odd) == [2, *range(14, 31, 2)]
    assert [len(batch) for batch in odd[:-1]] == [4, 4]


def test_a_restart_plans_the_same_batch_again(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    first = reader_of(tmp_path)
    start = first.initialOffset()
    end = first.latestOffset(start, ReadMaxRows(13))
    before = rows(first, start, end)
    writer.append(b"orders.1", b"later")
    writer.seal()
    assert rows(reader_of(tmp_path), start, end) == before == list(range(1, 14))


def test_available_now_ends_with_what_was_there(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    writer.append(b"orders.1", b"later")
    writer.flush()
    assert joined(played(reader, ReadMaxRows(20))) == list(range(1, 31))
    assert seq_of(reader.reportLatestOffset()) == 31


def test_files_that_did_not_change_are_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = filled(tmp_path)
    opened = []

    def counted(*where: Any) -> Any:
        opened.append(where)
        return open_stream(*where)

    monkeypatch.setattr(streams, "open_stream", counted)
    reader = reader_of(tmp_path)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert rows(reader, reader.initialOffset(), end) == list(range(1, 31))
    opened.clear()
    for _ in range(3):
        assert reader.latestOffset(end, ALL) == reader.reportLatestOffset() == end
    assert opened == []
    changes = [lambda: writer.append(b"orders.1", b"x"), writer.seal, lambda: writer.delete([(1, 1)])]
    for number, change in enumerate(changes, start=1):
        change()
        writer.flush()
        assert seq_of(reader.latestOffset(end, ALL)) == 31
        assert len(opened) == number


def test_the_newest_segment_alone_tells_where_the_stream_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    opened = []

    def noted(*where: Any) -> Any:
        opened.append(open_stream(*where))
        return opened[-1]

    monkeypatch.setattr(streams, "open_stream", noted)
    reader = reader_of(tmp_path, startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    assert reader.initialOffset() == reader.latestOffset() == reader.reportLatestOffset()
    assert [[part.first_seq for part in snapshot.parts] for snapshot in opened] == [[21]]


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 1),
        ({"startingOffsets": "earliest"}, 1),
        ({"startingOffsets": "latest"}, 31),
        ({"startingOffsets": "17"}, 17),
        ({"startSeq": "25"}, 25),
        ({"startSeq": "99"}, 31),
        ({"startTime": "2023-11-14T22:13:20.005Z"}, 5),
        ({"startTime": "2030-01-01"}, 31),
    ],
)
def test_where_a_new_query_starts(tmp_path: Path, options: dict[str, str], first: int) -> None:
    filled(tmp_path)
    assert seq_of(reader_of(tmp_path, **options).initialOffset()) == first - 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "soon"}, "neither earliest nor latest nor a sequence"),
        ({"startingOffsets": "latest", "startSeq": "1"}, "startingOffsets and startSeq both say where to start"),
        ({"maxMessagesPerTrigger": "0"}, "'0' is not a number from 1 to"),
        ({"failOnDataLoss": "no"}, "neither true nor false"),
        ({"endSeq": "5"}, "option endSeq is for read, not for readStream"),
        ({"url": "nats://a"}, "option url is for write and writeStream, not for readStream"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(StoreReadError, match=text):
        reader_of(tmp_path, **options)


def test_a_checkpoint_of_another_stream_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    reader = reader_of(tmp_path / "a")
    start = {"PAYMENTS": reader.initialOffset()["ORDERS"]}
    with pytest.raises(StoreReadError, match="the checkpoint is of stream 'PAYMENTS', not of 'ORDERS'"):
        reader.latestOffset(start, ALL)
    with pytest.raises(StoreReadError, match="the checkpoint is of stream 'PAYMENTS'"):
        reader.partitions(start, start)
    anew = reader.initialOffset()
    anew["ORDERS"]["id"] = "0" * 16
    with pytest.raises(StoreReadError, match="was deleted and made anew since the checkpoint was written"):
        reader.latestOffset(anew, ALL)
    with pytest.raises(StoreReadError, match="was deleted and made anew"):
        reader.partitions(anew, reader.latestOffset(reader.initialOffset(), ALL))


def test_a_store_behind_the_checkpoint_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    reader = reader_of(tmp_path)
    ahead = reader.initialOffset()
    ahead["ORDERS"]["seq"] = 31
    with pytest.raises(StoreReadError, match="ends at sequence 30, before 31 where the checkpoint is"):
        reader.latestOffset(ahead, ALL)


def test_retention_that_overtakes_the_reader_is_told(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    writer.delete([(1, 12)])
    writer.flush()
    for step in (lambda: reader.latestOffset(start, ALL), lambda: reader.partitions(start, end)):
        with pytest.raises(StoreReadError, match=r"the messages 1 to 12 were removed before .* failOnDataLoss=false"):
            step()
    tolerant = reader_of(tmp_path, failOnDataLoss="false")
    assert tolerant.latestOffset(start, ALL) == end
    assert rows(tolerant, start, end) == list(range(13, 31))
    assert seq_of(reader_of(tmp_path).initialOffset()) == 12  # a new query misses nothing


def test_single_deletions_are_no_loss(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(13))
    writer.delete([(14, 16), (20, 22)])
    writer.flush()
    assert rows(reader, middle, reader.latestOffset(middle, ALL)) == [17, 18, 19, *range(23, 31)]


def test_a_damaged_record_is_a_loss(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    writer.close()
    sealed = sorted(writer.directory.glob("*.seg"))[0]
    content = bytearray(sealed.read_bytes())
    content[content.index(b"orders.0")] ^= 1
    sealed.write_bytes(content)
    strict, tolerant = (reader_of(tmp_path, columns="seq,data", failOnDataLoss=flag) for flag in ("true", "false"))
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    with pytest.raises(StoreReadError, match=r"the messages 1 are damaged in .*0001\.seg"):
        rows(strict, start, end)
    assert rows(tolerant, start, end) == list(range(2, 31))


def test_lag_is_what_the_progress_says() -> None:
    def at(seq: int) -> str:
        return f'{{"ORDERS": {{"id": "1f", "seq": {seq}}}}}'

    assert lag({"sources": [{"latestOffset": at(50), "endOffset": at(42)}]}) == {"ORDERS": 8}
    assert lag({"sources": [{"latestOffset": at(50), "endOffset": None}]}) == {"ORDERS": 50}
    assert lag({"sources": [{"latestOffset": "7", "endOffset": "{"}, {"latestOffset": None}]}) == {}
    assert lag(None) == {}


async def test_a_purged_stream_of_a_broker_is_told_and_read_on() -> None:
    import nats

    with Server(jetstream=True) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="ORDERS", subjects=["orders.>"])
        for _ in range(5):
            await js.publish("orders.1", b"x")
        reader = reader_of(Path(server.store_dir))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        assert rows(reader, start, end) == [1, 2, 3, 4, 5]
        await js.purge_stream("ORDERS")
        assert reader.latestOffset(end, ALL) == end
        await js.publish("orders.1", b"x")
        assert rows(reader, end, reader.latestOffset(end, ALL)) == [6]
        with pytest.raises(StoreReadError, match="the messages 1 to 5 were removed"):
            reader.latestOffset(start, ALL)
        await js.delete_stream("ORDERS")
        await js.add_stream(name="ORDERS", subjects=["orders.>"])
        await js.publish("orders.1", b"x")
        with pytest.raises(StoreReadError, match="was deleted and made anew"):
            reader.latestOffset(end, ALL)
        await client.close()
