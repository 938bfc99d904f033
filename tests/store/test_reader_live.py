"""The offline reader beside a running broker: what it reads equals what the broker serves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import StorageType, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import list_streams, open_stream
from tests.store.support import ACCOUNT, FaultyDisk, open_store, run
from tests.support import process

pa = pytest.importorskip("pyarrow")


async def online(stream: JetStreamContext, name: str) -> list[tuple[int, str | None, bytes, dict[str, list[str]]]]:
    """Every message, one by one."""
    state = (await stream.stream_info(name)).state
    found = []
    for seq in range(state.first_seq, state.last_seq + 1):
        try:
            message = await stream.get_msg(name, seq=seq)
        except NotFoundError:
            continue
        headers = {key: [value] for key, value in (message.headers or {}).items()}
        found.append((seq, message.subject, message.data or b"", headers))
    return found


def offline(store: Path, name: str) -> list[tuple[int, str | None, bytes, dict[str, list[str]]]]:
    table = open_stream(store, name).to_arrow(["seq", "subject", "data", "headers"])
    rows = table.to_pylist()
    return [(row["seq"], row["subject"], row["data"], dict(row["headers"])) for row in rows]


async def test_offline_equals_online_after_deletes_and_purges(tmp_path: Path) -> None:
    rng = random.Random(7)
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream()
        await stream.add_stream(StreamConfig("ORDERS", subjects=["orders.>"], max_msgs=700))
        for i in range(1000):
            headers = {"Nats-Msg-Id": str(i), "Kind": "odd"} if i % 2 else None
            await stream.publish(f"orders.{i % 7}.new", b"%d" % i * rng.randrange(9), headers=headers)
            if i % 50 == 49:
                await stream.delete_msg("ORDERS", rng.randrange(max(1, i - 200), i + 1))
        assert offline(tmp_path, "ORDERS") == await online(stream, "ORDERS")
        await stream.purge_stream("ORDERS", subject="orders.3.>")
        served = await online(stream, "ORDERS")
        assert offline(tmp_path, "ORDERS") == served
        state = (await stream.stream_info("ORDERS")).state
        assert open_stream(tmp_path, "ORDERS").messages == state.messages
        await client.close()
    assert offline(tmp_path, "ORDERS") == served  # the broker is stopped
    with process.jetbroker("-js", "-sd", str(tmp_path)):
        assert offline(tmp_path, "ORDERS") == served  # and back


async def test_the_store_names_the_domain_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    for domain, named in (("edge", "edge"), ("hub", "hub"), ("", None)):
        config.write_text(f'jetstream {{ store_dir: "{tmp_path}", domain: "{domain}" }}')
        with process.jetbroker("-c", str(config)) as server:
            client = await nats.connect(server.url)
            await client.jetstream().add_stream(StreamConfig("ORDERS", subjects=["orders.>"]))
            ack = await client.jetstream().publish("orders.new", b"1")
            assert (ack.domain or None) == named
            await client.close()
            assert open_stream(tmp_path, "ORDERS", domain=domain).domain == named
        column = open_stream(tmp_path, "ORDERS").to_arrow(["domain"])["domain"]
        assert column.to_pylist() == [named] * ack.seq


async def test_a_deleted_stream_and_a_memory_stream_are_not_there(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream()
        await stream.add_stream(StreamConfig("GONE", subjects=["gone"]))
        await stream.add_stream(StreamConfig("MEM", subjects=["mem"], storage=StorageType.MEMORY))
        await stream.add_stream(StreamConfig("Größe_1", subjects=["there"]))
        await stream.publish("mem", b"1")
        await stream.delete_stream("GONE")
        assert list_streams(tmp_path) == [("$G", "Größe_1")]
        for name in ("GONE", "MEM"):
            with pytest.raises(StoreReadError, match=f"no stream '{name}'.*memory storage are never on disk"):
                open_stream(tmp_path, name)
        await client.close()


def test_a_segment_that_ends_leaves_no_gap(tmp_path: Path) -> None:
    """A reader that looks at any moment finds all messages up to one of them."""

    async def play() -> list[list[tuple[int, int]]]:
        found: list[list[tuple[int, int]]] = []

        def look(call: str, path: str, size: int) -> None:
            if watched and path.endswith(".seg"):
                found.append(open_stream(tmp_path, "S").damaged)

        watched = False
        store = open_store(str(tmp_path), segment_bytes=2000, disk=FaultyDisk(look))
        log: Any = await store.create_stream(ACCOUNT, "S", {"name": "S", "subjects": ["s"]}, "file", 1)
        watched = True
        for _ in range(100):
            log.append_message(b"s", bytes(50))
        await log.commit()
        watched = False
        await store.close()
        return found

    found = run(play())
    assert len(found) > 10
    assert not any(found)
