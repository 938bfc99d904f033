"""`/metrics`, read by Prometheus's own parser."""

from __future__ import annotations

import asyncio
import math
import sys
import urllib.error
import urllib.request

import nats
import pytest
from prometheus_client.parser import text_string_to_metric_families

from jetbroker import limits
from jetbroker.monitor.exposition import Histogram, Row, Table, text_of
from jetbroker.testing import EmbeddedBroker, embedded
from tests.support.http import get_json

SECONDS = 30.0
CONFIG = "http: 127.0.0.1:-1, server_name: tested"

Samples = dict[str, list[tuple[dict[str, str], float]]]


def parsed(text: str) -> Samples:
    """What Prometheus would store; a metric may not stand in the text twice."""
    found: Samples = {}
    families = set()
    for family in text_string_to_metric_families(text):
        assert family.name not in families
        families.add(family.name)
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def scrape(broker: EmbeddedBroker) -> Samples:
    with urllib.request.urlopen(f"{broker.urls['monitoring']}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        # nothing of it for pages of other sites
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Access-Control-Allow-Origin"] is None
        return parsed(answer.read().decode())


def value(samples: Samples, name: str, **labels: str) -> float:
    (found,) = [value for given, value in samples[name] if labels.items() <= given.items()]
    return found


async def test_streams_and_consumers_have_their_figures() -> None:
    async with embedded(config=CONFIG) as broker:
        client = await nats.connect(broker.url)
        context = client.jetstream()
        await context.add_stream(name="S", subjects=["s.*"], max_msgs=10)
        await context.add_stream(name="COPY", mirror=nats.js.api.StreamSource(name="S"))
        pulled = await context.pull_subscribe("s.*", "C", stream="S")
        for number in range(3):
            await context.publish(f"s.{number}", b"four")
        await (await pulled.fetch(2))[1].ack_sync(timeout=30)
        samples = await asyncio.to_thread(scrape, broker)
        varz = await asyncio.to_thread(get_json, int(broker.urls["monitoring"].rpartition(":")[2]), "/varz")
        await client.close()
    server = {"server_id": varz["server_id"]}
    assert value(samples, "gnatsd_varz_in_msgs", **server) == varz["in_msgs"]
    assert value(samples, "gnatsd_varz_jetstream_stats_accounts", **server) == 1
    assert value(samples, "gnatsd_varz_server_name", **server, value="tested") == 1
    assert value(samples, "gnatsd_varz_start", **server) > 1.7e12
    assert value(samples, "gnatsd_connz_num_connections", **server) == 1
    assert value(samples, "gnatsd_connz_in_msgs", **server) == varz["in_client_msgs"]
    assert value(samples, "gnatsd_healthz_status", **server) == 0
    assert value(samples, "gnatsd_healthz_status_value", value="ok") == 1
    assert value(samples, "jetstream_server_total_streams", server_name="tested") == 2
    stream = {"stream_name": "S", "account": "$G", "stream_leader": "tested", "is_stream_leader": "true"}
    assert value(samples, "jetstream_stream_total_messages", **stream) == 3
    assert value(samples, "jetstream_stream_last_seq", **stream) == 3
    assert value(samples, "jetstream_stream_subject_count", **stream) == 3
    assert value(samples, "jetstream_stream_limit_messages", **stream) == 10
    consumer = {"consumer_name": "C", "stream_name": "S", "is_consumer_leader": "true"}
    assert value(samples, "jetstream_consumer_num_pending", **consumer) == 1
    assert value(samples, "jetstream_consumer_num_ack_pending", **consumer) == 1
    assert value(samples, "jetstream_consumer_delivered_consumer_seq", **consumer) == 2
    assert value(samples, "jetstream_stream_mirror_lag", stream_name="COPY", mirror_name="S") >= 0
    assert value(samples, "jetstream_account_storage_used", account_name="$G") > 0
    assert value(samples, "jetbroker_watchdog_breaches_total", **server) == 0
    assert value(samples, "jetbroker_storage_faults", **server) == 0
    assert value(samples, "jetbroker_metrics_left_out", **server) == 0


@pytest.mark.parametrize("mode", ["sync_interval: always", "sync_interval: 10ms"])
async def test_rounds_of_fdatasync_have_their_figures(mode: str) -> None:
    changes = 1 + 5 + 1  # the stream, its messages, the deletion
    async with embedded(config=f"{CONFIG}, jetstream {{ {mode} }}") as broker:
        client = await nats.connect(broker.url)
        context = client.jetstream()
        await context.add_stream(name="S", subjects=["s"])
        await asyncio.gather(*(context.publish("s", b"") for _ in range(5)))
        await context.delete_msg("S", 3)
        async with asyncio.timeout(SECONDS):
            while value(samples := await asyncio.to_thread(scrape, broker), "jetbroker_commit_changes_sum") < changes:
                await asyncio.sleep(0.01)
        await client.close()
    assert value(samples, "jetbroker_commit_changes_sum") == changes
    for name in ("jetbroker_commit_changes", "jetbroker_fdatasync_seconds"):
        buckets = [count for _, count in samples[f"{name}_bucket"]]
        assert buckets == sorted(buckets)
        assert 0 < value(samples, f"{name}_count") == value(samples, f"{name}_bucket", le="+Inf") == buckets[-1]
    assert value(samples, "jetbroker_commit_changes_count") <= changes
    assert 0 < value(samples, "jetbroker_fdatasync_seconds_sum") < SECONDS
    assert value(samples, "jetbroker_sync_failures_total") == 0


async def test_a_histogram_is_read_back_as_it_is() -> None:
    counted = [(0.0001, 1), (2.5, 3), (50_000.0, 3), (math.inf, 4)]
    text = await text_of([], [Histogram(("took", "its help"), {"name": 'a"b'}, counted, 1.25)])
    assert parsed(text.decode()) == {
        "took_bucket": [({"name": 'a"b', "le": f"{bound}"}, count) for bound, count in counted[:3]]
        + [({"name": 'a"b', "le": "+Inf"}, 4)],
        "took_count": [({"name": 'a"b'}, 4)],
        "took_sum": [({"name": 'a"b'}, 1.25)],
    }


def test_a_broker_without_jetstream_has_the_other_figures() -> None:
    with embedded(config=CONFIG, jetstream=False) as broker:
        samples = scrape(broker)
    assert value(samples, "gnatsd_varz_connections") == 0
    assert not any(name.startswith("jetstream_") for name in samples)


async def test_names_full_of_markup_are_read_back_as_they_are() -> None:
    name = 'A"} 1\\n\n<b>{'
    text = await text_of([Table((("one", "its\nhelp"),), ("name",), [((name,), (1,))])])
    assert parsed(text.decode()) == {"one": [({"name": name}, 1.0)]}
    with embedded(config=CONFIG + ', accounts { "A} <b>": { jetstream: enabled } }') as broker:
        samples = scrape(broker)
    assert "A} <b>" in {labels["account"] for labels, _ in samples["jetstream_account_storage_used"]}


async def test_what_there_is_no_room_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with embedded(config=CONFIG) as broker:
        client = await nats.connect(broker.url)
        for number in range(8):
            await client.jetstream().add_stream(name=f"S{number}", subjects=[f"s.{number}"], storage="memory")
        monkeypatch.setattr(limits, "MONITOR_ANSWER_BYTES", 20_000)
        samples = await asyncio.to_thread(scrape, broker)
        await client.close()
    shown = len(samples["jetstream_stream_total_messages"])
    assert 0 < shown < 8
    assert value(samples, "jetbroker_metrics_left_out") == 8 - shown


async def test_a_long_answer_lets_others_go_on() -> None:
    rows: list[Row] = [((f"stream-{number}", "x" * 200), (number, -number)) for number in range(10_000)]
    metrics = (("one", "its help"), ("other", "its help"))
    work = asyncio.create_task(text_of([Table(metrics, ("name", "more"), rows)]))
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10
    samples = parsed((await work).decode())
    assert [value for _, value in samples["other"]] == [-number for number in range(10_000)]


def test_under_the_name_of_nats_server_there_is_no_such_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/nats-server"])
    with embedded(config=CONFIG) as broker, pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{broker.urls['monitoring']}/metrics", timeout=30)
    assert refused.value.code == 404
    assert refused.value.read() == b"404 page not found\n"
    refused.value.close()
