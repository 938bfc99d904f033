"""The metrics of a real broker with a bit of everything: streams, copies, a consumer, damage, a copy of the store."""

from __future__ import annotations

import asyncio
import tempfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

import nats
from prometheus_client.parser import text_string_to_metric_families

from jetbroker.testing import embedded

OF_REQUESTS = "gnatsd_varz_http_req_stats_"  # one for each path that was asked for


class Metric(NamedTuple):
    """One name in `/metrics`."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]


def metrics() -> list[Metric]:
    """All of them, by name."""
    found: dict[str, Metric] = {}
    for family in text_string_to_metric_families(_answer()):
        if family.name.startswith(OF_REQUESTS):
            continue
        for sample in family.samples:
            labels = tuple(sorted(sample.labels))
            found[sample.name] = Metric(sample.name, family.type, family.documentation, labels)
    return [found[name] for name in sorted(found)]


def _answer() -> str:
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded(
            config=f'http: 127.0.0.1:-1, jetstream {{ ship {{ url: "{folder}/copy" }} }}', store_dir=folder
        ) as broker,
    ):
        asyncio.run(_fill(broker.url))
        broker.stop()
        (segment,) = Path(folder).glob("jetstream/*/S/*.seg")
        segment.write_bytes(segment.read_bytes().replace(b"first", b"FIRST"))  # one record is damaged
        broker.start()
        with urllib.request.urlopen(f"{broker.urls['monitoring']}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
    return text


async def _fill(url: str) -> None:
    client = await nats.connect(url)
    context = client.jetstream()
    await context.add_stream(name="S", subjects=["s"])
    origin = nats.js.api.StreamSource(name="S")
    await context.add_stream(name="MIRROR", mirror=origin)
    await context.add_stream(name="SOURCED", sources=[origin])
    for payload in (b"first", b"second", b"third"):
        await context.publish("s", payload)
    await context.pull_subscribe("s", "C", stream="S")
    await client.close()
