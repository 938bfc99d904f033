"""Whatever happened to a stream of a running broker: every reader gives what a consumer gets, message for message."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.js.api import StoreCompression, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.shipper import Shipper
from jetbroker.testing import EmbeddedBroker, embedded
from spark_jobs import export_table
from tests.daemon.test_store_shipping import Row, consumed, scanned

pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyspark")
COLUMNS = "seq,subject,data,time"
NUMBERS = itertools.count(1)
IS_DEEP = settings.default is not None and settings.default.max_examples > 100  # `make test-deep`
pytestmark = pytest.mark.skipif(not IS_DEEP, reason="for make test-deep; test_reader_live.py is quicker")

steps = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 30), st.integers(0, 9)),
    st.tuples(st.just("publish"), st.integers(1, 30), st.integers(0, 9)),
    st.tuples(st.just("batch"), st.integers(1, 8), st.integers(0, 9)),
    st.tuples(st.just("expire"), st.integers(1, 4), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 60), st.integers(1, 5)),
    st.tuples(st.just("purge"), st.integers(0, 3), st.integers(0, 5)),
    st.tuples(st.just("read"), st.just(0), st.just(0)),
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with embedded(store_dir=tmp_path_factory.mktemp("store")) as running:
        yield running


class Readers:
    """Those that go on beside the broker: a streaming query, and the two copies."""

    def __init__(self, store: Path, stream: str, folder: Path) -> None:
        from spark_jobs.source import JetStreamDataSource

        self.store, self.stream, self.folder = store, stream, folder
        self.options = {"path": str(store), "stream": stream, "columns": COLUMNS}
        source = JetStreamDataSource(self.options | {"failOnDataLoss": "false"})
        self.query: Any = source.streamReader(source.schema())
        self.offset = self.query.initialOffset()
        self.streamed: list[Row] = []
        self.shipper = Shipper(store, place_of(folder / "place"), unsealed=True)

    def read(self) -> None:
        """What is new."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        end = self.query.latestOffset(self.offset, ReadAllAvailable())
        if end != self.offset:
            for task in self.query.partitions(self.offset, end):
                self.streamed += rows_of(self.query.read(task))
            self.offset = end
        list(self.shipper.ship())
        table = str(self.folder / "table")
        assert export_table.main([str(self.store), self.stream, table, "--columns", COLUMNS, "--json"]) == 0

    def batch(self) -> list[Row]:
        """A batch query, in tasks of a few messages."""
        from spark_jobs.source import JetStreamDataSource

        source = JetStreamDataSource(self.options | {"maxMessagesPerPartition": "7"})
        reader: Any = source.reader(source.schema())
        return [row for task in reader.partitions() for row in rows_of(reader.read(task))]

    def exported(self) -> list[Row]:
        files = sorted((self.folder / "table").rglob("*.parquet"))
        return sorted(row for file in files for row in rows_of(pq.ParquetFile(file).read().to_batches()))


def rows_of(batches: Any) -> list[Row]:
    found = []
    for batch in batches:
        for row in batch.select(COLUMNS.split(",")).to_pylist():
            microseconds = round(row["time"].timestamp() * 1_000_000)
            found.append((row["seq"], row["subject"], row["data"], microseconds))
    return found


async def play(js: JetStreamContext, stream: str, step: tuple[str, int, int], rng: random.Random) -> None:
    what, count, number = step
    if what == "publish":
        for _ in range(count):
            await js.publish(f"{stream}.{rng.randrange(4)}", rng.randbytes(number * rng.randrange(300)))
    elif what == "expire":
        for _ in range(count):
            await js.publish(f"{stream}.ttl", b"for a second", headers={"Nats-TTL": "1s"})
    elif what == "batch":
        headers = {"Nats-Batch-Id": f"{rng.random()}"}
        for at in range(1, count + 1):
            more = headers | {"Nats-Batch-Sequence": str(at)} | ({"Nats-Batch-Commit": "1"} if at == count else {})
            await js._nc.request(f"{stream}.{at % 4}", b"%d" % at, headers=more, timeout=30)
    elif what == "delete":
        last = (await js.stream_info(stream)).state.last_seq
        for seq in range(max(last - count, 1), min(last - count + number, last) + 1):
            try:
                await js.delete_msg(stream, seq)
            except (NotFoundError, nats.js.errors.APIError):
                continue
    elif what == "purge":
        await js.purge_stream(stream, subject=f"{stream}.{count}", keep=number or None)


async def expired(js: JetStreamContext, stream: str) -> None:
    """What has a time to live is gone."""
    while True:
        try:
            await js.get_last_msg(stream, f"{stream}.ttl")
        except NotFoundError:
            return
        await asyncio.sleep(0.1)


async def compare(broker: EmbeddedBroker, folder: Path, history: list[tuple[str, int, int]], packed: bool) -> None:
    stream = f"S{next(NUMBERS)}"
    rng = random.Random(str(history))
    client = await nats.connect(broker.url)
    js = client.jetstream(timeout=30)
    config = StreamConfig(stream, subjects=[f"{stream}.>"], max_msgs=120, allow_atomic=True, allow_msg_ttl=True)
    config.compression = StoreCompression.S2 if packed else StoreCompression.NONE
    await js.add_stream(config)
    readers = Readers(Path(broker.store_dir), stream, folder)
    for step in [("publish", 3, 2), *history]:
        if step[0] == "read":
            await asyncio.gather(asyncio.to_thread(readers.read), play(js, stream, ("publish", 10, 3), rng))
        else:
            await play(js, stream, step, rng)
    await expired(js, stream)
    await asyncio.to_thread(readers.read)
    served = await consumed(client, stream)
    assert scanned(broker.store_dir, stream) == served
    assert readers.batch() == served
    assert scanned(folder / "place", stream) == served
    assert readers.exported() == served
    sequences = [row[0] for row in readers.streamed]
    assert sequences == sorted(set(sequences))  # each once
    there = set(served)
    assert there <= set(readers.streamed)
    await js.delete_stream(stream)
    await client.close()


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=st.lists(steps, min_size=4, max_size=10), packed=st.booleans())
def test_every_reader_gives_what_a_consumer_gets(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, history: list[Any], packed: bool
) -> None:
    asyncio.run(compare(broker, tmp_path_factory.mktemp("readers"), history, packed))
