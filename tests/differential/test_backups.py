"""Backups and restores by nats-server and by jetbroker: each takes the other's archives, and refuses alike."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import nats
import pytest

from jetbroker.jetstream.backup.archive.highway import highway_hash
from tests.differential.conftest import Pair
from tests.support.backups import (
    Backup,
    archive_of,
    backup,
    begin_restore,
    key,
    meta_files,
    record,
    restore,
    send,
)
from tests.support.clients import settle
from tests.support.origins import Streams, connected

pytestmark = pytest.mark.differential

CONFIG = "port: -1\njetstream { store_dir: STORE }\n"
SECOND = 1_000_000_000
# of one server, or of the moment
OWN = {"ts", "last_active", "leader", "created", "id", "timestamp", "start", "end", "bytes", "client"}
STREAMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "small blocks": {"max_bytes": 2_000_000},
    "per subject": {"max_msgs_per_subject": 3, "allow_rollup_hdrs": True, "deny_delete": True},
    "packed": {"compression": "s2", "max_msgs": 200},
    "work queue": {"retention": "workqueue"},
    "interest": {"retention": "interest"},
    "settings": {"description": "texts", "metadata": {"a": "b"}, "max_age": 3600 * SECOND, "allow_msg_ttl": True,
                 "allow_direct": True, "allow_atomic": True, "discard": "new", "duplicate_window": 60 * SECOND,
                 "subject_transform": {"src": "s.t.*", "dest": "s.u.{{wildcard(1)}}"}},
}  # fmt: skip


@pytest.fixture
async def sides(pair_of: Callable[[str], Pair]) -> AsyncIterator[list[Streams]]:
    """nats-server and jetbroker, in this order, without streams."""
    pair = pair_of(CONFIG)
    async with connected(pair.reference.url) as reference, connected(pair.broker.url) as broker:
        found = [reference, broker]
        yield found
        for streams in found:
            for name in (await streams.api("STREAM.NAMES"))["streams"] or []:
                await streams.api(f"STREAM.DELETE.{name}")


async def fill(streams: Streams, **config: Any) -> None:
    """A stream with consumers that have messages in every state."""
    await streams.create("S", subjects=["s.>"], **config)
    consumers: dict[str, dict[str, Any]] = {
        "C": {"ack_policy": "explicit", "ack_wait": 600 * SECOND, "filter_subject": "s.c.>", "max_deliver": 5},
    }
    if config.get("retention", "limits") != "workqueue":
        consumers["ALL"] = {"ack_policy": "all", "ack_wait": 600 * SECOND}
        consumers["NONE"] = {"ack_policy": "none", "deliver_policy": "new"}
        consumers["PUSH"] = {"ack_policy": "explicit", "deliver_subject": "nobody", "deliver_policy": "last"}
    for name, consumer in consumers.items():
        answer = await streams.api(
            f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": {"durable_name": name, **consumer}}
        )
        assert "error" not in answer, answer
    jetstream = streams.client.jetstream()
    last = 0
    for number in range(300):
        headers = {"Nats-Msg-Id": str(number), "Empty": ""} if number % 3 == 0 else None
        kind = "c" if number % 2 else "t" if number % 5 else "u"
        payload = b"%d " % number * (number % 400)
        if number % 50 and number != 299:
            await streams.client.publish(f"s.{kind}.{number % 40}", payload, headers=headers)
            last += 1
        else:
            last = (await jetstream.publish(f"s.{kind}.{number % 40}", payload, headers=headers)).seq
    if not config.get("deny_delete"):
        for seq in (last, last - 50, last - 51, last - 120):
            await streams.api("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": seq % 2 == 0})
    bound = await jetstream.pull_subscribe_bind("C", "S")
    for number, message in enumerate(await bound.fetch(20, timeout=5)):
        if number in (0, 1, 5, 6):
            await message.ack_sync(timeout=30)
        elif number == 8:
            await message.nak()
        elif number == 9:
            await message.term()
    while (await bound.fetch(1, timeout=5))[0].metadata.num_delivered == 1:
        pass
    if "ALL" in consumers:
        bound = await jetstream.pull_subscribe_bind("ALL", "S")
        delivered = await bound.fetch(10, timeout=5)
        await delivered[4].ack_sync(timeout=30)


def told(value: Any) -> Any:
    """What both servers must say alike."""
    if isinstance(value, dict):
        return {key: told(entry) for key, entry in value.items() if key not in OWN}
    return [told(entry) for entry in value] if isinstance(value, list) else value


def same(found: Any, wanted: Any, where: str = "") -> None:
    """Where two values differ first."""
    if isinstance(wanted, dict) and isinstance(found, dict) and found.keys() == wanted.keys():
        for key in wanted:
            same(found[key], wanted[key], f"{where}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            same(one, other, f"{where}[{number}]")
    else:
        assert found == wanted, where


async def everything(streams: Streams) -> dict[str, Any]:
    info = await streams.api("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    names = (await streams.api("CONSUMER.NAMES.S"))["consumers"]
    consumers = [await streams.api(f"CONSUMER.INFO.S.{name}") for name in sorted(names)]
    for consumer in consumers:
        consumer.pop("push_bound", None)
    info["state"].pop("last_ts")  # lost with the last message, here
    return {
        "info": told(info),
        "created": info["created"],
        "consumers": [told(consumer) for consumer in consumers],
        "made": [consumer["created"] for consumer in consumers],
        "messages": await streams.content("S"),
    }


@pytest.mark.parametrize("kind", STREAMS)
async def test_each_server_restores_the_archive_of_the_other(sides: list[Streams], kind: str) -> None:
    for maker, taker in (sides, sides[::-1]):
        await fill(maker, **STREAMS[kind])
        before = await everything(maker)
        saved = await backup(maker, "S")
        answer = await restore(taker, saved.answer["config"], saved.archive)
        assert "error" not in answer, answer
        same(await everything(taker), before)
        # and back
        again = await backup(taker, "S", chunk_size=1024 * 1024, jsck=True)
        await maker.api("STREAM.DELETE.S")
        await restore(maker, again.answer["config"], again.archive)
        after = await everything(maker)
        if taker is sides[0]:  # nats-server's archive of a restored stream names the time of the restore
            after |= {"created": before["created"], "made": before["made"]}
        same(after, before)
        for streams in sides:
            await streams.api("STREAM.DELETE.S")


async def test_restored_consumers_go_on_alike(sides: list[Streams]) -> None:
    """Deliveries count on, floors move when what was pending is acked."""
    await fill(sides[0])
    saved = await backup(sides[0], "S")
    await sides[0].api("STREAM.DELETE.S")
    for streams in sides:
        config = saved.answer["config"]
        assert "error" not in await restore(streams, config, saved.archive)
    found = []
    for streams in sides:
        jetstream = streams.client.jetstream()
        bound = await jetstream.pull_subscribe_bind("C", "S")
        new = await bound.fetch(2, timeout=5)
        found.append([(each.subject, each.metadata.sequence, each.metadata.num_pending) for each in new])
        for message in new:
            await message.ack_sync(timeout=30)
        info = await streams.api("CONSUMER.INFO.S.C")
        found[-1] += [told(info)]
    assert found[0] == found[1]


async def answers(sides: list[Streams], subject: str, body: Any) -> list[dict[str, Any]]:
    async def ask(streams: Streams) -> dict[str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await streams.client.request(f"$JS.API.{subject}", data, timeout=10)
        found: dict[str, Any] = json.loads(reply.data)
        return found

    return [told(answer) for answer in await asyncio.gather(*(ask(streams) for streams in sides))]


REQUESTS: dict[str, tuple[str, Any]] = {
    "empty": ("STREAM.SNAPSHOT.S", b""),
    "nothing": ("STREAM.SNAPSHOT.S", {}),
    "no stream": ("STREAM.SNAPSHOT.NONE", {"deliver_subject": "d"}),
    "no JSON": ("STREAM.SNAPSHOT.S", b"{"),
    "wrong type": ("STREAM.SNAPSHOT.S", {"deliver_subject": 1}),
    "unknown field": ("STREAM.SNAPSHOT.S", {"deliver_subject": "d", "x": 1}),
    "no subject": ("STREAM.SNAPSHOT.S", {"jsck": True}),
    "wildcard": ("STREAM.SNAPSHOT.S", {"deliver_subject": "a.*"}),
    "empty token": ("STREAM.SNAPSHOT.S", {"deliver_subject": "a..b"}),
    "huge chunk": ("STREAM.SNAPSHOT.S", {"deliver_subject": "d", "chunk_size": 2**63}),
    "memory": ("STREAM.SNAPSHOT.M", {"deliver_subject": "d"}),
    "restore: empty": ("STREAM.RESTORE.R", b""),
    "restore: nothing": ("STREAM.RESTORE.R", {}),
    "restore: number": ("STREAM.RESTORE.R", b"1"),
    "restore: array": ("STREAM.RESTORE.R", b"[]"),
    "restore: other name": ("STREAM.RESTORE.R", {"config": {"name": "Q"}}),
    "restore: there": ("STREAM.RESTORE.S", {"config": {"name": "S"}}),
    "restore: bad retention": ("STREAM.RESTORE.R", {"config": {"name": "R", "retention": "x"}}),
    "restore: bad subject": ("STREAM.RESTORE.R", {"config": {"name": "R", "subjects": ["a..b"]}}),
    "restore: bad limit": ("STREAM.RESTORE.R", {"config": {"name": "R", "max_msgs": 2**63}}),
    "restore: replicas": ("STREAM.RESTORE.R", {"config": {"name": "R", "num_replicas": 9}}),
    "restore: unknown field": ("STREAM.RESTORE.R", {"config": {"name": "R"}, "x": 1}),
    "restore: path": ("STREAM.RESTORE.a/b", {"config": {"name": "a/b"}}),
    "restore: long name": (f"STREAM.RESTORE.{'n' * 256}", {"config": {}, "state": {}}),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_requests_are_refused_alike(sides: list[Streams], name: str) -> None:
    for streams in sides:
        await streams.create("S", subjects=["s.>"])
        await streams.create("M", subjects=["m.>"], storage="memory")
    reference, broker = await answers(sides, *REQUESTS[name])
    assert "error" in reference, reference
    assert broker == reference


def with_consumer(meta: bytes, *others: tuple[str, bytes]) -> list[tuple[str, bytes]]:
    """A stream's files and those of its consumer C."""
    return [*meta_files("S"), ("obs/C/meta.inf", meta), *((f"obs/C/{name}", data) for name, data in others)]


def with_sum(meta: bytes, state: bytes = b"") -> list[tuple[str, bytes]]:
    """The configuration is as it was written."""
    checksum = highway_hash(key("S/C"), meta).hex().encode()
    return with_consumer(meta, ("meta.sum", checksum), *([("o.dat", state)] if state else []))


EXPLICIT = b'{"durable_name": "C", "ack_policy": "explicit"}'
ARCHIVES: dict[str, bytes] = {
    "outside": archive_of([*meta_files("S"), ("../x", b"1")]),
    "other stream": archive_of(meta_files("T")),
    "no compression": b"no archive at all",
    "another version": b"\xff\x06\x00\x00S3tHree" + b"\x00" * 100,
    "another compression": gzip.compress(b"meta.inf" + b"\x00" * 1016),
    "encrypted": archive_of([("meta.inf", b"\x01" * 80), ("meta.key", b"\x02" * 76)]),
    "damaged": bytes(archive_of(meta_files("S"))[:60]) + b"\xff" * 30,
    "consumer without a sum": archive_of(with_consumer(b'{"durable_name": "C"}')),
    "consumer that cannot be": archive_of(with_sum(b'{"durable_name": "C", "max_deliver": 1, "backoff": [1, 2]}')),
    "consumer's damaged state": archive_of(with_sum(EXPLICIT, b"x")),
    "consumer's torn state": archive_of(with_sum(EXPLICIT, b"\x16\x02\x01")),
    "consumer's state of another version": archive_of(with_sum(EXPLICIT, b"\x16\x09" + b"\x01" * 20)),
}


@pytest.mark.parametrize("name", ARCHIVES)
async def test_archives_are_refused_alike(sides: list[Streams], name: str) -> None:
    """With the same code; nothing is left of them."""
    found = []
    for streams in sides:
        answer = await restore(streams, {"name": "S", "subjects": ["s.>"]}, ARCHIVES[name])
        assert (await streams.api("STREAM.INFO.S"))["error"]["err_code"] == 10059
        found.append((answer["type"], answer["error"]["code"], answer["error"]["err_code"]))
    assert found[0] == found[1]


async def heard(streams: Streams) -> list[Any]:
    """The advisories of a backup and a restore, in order of their kinds, and the last message of the backup.

    Of a stream that no other test makes: nats-server tells of a stream's end a moment after its answer.
    """
    own = await nats.connect(str(streams.client._server_pool[0].uri.geturl()))
    events: list[dict[str, Any]] = []

    async def take(message: Any) -> None:
        events.append(told({"subject": message.subject, **json.loads(message.data)}))

    await own.subscribe("$JS.EVENT.ADVISORY.STREAM.*.TOLD", cb=take)
    await settle(own)
    await streams.create("TOLD", subjects=["s.>"])
    await streams.publish("s.a", random.Random(1).randbytes(5000))
    saved: Backup = await backup(streams, "TOLD", chunk_size=1024)
    await streams.api("STREAM.DELETE.TOLD")
    answer = await restore(streams, saved.answer["config"], saved.archive)
    while len(events) < 7:
        await asyncio.sleep(0.01)
    await own.close()
    state = [event.pop("state", {}) for event in events]
    answer["state"].pop("first_ts"), answer["state"].pop("last_ts")
    stated = [{key: value for key, value in each.items() if not key.endswith("_ts")} for each in state]
    return [sorted(events, key=str), sorted(stated, key=str), told(answer), saved.end]


async def test_advisories_and_answers_are_alike(sides: list[Streams]) -> None:
    reference, broker = [await heard(streams) for streams in sides]
    assert broker == reference


async def test_an_archive_may_lack_its_index(sides: list[Streams]) -> None:
    """Records as nats-server writes them, in blocks of its numbers: both servers read the same out of them."""
    erased, tombstone = 1 << 63, 1 << 62
    archive = archive_of([
        *meta_files("S", subjects=["s.>"], retention="limits", storage="file", num_replicas=1, max_consumers=-1,
                    max_msgs=-1, max_bytes=-1, max_age=0, max_msgs_per_subject=-1, discard="old"),
        ("msgs/3.blk", b"".join([
            record("S", 3, 10, b"s.a", b"ten", time_ns=10**18),
            record("S", 3, 11, b"s.b", b"", b"NATS/1.0\r\nA: b\r\n\r\n", time_ns=10**18 + 5),
            record("S", 3, 12 | erased, time_ns=10**18 + 6),
            record("S", 3, 17, b"s.c", b"c", time_ns=10**18 + 7),
            record("S", 3, 18, b"s.d", b"d", time_ns=10**18 + 8),
        ])),
        ("msgs/9.blk", record("S", 9, 17 | tombstone, time_ns=10**18) + record("S", 9, 20, b"s.e", time_ns=10**18 + 9)),
    ])  # fmt: skip
    found = []
    for streams in sides:
        config = {"name": "S", "subjects": ["s.>"], "metadata": {"_nats.req.level": "0"}}
        subject = await begin_restore(streams, config)
        assert subject.startswith("$JS.SNAPSHOT.RESTORE.S.")
        await send(streams.client, subject, archive)
        found.append(await everything(streams))
    same(found[1], found[0])
