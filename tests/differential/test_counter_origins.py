"""Counters that are copied: mirrors and sources of nats-server and of jetbroker hold the same totals and headers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential.test_origins import clean
from tests.support.origins import Streams, connected
from tests.support.process import ServerProcess

pytestmark = pytest.mark.differential

COUNTS: dict[str, Any] = {"allow_msg_counter": True}
TRANSFORM = {"src": "*.*", "dest": "all.{{wildcard(2)}}"}


async def add(streams: Streams, subject: str, *values: str) -> None:
    for value in values:
        await streams.publish(subject, "", Nats_Incr=value)


async def copies(streams: Streams) -> list[Any]:
    """Two regions count; others add them up, in one step and in two, copy them, and count themselves."""
    await streams.create("EU", subjects=["eu.*"], **COUNTS)
    await streams.create("US", subjects=["us.*"], **COUNTS)
    await add(streams, "eu.hits", "1", "5", "-2")
    await add(streams, "us.hits", "100", "9" * 30)
    await add(streams, "us.<&>", "7")
    rows: list[tuple[str, dict[str, Any], int]] = [
        ("ALL", {"sources": [{"name": "EU", "subject_transforms": [TRANSFORM]}], "subjects": ["all.>"], **COUNTS}, 3),
        ("M", {"mirror": {"name": "EU"}}, 3),
        ("PLAIN", {"sources": [{"name": "US"}]}, 3),
        ("TOP", {"sources": [{"name": "ALL"}], **COUNTS}, 3),
        ("OVER", {"sources": [{"name": "M"}], "max_msgs_per_subject": 1, **COUNTS}, 3),
    ]
    for name, config, last in rows:
        await streams.create(name, **config)
        await streams.until_last(name, last)
    # one origin after the other, so that both servers store their messages in the same order
    await streams.update("TOP", sources=[{"name": "ALL"}, {"name": "PLAIN"}], **COUNTS)
    await streams.until_last("TOP", 6)
    await streams.update(
        "ALL",
        **rows[0][1]
        | {
            "sources": [
                {"name": "EU", "subject_transforms": [TRANSFORM]},
                {"name": "US", "subject_transforms": [TRANSFORM]},
            ]
        },
    )
    await streams.until_last("ALL", 6)
    await streams.until_last("TOP", 9)
    await add(streams, "all.hits", "1000")
    await streams.until_last("TOP", 10)
    await add(streams, "eu.hits", "40")
    found: list[Any] = []
    for name, last in {"EU": 4, "US": 3, "ALL": 8, "M": 4, "PLAIN": 3, "TOP": 11, "OVER": 4}.items():
        info = await streams.until_last(name, last)
        found.append((name, {key: info["state"].get(key) for key in ("messages", "first_seq", "last_seq", "bytes")}))
        found += [(name, {**message, "time": 0}) for message in await streams.content(name)]
    await clean(streams)
    return found


async def test_the_totals_are_equal(reference_server: ServerProcess, broker: ServerProcess) -> None:
    async with connected(reference_server.url) as reference, connected(broker.url) as ours:
        for expected, got in zip(await copies(reference), await copies(ours), strict=True):
            assert got == expected


async def refused(streams: Streams) -> list[Any]:
    """A plain stream's messages cannot be added up: the copy stays empty; what follows is not skipped."""
    await streams.create("A", subjects=["a"])
    await streams.publish("a", "1")
    await streams.create("S", sources=[{"name": "A"}], subjects=["own"], **COUNTS)
    await add(streams, "own", "1")
    info = await streams.until("S", lambda info: "sources" in info and info["state"]["last_seq"] == 1)
    await clean(streams)
    return [info["state"]["messages"]]


async def test_what_is_no_counter_is_not_copied(reference_server: ServerProcess, broker: ServerProcess) -> None:
    async with connected(reference_server.url) as reference, connected(broker.url) as ours:
        assert await refused(ours) == await refused(reference)
