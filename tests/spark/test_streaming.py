"""Streams in and out in a real Spark: what its steps alone cannot show (see test_stream_source and test_sink)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetbroker.store.offline.reader import open_stream
from jetbroker.testing import Server
from spark_jobs.progress import lag
from tests.support.examples import example
from tests.support.stores import StreamWriter

pytestmark = pytest.mark.spark
ATTEMPTS = 4


def ended(start: Callable[[], Any]) -> Any:
    """Runs a query to its end. Spark gives the process that plans it 10 s to start; a very busy machine misses that."""
    from pyspark.errors import StreamingQueryException

    for _ in range(ATTEMPTS):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
        else:
            return query
    pytest.skip(f"Spark's own process did not start within its 10 s, {ATTEMPTS} times: the machine is too busy")


@pytest.fixture(scope="module")
def broker() -> Iterator[Server]:
    with Server(jetstream=True) as running:
        yield running


async def made(server: Server, name: str) -> None:
    import nats

    client = await nats.connect(server.url)
    await client.jetstream().add_stream(name=name, subjects=[f"{name.lower()}.>"])
    await client.close()


async def test_a_query_carries_a_stream_to_another_and_continues_from_its_checkpoint(
    spark: Any, broker: Server, tmp_path: Path
) -> None:
    await made(broker, "OUT")
    writer = StreamWriter(tmp_path, "ORDERS")
    for i in range(25):
        writer.append(b"orders.%d" % (i % 3), b"%d" % i, b"NATS/1.0\r\nTag: x\r\n\r\n")
    writer.flush()

    def carry() -> Any:
        source = spark.readStream.format("jetstream").options(stream="ORDERS", maxMessagesPerTrigger="10")
        rows = source.load(str(tmp_path)).selectExpr("replace(subject, 'orders', 'out') AS subject", "data", "headers")
        sink = rows.writeStream.format("jetstream").option("url", broker.url)
        return sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()

    query = ended(carry)
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [10, 10, 5]
    assert lag(query.lastProgress) == {"ORDERS": 0}
    for i in range(25, 30):
        writer.append(b"orders.9", b"%d" % i)
    writer.close()
    again = ended(carry)
    assert [progress["numInputRows"] for progress in again.recentProgress if progress["numInputRows"]] == [5]
    found = open_stream(broker.store_dir, "OUT").to_arrow(["subject", "data", "headers"]).to_pylist()
    assert [row["data"] for row in found] == [b"%d" % i for i in range(30)]
    headers = dict(found[3]["headers"])
    assert (found[3]["subject"], headers["Tag"]) == ("out.0", ["x"])
    assert headers["Nats-Msg-Id"][0].startswith(f"{query.id}:0:0:3:")


async def test_a_frame_is_published_and_a_write_of_the_same_name_stores_nothing_twice(
    spark: Any, broker: Server
) -> None:
    from pyspark.errors import PySparkException

    await made(broker, "ROWS")
    frame = spark.range(100).selectExpr("concat('rows.', id % 3) AS subject", "cast(id AS string) AS data")

    def write(url: str) -> None:
        frame.write.format("jetstream").options(url=url, writeId="mine").mode("append").save()

    for _ in range(2):
        write(broker.url)
    stored = open_stream(broker.store_dir, "ROWS").to_arrow(["data"])["data"].to_pylist()
    assert sorted(stored) == sorted(b"%d" % i for i in range(100))
    with pytest.raises(PySparkException, match=r"nats://127\.0\.0\.1:1 cannot be reached"):
        write("nats://127.0.0.1:1")


def test_the_example_copies_each_order_once(spark: Any, tmp_path: Path) -> None:
    copy = example("spark_streaming").copy
    store, target = tmp_path / "store", str(tmp_path / "orders")
    writer = StreamWriter(store, "ORDERS")
    for price in (1, 2):
        writer.append(b"orders.eu", b'{"item": "book", "price": %d.5}' % price)
    writer.flush()
    ended(lambda: copy(spark, str(store), target))
    writer.append(b"orders.us", b'{"item": "pen", "price": 3}')
    writer.close()
    ended(lambda: copy(spark, str(store), target))
    rows = spark.read.parquet(target).orderBy("seq").select("seq", "item", "price").collect()
    assert [tuple(row) for row in rows] == [
        (1, "book", 1.5),
        (2, "book", 2.5),
        (3, "pen", 3),
    ]


def test_a_table_is_refused_and_a_view_shows_its_pushed_filters(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.errors import PySparkException

    writer = StreamWriter(tmp_path, "ORDERS")
    for i in range(30):
        writer.append(b"orders.%d" % (i % 2), b"%d" % i)
    writer.close()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    using = f"USING jetstream OPTIONS (path '{tmp_path}', stream 'ORDERS')"
    with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW name USING jetstream"):
        spark.sql(f"CREATE TABLE orders_table {using}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders_view {using}")
    frame = spark.sql("SELECT seq FROM orders_view WHERE seq > 5 AND subject = 'orders.1'")
    assert [row["seq"] for row in frame.orderBy("seq").collect()] == list(range(6, 31, 2))
    frame.explain("formatted")
    assert "GreaterThan(seq,5)" in capsys.readouterr().out
