"""`jetbroker.scan` on one core, and a nats-py consumer that brings the same messages into pandas.

CPU time of this process counts, so that other work on the machine does not; the best of the rounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pandas as pd
import pyarrow as pa
from nats.js.api import AckPolicy, ConsumerConfig

import jetbroker
from benchmarks.tables.figures import Figure, shown
from benchmarks.tables.messages import STREAM, payload, subject
from jetbroker.client.server import Server as Target
from jetbroker.testing import Server
from spark_jobs.publisher import Publisher

ROUNDS = 5
DRAIN_ROUNDS = 3
DRAINED = 100_000
FETCH = 1000
TEXT = "amount double, item.name string"


def measured(store: Path) -> Iterator[Figure]:
    """Everything that needs no Spark."""
    pa.set_cpu_count(1)
    unit = "million rows/s"
    yield Figure("scan: group by subject", rate(lambda: group_by_subject(store), ROUNDS) / 1e6, unit, least=10)
    decoded = rate(lambda: rows(store, columns="seq,time,subject,data", verify=True), ROUNDS)
    yield Figure("scan: seq, time, subject, data, every CRC checked", decoded / 1e6, unit, least=12)
    typed = rate(lambda: rows(store, columns="amount,item_name", json=TEXT), ROUNDS)
    yield Figure(f"scan: json={TEXT!r}", typed / 1e6, unit)
    yield drained(store)


def rate(work: Callable[[], int], rounds: int) -> float:
    """Rows a second of CPU time."""
    best = 0.0
    for _ in range(rounds):
        began = time.process_time()
        done = work()
        best = max(best, done / (time.process_time() - began))
    return best


def group_by_subject(store: Path) -> int:
    """Messages of each subject: counted batch by batch, and then together."""
    reader = jetbroker.scan(store, STREAM, columns="subject", batch_rows=65_536)
    counted = [pa.RecordBatch.from_struct_array(batch.column(0).value_counts()) for batch in reader]
    table = pa.Table.from_batches(counted).group_by("values").aggregate([("counts", "sum")])
    return sum(table.column("counts_sum").to_pylist())


def rows(store: Path, **asked: Any) -> int:
    return sum(batch.num_rows for batch in jetbroker.scan(store, STREAM, **asked))


def drained(store: Path) -> Figure:
    """Both give the same columns; what the broker does for the consumer is not counted."""
    ours = rate(lambda: in_pandas(store, STREAM), DRAIN_ROUNDS)
    with Server(jetstream=True) as server:
        asyncio.run(fill(server.url))
        theirs = max(asyncio.run(drain(server.url)) for _ in range(DRAIN_ROUNDS))
        if in_pandas(Path(server.store_dir), "DRAIN") != DRAINED:
            raise RuntimeError("the scan does not give what the consumer got")
    made_of = f"{shown(ours)} rows/s, nats-py {shown(theirs)}"
    return Figure("scan into pandas, against a nats-py consumer", ours / theirs, least=20, made_of=made_of)


def in_pandas(store: Path, stream: str) -> int:
    return len(jetbroker.scan(store, stream, columns="seq,time,subject,data").read_pandas())


async def fill(url: str) -> None:
    client = await nats.connect(url)
    await client.jetstream().add_stream(name="DRAIN", subjects=["orders.>"])
    await client.close()
    with Publisher(Target((url,)), 4096, 30) as publisher:
        for number in range(DRAINED):
            publisher.publish(subject(number).decode(), b"NATS/1.0\r\n\r\n", payload(number))
        publisher.flush()


async def drain(url: str) -> float:
    """Messages a second of CPU time, by a consumer as the manual of nats-py has it, without acks."""
    client = await nats.connect(url)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    consumer = await client.jetstream().pull_subscribe("orders.>", stream="DRAIN", config=config)
    began = time.process_time()
    found: list[tuple[Any, ...]] = []
    while len(found) < DRAINED:
        for message in await consumer.fetch(FETCH, timeout=10):
            about = message.metadata
            found.append((about.sequence.stream, about.timestamp, message.subject, message.data))
    frame = pd.DataFrame(found, columns=["seq", "time", "subject", "data"])
    taken = time.process_time() - began
    await client.close()
    return len(frame) / taken
