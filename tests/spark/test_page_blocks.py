"""The blocks of the pages that need a Spark session, run in the one of these tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest

import jetbroker
from jetbroker.testing import embedded
from tests.support.page_blocks import Block, all_blocks, needs_spark

pytestmark = pytest.mark.spark
BLOCKS = [block for block in all_blocks() if block.kind == "sql" or (block.kind == "python" and needs_spark(block))]
ORDERS = 4
# Streaming queries are built, not started: test_streaming.py runs some.
STARTS = re.compile(r"^    \.(?:start|toTable)\(.*\)$", re.MULTILINE)


@dataclass(frozen=True)
class Places:
    """What stands here for the places that the pages name."""

    replaced: tuple[tuple[str, str], ...]
    store: str

    def adapted(self, text: str) -> str:
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text


async def published(url: str) -> None:
    client = await nats.connect(url)
    js = client.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    await js.add_stream(name="TOTALS", subjects=["totals.>"])
    await js.add_consumer("ORDERS", durable_name="shipping", ack_policy="explicit")
    for number in range(ORDERS):
        await js.publish(f"orders.{'eu' if number % 2 else 'us'}", b'{"amount": %d, "item": {"name": "pen"}}' % number)
    await client.close()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("places")
    with ExitStack() as running:
        urls = {}
        for name in ("main", "hub", "edge"):
            config = "" if name == "main" else f"jetstream {{ domain: {name} }}"
            broker = running.enter_context(embedded(config=config, store_dir=folder / name))
            asyncio.run(published(broker.url))
            urls[name] = broker.url
        store = str(folder / "main")
        yield Places(
            (
                ("nats://localhost:4222", urls["main"]),
                ("s3a://backups/eu-1", store),
                ("s3://backups/eu-1", store),
                ("/var/lib/jetbroker", store),
                ("/data/", f"{folder}/"),
                ('"./data"', f'"{store}"'),
            ),
            store,
        )


@pytest.fixture
def session(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The session, without what a block leaves behind."""
    monkeypatch.chdir(tmp_path)
    yield spark
    spark.sql("DROP VIEW IF EXISTS orders")


def test_there_are_some() -> None:
    assert {block.page for block in BLOCKS} == {"README.md", "docs/SHIPPING.md", "docs/SPARK.md"}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind == "python"], ids=str)
def test_programs_run(block: Block, session: Any, places: Places) -> None:
    orders = session.readStream.format("jetstream").option("stream", "ORDERS").load(places.store)
    names = {"spark": session, "jetbroker": jetbroker, "orders": orders}
    text = STARTS.sub("", places.adapted(block.text))
    exec(compile(text, str(block), "exec", dont_inherit=True), names)
    assert ("query" in names) == bool(STARTS.search(block.text))


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind == "sql"], ids=str)
def test_statements_are_taken(block: Block, session: Any, places: Places) -> None:
    session.sql(places.adapted(block.text))
    assert session.sql("SELECT count(*) FROM orders").first()[0] >= ORDERS
