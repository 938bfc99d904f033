"""Backup and restore: a stream goes out as an archive and comes back as it was, whole or not at all."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.aio.msg import Msg

from jetbroker import limits
from jetbroker.config.options import AccountJetStreamOptions
from jetbroker.errors import StorageError
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.backup import snapshot
from jetbroker.jetstream.backup.archive.blocks import ArchiveError
from jetbroker.jetstream.backup.archive.tar import Begin, TarReader
from jetbroker.jetstream.backup.restore import Restore
from jetbroker.jetstream.host.advisories import Advisories
from jetbroker.jetstream.host.host import Host
from jetbroker.jetstream.models.config import StreamConfig
from jetbroker.jetstream.models.contracts import ServerInfo
from jetbroker.jetstream.models.stream_config import check_stream_config
from jetbroker.jetstream.timing.work_turns import WorkTurns
from jetbroker.logs.logger import Logger
from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.store.store import Store
from jetbroker.tick import Tick
from jetbroker.turns import at_once
from tests.support import process
from tests.support.backups import (
    ERASED,
    TOMBSTONE,
    archive_of,
    backup,
    begin_restore,
    consumer_files,
    meta_files,
    record,
    restore,
    send,
)
from tests.support.clients import settle
from tests.support.origins import Streams, connected

S: dict[str, Any] = {"name": "S", "subjects": ["s.>"]}


@pytest.fixture
async def events(streams: Streams) -> AsyncIterator[asyncio.Queue[dict[str, Any]]]:
    """Advisories of backups and restores, as they come."""
    found: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def take(message: Msg) -> None:
        advisory = json.loads(message.data)
        if "snapshot" in advisory["type"] or "restore" in advisory["type"]:
            found.put_nowait(advisory)

    subscription = await streams.client.subscribe("$JS.EVENT.ADVISORY.STREAM.>", cb=take)
    yield found
    await subscription.unsubscribe()


async def filled(streams: Streams, messages: int = 300) -> dict[str, Any]:
    """A stream with headers, gaps and a consumer that has delivered, acked and given up something."""
    await streams.create(**S)
    for number in range(messages):
        await streams.client.publish(f"s.{number % 7}", b"payload %d " % number * 20, headers={"N": str(number)})
    await streams.until_last("S", messages)
    for seq in (1, 40, messages):
        await streams.api("STREAM.MSG.DELETE.S", {"seq": seq})
    consumer = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 60_000_000_000, "filter_subject": "s.>"}
    await streams.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": consumer})
    jetstream = streams.client.jetstream()
    bound = await jetstream.pull_subscribe_bind("C", "S")
    for number, message in enumerate(await bound.fetch(30)):
        if number % 3:
            await message.ack_sync(timeout=30)
    return await streams.api("STREAM.INFO.S")


def shown(info: dict[str, Any]) -> dict[str, Any]:
    """What must be the same after a restore."""
    state = {k: v for k, v in info["state"].items() if k not in ("last_ts", "consumer_count")}
    return {"config": info["config"], "state": state, "created": info["created"]}


async def test_a_stream_comes_back_with_its_consumer(streams: Streams, events: asyncio.Queue[dict[str, Any]]) -> None:
    before = await filled(streams)
    messages = await streams.content("S")
    consumer = await streams.api("CONSUMER.INFO.S.C")
    saved = await backup(streams, "S", chunk_size=1024, window_size=4096)
    assert saved.answer["config"]["name"] == "S"
    assert saved.answer["state"]["messages"] == before["state"]["messages"]
    assert set(saved.chunks[:-1]) == {1024}
    assert list(saved.files)[:2] == ["meta.inf", "meta.sum"]
    assert {"obs/C/meta.inf", "obs/C/meta.sum", "obs/C/o.dat", "msgs/1.blk"} <= set(saved.files)
    await streams.api("STREAM.DELETE.S")
    answer = await restore(streams, saved.answer["config"], saved.archive)
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert shown(answer) == shown(before)
    assert await streams.content("S") == messages
    after = await streams.api("CONSUMER.INFO.S.C")
    for part in ("delivered", "ack_floor"):
        consumer[part].pop("last_active")
    for name in ("config", "created", "delivered", "ack_floor", "num_ack_pending", "num_redelivered", "num_pending"):
        assert after[name] == consumer[name], name
    kinds = [(await events.get())["type"].rsplit(".", 1)[1] for _ in range(4)]
    assert kinds == ["snapshot_create", "snapshot_complete", "restore_create", "restore_complete"]


async def test_a_restored_stream_survives_a_kill_and_goes_on(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            before = await filled(streams)
            saved = await backup(streams, "S")
            await streams.api("STREAM.DELETE.S")
            assert "error" not in await restore(streams, saved.answer["config"], saved.archive)
            messages = await streams.content("S")
            consumer = await streams.api("CONSUMER.INFO.S.C")
        server.kill()
        server.start()
        async with connected(server.url) as streams:
            assert shown(await streams.api("STREAM.INFO.S")) == shown(before)
            assert await streams.content("S") == messages
            after = await streams.api("CONSUMER.INFO.S.C")
            assert (after["num_ack_pending"], after["ack_floor"]) == (
                consumer["num_ack_pending"],
                consumer["ack_floor"],
            )
            await streams.publish("s.new", "goes on")
            assert (await streams.api("STREAM.INFO.S"))["state"]["last_seq"] == before["state"]["last_seq"] + 1


async def test_a_backup_ends_at_the_sequence_where_it_began(streams: Streams) -> None:
    """Publishing goes on while the archive is made: 12 MB in chunks that are answered one at a time."""
    await streams.create(**S)
    for _ in range(200):
        await streams.client.publish("s.a", b"x" * 60_000)
    await streams.until_last("S", 200)
    published = 0

    async def publish() -> None:
        nonlocal published
        while True:
            await streams.publish("s.late", "later")
            published += 1

    publisher = asyncio.create_task(publish())
    saved = await backup(streams, "S", chunk_size=1024, window_size=1024)
    publisher.cancel()
    assert published
    last = saved.answer["state"]["last_seq"]
    await streams.api("STREAM.DELETE.S")
    answer = await restore(streams, saved.answer["config"], saved.archive)
    assert answer["state"]["last_seq"] == last
    assert answer["state"]["messages"] == saved.answer["state"]["messages"]


async def test_a_message_that_is_deleted_during_a_backup_is_not_in_it(streams: Streams) -> None:
    """The answer tells what there is when the backup begins; the archive has what is left when the walk comes by."""
    await streams.create(**S)
    for _ in range(200):
        await streams.client.publish("s.a", b"x" * 60_000)
    await streams.until_last("S", 200)
    inbox = streams.client.new_inbox()
    chunks = await streams.client.subscribe(inbox)
    request = {"deliver_subject": inbox, "chunk_size": 1024, "window_size": 1024}
    answer = await streams.api("STREAM.SNAPSHOT.S", request)
    pieces = [await chunks.next_msg(timeout=30)]
    for seq in range(190, 196):  # the walk waits for an answer, some megabytes in front of them
        await streams.api("STREAM.MSG.DELETE.S", {"seq": seq})
    while pieces[-1].data:
        if pieces[-1].reply:
            await streams.client.publish(pieces[-1].reply)
        pieces.append(await chunks.next_msg(timeout=30))
    assert answer["state"]["messages"] == 200
    await streams.api("STREAM.DELETE.S")
    state = (await restore(streams, answer["config"], b"".join(piece.data for piece in pieces)))["state"]
    assert (state["first_seq"], state["last_seq"], state["messages"]) == (1, 200, 194)
    assert await streams.message("S", 190) is None


async def test_a_message_that_is_damaged_on_disk_is_found_and_left_out(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{\n  store_dir: "{tmp_path}"\n  sync_interval: "2m"\n}}\n')
    with process.jetbroker("-c", str(config)) as server:
        async with connected(server.url) as streams:
            await streams.create(**S)
            for number in range(200):
                await streams.client.publish("s.a", b"payload %d " % number * 3000)
            await streams.until_last("S", 200)
            (segment,) = tmp_path.glob("**/*.seg")
            with segment.open("r+b") as file:
                file.seek(segment.read_bytes().index(b"payload 150 payload") + 10_000)
                file.write(b"!")
            answer = (await backup(streams, "S", jsck=True)).answer
            assert answer["error"]["err_code"] == 10064
            assert "detected 1 bad messages" in answer["error"]["description"]
            saved = await backup(streams, "S")
            await streams.api("STREAM.DELETE.S")
            state = (await restore(streams, saved.answer["config"], saved.archive))["state"]
            assert (state["last_seq"], state["messages"]) == (200, 199)
            assert await streams.message("S", 151) is None
            assert await streams.message("S", 152) is not None


async def test_consumers_can_be_left_out(streams: Streams) -> None:
    await filled(streams, 10)
    saved = await backup(streams, "S", no_consumers=True, jsck=True)
    assert not [name for name in saved.files if name.startswith("obs/")]


@pytest.mark.parametrize("first_seq", [0, 5000])
async def test_an_empty_stream_keeps_its_sequence(streams: Streams, first_seq: int) -> None:
    await streams.create(**S, first_seq=first_seq)
    if not first_seq:
        await streams.publish("s.a", "1", "2", "3")
        await streams.api("STREAM.PURGE.S")
    before = await streams.api("STREAM.INFO.S")
    saved = await backup(streams, "S")
    await streams.api("STREAM.DELETE.S")
    assert shown(await restore(streams, saved.answer["config"], saved.archive)) == shown(before)
    assert (await streams.api("STREAM.INFO.S"))["state"]["last_seq"] == before["state"]["last_seq"]


async def test_only_one_backup_of_a_stream_at_a_time_and_none_of_memory(streams: Streams) -> None:
    await filled(streams, 300)
    inbox = streams.client.new_inbox()
    subscription = await streams.client.subscribe(inbox)  # it answers nothing
    first = await streams.api("STREAM.SNAPSHOT.S", {"deliver_subject": inbox, "chunk_size": 1024, "window_size": 1024})
    assert "error" not in first
    second = await backup(streams, "S")
    assert second.answer["error"]["err_code"] == 10064
    assert second.answer["error"]["description"] == "snapshot failed: snapshot in progress"
    await subscription.unsubscribe()  # "No Interest": the first one ends
    while "error" in (await backup(streams, "S")).answer:
        await asyncio.sleep(0.02)
    await streams.create("M", subjects=["m"], storage="memory")
    assert (await backup(streams, "M")).answer["error"]["description"] == "snapshot failed: no impl"


async def test_a_receiver_that_leaves_is_noticed(streams: Streams) -> None:
    await filled(streams, 300)
    inbox = streams.client.new_inbox()
    got: asyncio.Queue[Msg] = asyncio.Queue()

    async def take(message: Msg) -> None:
        got.put_nowait(message)

    subscription = await streams.client.subscribe(inbox, cb=take)
    await streams.api("STREAM.SNAPSHOT.S", {"deliver_subject": inbox, "chunk_size": 1024, "window_size": 1024})
    message = await asyncio.wait_for(got.get(), 30)
    assert message.reply.split(".")[:4] == ["$JS", "SNAPSHOT", "ACK", "S"]
    assert message.reply.split(".")[5:] == ["1024", "1"]
    assert got.empty()  # one chunk is the whole window
    await subscription.unsubscribe()
    await settle(streams.client)


# --- archives that were made by somebody else ---


def blocks(*records: bytes) -> list[tuple[str, bytes]]:
    return [("msgs/1.blk", b"".join(records))]


async def refused(streams: Streams, archive: bytes, config: dict[str, Any] = S) -> str:
    """Why an archive is not taken; nothing of it is there then."""
    answer = await restore(streams, config, archive)
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    error = answer["error"]
    assert (await streams.api(f"STREAM.INFO.{config['name']}"))["error"]["err_code"] == 10059
    return f"{error['err_code']} {error['description']}"


async def test_records_are_read_as_nats_server_reads_them(streams: Streams) -> None:
    """Gaps, erased messages, tombstones in later blocks, sequences that go back."""
    archive = archive_of([
        *meta_files("S"),
        ("msgs/1.blk", b"".join([
            record("S", 1, 10, b"s.a", b"ten", time_ns=1_000_000_000),
            record("S", 1, 11, b"s.b", b"eleven", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n", time_ns=2_000_000_000),
            record("S", 1, 9, b"s.old", b"behind"),
            record("S", 1, 12 | ERASED, time_ns=3_000_000_000),
            record("S", 1, 200_000, b"s.far", b"", time_ns=4_000_000_000),
        ])),
        ("msgs/3.blk", record("S", 3, 10 | TOMBSTONE) + record("S", 3, 200_005 | TOMBSTONE)),
        ("msgs/index.db", b"not looked at"),
        ("something/else", b"nor this"),
    ])  # fmt: skip
    answer = await restore(streams, S, archive, chunk=7)
    assert answer["created"] == "2024-05-06T07:08:09.123456789Z"
    state = answer["state"]
    assert (state["first_seq"], state["last_seq"], state["messages"]) == (11, 200_005, 2)
    found = [await streams.message("S", seq) for seq in (11, 200_000)]
    assert [(each["subject"], each["data"], each["time"]) for each in found if each] == [
        ("s.b", b"eleven", "1970-01-01T00:00:02Z"),
        ("s.far", b"", "1970-01-01T00:00:04Z"),
    ]
    duplicate = await streams.client.request("s.b", b"x", headers={"Nats-Msg-Id": "1"}, timeout=30)
    assert json.loads(duplicate.data)["seq"] == 200_006  # it was stored longer ago than the window


def member(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


DAMAGED = bytearray(record("S", 1, 1, b"s.a", b"damaged"))
DAMAGED[25] ^= 1
# version 1; 262,145 messages are pending, all of them the same
MANY_PENDING = bytes([22, 1, 1, 1, 0, 0, 0x81, 0x80, 0x10]) + bytes(2 * 262_145 + 2)
FOREIGN = "10062 restore failed: unexpected content (account=$G)"
HOSTILE: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "10062 restore failed: open meta.inf: no such file or directory"),
    "outside": ([*meta_files("S"), ("../x", b"1")], FOREIGN),
    "deep outside": ([*meta_files("S"), ("msgs/../../x", b"1")], FOREIGN),
    "absolute": ([*meta_files("S"), ("/etc/passwd", b"1")], FOREIGN),
    "link": ([*meta_files("S"), member("msgs/1.blk", tarfile.SYMTYPE, "/etc/passwd")], FOREIGN),
    "hard link": ([member("meta.inf", tarfile.LNKTYPE, "x")], FOREIGN),
    "folder": ([member("msgs", tarfile.DIRTYPE)], FOREIGN),
    "device": ([member("dev", tarfile.CHRTYPE)], FOREIGN),
    "consumer's long name": ([*meta_files("S"), (f"obs/{'c' * 256}/meta.inf", b"{}")], FOREIGN),
    "consumer's name": ([*meta_files("S"), ("obs/a b/meta.inf", b"{}")], FOREIGN),
    "other stream": (meta_files("T"), "10062 restore failed: stream names do not match"),
    "no JSON": ([("meta.inf", b"{")], "10062 restore failed: unexpected EOF"),
    "wrong sum": ([meta_files("S")[0], ("meta.sum", b"0")],
                  "10062 restore failed: meta.inf does not match its checksum"),
    "not whole": ([*meta_files("S"), ("errors.txt", b"block 7")],
                  "10062 restore failed: the archive is not whole: block 7"),
    "damaged record": ([*meta_files("S"), *blocks(bytes(DAMAGED))], "10062 restore failed: message block 1 is damaged"),
    "another block's": ([*meta_files("S"), *blocks(record("S", 2, 1, b"s"))],
                        "10062 restore failed: message block 1 is damaged"),
    "torn record": ([*meta_files("S"), *blocks(record("S", 1, 1, b"s", b"torn")[:-3])],
                    "10062 restore failed: message block 1 ends in a record"),
    "no subject": ([*meta_files("S"), *blocks(record("S", 1, 1, b"", b"x"))],
                   "10062 restore failed: message 1 has no valid subject"),
    "two lines": ([*meta_files("S"), *blocks(record("S", 1, 1, b"s 1\r\nPUB", b"x"))],
                  "10062 restore failed: message 1 has no valid subject"),
    "wildcard": ([*meta_files("S"), *blocks(record("S", 1, 1, b"s.>", b"x"))],
                 "10062 restore failed: message 1 has no valid subject"),
    "headers too long": ([*meta_files("S"), *blocks(record("S", 1, 1, b"s", b"", b"h", headers_len=2))],
                         "10062 restore failed: message block 1 is damaged"),
    "far sequence": ([*meta_files("S"), *blocks(record("S", 1, ERASED | 2**62 | 1))],
                     "10062 restore failed: sequence "),
    "blocks turned round": ([*meta_files("S"), ("msgs/2.blk", b""), ("msgs/1.blk", b"")],
                            "10062 restore failed: message block 1 is out of order"),
    "large document": ([("meta.inf", b" " * (1 << 20) + b"{}")], "10062 restore failed: meta.inf is too large"),
    "consumer without sum": ([*meta_files("S"), ("obs/C/meta.inf", b"{}")],
                             '10062 restore failed: error restoring consumer ["C"]: no such file or directory'),
    "consumer's state": ([*meta_files("S"), ("obs/C/meta.inf", b"{}"), ("obs/C/meta.sum", b""), ("obs/C/o.dat", b"x")],
                         '10062 restore failed: error restoring consumer ["C"]: meta.inf does not match'),
    "consumer's positions": ([*meta_files("S"), *consumer_files("S", "C", bytes([22, 2, 5, 5, 3, 3, 0, 0]))],
                             '10062 restore failed: error restoring consumer ["C"]: consumer positions 3, 3, 5, 5'),
    "more pending than there is": ([*meta_files("S"), *consumer_files("S", "C", MANY_PENDING)],
                                   '10062 restore failed: error restoring consumer ["C"]: corrupt state file'),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_is_no_archive_of_the_stream_is_refused(streams: Streams, name: str) -> None:
    files, why = HOSTILE[name]
    assert (await refused(streams, archive_of(files))).startswith(why)


def test_an_archive_of_a_million_files_is_refused_at_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JS_ARCHIVE_MEMBERS", 10_240)
    block = tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT) * 128
    reader, read = TarReader(), 0
    with pytest.raises(ArchiveError, match="more than 10240 files"):
        for _ in range(1_000_000 // 128):
            read += sum(isinstance(part, Begin) for part in reader.read(block))
    assert read == 10_240


async def test_a_damaged_or_torn_stream_of_chunks_is_refused(streams: Streams) -> None:
    await filled(streams)
    saved = await backup(streams, "S")
    await streams.api("STREAM.DELETE.S")
    damaged = bytearray(saved.archive)
    damaged[len(damaged) // 2] ^= 1
    assert await refused(streams, bytes(damaged)) == "10062 restore failed: s2: corrupt input"
    assert await refused(streams, saved.archive[: len(saved.archive) // 2]) == "10062 restore failed: unexpected EOF"
    assert await refused(streams, b"plain text, not compressed") == "10062 restore failed: s2: corrupt input"


async def test_a_restored_stream_says_no_more_of_its_api_level_than_before(streams: Streams) -> None:
    """Its next update says it; whoever asks for the same stream and the same consumer again gets them as they are."""
    dynamic = {"_nats.ver", "_nats.level"}
    config = {"durable_name": "C", "ack_policy": "explicit"}
    archive = archive_of([*meta_files("S"), *consumer_files("S", "C", b"")])
    answer = await restore(streams, S, archive)
    assert set(answer["config"]["metadata"]) == dynamic
    asked = {"stream_name": "S", "config": config, "action": "create"}
    for subject, body in (("STREAM.CREATE.S", S), ("CONSUMER.CREATE.S.C", asked)):
        again = await streams.api(subject, body)
        assert set(again["config"]["metadata"]) == dynamic
    updated = await streams.update(**S)
    assert set(updated["config"]["metadata"]) == dynamic | {"_nats.req.level"}


async def test_requests_that_cannot_lead_to_a_stream_are_refused_at_once(streams: Streams) -> None:
    async def code(name: str, body: Any) -> int:
        error = (await streams.api(f"STREAM.RESTORE.{name}", body))["error"]
        return int(error["err_code"])

    await streams.create(**S)
    assert await code("S", {"config": S}) == 10130
    assert await code("T", {"config": S}) == 10056
    assert await code("T", {}) == 10003
    assert await code("T", {"config": {"name": "T", "subjects": ["s.1"]}}) == 10065
    assert await code("T", {"config": {"name": "T", "storage": "memory"}}) == 10062
    assert await code("T", {"config": {"name": "T", "unknown": 1}}) == 10025
    assert (await backup(streams, "X")).answer["error"]["err_code"] == 10059
    bad = await streams.api("STREAM.SNAPSHOT.S", {"deliver_subject": "a.*"})
    assert bad["error"]["err_code"] == 10015


async def test_a_name_that_is_taken_meanwhile_stays_who_took_it(streams: Streams) -> None:
    subject = await begin_restore(streams, S)
    await streams.create("S", subjects=["other"])
    answer = await send(streams.client, subject, archive_of([*meta_files("S"), *blocks(record("S", 1, 1, b"s.a"))]))
    assert answer["error"]["err_code"] == 10130
    info = await streams.api("STREAM.INFO.S")
    assert (info["config"]["subjects"], info["state"]["messages"]) == (["other"], 0)


async def test_chunks_need_an_answer_to_go_to(streams: Streams) -> None:
    subject = await begin_restore(streams, S)
    await streams.client.publish(subject, archive_of(meta_files("S")))
    assert (await streams.api("STREAM.INFO.S"))["error"]["err_code"] == 10059
    assert not streams.client.is_closed


class Inside:
    """JetStream of one account in this process."""

    def __init__(self, folder: Path) -> None:
        self.tick = Tick(asyncio.get_running_loop())
        self.router = Router("$G", self.tick)
        self.store = Store.open(str(folder), self.tick)
        self.warnings: asyncio.Queue[str] = asyncio.Queue()
        log = cast(Logger, SimpleNamespace(info=str, warn=self.warnings.put_nowait))
        server = ServerInfo("n", "id", "2.14.5", "")
        host = Host(self.router, WorkTurns(self.tick), server, log, Advisories(self.router, ""))
        self.js = JetStream(host, self.store, AccountJetStreamOptions())
        self.js.start()

    def checked(self, **fields: Any) -> StreamConfig:
        config: StreamConfig = at_once(check_stream_config(StreamConfig.from_json(fields), self.js.usage.limits))
        return config

    async def close(self) -> None:
        self.js.stop()
        await self.store.close()


async def test_very_many_small_chunks_are_bounded_as_few_large_ones(tmp_path: Path) -> None:
    inside = Inside(tmp_path)
    restore = Restore(inside.js, inside.checked(name="S"), {}, lambda stream: {})
    restore.start()
    for _ in range(100_000):  # before anything of it is taken
        inside.router.publish_bytes(restore.subject.encode(), b"answers", b"", b"x")
    assert "was sent more than it could take" in await asyncio.wait_for(inside.warnings.get(), 10)
    await inside.close()


async def test_a_restore_that_stalls_ends_without_a_word_to_its_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JS_RESTORE_IDLE_SECONDS", 0.2)
    monkeypatch.setattr(limits, "JS_TRANSFERS", 1)
    inside = Inside(tmp_path)
    heard: list[bytes] = []
    answered = asyncio.Event()

    def take(subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: object) -> None:
        heard.append(subject.split(b".STREAM.")[-1])
        if subject == b"answers":
            answered.set()

    inside.router.subscribe(CallbackReceiver(inside.tick, take), b"$JS.EVENT.>")
    inside.router.subscribe(CallbackReceiver(inside.tick, take), b"answers")
    restore = Restore(inside.js, inside.checked(name="S"), {}, lambda stream: {})
    restore.start()
    inside.router.publish_bytes(restore.subject.encode(), b"answers", b"", archive_of(meta_files("S"))[:20])
    await asyncio.wait_for(answered.wait(), 10)
    assert await asyncio.wait_for(inside.warnings.get(), 10) == "restore for stream '$G > S' is stalled"
    async with asyncio.timeout(10):
        while inside.js.transfers.full:
            await asyncio.sleep(0.005)
    await inside.close()
    assert heard == [b"RESTORE_CREATE.S", b"answers"]


async def test_a_backup_of_what_cannot_be_read_tells_its_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> int:
        raise StorageError("the disk refuses")

    inside = Inside(tmp_path)
    stream = await inside.js.create_stream(inside.checked(**S, storage="file"))
    cast(Any, stream.log).append_message(b"s.a", b"x")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    receiver = CallbackReceiver(inside.tick, lambda *message: heard.put_nowait(message[2]))
    inside.router.subscribe(receiver, b"to")
    monkeypatch.setattr(snapshot, "_read_on", refuse)
    await snapshot.Snapshot(inside.js, stream, snapshot.SnapshotRequest(deliver_subject="to"), {}).prepare({})
    status = await asyncio.wait_for(heard.get(), 10)
    assert status == b"NATS/1.0 500 the stream's messages cannot be read\r\n\r\n"
    warning = "Snapshot of stream '$G > S' ended: 500 the stream's messages cannot be read (the disk refuses)"
    assert inside.warnings.get_nowait() == warning
    await inside.close()


async def test_limits_hold_for_what_arrives(tmp_path: Path) -> None:
    conf = tmp_path / "server.conf"
    conf.write_text(f"""
        jetstream {{ store_dir: '{tmp_path}' }}
        accounts {{ A {{ users: [ {{user: a, password: a}} ], jetstream {{ max_file: 100KB, max_streams: 1 }} }} }}
    """)
    archive = archive_of([*meta_files("S"), *blocks(*(record("S", 1, n, b"s.a", b"x" * 999) for n in range(1, 120)))])
    with process.jetbroker("-c", str(conf)) as server:
        async with connected(server.url.replace("://", "://a:a@")) as streams:
            assert await refused(streams, archive) == "10047 insufficient storage resources available"
            await streams.create("T", subjects=["t"])
            answer = await streams.api("STREAM.RESTORE.S", {"config": S})
            assert answer["error"]["err_code"] == 10027
        folders = [path.name for path in (tmp_path / "jetstream" / "A").iterdir() if path.is_dir()]
        assert folders == ["T"]


@pytest.mark.parametrize("call", [1, 2])
async def test_a_kill_at_the_name_leaves_a_stream_whole_or_none(tmp_path: Path, call: int) -> None:
    """The first call gives the folder its name, the next one syncs the folder above."""
    script = Path(process.__file__).with_name("killed_broker.py")
    records = [record("S", 1, number, b"s.a", b"x" * 999) for number in range(1, 100)]
    archive = archive_of([*meta_files("S", subjects=["s.>"]), *blocks(*records)])
    dying = process.ServerProcess(
        [sys.executable, str(script), f"named.{call}", "10000"], ("-js", "-sd", str(tmp_path))
    )
    with dying:
        async with connected(dying.url) as streams:
            subject = await begin_restore(streams, S)
            assert not (await streams.client.request(subject, archive, timeout=30)).data
            await streams.client.publish(subject, b"", reply="nobody.waits")
            await asyncio.to_thread(dying.wait)
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            if call == 1:
                assert (await streams.api("STREAM.NAMES"))["streams"] is None
            else:
                state = (await streams.api("STREAM.INFO.S"))["state"]
                assert (state["first_seq"], state["last_seq"], state["messages"]) == (1, 99, 99)
    account = tmp_path / "jetstream" / "%24G"
    assert [path.name for path in account.iterdir() if path.is_dir()] == ["S"][: call - 1]


async def test_a_restore_that_breaks_off_leaves_nothing_after_a_kill(tmp_path: Path) -> None:
    archive = archive_of([*meta_files("S"), *blocks(*(record("S", 1, n, b"s.a", b"x" * 999) for n in range(1, 999)))])
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        account = tmp_path / "jetstream" / "$G".replace("$", "%24")
        async with connected(server.url) as streams:
            subject = await begin_restore(streams, S)
            for at in range(0, len(archive) - 4096, 4096):
                await streams.client.request(subject, archive[at : at + 4096], timeout=30)
            assert [path.name[:5] for path in account.iterdir() if path.is_dir()] == [".new-"]
        server.kill()
        server.start()
        async with connected(server.url) as streams:
            assert (await streams.api("STREAM.NAMES"))["streams"] is None
        assert [path for path in account.iterdir() if path.is_dir()] == []


async def several(streams: Streams) -> list[dict[str, Any]]:
    """Streams of an account, one with a consumer, and what must be the same after a restore."""
    await filled(streams, 20)
    await streams.create("EMPTY", subjects=["e"])
    await streams.create("T", subjects=["t.*"], compression="s2", max_msgs=5)
    for number in range(9):
        await streams.publish("t.a", f"{number}")
    return await everything(streams)


async def everything(streams: Streams) -> list[dict[str, Any]]:
    found = []
    for name in sorted((await streams.api("STREAM.NAMES"))["streams"]):
        consumers = (await streams.api(f"CONSUMER.NAMES.{name}"))["consumers"]
        told = shown(await streams.api(f"STREAM.INFO.{name}"))
        found.append({"content": await streams.content(name), "consumers": consumers, **told})
    return found


async def delete_all(streams: Streams) -> None:
    for name in (await streams.api("STREAM.NAMES"))["streams"]:
        await streams.api(f"STREAM.DELETE.{name}")


async def test_an_account_comes_back_stream_by_stream(streams: Streams) -> None:
    """As the nats tool does it: the next test."""
    before = await several(streams)
    saved = [await backup(streams, name) for name in (await streams.api("STREAM.NAMES"))["streams"]]
    await delete_all(streams)
    for each in saved:
        assert "error" not in await restore(streams, each.answer["config"], each.archive)
    assert await everything(streams) == before


@pytest.mark.skipif(shutil.which("nats") is None, reason="the nats tool is not on the PATH")
async def test_the_nats_tool_brings_an_account_back(streams: Streams, tmp_path: Path) -> None:
    async def run(*arguments: str) -> str:
        url = str(streams.client.connected_url.geturl()) if streams.client.connected_url else ""
        command = ["nats", "--no-context", "--server", url, "account", *arguments]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    before = await several(streams)
    told = "context canceled"  # the tool reads the archive's end and the answer in any order: a busy machine's chance
    for attempt in range(10):
        folder = str(tmp_path / f"{attempt}")
        if "context canceled" not in (told := await run("backup", "--consumers", "--force", folder)):
            break
    assert not told
    await delete_all(streams)
    assert not await run("restore", folder)
    assert await everything(streams) == before
