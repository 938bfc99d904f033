"""Spark on a shipped store: batches, views and what a consumer has not acked, as on the store itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig

from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.shipper import Shipper
from tests.spark.test_batch_options import rows
from tests.support import process

pytestmark = pytest.mark.spark


async def test_spark_reads_a_shipped_store_as_the_store(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "a place"
    with process.jetbroker("-js", "-sd", str(tmp_path / "store")) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(StreamConfig("ORDERS", subjects=["orders.>"]))
        for number in range(40):
            await js.publish(f"orders.{number % 3}", b"%d" % number, headers={"Number": str(number)})
        await js.delete_msg("ORDERS", 7)
        work = await js.pull_subscribe("orders.1", "work", config=ConsumerConfig(ack_wait=3600))
        for message in await work.fetch(4, timeout=20):
            await message.ack_sync(timeout=30)
        list(Shipper(tmp_path / "store", place_of(place), unsealed=True).ship())
        await client.close()

    queries: list[dict[str, str]] = [
        {},
        {"subject": "orders.1"},
        {"unackedBy": "work"},
        {"view": "subjects"},
        {"view": "consumers"},
    ]
    for options in queries:
        found = rows(place, stream="ORDERS", **options)
        assert found and found == rows(tmp_path / "store", stream="ORDERS", **options), options
    assert len(rows(place, stream="ORDERS", unackedBy="work")) == 9
    (segment,) = rows(place, stream="ORDERS", view="segments")
    assert segment["segment"].startswith(f"{place}/objects/")
    assert segment["file_bytes"] == Path(segment["segment"]).stat().st_size
    frame = spark.read.format("jetstream").options(stream="ORDERS", columns="seq").load(place.as_uri())
    assert sorted(row.seq for row in frame.collect()) == [seq for seq in range(1, 41) if seq != 7]
