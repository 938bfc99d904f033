"""The duplicate window of a broker that has just started: no id is judged before all of them are read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from tests.support import process
from tests.support.origins import Streams

COUNT = 3000


async def publish(client: Client, number: int) -> dict[str, object]:
    reply = await client.request("s", b"x", headers={"Nats-Msg-Id": f"id{number}"}, timeout=20)
    answer: dict[str, object] = json.loads(reply.data)
    return answer


async def fill(path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        await Streams(client).create("S", subjects=["s"])
        for number in range(COUNT):
            await client.publish("s", b"x", headers={"Nats-Msg-Id": f"id{number}"})
        assert (await publish(client, 0))["duplicate"]
        await client.close()


def limited(path: Path, **limits: int) -> process.ServerProcess:
    """A broker with other limits."""
    changes = "".join(f"limits.{name} = {value}; " for name, value in limits.items())
    start = f"from jetbroker import limits; {changes}import runpy; runpy.run_module('jetbroker', run_name='__main__')"
    return process.ServerProcess([sys.executable, "-c", start], ("-js", "-sd", str(path)))


@pytest.mark.parametrize("limits", [{}, {"JS_DEDUP_START_NS": 0}])
async def test_a_window_read_at_once_or_in_turns_knows_every_id(tmp_path: Path, limits: dict[str, int]) -> None:
    await fill(tmp_path)
    with limited(tmp_path, **limits) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        for number in (COUNT - 1, 0, COUNT // 2):
            answer = await publish(client, number)
            while limits and "error" in answer:
                answer = await publish(client, number)
            assert (answer["seq"], answer["duplicate"]) == (number + 1, True)
        assert (await publish(client, COUNT))["seq"] == COUNT + 1
        await client.close()


async def test_ids_are_refused_while_the_window_is_not_read(tmp_path: Path) -> None:
    await fill(tmp_path)
    with limited(tmp_path, JS_DEDUP_START_NS=0, JS_WORK_NS=0) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        for number in (COUNT - 1, 0, COUNT):
            error = {"code": 429, "err_code": 10167, "description": "too many requests"}
            assert (await publish(client, number))["error"] == error
        reply = await client.request("s", b"without an id", timeout=30)
        assert json.loads(reply.data)["seq"] == COUNT + 1
        await client.close()
