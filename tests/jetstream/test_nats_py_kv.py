"""Key-value buckets as nats-py uses them, against a broker process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js import api
from nats.js.errors import (
    BucketNotFoundError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NoKeysError,
    NotFoundError,
)

from tests.conftest import Connect
from tests.support import process

WAIT_S = 30.0  # for what comes by itself


async def entries_of(watcher: Any) -> list[tuple[str, bytes | None, str | None]]:
    """Key, value and operation of what a watcher shows up to its "all caught up"."""
    found = []
    while (entry := await watcher.updates()) is not None:
        found.append((entry.key, entry.value, entry.operation))
    return found


async def test_put_get_create_update_delete_purge(connect: Connect) -> None:
    js = (await connect()).jetstream()
    kv = await js.create_key_value(bucket="VALUES", history=5)
    assert await kv.put("a", b"1") == 1
    assert await kv.put("a", b"2") == 2
    entry = await kv.get("a")
    assert (entry.key, entry.value, entry.revision, entry.bucket) == ("a", b"2", 2, "VALUES")
    assert (await kv.get("a", revision=1)).value == b"1"
    assert await kv.update("a", b"3", last=2) == 3
    with pytest.raises(KeyWrongLastSequenceError):
        await kv.update("a", b"4", last=2)
    with pytest.raises(KeyWrongLastSequenceError):
        await kv.create("a", b"4")
    assert await kv.create("b", b"new") == 4
    with pytest.raises(KeyNotFoundError):
        await kv.get("missing")
    await kv.delete("a")
    with pytest.raises(KeyNotFoundError):
        await kv.get("a")
    assert await kv.create("a", b"again") == 6
    await kv.purge("a")
    with pytest.raises(KeyNotFoundError):
        await kv.get("a")
    with pytest.raises(nats.js.errors.BadRequestError) as caught:
        await kv.delete("b", last=99)
    assert caught.value.err_code == 10071


async def test_keys_and_history(connect: Connect) -> None:
    js = (await connect()).jetstream()
    kv = await js.create_key_value(bucket="HISTORY", history=3)
    with pytest.raises(NoKeysError):
        await kv.keys()
    for number in range(5):
        await kv.put("t.age", b"%d" % number)
        await kv.put("t.name", b"n")
    await kv.put("other", b"o")
    await kv.delete("t.name")
    assert sorted(await kv.keys()) == ["other", "t.age"]
    assert await kv.keys(filters=["t."]) == ["t.age"]
    history = await kv.history("t.age")
    assert [(entry.value, entry.operation) for entry in history] == [(b"2", None), (b"3", None), (b"4", None)]
    assert [entry.revision for entry in history] == [5, 7, 9]
    assert [entry.operation for entry in await kv.history("t.name")] == [None, None, "DEL"]
    await kv.purge("t.age")
    assert [entry.operation for entry in await kv.history("t.age")] == ["PURGE"]
    await kv.purge_deletes(olderthan=-1)
    with pytest.raises(KeyNotFoundError):
        await kv.get("t.age")


async def test_watchers(connect: Connect) -> None:
    js = (await connect()).jetstream()
    kv = await js.create_key_value(bucket="WATCH", history=4)
    everything = await kv.watchall()
    assert await everything.updates() is None
    await kv.put("x.1", b"a")
    await kv.put("x.1", b"b")
    await kv.put("y.1", b"c")
    await kv.delete("y.1")
    seen = [await everything.updates() for _ in range(4)]
    assert [(entry.key, entry.value, entry.operation) for entry in seen] == [
        ("x.1", b"a", None), ("x.1", b"b", None), ("y.1", b"c", None), ("y.1", b"", "DEL"),
    ]  # fmt: skip
    assert await entries_of(await kv.watch("x.*")) == [("x.1", b"b", None)]
    assert await entries_of(await kv.watch("x.*", include_history=True)) == [("x.1", b"a", None), ("x.1", b"b", None)]
    assert await entries_of(await kv.watchall(ignore_deletes=True)) == [("x.1", b"b", None)]
    assert await entries_of(await kv.watchall(meta_only=True)) == [("x.1", b"", None), ("y.1", b"", "DEL")]
    await everything.stop()
    assert [entry async for entry in everything] == []


async def test_status_and_bucket_life(connect: Connect) -> None:
    js = (await connect()).jetstream()
    config = api.KeyValueConfig(
        bucket="STATUS", history=7, ttl=3600, max_bytes=100_000, max_value_size=64, storage=api.StorageType.MEMORY,
        description="settings", limit_marker_ttl=5, direct=True,
    )  # fmt: skip
    kv = await js.create_key_value(config)
    await kv.put("a", b"1")
    status = await kv.status()
    assert (status.bucket, status.values, status.history, status.ttl, status.marker_ttl) == ("STATUS", 1, 7, 3600, 5)
    stored = status.stream_info.config
    assert (stored.name, stored.subjects, stored.max_msg_size) == ("KV_STATUS", ["$KV.STATUS.>"], 64)
    assert (stored.allow_msg_ttl, stored.allow_direct, stored.deny_delete) == (True, True, True)
    assert (await (await js.key_value("STATUS")).get("a")).value == b"1"
    with pytest.raises(nats.js.errors.APIError) as caught:
        await kv.put("a", b"x" * 65)
    assert caught.value.err_code == 10054
    assert await js.delete_key_value("STATUS")
    with pytest.raises(BucketNotFoundError):
        await js.key_value("STATUS")
    with pytest.raises(NotFoundError):
        await js.stream_info("KV_STATUS")


async def test_values_expire_by_their_own_ttl(connect: Connect) -> None:
    """Without marker TTL a key goes silently, as in nats-server; a newer value outlives the older one's end."""
    js = (await connect()).jetstream()
    kv = await js.create_key_value(bucket="TTL", history=2)
    started = time.monotonic()
    await kv.create("short", b"1", msg_ttl=1)
    await kv.create("renewed", b"1", msg_ttl=1)
    await kv.put("renewed", b"2")
    await kv.put("kept", b"k")
    await kv.purge("gone", msg_ttl=1)
    while "short" in await kv.keys():
        assert time.monotonic() - started < WAIT_S
    assert time.monotonic() - started > 0.9
    assert sorted(await kv.keys()) == ["kept", "renewed"]
    with pytest.raises(KeyNotFoundError):
        await kv.get("short")
    while len(await kv.history("renewed")) > 1:  # the older value goes a little later than the other key
        assert time.monotonic() - started < WAIT_S
    assert [entry.value for entry in await kv.history("renewed")] == [b"2"]
    with pytest.raises(KeyNotFoundError):
        await kv.get("gone")
    assert await kv.create("short", b"once more")


async def test_watchers_see_expiry_as_purge(connect: Connect) -> None:
    js = (await connect()).jetstream()
    kv = await js.create_key_value(api.KeyValueConfig(bucket="MARKED", limit_marker_ttl=1))
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    started = time.monotonic()
    await kv.create("a", b"1", msg_ttl=1)
    assert (await watcher.updates()).value == b"1"
    marker = await watcher.updates()
    assert time.monotonic() - started > 0.9
    assert (marker.key, marker.value, marker.operation) == ("a", b"", "PURGE")
    raw = await js.get_msg("KV_MARKED", seq=marker.revision)
    assert raw.headers == {"Nats-Marker-Reason": "MaxAge", "Nats-TTL": "1s", "Nats-Rollup": "sub"}
    while (await js.stream_info("KV_MARKED")).state.messages:
        assert time.monotonic() - started < WAIT_S
    assert time.monotonic() - started > 1.9
    assert await kv.create("a", b"2")


async def test_max_age_leaves_markers(connect: Connect) -> None:
    js = (await connect()).jetstream()
    kv = await js.create_key_value(api.KeyValueConfig(bucket="AGED", ttl=1, limit_marker_ttl=30))
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    await kv.put("a", b"1")
    await kv.put("b", b"2")
    seen = [await watcher.updates() for _ in range(4)]
    assert [(entry.key, entry.operation) for entry in seen] == [
        ("a", None), ("b", None), ("a", "PURGE"), ("b", "PURGE")
    ]  # fmt: skip


@pytest.mark.parametrize("storage", [api.StorageType.FILE, api.StorageType.MEMORY])
async def test_many_concurrent_updates_of_one_counter(connect: Connect, storage: api.StorageType) -> None:
    """Compare and swap: of all who saw the same revision exactly one wins."""
    js = (await connect()).jetstream()
    kv = await js.create_key_value(bucket=f"CAS_{storage.value}", storage=storage)
    await kv.create("n", b"0")

    async def count(times: int) -> None:
        while times:
            entry = await kv.get("n")
            try:
                await kv.update("n", b"%d" % (int(entry.value or b"0") + 1), last=entry.revision)
            except KeyWrongLastSequenceError:
                continue
            times -= 1

    await asyncio.gather(*(count(20) for _ in range(5)))
    assert (await kv.get("n")).value == b"100"


async def test_ttls_survive_a_kill(tmp_path: Path) -> None:
    """What is due while the broker is down is gone when it is back, and leaves its marker; the rest keeps its time."""
    store = tmp_path / "store"
    with process.jetbroker("-js", "-sd", str(store)) as broker:
        client = await nats.connect(broker.url, allow_reconnect=False)
        kv = await client.jetstream().create_key_value(api.KeyValueConfig(bucket="K", limit_marker_ttl=60))
        plain = await client.jetstream().create_key_value(bucket="P")
        started = time.monotonic()
        for number in range(50):
            await plain.create(f"soon.{number}", b"x", msg_ttl=1)
            await plain.create(f"later.{number}", b"x", msg_ttl=4)
            await plain.put(f"plain.{number}", b"x")
        await kv.create("marked", b"x", msg_ttl=60)
        made = time.monotonic()
        broker.kill()
        await client.close()
    await asyncio.sleep(max(0.0, made + 1.5 - time.monotonic()))  # the broker is down: only the clock goes on
    with process.jetbroker("-js", "-sd", str(store)) as broker:
        client = await nats.connect(broker.url, allow_reconnect=False)
        plain = await client.jetstream().key_value("P")
        keys = await plain.keys()
        assert {key.split(".")[0] for key in keys} <= {"later", "plain"}
        while any(key.startswith("later") for key in await plain.keys()):
            assert time.monotonic() - started < WAIT_S
        assert len(await plain.keys()) == 50
        assert time.monotonic() - started > 4
        assert (await (await client.jetstream().key_value("K")).get("marked")).value == b"x"
        await client.close()
