"""A history of a stream of a running broker, and every reader that has to give what a consumer gets of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from pathlib import Path
from typing import Any

import nats
from nats.js.api import StoreCompression, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError

from jetbroker.store.format.records import decode_header
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.shipper import Shipper
from spark_jobs import export_table
from tests.daemon.test_store_shipping import Row, consumed, scanned
from tests.support.open_tables import read
from tests.support.process import ServerProcess

COLUMNS = "seq,subject,data,time"
TYPED = {"json": "n bigint, text string", "columns": "seq,n,text"}
FORMS = ("parquet", "iceberg", "delta")
SEGMENT_BYTES = 20_000  # a history fills several
NUMBERS = itertools.count(1)
Step = tuple[str, int, int]
Typed = tuple[int, int | None, str | None]


class Readers:
    """Those that go on beside the broker: a streaming query, a shipped store, and a table of one form."""

    def __init__(self, store: Path, stream: str, folder: Path, form: str) -> None:
        from spark_jobs.source import JetStreamDataSource

        self.store, self.stream, self.folder, self.form = store, stream, folder, form
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
        table = str(self.folder / self.form)
        words = [str(self.store), self.stream, table, "--format", self.form, "--columns", COLUMNS, "--json"]
        assert export_table.main(words) == 0

    def batch(self, **options: str) -> list[Any]:
        """The batches of a query, in tasks of a few messages."""
        from spark_jobs.source import JetStreamDataSource

        source = JetStreamDataSource(self.options | {"maxMessagesPerPartition": "7"} | options)
        reader: Any = source.reader(source.schema())
        return [batch for task in reader.partitions() for batch in reader.read(task)]

    def exported(self) -> list[Row]:
        return sorted(rows_of(read(self.form, self.folder / self.form).to_batches()))

    def by_spark(self, spark: Any) -> dict[str, list[Row]]:
        """A batch and a streaming query through the JVM, and a batch of the shipped store."""
        source = {"stream": self.stream, "columns": COLUMNS}
        streamed: list[Row] = []
        query = spark.readStream.format("jetstream").options(**source, maxMessagesPerTrigger="50").load(str(self.store))
        writer = query.writeStream.foreachBatch(lambda frame, _: streamed.extend(rows_of(frame.toArrow().to_batches())))
        running = writer.option("checkpointLocation", str(self.folder / "at")).trigger(availableNow=True).start()
        running.awaitTermination()
        found = {"stream": sorted(streamed)}
        for name, path in (("batch", self.store), ("shipped", self.folder / "place")):
            frame = spark.read.format("jetstream").options(**source).load(str(path))
            found[name] = sorted(rows_of(frame.toArrow().to_batches()))
        return found


def rows_of(batches: Any) -> list[Row]:
    found = []
    for batch in batches:
        for row in batch.select(COLUMNS.split(",")).to_pylist():
            microseconds = round(row["time"].timestamp() * 1_000_000)
            found.append((row["seq"], row["subject"], row["data"], microseconds))
    return found


def typed_rows(batches: list[Any]) -> list[Typed]:
    return [(row["seq"], row["n"], row["text"]) for batch in batches for row in batch.to_pylist()]


def typed_of(row: Row) -> Typed:
    """What the typed columns of a message have to hold."""
    try:
        found = json.loads(row[2])
    except ValueError:
        found = None
    return (row[0], found["n"], found["text"]) if isinstance(found, dict) else (row[0], None, None)


def payload(rng: random.Random, size: int) -> bytes:
    """JSON or anything."""
    if rng.random() < 0.5:
        return rng.randbytes(size)
    return json.dumps({"n": rng.randrange(2**60), "text": "ä" * size}).encode()


async def play(js: JetStreamContext, stream: str, step: Step, rng: random.Random) -> None:
    what, count, number = step
    if what == "publish":
        for _ in range(count):
            await js.publish(f"{stream}.{rng.randrange(4)}", payload(rng, number * rng.randrange(300)))
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
            except (NotFoundError, APIError):
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


def sealed(store: Path, stream: str) -> list[bool]:
    """Of each sealed segment: is it packed?"""
    files = sorted((store / "jetstream" / "%24G" / stream).glob("*.seg"))
    headers = [decode_header(file.read_bytes()) for file in files[:-1]]
    return [header is not None and header.packed for header in headers]


async def compare(
    broker: ServerProcess, store: Path, folder: Path, history: list[Step], packed: bool, form: str, spark: Any = None
) -> list[bool]:
    """Plays a history and compares. `spark`: a session whose queries have to agree, too.

    Returns of each segment that was sealed in the end: is it packed?
    """
    stream = f"S{next(NUMBERS)}"
    rng = random.Random(str(history))
    client = await nats.connect(broker.url, connect_timeout=30)
    js = client.jetstream(timeout=30)
    config = StreamConfig(stream, subjects=[f"{stream}.>"], max_msgs=120, allow_atomic=True, allow_msg_ttl=True)
    config.compression = StoreCompression.S2 if packed else StoreCompression.NONE
    await js.add_stream(config)
    readers = Readers(store, stream, folder, form)
    for step in [("publish", 3, 2), *history]:
        if step[0] == "read":
            await asyncio.gather(asyncio.to_thread(readers.read), play(js, stream, ("publish", 10, 3), rng))
        else:
            await play(js, stream, step, rng)
    await expired(js, stream)
    while packed and not all(sealed(store, stream)):
        await asyncio.sleep(0.05)
    await asyncio.to_thread(readers.read)
    served = await consumed(client, stream)
    assert scanned(store, stream) == served
    assert rows_of(readers.batch()) == served
    assert scanned(folder / "place", stream) == served
    assert readers.exported() == served
    typed = [typed_of(row) for row in served]
    assert typed_rows(readers.batch(**TYPED)) == typed
    assert typed_rows(readers.batch(**TYPED, path=str(folder / "place"))) == typed
    sequences = [row[0] for row in readers.streamed]
    assert sequences == sorted(set(sequences))  # each once
    assert set(served) <= set(readers.streamed)
    if spark is not None:
        found = await asyncio.to_thread(readers.by_spark, spark)
        assert found == {"stream": served, "batch": served, "shipped": served}
    found_sealed = sealed(store, stream)
    await js.delete_stream(stream)
    await client.close()
    return found_sealed
