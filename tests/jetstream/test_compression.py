"""Streams with `compression`: as nats-server answers for them, and what is sealed takes less disk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StoreCompression, StreamConfig
from nats.js.errors import NotFoundError

from jetbroker.store.format.records import decode_header
from jetbroker.store.offline.reader import open_stream
from tests.support.process import ServerProcess, small_segments

SEGMENT_BYTES = 50_000


def message(i: int) -> bytes:
    return json.dumps(
        {"id": i, "user": f"user-{i * 7919 % 1000}", "status": "created", "amount": i * 13 % 997}
    ).encode()


def sizes(store: Path) -> tuple[int, int, int]:
    """(sealed segments, those of them that are compressed, bytes of all)."""
    folder = store / "jetstream" / "%24G" / "S"
    files = sorted(folder.glob("*.seg"))
    headers = [decode_header(file.read_bytes()) for file in files[:-1]]
    done = sum(header is not None and header.packed for header in headers)
    return len(headers), done, sum(file.stat().st_size for file in files)


async def compressed(store: Path) -> int:
    """Wait until all sealed segments are compressed; returns the bytes of all."""
    async with asyncio.timeout(10):
        while (found := sizes(store))[0] != found[1] or not found[1]:
            await asyncio.sleep(0.02)
    return found[2]


async def publish(js: JetStreamContext, first: int, count: int) -> None:
    futures = [await js.publish_async(f"s.{i % 5}", message(i)) for i in range(first, first + count)]
    await asyncio.gather(*futures)


async def read_all(js: JetStreamContext, count: int) -> list[bytes]:
    subscription = await js.pull_subscribe(
        "", stream="S", config=ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True)
    )
    found: list[bytes] = []
    while len(found) < count:
        found += [m.data for m in await subscription.fetch(500, timeout=5)]
    return found


async def connected(server: ServerProcess) -> tuple[Client, JetStreamContext]:
    client = await nats.connect(server.url)
    return client, client.jetstream()


async def test_a_compressed_stream_takes_less_disk_and_reads_the_same(tmp_path: Path) -> None:
    config = StreamConfig(name="S", subjects=["s.*"], compression=StoreCompression.S2, allow_direct=True)
    expected = [message(i) for i in range(3000)]
    with small_segments(tmp_path, SEGMENT_BYTES) as server:
        client, js = await connected(server)
        info = await js.add_stream(config)
        assert info.config.compression == StoreCompression.S2
        await publish(js, 0, 3000)
        assert await compressed(tmp_path) < (await js.stream_info("S")).state.bytes / 2
        assert await read_all(js, 3000) == expected
        assert await js.delete_msg("S", 100)
        with pytest.raises(NotFoundError):
            await js.get_msg("S", 100)
        await client.close()
        server.kill()
    with small_segments(tmp_path, SEGMENT_BYTES) as server:
        client, js = await connected(server)
        info = await js.stream_info("S")
        assert info.config.compression == StoreCompression.S2
        assert info.state.messages == 2999
        del expected[99]
        assert await read_all(js, 2999) == expected
        assert (await js.get_msg("S", 77, direct=True)).data == message(76)
        rows = open_stream(tmp_path, "S").to_arrow(["data"])["data"].to_pylist()
        assert rows == expected
        await client.close()


async def test_an_update_compresses_what_is_stored_already(tmp_path: Path) -> None:
    with small_segments(tmp_path, SEGMENT_BYTES) as server:
        client, js = await connected(server)
        config = StreamConfig(name="S", subjects=["s.*"])
        info = await js.add_stream(config)
        assert info.config.compression == StoreCompression.NONE
        await publish(js, 0, 2000)
        before = sizes(tmp_path)
        assert before[1] == 0
        info = await js.update_stream(config.evolve(compression=StoreCompression.S2))
        assert info.config.compression == StoreCompression.S2
        assert await compressed(tmp_path) < before[2] / 2
        await js.update_stream(config)
        await publish(js, 2000, 1000)
        assert sizes(tmp_path)[1] == before[0]
        assert await read_all(js, 3000) == [message(i) for i in range(3000)]
        await client.close()


async def test_memory_streams_take_the_setting(broker: ServerProcess) -> None:
    client, js = await connected(broker)
    config = StreamConfig(name="M", subjects=["m"], storage=StorageType.MEMORY, compression=StoreCompression.S2)
    assert (await js.add_stream(config)).config.compression == StoreCompression.S2
    await js.publish("m", b"1")
    assert (await js.get_msg("M", 1)).data == b"1"
    await js.delete_stream("M")
    await client.close()
