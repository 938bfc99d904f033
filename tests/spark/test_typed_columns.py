"""Payloads as typed columns in Spark: the same as `jetbroker.scan` gives; one test asks Spark itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import jetbroker
from jetbroker.errors import StoreReadError
from spark_jobs.source import JetStreamDataSource
from tests.spark.test_batch_options import rows
from tests.support.stores import StreamWriter

TEXT = "amount double, item.name string, seq long, tags array<string>, price decimal(10,2), placed timestamp"
GOOD = (
    b'{"amount": %d.5, "item": {"name": "i%d"}, "seq": %d, "tags": ["a", null], "price": 1.25, "placed": "2026-01-31"}'
)
BAD = (b"", b"not JSON", b'{"amount": "much"}', b"[]")


class Item(BaseModel):
    name: str


class Order(BaseModel):
    amount: float = Field(ge=3)
    item: Item
    account: str = "none"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """30 payloads in three segments, of which some do not validate."""
    writer = StreamWriter(tmp_path, "ORDERS")
    for i in range(30):
        writer.append(b"orders.%d" % (i % 2), BAD[i % 4] if i % 7 == 6 else GOOD % (i, i, i))
        if i in (9, 19):
            writer.seal()
    writer.delete([(5, 6)])
    writer.close()
    return tmp_path


@pytest.mark.parametrize("mode", ["permissive", "dropping"])
@pytest.mark.parametrize("what", [{"json": TEXT}, {"model": f"{__name__}:Order"}])
@pytest.mark.parametrize("narrowed", [{}, {"subject": "orders.1"}])
def test_they_equal_those_of_a_scan(store: Path, what: dict[str, str], mode: str, narrowed: dict[str, str]) -> None:
    found = rows(store, stream="ORDERS", mode=mode, **what, **narrowed)
    scanned: Any = jetbroker.scan(store, "ORDERS", mode=mode, **what, **narrowed)  # type: ignore[arg-type]
    assert found == [row for batch in scanned for row in batch.to_pylist()]
    assert len(found) == len({row["seq"] for row in found}) > 10


def test_they_stand_beside_columns_of_the_message(store: Path) -> None:
    options = {"json": "amount double", "columns": "segment,amount,deleted", "includeDeleted": "true"}
    found = rows(store, stream="ORDERS", mode="dropping", **options)
    assert [row["amount"] for row in found if row["deleted"]] == [4.5, 5.5]
    assert list(found[0]) == ["segment", "amount", "deleted"]
    (task,) = (row for row in rows(store, stream="ORDERS", json="amount double", columns="data,amount", endSeq="1"))
    assert task == {"data": GOOD % (0, 0, 0), "amount": 0.5}


def test_what_fails_is_named(store: Path) -> None:
    with pytest.raises(StoreReadError, match="stream 'ORDERS', sequence 7: the payload does not validate"):
        rows(store, stream="ORDERS", json=TEXT, mode="failing")


def test_a_filter_on_a_typed_column_stays_with_spark(store: Path) -> None:
    from pyspark.sql.datasource import EqualTo, IsNotNull

    source = JetStreamDataSource({"path": str(store), "stream": "ORDERS", "model": f"{__name__}:Order"})
    reader = source.reader(source.schema())
    filters = [IsNotNull(("account",)), EqualTo(("item", "name"), "i1"), IsNotNull(("seq",))]
    assert reader.pushFilters(filters) == filters[:2]


def test_a_stream_in_decodes_them_as_well(store: Path) -> None:
    source = JetStreamDataSource({"path": str(store), "stream": "ORDERS", "json": "amount double", "mode": "dropping"})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start))  # type: ignore[call-arg]
    found = [row["amount"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]  # type: ignore[union-attr]
    assert found == [row["amount"] for row in rows(store, stream="ORDERS", json="amount double", mode="dropping")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "dropping"}, "option mode is for typed columns: give json, msgpack or model, too"),
        ({"json": "amount double", "model": "a:B"}, "give exactly one of json, msgpack and model"),
        ({"json": "amount number"}, "json: .*number"),
        ({"json": "amount double", "mode": "lenient"}, "'lenient' is none of permissive, dropping, failing"),
        ({"json": "amount double", "columns": "price"}, "no column 'price'; there are stream, .*amount, _corrupt"),
        ({"model": "shop.events:Order"}, "module 'shop.events' cannot be imported"),
        ({"view": "subjects", "json": "amount double"}, "option json means nothing for the view subjects"),
    ],
)
def test_mistakes_are_named(store: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(StoreReadError, match=text):
        rows(store, stream="ORDERS", **options)


@pytest.mark.spark
def test_spark_gets_them(spark: Any, store: Path) -> None:
    frame = spark.read.format("jetstream").options(stream="ORDERS", json=TEXT).load(str(store))
    assert frame.schema["tags"].dataType.simpleString() == "array<string>"
    assert frame.schema["price"].dataType.simpleString() == "decimal(10,2)"
    good = "_corrupt IS NULL AND amount >= 3"
    found = sorted(
        tuple(row) for row in frame.where(good).select("seq", "amount", "item_name", "tags", "price").collect()
    )
    columns = ["seq", "amount", "item_name", "tags", "price"]
    table = jetbroker.scan(store, "ORDERS", columns=columns, json=TEXT, mode="dropping").read_all()
    expected = [tuple(row.values()) for row in table.to_pylist() if row["amount"] >= 3]
    assert found == expected
