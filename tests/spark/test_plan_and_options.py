"""What a read says of itself, and what it refuses; no Spark runs here."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    In,
    IsNotNull,
    LessThanOrEqual,
    StringStartsWith,
)

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import Query, open_stream
from pyspark_jetstream import why_not
from spark_jobs.filters import narrowed
from spark_jobs.options import store_path
from spark_jobs.plan_text import plan_text
from spark_jobs.source import JetStreamDataSource
from tests.support.stores import StreamWriter


@pytest.fixture
def store(tmp_path: Path) -> Path:
    writer = StreamWriter(tmp_path, "ORDERS")
    for i in range(30):
        writer.append(b"orders.%d" % (i % 2), b"x")
        if i in (9, 19):
            writer.seal()
    writer.close()
    return tmp_path


@pytest.mark.parametrize(
    ("pushed", "exact"),
    [
        (EqualTo(("seq",), 7), True),
        (GreaterThan(("seq",), 7), True),
        (LessThanOrEqual(("time",), datetime(2026, 1, 1, tzinfo=UTC)), True),
        (EqualTo(("subject",), "orders.1"), True),
        (EqualNullSafe(("domain",), None), True),
        (IsNotNull(("seq",)), True),
        (IsNotNull(("domain",)), False),
        (In(("seq",), (3, 9)), False),
        (StringStartsWith(("subject",), "orders.>"), False),
        (EqualTo(("subject",), "not a subject"), False),
        (EqualTo(("size",), 7), False),
    ],
)
def test_only_a_filter_that_is_fulfilled_to_the_row_stays_with_the_source(pushed: Any, exact: bool) -> None:
    assert narrowed(Query(), pushed)[1] == exact


def test_a_second_subject_stays_with_spark() -> None:
    query, _ = narrowed(Query(), EqualTo(("subject",), "orders.1"))
    assert narrowed(query, EqualTo(("subject",), "orders.2")) == (query, False)


def test_a_plan_says_which_segments_and_columns_and_why(store: Path) -> None:
    snapshot = open_stream(store, "ORDERS")
    query = Query(start_seq=15, end_seq=18, subject="orders.1")
    text = plan_text(snapshot, snapshot.plan(query), query, ["seq", "subject"])
    assert text == (
        "stream 'ORDERS' of account '$G': reads 1 of 3 segments (00000000000000000011.seg), with 10 of 30 messages, "
        "because seq is 15 to 18 and subject matches 'orders.1'; columns seq, subject, from footers alone where "
        "segments are sealed"
    )
    everything = plan_text(snapshot, snapshot.plan(Query()), Query(), ["data"])
    assert "reads 3 of 3 segments" in everything
    assert everything.endswith("because nothing narrows it; columns data, from records")


def test_log_plan_tells_it_on_stderr(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"path": str(store), "stream": "ORDERS", "startSeq": "25"}
    for more in ({}, {"logPlan": "true"}):
        source = JetStreamDataSource({**options, **more})
        source.reader(source.schema()).partitions()
        said = capsys.readouterr().err
        assert said.startswith("jetstream: stream 'ORDERS' of account '$G': reads 1 of 3 segments") == bool(more)


def test_a_table_of_the_catalog_is_refused_with_what_to_do_instead(store: Path) -> None:
    properties = {"provider": "jetstream", "owner": "me", "location": f"file:{store}", "option.stream": "ORDERS"}
    with pytest.raises(StoreReadError, match="use CREATE TEMPORARY VIEW name USING jetstream"):
        JetStreamDataSource({**properties, "stream": "ORDERS"})


def test_paths_are_folders_or_urls() -> None:
    assert store_path({"path": "s3a://bucket/store"}) == "s3a://bucket/store"
    assert store_path({"path": "file:///var/a%20b"}) == "/var/a b"
    assert store_path({"path": "/var/lib"}) == "/var/lib"
    assert store_path({"path": "file:/var/lib"}) == "/var/lib"
    with pytest.raises(StoreReadError, match="no store is given"):
        store_path({})


def test_options_of_another_use_are_refused(store: Path) -> None:
    source = JetStreamDataSource({"path": str(store), "stream": "ORDERS", "maxMessagesPerTrigger": "5"})
    with pytest.raises(StoreReadError, match="option maxMessagesPerTrigger is for readStream, not for read"):
        source.reader(source.schema())


def test_damage_fails_a_batch_only_if_asked(store: Path) -> None:
    sealed = next(store.rglob("00000000000000000001.seg"))
    content = bytearray(sealed.read_bytes())
    content[content.index(b"orders.0")] ^= 1
    sealed.write_bytes(content)

    def read(**options: str) -> int:
        source = JetStreamDataSource({"path": str(store), "stream": "ORDERS", "columns": "data", **options})
        reader = source.reader(source.schema())
        return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))

    assert read() == 29
    with pytest.raises(StoreReadError, match=r"the messages 1 are damaged in .*0001\.seg"):
        read(failOnDataLoss="true")


def test_what_cannot_be_imported_is_one_sentence(tmp_path: Path) -> None:
    assert "run pip install 'jetbroker[spark]'" in why_not("No module named 'pyarrow'", tmp_path, "/usr/bin/python3")
    (tmp_path / "setup.py").touch()
    assert "is a source checkout that is not built: run `make build`" in why_not("no columns", tmp_path, "python")
