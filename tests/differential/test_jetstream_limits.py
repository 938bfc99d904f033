"""Limits of the server, of accounts and of tiers: what they refuse, set and show, against nats-server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.differential.conftest import Pair
from tests.support import jwts, process
from tests.support.api_rows import API, Ask, answer, in_order
from tests.support.compare import assert_same
from tests.support.http import get_json, monitor_port

pytestmark = pytest.mark.differential

SECOND = 10**9
CONFIG = """
http: "127.0.0.1:-1"
jetstream {
  store_dir: STORE, max_mem: 100M, max_file: 1G, max_outstanding_catchup: 5M
  request_queue_limit: 100, info_queue_limit: 50
  limits {
    max_request_batch: 50, max_ack_pending: 200, max_ha_assets: 3, duplicate_window: "1m"
    batch { max_msgs: 10, max_inflight_per_stream: 5, max_inflight_total: 6, timeout: "5s" }
  }
}
accounts {
  A { users: [{user: a, password: p}], jetstream: {
    max_mem: 10M, max_file: 20M, max_streams: 3, max_consumers: 3, max_ack_pending: 100
    max_bytes_required: true, mem_max_stream_bytes: 1M, disk_max_stream_bytes: 2M } }
  B { users: [{user: b, password: p}], jetstream: enabled }
  C { users: [{user: c, password: p}], jetstream: {max_streams: 0, max_consumers: 0, max_mem: 0, max_file: 0} }
  D { users: [{user: d, password: p}], jetstream: {
    max_streams: 2, max_ack_pending: 2000, max_consumers: 0, max_file: 1M} }
  E { users: [{user: e, password: p}], jetstream: {max_mem: 100, max_file: 100, max_streams: 0, max_consumers: 2} }
  N { users: [{user: n, password: p}] }
}
"""


def create(user: str, name: str, **fields: Any) -> Ask:
    return Ask(user, f"{API}STREAM.CREATE.{name}", {"name": name, "subjects": [name.lower()], **fields})


def update(user: str, name: str, **fields: Any) -> Ask:
    return Ask(user, f"{API}STREAM.UPDATE.{name}", {"name": name, "subjects": [name.lower()], **fields})


def consumer(user: str, stream: str, name: str, *, pedantic: bool = False, **fields: Any) -> Ask:
    config = {"durable_name": name, "ack_policy": "explicit", **fields}
    body = {"stream_name": stream, "pedantic": pedantic, "config": config}
    return Ask(user, f"{API}CONSUMER.CREATE.{stream}.{name}", body)


def infos(users: str) -> list[Ask]:
    return [Ask(user, f"{API}INFO") for user in users]


MIB = 2**20
OF_THE_SERVER = [
    create("b", "W", duplicate_window=61 * SECOND),
    create("b", "W", duplicate_window=60 * SECOND),
    create("b", "W2"),
    create("b", "W3", pedantic=True),
    create("b", "W4", max_age=SECOND),
    create("b", "W5", max_age=SECOND, pedantic=True),
    create("b", "W6", max_age=120 * SECOND, duplicate_window=90 * SECOND),
    update("b", "W", duplicate_window=62 * SECOND),
    update("b", "W2", duplicate_window=0),
    consumer("b", "W", "c1"),
    consumer("b", "W", "c2", max_ack_pending=201),
    consumer("b", "W", "c2", max_ack_pending=200),
    consumer("b", "W", "c3", max_ack_pending=-1),
    consumer("b", "W", "c4", max_batch=51),
    consumer("b", "W", "c4", max_batch=50),
    consumer("b", "W", "c5", max_batch=0),
    consumer("b", "W", "c5", max_batch=-1),
    consumer("b", "W", "c6", pedantic=True),
    consumer("b", "W", "c6", max_batch=3, pedantic=True),
    consumer("b", "W", "c7", ack_policy="none", max_ack_pending=300),
    consumer("b", "W", "c8", deliver_subject="x", max_batch=100),
    consumer("b", "W", "c9", deliver_subject="x", ack_policy="none"),
    consumer("b", "W", "c1", max_ack_pending=500),
    consumer("b", "W", "c1", max_ack_pending=150),
    consumer("b", "W", "c1", max_batch=70),
    # two faults: the first that is looked for is told
    consumer("b", "W", "cA", max_ack_pending=500, filter_subjects=["w", "w.>", "w.a"]),
    consumer("b", "W", "cB", max_ack_pending=500, direct=True),
    consumer("b", "W", "cC", max_batch=500, deliver_policy="last_per_subject"),
    create("b", "L", consumer_limits={"max_ack_pending": 500}),
    consumer("b", "L", "c1"),
    consumer("b", "L", "c2", max_ack_pending=150),
    create("b", "L2", consumer_limits={"max_ack_pending": 100}),
    consumer("b", "L2", "c1"),
    consumer("b", "L2", "c2", max_ack_pending=150),
    Ask("b", f"{API}CONSUMER.MSG.NEXT.W.c5", b"51"),
    Ask("b", f"{API}CONSUMER.MSG.NEXT.W.c5", b'{"batch":51,"no_wait":true}'),
]
OF_ACCOUNTS = [
    create("a", "A1"),
    create("a", "A1", max_bytes=3_000_000),
    create("a", "A1", max_bytes=2_000_001),
    # two faults: the first that is looked for is told
    *(
        create("a", "A1", **size, **more)
        for size in ({}, {"max_bytes": 3_000_000})
        for more in (
            {"subjects": ["a b"]},
            {"subject_transform": {"src": "a..b", "dest": "c"}},
            {"num_replicas": 3},
            {"republish": {"src": "a1", "dest": "b..c"}},
            {"placement": {"preferred": "x"}},
        )
    ),
    create("a", "A1", max_bytes=2_000_000),
    create("a", "M1", max_bytes=1_000_001, storage="memory"),
    create("a", "M1", max_bytes=1_000_000, storage="memory"),
    update("a", "A1", max_bytes=-1),
    update("a", "A1", max_bytes=3_000_000),
    create("a", "A2", max_bytes=10),
    create("a", "A3", max_bytes=10),
    create("a", "A1", max_bytes=2_000_000),
    create("a", "A1", max_bytes=5),
    create("a", "AA", max_bytes=5, sealed=True),
    create("a", "AA", max_bytes=5, mirror_direct=True),
    create("a", "A9", max_bytes=5, subjects=["a b"]),
    create("a", "A9", max_bytes=5, max_consumers=4),
    consumer("a", "A1", "c1"),
    consumer("a", "A1", "c2", max_ack_pending=101),
    consumer("a", "A1", "c2", max_ack_pending=201),
    consumer("a", "A1", "c2", max_ack_pending=99),
    consumer("a", "A1", "c3"),
    consumer("a", "A1", "c4"),
    consumer("a", "M1", "c4"),
    consumer("a", "A1", "c1"),
    create("c", "X"),
    create("c", "X", storage="memory"),
    create("c", "X", max_bytes=5),
    create("d", "X"),
    create("d", "Y"),
    create("d", "Z"),
    consumer("d", "X", "c"),
    create("d", "Y", max_bytes=MIB),
    update("d", "X", max_bytes=MIB + 1),
    update("d", "X", max_bytes=MIB),
    update("d", "Y", max_bytes=1),
    create("e", "X", max_consumers=3),
    create("e", "X", max_bytes=90, max_consumers=2),
    create("e", "Y", max_bytes=11),
    create("e", "Y", max_bytes=10, max_consumers=1),
    create("e", "Z"),
    create("e", "Z", max_bytes=0),
    create("e", "Z", subjects=["a b"]),
    create("e", "Z", max_bytes=5, subjects=["a b"]),
    update("e", "X", max_bytes=91),
    update("e", "X", max_bytes=80),
    update("e", "X", max_consumers=4, max_bytes=80),
    create("e", "Z"),
    create("e", "M", storage="memory"),
    create("e", "M2", storage="memory", max_bytes=2**62),
    update("e", "M", storage="memory", max_bytes=100),
    create("e", "M3", storage="memory"),
    create("e", "M", storage="memory"),
    *(consumer("e", stream, name) for stream in "XYM" for name in "123"),
    Ask("e", "x", b"a"),
    Ask("e", "m", b"y" * 60),
    Ask("e", "m", b"y" * 60),
]


def test_limits_refuse_and_set(pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of(CONFIG)
    rows = [*infos("abcden"), *OF_THE_SERVER, *OF_ACCOUNTS, *infos("abcden")]
    theirs, ours = (asyncio.run(in_order(server.port, rows)) for server in (pair.reference, pair.broker))
    assert_same(zip(rows, theirs, ours, strict=True))


LARGE = "max_payload: 40M\njetstream { store_dir: STORE }\n"
RECORD = 32 * MIB - 30 - len("f")  # of a message without headers


async def _large(port: int) -> list[Any]:
    """What publishes about as large as the store's records are answered."""
    client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
    header = {"A": "b"}
    more = len("NATS/1.0\r\nA: b\r\n\r\n") + 4
    committed = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    found = []
    try:
        for storage in ("file", "memory"):
            config = {"name": "L", "subjects": ["f"], "storage": storage, "allow_atomic": True, "max_msgs": 1}
            await client.request(f"{API}STREAM.CREATE.L", json.dumps(config).encode(), timeout=30)
            for size, headers in (
                (RECORD, None), (RECORD + 1, None), (RECORD - more, header), (RECORD - more + 1, header),
                (RECORD + MIB, committed), (RECORD + 1, {"Nats-Msg-Id": "1"}),
            ):  # fmt: skip
                answer = await client.request("f", bytes(size), timeout=60, headers=headers)
                found.append((storage, size, headers, json.loads(answer.data)))
            await client.request(f"{API}STREAM.DELETE.L", b"", timeout=30)
    finally:
        await client.close()
    return found


def test_messages_as_large_as_a_record(pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of(LARGE)
    theirs, ours = (asyncio.run(_large(server.port)) for server in (pair.reference, pair.broker))
    assert ours == theirs
    assert sum("error" in answer for *_, answer in theirs) == 4


@pytest.mark.parametrize("path", ["/varz", "/jsz"])
def test_limits_are_shown_by_monitoring(pair_of: Callable[[str], Pair], path: str) -> None:
    pair = pair_of(CONFIG)
    theirs, ours = (get_json(monitor_port(server), path) for server in (pair.reference, pair.broker))
    if path == "/varz":
        theirs, ours = theirs["jetstream"], ours["jetstream"]
    assert ours["limits"] == theirs["limits"]
    assert len(theirs["limits"]) == 8
    assert ours["config"]["max_memory"] == theirs["config"]["max_memory"] == 100_000_000


TIERS: dict[str, dict[str, Any]] = {
    "r1": {"R1": jwts.jetstream_limits(
        disk_storage=5000, mem_storage=0, streams=3, consumer=2, max_ack_pending=10,
        disk_max_stream_bytes=1000, mem_max_stream_bytes=5, max_bytes_required=True)},
    "r3": {"R3": jwts.jetstream_limits()},
    "both": {"R1": jwts.jetstream_limits(streams=1), "R3": jwts.jetstream_limits(streams=9, disk_storage=77)},
    "no memory": {"R1": jwts.jetstream_limits(mem_storage=0)},
    "nothing": {"R1": jwts.jetstream_limits(mem_storage=0, disk_storage=0)},
}  # fmt: skip
OF_TIERS = [
    *infos("u"),
    create("u", "S"),
    create("u", "S", max_bytes=1001),
    create("u", "S", max_bytes=1000),
    create("u", "S", max_bytes=1000, num_replicas=3),
    create("u", "M", max_bytes=5, storage="memory"),
    create("u", "M", storage="memory"),
    create("u", "T", max_bytes=100, num_replicas=3),
    create("u", "T", max_bytes=100),
    create("u", "U", max_bytes=100),
    create("u", "V", max_bytes=100),
    update("u", "S", max_bytes=900),
    consumer("u", "S", "1"),
    consumer("u", "S", "2", max_ack_pending=11),
    consumer("u", "S", "2", max_ack_pending=9),
    consumer("u", "S", "3"),
    consumer("u", "T", "1"),
    Ask("u", f"{API}STREAM.LIST"),
    *infos("u"),
]


@pytest.mark.parametrize("name", TIERS)
def test_tiers_of_tokens(name: str, tmp_path: Path) -> None:
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    system = jwts.Account("SYS")
    stores = jwts.Account("stores", limits=jwts.account_limits(tiered_limits=TIERS[name]))
    operator = jwts.Operator(more={"system_account": system.public})
    creds = tmp_path / "u.creds"
    creds.write_text(stores.user("u").creds())
    found: list[list[Any]] = []
    for make in (process.nats_server, process.jetbroker):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        more = f"server_name: same\njetstream {{ store_dir: '{folder}', max_mem: 1M, max_file: 1M }}\n"
        path = folder / "server.conf"
        path.write_text(jwts.configuration(operator, [system, stores], more=more))
        with make("-c", os.fspath(path)) as server:
            found.append(asyncio.run(_asked(server.port, os.fspath(creds))))
    assert_same(zip(OF_TIERS, *found, strict=True))


async def _asked(port: int, creds: str) -> list[Any]:
    client = await nats.connect(f"nats://127.0.0.1:{port}", user_credentials=creds, allow_reconnect=False)
    try:
        return [await answer(client, row) for row in OF_TIERS]
    finally:
        await client.close()
