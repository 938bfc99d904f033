"""A whole broker on a disk that takes no more: every publish is answered, log and monitoring tell of it, it heals.

The kernel's bound on the size of files stands for the full disk: it cuts a write short and refuses the rest, and can
be lifted from outside.
"""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from tests.support import process
from tests.support.http import get, get_json, monitor_port
from tests.support.origins import Streams

BOUND = 2 * 1024 * 1024
IN_FLIGHT = 400


def bound_files(server: process.ServerProcess, size: int) -> None:
    """No file of the broker may get larger."""
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))


async def fill(client: Client) -> tuple[int, int]:
    """Publish with many in flight until the disk refuses; how many were stored, how many refused."""
    stored = refused = 0
    while refused < 2 * IN_FLIGHT:
        answers = await asyncio.gather(*(client.request("s", bytes(500), timeout=10) for _ in range(IN_FLIGHT)))
        errors = ["error" in json.loads(answer.data) for answer in answers]
        stored += errors.count(False)
        refused += errors.count(True)
    return stored, refused


@pytest.mark.parametrize("mode", ["always", "2m"])
async def test_a_full_disk_speaks_and_heals(tmp_path: Path, mode: str) -> None:
    conf = tmp_path / "server.conf"
    conf.write_text(f'jetstream {{ store_dir: "{tmp_path}/store", sync_interval: {mode} }}\n')
    with process.jetbroker("-c", str(conf), "-m", "-1") as server:
        port = monitor_port(server)
        client = await nats.connect(server.url, allow_reconnect=False)
        streams = Streams(client)
        await streams.create("S", subjects=["s"])
        assert get(port, "/healthz").status == 200
        bound_files(server, BOUND)
        stored, _ = await fill(client)
        health = get(port, "/healthz")
        assert health.status == 503
        text = health.json()["error"]
        assert text.startswith('JetStream stream "S" on account "$G" cannot be written: ')
        assert ".seg: File too large" in text
        answer = get_json(port, "/jsz?streams=1")
        assert answer["storage_faults"] == 1
        (shown,) = answer["account_details"][0]["stream_detail"]
        assert shown["storage_faults"][0]["error"] == "File too large"
        state = (await streams.api("STREAM.INFO.S"))["state"]
        assert state["messages"] == stored
        bound_files(server, resource.RLIM_INFINITY)
        async with asyncio.timeout(20):
            while get(port, "/healthz").status != 200:
                await asyncio.sleep(0.02)
        reply = await client.request("s", b"again", timeout=10)
        assert json.loads(reply.data)["seq"] == stored + 1
        assert "storage_faults" not in get_json(port, "/jsz")
        lines: list[str] = []
        async with asyncio.timeout(20):
            while len(lines) < 2:  # they come by a pipe of their own
                await asyncio.sleep(0.01)
                lines = [line for line in server.log if "JetStream storage of" in line]
        assert len(lines) == 2, lines
        assert "[ERR] JetStream storage of '$G > S' failed, " in lines[0]
        assert "[INF] JetStream storage of '$G > S' works again" in lines[1]
        await client.close()
        server.kill()
        server.start()
        client = await nats.connect(server.url, allow_reconnect=False)
        assert (await Streams(client).api("STREAM.INFO.S"))["state"]["messages"] == stored + 1
        await client.close()


async def test_a_stream_that_cannot_be_made_is_answered_and_told(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path), "-m", "-1") as server:
        port = monitor_port(server)
        client = await nats.connect(server.url, allow_reconnect=False)
        streams = Streams(client)
        await streams.create("S", subjects=["s"])
        bound_files(server, 0)
        for _ in range(3):
            code, text = await streams.refusal("T", subjects=["t"])
            assert code == 10_049
            assert "File too large" in text
        assert get(port, "/healthz").status == 503
        bound_files(server, resource.RLIM_INFINITY)
        async with asyncio.timeout(20):
            while get(port, "/healthz").status != 200:
                await asyncio.sleep(0.02)
        await streams.create("T", subjects=["t"])
        assert len([line for line in server.log if "failed, " in line]) == 1
        assert len([line for line in server.log if "works again" in line]) == 1
        await client.close()


async def test_a_consumer_that_is_deleted_while_it_is_stored_is_no_failure(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        streams = Streams(client)
        answers = await client.subscribe("answers")
        wanted = json.dumps({"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}).encode()
        for deleted in ("STREAM.DELETE.S", "CONSUMER.DELETE.S.C"):
            await streams.create("S", subjects=["s"])
            await client.publish("$JS.API.CONSUMER.CREATE.S.C", wanted, reply="answers")
            await client.publish(f"$JS.API.{deleted}", b"", reply="answers")
            both = [(await answers.next_msg(20)).data for _ in range(2)]
            assert any(b'"success":true' in data for data in both), both
        assert (await streams.api("CONSUMER.NAMES.S"))["consumers"] == []
        await client.close()
        server.stop()
        assert not [line for line in server.log if "[ERR]" in line]


async def test_a_consumer_that_cannot_be_made_is_answered_and_is_not_there(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path), "-m", "-1") as server:
        port = monitor_port(server)
        client = await nats.connect(server.url, allow_reconnect=False)
        streams = Streams(client)
        await streams.create("S", subjects=["s"])
        bound_files(server, 0)
        wanted = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
        for _ in range(3):
            answer = await streams.api("CONSUMER.CREATE.S.C", wanted)
            assert answer["error"]["err_code"] == 10_104
            assert (await streams.api("CONSUMER.NAMES.S"))["consumers"] == []
        folder = tmp_path / "jetstream" / "%24G" / "S" / "consumers"
        assert list(folder.iterdir()) == []
        bound_files(server, resource.RLIM_INFINITY)
        async with asyncio.timeout(20):
            while get(port, "/healthz").status != 200:
                await asyncio.sleep(0.02)
        await streams.api("CONSUMER.CREATE.S.C", wanted)
        assert (await streams.api("CONSUMER.NAMES.S"))["consumers"] == ["C"]
        await client.close()
