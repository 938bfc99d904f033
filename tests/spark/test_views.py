"""Views of streams, as the source's own classes give them; one test asks Spark for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig
from nats.js.client import JetStreamContext

from jetbroker.errors import StoreReadError
from spark_jobs.source import JetStreamDataSource
from tests.spark.test_batch_options import rows
from tests.support import process
from tests.support.stores import StreamWriter

START = datetime(2026, 3, 1, tzinfo=UTC)
SEGMENTS = ((1, 10), (11, 20), (21, 25))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """ORDERS: 25 messages in three segments, one a second from START on; 1 to 10 and 15 are removed; MORE: one."""
    writer = StreamWriter(tmp_path, "ORDERS")
    for i in range(25):
        writer.append(b"orders.%d" % (i % 3), b"x" * i, time_ns=(int(START.timestamp()) + i) * 10**9)
        if i in (9, 19):
            writer.seal()
    writer.delete([(1, 10), (15, 15)])
    writer.close()
    writer = StreamWriter(tmp_path, "MORE", stream_id=7)
    writer.append(b"more", b"x")
    writer.close()
    return tmp_path


def after(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def test_segments(store: Path) -> None:
    found = rows(store, stream="ORDERS", view="segments")
    assert [(row["first_seq"], row["last_seq"]) for row in found] == list(SEGMENTS)
    assert [(row["messages"], row["removed"], row["sealed"]) for row in found] == [
        (0, 10, True),
        (9, 1, True),
        (5, 0, False),
    ]
    assert [row["bytes"] for row in found] == [0, sum(range(10, 20)) - 14, sum(range(20, 25))]
    assert [row["first_time"] for row in found] == [None, after(10), after(20)]
    assert [row["last_time"] for row in found] == [None, after(19), after(24)]
    assert [row["file_bytes"] for row in found] == [Path(row["segment"]).stat().st_size for row in found]


@pytest.mark.parametrize(
    "narrowed",
    [{}, {"subject": "orders.1"}, {"startSeq": "13", "endSeq": "22"}, {"includeDeleted": "true"},
     {"startTime": "2026-03-01T00:00:18Z", "endTime": "2026-03-01T00:00:22Z"}, {"subject": "nothing"}],
)  # fmt: skip
def test_subjects_are_what_the_messages_add_up_to(store: Path, narrowed: dict[str, str]) -> None:
    expected: dict[str, dict[str, Any]] = {}
    for row in rows(store, stream="ORDERS", columns="subject,seq,time,size", **narrowed):
        total = expected.setdefault(row["subject"], {
            "stream": "ORDERS", "subject": row["subject"], "messages": 0, "bytes": 0, "first_seq": row["seq"],
            "last_seq": 0, "first_time": row["time"], "last_time": None,
        })  # fmt: skip
        total["messages"] += 1
        total["bytes"] += row["size"]
        total["last_seq"] = row["seq"]
        total["last_time"] = row["time"]
    found = rows(store, stream="ORDERS", view="subjects", **narrowed)
    assert sorted(found, key=lambda row: row["subject"]) == [expected[subject] for subject in sorted(expected)]


def test_a_view_of_several_streams(store: Path) -> None:
    found = rows(store, stream="*", view="subjects", columns="stream,messages")
    assert sorted((row["stream"], row["messages"]) for row in found) == [
        ("MORE", 1),
        *[("ORDERS", n) for n in (4, 5, 5)],
    ]


def test_what_is_lost_is_named_with_its_file(store: Path) -> None:
    assert rows(store, stream="ORDERS", view="lost") == []
    sealed = next(store.rglob("00000000000000000011.seg"))
    content = bytearray(sealed.read_bytes())
    content[content.index(b"x" * 12) + 3] ^= 1
    sealed.write_bytes(content)
    assert rows(store, stream="ORDERS", view="lost") == []  # the footer does not know
    damage = {"stream": "ORDERS", "first_seq": 13, "last_seq": 13, "messages": 1, "segment": str(sealed)}
    assert rows(store, stream="ORDERS", view="lost", verify="true") == [damage]
    sealed.unlink()
    missing = {"stream": "ORDERS", "first_seq": 11, "last_seq": 14, "messages": 4, "segment": None}
    found = rows(store, stream="ORDERS", view="lost")
    assert found == [missing, {**missing, "first_seq": 16, "last_seq": 20, "messages": 5}]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"view": "subject"}, "no view 'subject'; there are segments, subjects, consumers, kv, lost"),
        ({"view": "segments", "subject": "a"}, "option subject means nothing for the view segments"),
        ({"view": "kv"}, "stream 'ORDERS' is no key-value bucket"),
        ({"view": "lost", "columns": "data"}, "no column 'data'; there are stream, first_seq"),
        ({"view": "lost", "stream": "NOPE"}, "no stream 'NOPE'.*there is MORE, ORDERS"),
    ],
)
def test_mistakes_are_named(store: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(StoreReadError, match=text):
        rows(store, **{"stream": "ORDERS", **options})


def test_a_stream_in_has_no_views(store: Path) -> None:
    source = JetStreamDataSource({"path": str(store), "stream": "ORDERS", "view": "lost"})
    with pytest.raises(StoreReadError, match="option view is for read, not for readStream"):
        source.streamReader(source.schema())


@dataclass
class Broker:
    store: Path
    stream: JetStreamContext


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        yield Broker(tmp_path, client.jetstream(timeout=60))
        await client.close()


async def test_consumers_are_what_the_broker_tells_of_them(broker: Broker) -> None:
    await broker.stream.add_stream(StreamConfig("ORDERS", subjects=["orders.>"]))
    for i in range(20):
        await broker.stream.publish(f"orders.{i % 2}", b"x")
    configs = (
        ConsumerConfig(durable_name="all", ack_policy=AckPolicy.ALL, ack_wait=3600),
        ConsumerConfig(durable_name="even", ack_policy=AckPolicy.EXPLICIT, ack_wait=3600, filter_subject="orders.0"),
        ConsumerConfig(durable_name="idle", ack_policy=AckPolicy.NONE),
    )
    for config in configs:
        await broker.stream.add_consumer("ORDERS", config)
        if config.durable_name != "idle":
            subscription = await broker.stream.pull_subscribe_bind(config.durable_name, "ORDERS")
            messages = await subscription.fetch(6, timeout=30)
            await messages[2].ack_sync(timeout=30)
    await broker.stream.delete_msg("ORDERS", 5)
    found = {row["consumer"]: row for row in rows(broker.store, stream="ORDERS", view="consumers")}
    assert list(found) == ["all", "even", "idle"]
    for name, row in found.items():
        told = await broker.stream.consumer_info("ORDERS", name)
        assert told.delivered is not None and told.ack_floor is not None
        assert row["delivered_seq"] == told.delivered.stream_seq
        assert row["deliveries"] == told.delivered.consumer_seq
        assert row["ack_floor_seq"] == told.ack_floor.stream_seq
        assert row["ack_pending"] == told.num_ack_pending
        assert row["pending"] == told.num_pending
        assert row["redelivered"] == told.num_redelivered
        assert row["given_up"] == 0
        assert row["ack_policy"] == told.config.ack_policy
        assert (row["waiting_since"] is None) == (name == "idle")
    assert found["even"]["filters"] == ["orders.0"]


async def test_a_bucket_is_what_clients_get(broker: Broker) -> None:
    bucket = await broker.stream.create_key_value(bucket="settings", history=5)
    for round_ in range(3):
        for key in ("a", "b.c", "d", "e"):
            await bucket.put(key, b"%d" % round_)
    await bucket.delete("d")
    await bucket.purge("e")
    await bucket.put("a", b"last")
    found = {row["key"]: row for row in rows(broker.store, stream="KV_settings", view="kv")}
    assert {key: row["operation"] for key, row in found.items()} == {"a": "PUT", "b.c": "PUT", "d": "DEL", "e": "PURGE"}
    for key in ("a", "b.c"):
        entry = await bucket.get(key)
        assert (found[key]["value"], found[key]["revision"]) == (entry.value, entry.revision)
        assert found[key]["bucket"] == "settings"
    assert [row["key"] for row in rows(broker.store, stream="KV_*", view="kv", subject="$KV.*.a")] == ["a"]


@pytest.mark.spark
def test_spark_shows_them(spark: Any, store: Path) -> None:
    def load(**options: str) -> Any:
        return spark.read.format("jetstream").options(**{"stream": "ORDERS", **options}).load(str(store))

    found = sorted(tuple(row) for row in load(view="subjects", columns="subject,messages").collect())
    assert found == [("orders.0", 5), ("orders.1", 5), ("orders.2", 4)]
    several = load(stream="ORDERS,MORE", columns="stream,seq,segment,deleted", includeDeleted="true").collect()
    counts = Counter((row["stream"], row["deleted"]) for row in several)
    assert counts == {("MORE", False): 1, ("ORDERS", False): 14, ("ORDERS", True): 11}
