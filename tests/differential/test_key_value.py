"""Key-value buckets and object stores as nats-py's newest release uses them: limit markers, times to live, purges."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import KeyValueConfig, ObjectMeta, ObjectMetaOptions, StorageType
from nats.js.errors import Error as JetStreamError
from nats.js.errors import NoKeysError, NotFoundError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from tests.differential.conftest import Pair
from tests.support.jetstream_probe import Probe

pytestmark = pytest.mark.differential

CONFIG = "jetstream { store_dir: STORE, max_mem: 100M, max_file: 1G }\n"
EVENT_S = 20.0
T = TypeVar("T")


async def outcome(work: Awaitable[Any]) -> Any:
    """The result, or which error it is."""
    try:
        return await work
    except JetStreamError as error:
        return type(error).__name__, getattr(error, "err_code", None)


def shown(entry: KeyValue.Entry) -> tuple[Any, ...]:
    return entry.key, entry.value, entry.revision, entry.delta, entry.operation


async def until(watcher: Any, *wanted: tuple[str, str | None]) -> list[Any]:
    """What a watcher tells until each of the wanted (key, operation) was among it."""
    heard: list[Any] = []
    left = list(wanted)
    while left:
        entry = await watcher.updates(timeout=EVENT_S)
        if entry is None:
            heard.append(None)
            continue
        heard.append((entry.key, entry.value, entry.revision, entry.operation))
        if (entry.key, entry.operation) in left:
            left.remove((entry.key, entry.operation))
    return heard


async def stored(client: Client, stream: str) -> list[Any]:
    """What the bucket's stream holds: subjects, headers, payloads."""
    js = client.jetstream()
    info = await js.stream_info(stream)
    found: list[Any] = [info.config.allow_msg_ttl, info.config.subject_delete_marker_ttl, info.state.messages]
    for seq in range(info.state.first_seq, info.state.last_seq + 1):
        message = await outcome(js.get_msg(stream, seq))
        if isinstance(message, tuple):
            found.append(message)
        else:
            found.append((message.subject, message.data, dict(message.headers or {})))
    return found


async def key_value(client: Client) -> list[Any]:
    js = client.jetstream()
    seen: list[Any] = []
    bucket = await js.create_key_value(KeyValueConfig(bucket="B", history=5, limit_marker_ttl=1.0))
    watcher = await bucket.watchall()
    seen.append(await until_none(watcher))
    for step in (
        bucket.create("short", b"1", msg_ttl=1.0),
        bucket.create("short", b"2"),
        bucket.put("long", b"1"),
        bucket.put("long", b"2"),
        bucket.update("long", b"3", last=3),
        bucket.update("long", b"4", last=3),
        bucket.delete("long"),
        bucket.create("long", b"5"),
        bucket.create("long", b"6"),
        bucket.purge("long", msg_ttl=1.0),
        bucket.put("other", b""),
        bucket.delete("other", last=99),
        bucket.get("none"),
        bucket.get("long"),
    ):
        seen.append(await outcome(step))
    seen[-2:] = [entry if isinstance(entry, tuple) else shown(entry) for entry in seen[-2:]]
    seen.append(await until(watcher, ("other", None)))
    seen.append([shown(entry) for entry in await listed(lambda: bucket.history("other"))])
    seen.append(sorted(await listed(bucket.keys)))
    seen.append(await stored_when_short_has_gone(client, bucket))
    status = await bucket.status()
    seen.append((status.values, status.history, status.ttl))
    return seen


async def names(store: ObjectStore, count: int) -> list[str]:
    """The objects, and those that were deleted. nats-py's list may end before the last of them has come."""
    async with asyncio.timeout(EVENT_S):
        while True:
            with contextlib.suppress(NotFoundError):
                found = await store.list()
                if len(found) >= count:
                    return sorted(entry.name or "" for entry in found)


async def until_none(watcher: Any) -> list[Any]:
    heard = []
    while (entry := await watcher.updates(timeout=EVENT_S)) is not None:
        heard.append(shown(entry))
    return heard


async def listed(ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """What is there: something is. nats-server may tell nats-py that nothing is pending before it sends what was."""
    async with asyncio.timeout(EVENT_S):
        while True:
            with contextlib.suppress(NoKeysError):
                return await ask()


async def stored_when_short_has_gone(client: Client, bucket: KeyValue) -> list[Any]:
    """Markers come and go: in the end only `other` is left."""
    markers = await client.jetstream().stream_info("KV_B")
    assert markers.config.allow_msg_ttl
    async with asyncio.timeout(EVENT_S):
        while sorted(await listed(bucket.keys)) != ["other"] or (await bucket.status()).values > 1:
            await asyncio.sleep(0.05)
    return await stored(client, "KV_B")


async def markers(client: Client) -> list[Any]:
    """What a watcher hears when values expire."""
    js = client.jetstream()
    bucket = await js.create_key_value(KeyValueConfig(bucket="M", storage=StorageType.MEMORY, limit_marker_ttl=3600.0))
    watcher = await bucket.watchall()
    seen: list[Any] = [await until_none(watcher)]
    seen.append(await bucket.create("a", b"1", msg_ttl=1.0))
    seen.append(await until(watcher, ("a", "PURGE")))
    seen.append(await stored(client, "KV_M"))
    seen.append(await outcome(bucket.create("a", b"2")))
    seen.append(await bucket.put("a", b"2"))
    seen.append(await outcome(bucket.purge("a")))
    seen.append(await outcome(bucket.purge_deletes(olderthan=-1)))
    seen.append(await stored(client, "KV_M"))
    return seen


async def objects(client: Client) -> list[Any]:
    js = client.jetstream()
    store = await js.create_object_store("O")
    options = ObjectMetaOptions(max_chunk_size=1000)
    seen: list[Any] = []
    for name, data in (("small", b"x"), ("large", bytes(range(256)) * 40), ("empty", b""), ("small", b"again")):
        put = await store.put(name, data, meta=ObjectMeta(name=name, options=options))
        seen.append((put.name, put.size, put.chunks, put.digest))
        got = await store.get(name)
        seen.append(got.data == data)
    seen.append(await outcome(store.update_meta("small", ObjectMeta(name="renamed", description="d"))))
    seen.append(await names(store, 3))
    await store.delete("large")
    seen.append((await outcome(store.get("large")))[0])
    seen.append(await names(store, 3))
    status = await store.status()
    seen.append((status.size, status.sealed))
    await store.seal()
    seen.append((await store.status()).sealed)
    seen.append(await outcome(store.put("late", b"x")))
    info = await js.stream_info("OBJ_O")
    seen.append((info.state.messages, info.state.last_seq, info.state.num_deleted))
    return seen


@pytest.mark.parametrize("use", [key_value, markers, objects])
def test_clients_see_the_same(pair_of: Callable[[str], Pair], use: Callable[[Client], Awaitable[list[Any]]]) -> None:
    async def play(url: str) -> list[Any]:
        client = await nats.connect(url, allow_reconnect=False)
        try:
            await Probe(client).clear()
            return await use(client)
        finally:
            await client.close()

    async def both() -> list[list[Any]]:
        pair = pair_of(CONFIG)
        return list(await asyncio.gather(play(pair.reference.url), play(pair.broker.url)))

    theirs, ours = asyncio.run(both())
    for number, (expected, got) in enumerate(zip(theirs, ours, strict=True)):
        assert got == expected, number
