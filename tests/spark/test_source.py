"""The data source "jetstream" in a real Spark."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jetbroker.store.offline.reader import open_stream
from spark_jobs.session import MICRO_BATCHES
from spark_jobs.source import JetStreamDataSource
from tests.support.stores import StreamWriter, write_store_marker

pytestmark = pytest.mark.spark
HEADERS = b"NATS/1.0\r\nTag: x\r\nTag: y\r\n\r\n"
START = datetime(2026, 3, 1, tzinfo=UTC)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

Load = Callable[..., Any]


def fill(store: Path) -> StreamWriter:
    """300 messages in three segments, one a second from START on; 11 to 20 and 150 are deleted."""
    writer = StreamWriter(store, "ORDERS")
    for i in range(300):
        time_ns = (int(START.timestamp()) + i) * 1_000_000_000
        writer.append(
            b"orders.%s.%d" % ((b"eu", b"us")[i % 2], i % 5), b'{"n":%d}' % i, HEADERS if i % 3 else b"", time_ns
        )
        if i in (99, 199):
            writer.seal()
    writer.delete([(11, 20), (150, 150)])
    writer.flush()
    return writer


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("store")
    fill(directory).close()
    StreamWriter(directory, "EMPTY").close()
    return directory


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of domain "edge": five messages."""
    directory = tmp_path_factory.mktemp("edge")
    writer = StreamWriter(directory, "ORDERS")
    for i in range(5):
        writer.append(b"orders.edge.%d" % i, b"{}")
    writer.close()
    write_store_marker(directory, domain="edge")
    return directory


@pytest.fixture(scope="module")
def load(spark: Any, store: Path) -> Load:
    def frame(**options: str) -> Any:
        return spark.read.format("jetstream").options(**{"stream": "ORDERS", **options}).load(str(store))

    return frame


def sequences(frame: Any) -> list[int]:
    return sorted(row["seq"] for row in frame.select("seq").collect())


def expected(first: int = 1, last: int = 300) -> list[int]:
    return [seq for seq in range(first, last + 1) if not 11 <= seq <= 20 and seq != 150]


def test_rows_equal_what_the_reader_gives(load: Load, store: Path) -> None:
    rows = [row.asDict() for row in load().orderBy("seq").collect()]
    table = open_stream(store, "ORDERS").to_arrow()
    assert len(rows) == 289
    for row, there in zip(rows, table.to_pylist(), strict=True):
        there["headers"] = dict(there["headers"])
        there["time"] = there["time"].replace(tzinfo=None)
        row["time"] = row["time"].astimezone(UTC).replace(tzinfo=None)
        row["data"] = bytes(row["data"])
        assert row == there


def test_columns_have_the_promised_types(load: Load) -> None:
    assert load().schema.simpleString() == (
        "struct<stream:string,seq:bigint,time:timestamp,subject:string,headers:map<string,array<string>>,data:binary,"
        "size:int,domain:string>"
    )
    assert load(columns="size, seq").columns == ["size", "seq"]


def test_sql_finds_the_source_by_its_name(spark: Any, store: Path) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW orders USING jetstream OPTIONS (path '{store}', stream 'ORDERS')")
    assert spark.sql("SELECT count(*) FROM orders WHERE headers['Tag'][1] = 'y'").first()[0] == sum(
        (seq - 1) % 3 > 0 for seq in expected()
    )


def test_options_choose_rows(load: Load) -> None:
    assert sequences(load(startSeq="5", endSeq="160")) == expected(5, 160)
    assert sequences(load(subject="orders.eu.>")) == [seq for seq in expected() if seq % 2]
    assert sequences(load(subject="orders.*.4")) == [seq for seq in expected() if seq % 5 == 0]
    # from 10 s (inclusive) to 200 s (exclusive)
    assert sequences(load(startTime="2026-03-01T00:00:10Z", endTime="2026-03-01T01:03:20+01:00")) == expected(11, 200)
    assert sequences(load(startTime=str(int(START.timestamp() * 1000) + 250_000))) == expected(251)


def test_narrower_options_read_fewer_segments(load: Load) -> None:
    assert load(startSeq="250").rdd.getNumPartitions() == 1
    assert load(subject="nothing.here").count() == 0


CONDITIONS: dict[str, Callable[[int], bool]] = {
    "seq between 95 and 105": lambda seq: 95 <= seq <= 105,
    "seq = 7": lambda seq: seq == 7,
    "seq < 3 or seq > 299": lambda seq: seq < 3 or seq > 299,
    "seq in (1, 250)": lambda seq: seq in (1, 250),
    "seq < -5": lambda seq: False,
    "time > timestamp'2026-03-01 00:04:00Z'": lambda seq: seq > 241,
    "time = timestamp'2026-03-01 00:00:01Z'": lambda seq: seq == 2,
    "subject = 'orders.eu.0'": lambda seq: seq % 2 == 1 and seq % 5 == 1,
    "subject like 'orders.us%'": lambda seq: seq % 2 == 0,
    "subject like 'orders.e%' and seq <= 9": lambda seq: seq % 2 == 1 and seq <= 9,
    "subject != 'orders.eu.0' and size > 0": lambda seq: not (seq % 2 == 1 and seq % 5 == 1),
    "domain is null": lambda seq: True,
    "domain = 'edge'": lambda seq: False,
    "domain <=> null and seq < 3": lambda seq: seq < 3,
    "domain in ('edge', 'hub') or seq > 299": lambda seq: seq > 299,
}


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters_give_the_same_rows_pushed_or_not(spark: Any, load: Load, pushdown: str) -> None:
    from pyspark.sql import functions as f

    spark.conf.set(PUSHDOWN, pushdown)
    # one job for all of them; each is planned and filtered by itself
    frames = [load().where(condition).select(f.lit(condition).alias("which"), "seq") for condition in CONDITIONS]
    found: dict[str, list[int]] = {condition: [] for condition in CONDITIONS}
    for row in functools.reduce(lambda left, right: left.unionAll(right), frames).collect():
        found[row["which"]].append(row["seq"])
    for condition, choose in CONDITIONS.items():
        assert sorted(found[condition]) == [seq for seq in expected() if choose(seq)], condition


def of_edge(spark: Any, edge: Path, **options: str) -> Any:
    return spark.read.format("jetstream").options(stream="ORDERS", **options).load(str(edge))


def test_the_stores_of_several_domains_make_one_frame(spark: Any, load: Load, edge: Path) -> None:
    frame = load(columns="domain,seq").unionByName(of_edge(spark, edge, domain="edge", columns="seq,domain"))
    counts = {row["domain"]: row["count"] for row in frame.groupBy("domain").count().collect()}
    assert counts == {"edge": 5, None: 289}
    assert sequences(frame.where("domain = 'edge'")) == [1, 2, 3, 4, 5]


DOMAIN_CONDITIONS = {
    "domain = 'edge'": 5,
    "domain in ('edge', 'hub')": 5,
    "domain = 'edge' and domain = 'hub'": 0,
    "domain in ('hub', 'core')": 0,
    "domain != 'edge'": 0,
    "domain is null": 0,
    "domain is not null and domain like 'ed%'": 5,
    "upper(domain) = 'EDGE'": 5,
}


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters_on_the_domain_give_the_same_rows_pushed_or_not(spark: Any, edge: Path, pushdown: str) -> None:
    from pyspark.sql import functions as f

    spark.conf.set(PUSHDOWN, pushdown)
    frames = [of_edge(spark, edge).where(each).select(f.lit(each).alias("which")) for each in DOMAIN_CONDITIONS]
    found = dict.fromkeys(DOMAIN_CONDITIONS, 0)
    for row in functools.reduce(lambda left, right: left.unionAll(right), frames).collect():
        found[row["which"]] += 1
    assert found == DOMAIN_CONDITIONS


def test_a_filter_for_another_domain_plans_nothing(edge: Path) -> None:
    from pyspark.sql.datasource import EqualTo, In, IsNull

    for pushed, planned in (
        (EqualTo(("domain",), "edge"), 1),
        (EqualTo(("domain",), "hub"), 0),
        (In(("domain",), ("hub", "edge")), 1),
        (In(("domain",), ("hub",)), 0),
        (IsNull(("domain",)), 0),
    ):
        source = JetStreamDataSource({"stream": "ORDERS", "path": str(edge)})
        reader = source.reader(source.schema())
        assert reader.pushFilters([pushed]) == ([pushed] if isinstance(pushed, In) else [])
        assert len(reader.partitions()) == planned, pushed


def test_a_store_that_is_not_of_the_domain_is_refused(spark: Any, load: Load, edge: Path) -> None:
    from pyspark.errors import PySparkException

    assert of_edge(spark, edge, domain="edge").count() == 5
    with pytest.raises(PySparkException, match="is of domain 'edge', not 'hub'"):
        of_edge(spark, edge, domain="hub").count()
    with pytest.raises(PySparkException, match="names no domain, so it is not that of 'hub'"):
        load(domain="hub").count()


def test_a_domain_that_may_not_be_null(spark: Any, store: Path, edge: Path) -> None:
    from pyspark.errors import PySparkException

    frame = spark.read.format("jetstream").option("stream", "ORDERS").schema("seq long, domain string NOT NULL")
    assert [row["domain"] for row in frame.load(str(edge)).collect()] == ["edge"] * 5
    with pytest.raises(PySparkException, match="names no domain"):
        frame.load(str(store)).collect()


def test_an_empty_stream_has_no_rows(load: Load) -> None:
    assert load(stream="EMPTY").count() == 0
    assert load(stream="EMPTY").collect() == []


def test_a_schema_of_the_user_selects_columns(spark: Any, store: Path) -> None:
    frame = spark.read.format("jetstream").option("stream", "ORDERS").schema("data binary, seq long")
    assert frame.load(str(store)).where("seq = 3").first()["data"] == b'{"n":2}'


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stream": "NOPE"}, "no stream 'NOPE'"),
        ({"stream": ""}, '"stream" is missing'),
        ({"columns": "seq,key"}, "no column 'key'"),
        ({"sbuject": "a"}, "unknown option sbuject"),
        ({"startSeq": "first"}, "is not a sequence number"),
        ({"endTime": "yesterday"}, "neither an ISO 8601 time"),
        ({"subject": "a..b"}, "not a valid subject"),
    ],
)
def test_mistakes_are_named(load: Load, options: dict[str, str], text: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=text):
        load(**options).count()


def test_a_store_that_grows_is_read_at_one_point(spark: Any, tmp_path: Path) -> None:
    writer = fill(tmp_path)
    frame = spark.read.format("jetstream").option("stream", "ORDERS").load(str(tmp_path))
    assert frame.count() == 289
    for _ in range(11):
        writer.append(b"orders.eu.9", b"later")
    writer.seal()
    writer.append(b"orders.eu.9", b"later still")
    writer.close()
    assert spark.read.format("jetstream").option("stream", "ORDERS").load(str(tmp_path / "jetstream")).count() == 301


def test_what_the_session_helper_sets_reaches_the_jvm(spark: Any) -> None:
    for name, value in (("unsafe_memory_access", "true"), ("null_check_for_get", "false")):
        assert spark._jvm.java.lang.System.getProperty(f"arrow.enable_{name}") == value
    for name, value in MICRO_BATCHES.items():
        assert spark.conf.get(name) == value
    # Spark loads it by its name when a streaming query starts
    assert spark._jvm.java.lang.Class.forName(MICRO_BATCHES["spark.sql.streaming.checkpointFileManagerClass"])
