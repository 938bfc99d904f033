"""Object stores as nats-py uses them, against a broker process."""

from __future__ import annotations

import io
import os

import pytest
from nats.js import api
from nats.js.errors import APIError, BucketNotFoundError, NotFoundError, ObjectAlreadyExists, ObjectNotFoundError

from tests.conftest import Connect


async def test_put_get_info_delete(connect: Connect) -> None:
    js = (await connect()).jetstream()
    store = await js.create_object_store("FILES", config=api.ObjectStoreConfig(description="files"))
    data = os.urandom(700_000)
    meta = api.ObjectMeta(name="big", description="random", headers={"color": "red"})
    info = await store.put("big", data, meta=meta)
    assert (info.size, info.chunks, info.deleted) == (700_000, 6, False)
    found = await store.get("big")
    assert found.data == data
    assert found.info.description == "random"
    assert found.info.headers == {"color": "red"}
    await store.put("empty", b"")
    assert not (await store.get("empty")).data
    with pytest.raises(ObjectNotFoundError):
        await store.get("missing")
    target = io.BytesIO()
    await store.get("big", writeinto=target)
    assert target.getvalue() == data
    await store.delete("big")
    with pytest.raises(ObjectNotFoundError):
        await store.get_info("big")
    assert (await store.get_info("big", show_deleted=True)).deleted
    assert (await js.stream_info("OBJ_FILES", subjects_filter="$O.FILES.C.>")).state.subjects is None


async def test_replacing_an_object_drops_its_old_chunks(connect: Connect) -> None:
    js = (await connect()).jetstream()
    store = await js.create_object_store("REPLACE")
    await store.put("a", b"x" * 300_000)
    await store.put("a", b"y" * 10)
    assert (await store.get("a")).data == b"y" * 10
    assert (await js.stream_info("OBJ_REPLACE")).state.messages == 2


async def test_list_and_watch(connect: Connect) -> None:
    js = (await connect()).jetstream()
    store = await js.create_object_store("LIST")
    with pytest.raises(NotFoundError):
        await store.list()
    watcher = await store.watch()
    assert await watcher.updates() is None
    for name in ("one", "two", "three"):
        await store.put(name, name.encode())
    assert [(await watcher.updates()).name for _ in range(3)] == ["one", "two", "three"]
    await store.delete("two")
    gone = await watcher.updates()
    assert (gone.name, gone.deleted) == ("two", True)
    await watcher.stop()
    assert [info.name for info in await store.list(ignore_deletes=True)] == ["one", "three"]
    assert sorted(info.name for info in await store.list()) == ["one", "three", "two"]
    fresh = await store.watch(updates_only=True)
    await store.put("four", b"4")
    assert (await fresh.updates()).name == "four"
    await fresh.stop()


async def test_changing_names_and_descriptions(connect: Connect) -> None:
    js = (await connect()).jetstream()
    store = await js.create_object_store("META")
    await store.put("a", b"1")
    await store.put("b", b"2")
    await store.update_meta("a", api.ObjectMeta(name="a", description="first"))
    assert (await store.get_info("a")).description == "first"
    with pytest.raises(ObjectAlreadyExists):
        await store.update_meta("a", api.ObjectMeta(name="b"))


async def test_sealed_store_takes_nothing(connect: Connect) -> None:
    js = (await connect()).jetstream()
    store = await js.create_object_store("SEALED")
    await store.put("a", b"1")
    await store.seal()
    status = await store.status()
    assert (status.sealed, status.bucket) == (True, "SEALED")
    with pytest.raises(APIError) as caught:
        await store.put("b", b"2")
    assert caught.value.err_code == 10109
    assert (await store.get("a")).data == b"1"


async def test_status_and_bucket_life(connect: Connect) -> None:
    js = (await connect()).jetstream()
    config = api.ObjectStoreConfig(ttl=3600, max_bytes=1_000_000, storage=api.StorageType.MEMORY, description="d")
    store = await js.create_object_store("LIFE", config=config)
    await store.put("a", b"12345")
    status = await (await js.object_store("LIFE")).status()
    assert (status.description, status.ttl, status.storage_type) == ("d", 3600, "memory")
    assert status.size > 5
    with pytest.raises(APIError) as caught:
        await store.put("big", b"x" * 2_000_000)
    assert caught.value.err_code == 10077
    assert await js.delete_object_store("LIFE")
    with pytest.raises(BucketNotFoundError):
        await js.object_store("LIFE")
