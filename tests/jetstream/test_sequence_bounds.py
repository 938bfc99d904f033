"""Sequences near the ends of their types, by every request that names one; then publishes, and a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from jetbroker import limits
from tests.support import process
from tests.support.origins import Streams

FAR = limits.STREAM_SKIP_SEQUENCE
BEYOND = [2**64 - 1, 2**64 - 2, 2**63 + 1, 2**63, 2**63 - 1, FAR + 1]


async def publish(streams: Streams, subject: str) -> dict[str, Any]:
    reply = await streams.client.request(subject, b"x", timeout=10)
    answer: dict[str, Any] = json.loads(reply.data)
    return answer


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_a_first_sequence_beyond_the_bound_is_refused(streams: Streams, storage: str) -> None:
    for seq in BEYOND:
        code, text = await streams.refusal("S", subjects=["s"], storage=storage, first_seq=seq)
        assert (code, text) == (10_052, f"first sequence can not be larger than {FAR}")
    await streams.create("S", subjects=["s"], storage=storage, first_seq=FAR)
    for number in range(3):
        assert (await publish(streams, "s"))["seq"] == FAR + number


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("held", [0, 1, 3])
async def test_a_purge_beyond_the_bound_is_refused_and_removes_nothing(
    streams: Streams, storage: str, held: int
) -> None:
    await streams.create("S", subjects=["s"], storage=storage)
    for _ in range(held):
        await publish(streams, "s")
    for seq in BEYOND:
        for body in ({"seq": seq}, {"seq": seq, "filter": ">"}):
            error = (await streams.api("STREAM.PURGE.S", body))["error"]
            assert (error["err_code"], error["description"]) == (10_110, f"sequence {seq} is beyond {FAR}")
    assert (await publish(streams, "s"))["seq"] == held + 1
    assert (await streams.api("STREAM.PURGE.S", {"seq": 2**64 - 1, "filter": "s"}))["purged"] == held + 1
    assert (await streams.api("STREAM.PURGE.S", {"seq": FAR}))["purged"] == 0
    for number in range(3):
        assert (await publish(streams, "s"))["seq"] == FAR + number
    # and once more, behind messages
    assert (await streams.api("STREAM.PURGE.S", {"seq": FAR + 1}))["purged"] == 1
    state = (await streams.api("STREAM.INFO.S"))["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (2, FAR + 1, FAR + 2)


async def test_deleted_messages_are_listed_up_to_a_bound(streams: Streams) -> None:
    await streams.create("S", subjects=["s"])
    await publish(streams, "s")
    await streams.create("M", mirror={"name": "S"})
    await streams.until("M", lambda info: info["state"]["messages"] == 1)
    await streams.api("STREAM.PURGE.S", {"seq": 2**40})
    await publish(streams, "s")
    await streams.until("M", lambda info: info["state"]["last_seq"] == 2**40)
    state = (await streams.api("STREAM.INFO.M", {"deleted_details": True}))["state"]
    assert (state["messages"], state["first_seq"], state["num_deleted"]) == (2, 1, 2**40 - 2)
    assert state["deleted"] == list(range(2, 2 + limits.JS_DELETED_LISTED))


async def test_positions_outlive_a_restart(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        streams = Streams(client)
        await streams.create("A", subjects=["a"], first_seq=FAR)
        await streams.create("B", subjects=["b"])
        await publish(streams, "b")
        await streams.api("STREAM.PURGE.B", {"seq": FAR})
        await streams.create("I", subjects=["i"], retention="interest")
        for number in range(1, 31):
            assert (await publish(streams, "i"))["seq"] == number
        await client.close()
        server.kill()
        server.start()
        client = await nats.connect(server.url, allow_reconnect=False)
        streams = Streams(client)
        assert [(await publish(streams, name))["seq"] for name in "abi"] == [FAR, FAR, 31]
        await asyncio.wait_for(client.close(), 10)
