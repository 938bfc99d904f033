"""What the log warns of when JetStream refuses something: the same lines as nats-server's."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient

from tests.support.clients import settle
from tests.support.daemon import Daemon

pytestmark = pytest.mark.differential

CONFIG = """
jetstream { store_dir: "STORE", STRICT }
accounts {
  A { jetstream: { max_mem: 300, max_file: 300 }, users: [{user: a, password: p}] }
  B { jetstream: enabled, users: [{user: b, password: p}] }
}
"""
LINE = re.compile(r"\[WRN\] (?!Plaintext passwords)(.*)")
BODY = b"x" * 200
REQUESTS: list[tuple[str, bytes]] = [
    ("STREAM.CREATE.S", b'{"name":"S","foo":1}'),
    ("STREAM.CREATE.S", b'{"name":"S","foo":1}'),
    ("STREAM.CREATE.S", b'{"name":"S","max_msgs":"1"}'),
    ("STREAM.CREATE.S", b'{"name":'),
    ("STREAM.NAMES", b'{"offset":"x"}'),
    ("STREAM.NAMES", b"x"),
    ("STREAM.INFO.S", b'{"offset":1,"more":2}'),
    ("CONSUMER.CREATE.S.C", b'{"stream_name":"S","config":{"name":"C","other":{}}}'),
    ("STREAM.MSG.GET.S", b"x"),
    ("STREAM.RESTORE.R", b"{}{"),
]


async def api(client: NatsClient, subject: str, body: Any) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return json.loads((await client.request(f"$JS.API.{subject}", data, timeout=20)).data)


async def ask_wrong(port: int) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{port}", user="b", password="p")
    for subject, body in REQUESTS:
        await api(client, subject, body)
    await client.close()


async def fill(port: int) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{port}", user="a", password="p")
    for storage in ("memory", "file"):
        config = {"name": storage, "subjects": [storage], "storage": storage, "allow_atomic": True}
        assert "error" not in await api(client, f"STREAM.CREATE.{storage}", config)
        codes = [
            json.loads((await client.request(storage, BODY, timeout=20)).data).get("error", {}).get("err_code")
            for _ in range(3)
        ]
        assert codes == [None, 10002, 10002]
        batch = {"Nats-Batch-Id": "one", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
        answer = json.loads((await client.request(storage, BODY, headers=batch, timeout=20)).data)
        assert answer["error"]["err_code"] == 10002
    await client.close()


async def copy(port: int) -> None:
    """From origins that are not there, and into streams that take nothing more."""
    client = await nats.connect(f"nats://127.0.0.1:{port}", user="b", password="p")
    full = {"max_msgs": 1, "discard": "new"}
    await api(client, "STREAM.CREATE.ORIGIN", {"name": "ORIGIN", "subjects": ["o.*"]})
    for number in (b"1", b"2"):
        await client.request("o.1", number, timeout=20)
    origin = {"name": "ORIGIN"}
    copies: dict[str, dict[str, Any]] = {
        "MIRROR": {"mirror": {"name": "NONE"}},
        "SOURCES": {"sources": [{"name": "NONE"}]},
        "FULLMIRROR": {"mirror": origin, **full},
        "FULL": {"sources": [origin], **full},
    }
    for name, config in copies.items():
        await api(client, f"STREAM.CREATE.{name}", {"name": name, **config})
    await client.close()


async def ack_what_is_not_there(port: int) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{port}", user="b", password="p")
    await api(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    config = {"durable_name": "C", "ack_policy": "explicit"}
    await api(client, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    await client.request("s", b"", timeout=20)
    for sequence in (1, 2, 9):
        await client.publish(f"$JS.ACK.S.C.1.{sequence}.1.0.0", b"+ACK")
    await settle(client)
    await client.close()


def warnings(server: Daemon) -> set[str]:
    return {found[1] for line in server.log if (found := LINE.search(line)) is not None}


@pytest.mark.parametrize("strict", ["", "strict: false"])
def test_of_requests_that_do_not_decode(commands: list[tuple[str, ...]], tmp_path: Path, strict: str) -> None:
    found: list[set[str]] = []
    for command in commands:
        with Daemon("-c", str(conf(tmp_path / str(len(found)), strict)), command=command) as server:
            asyncio.run(ask_wrong(server.port))
            server.stop()
            found.append(warnings(server))
    assert found[1] == found[0]
    assert len(found[0]) == len(REQUESTS) - 2


def test_of_a_full_account(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    found: list[set[str]] = []
    for command in commands:
        with Daemon("-c", str(conf(tmp_path / str(len(found)))), command=command) as server:
            asyncio.run(fill(server.port))
            server.stop()
            found.append(warnings(server))
    assert found[1] == found[0]
    assert 'JetStream memory resource limits exceeded for account: "A"' in found[0]


def test_of_copies(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    expected = (
        "JetStream error response for create mirror consumer: stream not found (10059)",
        "JetStream error response for stream SOURCES create source consumer NONE: stream not found (10059)",
        "Error processing inbound mirror message for 'B' > 'FULLMIRROR': maximum messages exceeded",
    )
    for command in commands:
        with Daemon("-c", str(conf(tmp_path / command[-1].rpartition("/")[2])), command=command) as server:
            asyncio.run(copy(server.port))
            for line in expected:
                server.wait_for(f"[WRN] {line}")
            server.stop()
            assert warnings(server) == set(expected)


def test_of_acks(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    for command in commands:
        with Daemon("-c", str(conf(tmp_path / command[-1].rpartition("/")[2])), command=command) as server:
            asyncio.run(ack_what_is_not_there(server.port))
            for sequence in (2, 9):
                where = f"ACK sequence {sequence} past last stream sequence of 1"
                server.wait_for(f"[WRN] JetStream consumer 'B > S > C' {where}")
            server.stop()
            assert len(warnings(server)) == 2


def conf(folder: Path, strict: str = "") -> Path:
    folder.mkdir()
    path = folder / "conf"
    path.write_text(CONFIG.replace("STORE", str(folder)).replace("STRICT", strict))
    return path
