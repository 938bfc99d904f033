"""What a killed broker leaves of a consumer: its files are copied at any moment and read again."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
from pathlib import Path
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from jetbroker.forms.gotext import format_time
from jetbroker.jetstream.consumers.state import ConsumerState, replay
from jetbroker.store.disk import Disk
from jetbroker.store.log.statelog import StateLog
from tests.store.support import FaultyDisk
from tests.support import process
from tests.support.consumers import SECOND, ConsumerBench, Delivered, counts, positions

STREAM_ID = 7
NEW = {"account": "$G", "stream": "s", "name": "c", "config": {}}


def new_log(bench: ConsumerBench) -> Any:
    path = str(bench.directory / "consumers" / "c.log")
    Path(path).parent.mkdir(exist_ok=True)
    return StateLog.create(bench.tick, Disk(), bench.group, path, STREAM_ID, NEW, None)


def killed(bench: ConsumerBench, copy: Path) -> ConsumerState:
    """The state a start would find, were the broker killed now (files with temporary names are thrown away then)."""
    shutil.copyfile(bench.directory / "consumers" / "c.log", copy)
    damage: list[str] = []
    log = StateLog.recover(bench.tick, Disk(), bench.group, str(copy), STREAM_ID, damage, None)
    assert log is not None and damage == []
    state = replay(log.recovered)
    log.abandon()
    return state


async def test_a_kill_while_the_log_is_replaced_under_load(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill(*[f"s.{number % 4}" for number in range(2000)])
    log = new_log(bench)
    bench.consumer("c", log, filter_subjects=["s.1", "s.3"], max_ack_pending=-1, ack_wait=3600 * SECOND)
    await log.commit()
    rng = random.Random(7)
    receipts = bench.mailbox("R.>")
    confirmed: set[int] = set()
    size = replaced = 0
    while replaced < 2:
        found = (await bench.pull({"batch": 400})).take()
        for message in found:
            if rng.random() < 0.02:
                bench.router.publish_bytes(message.reply.encode(), b"R.%d" % message.numbers[1], b"", b"+ACK")
            else:
                bench.publish(message.reply, b"-NAK")
        if log.size < size:
            replaced += 1
        size = log.size
        if len(found) < 400:
            await bench.fill(*[f"s.{number % 4}" for number in range(200)])
        for _ in range(4):
            await asyncio.sleep(0)
            confirmed |= {int(one.subject.removeprefix("R.")) for one in receipts.take()}
            if size > 950_000 or size < 200_000:
                state = killed(bench, tmp_path / "copy")
                assert not confirmed & state.pending.keys()
                assert max(confirmed, default=0) <= state.delivered_seq
                assert all(seq > state.floor_seq for seq in state.pending)
    await bench.close()


async def test_floor_and_pending_go_on_after_a_kill_with_redeliveries(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill(*[f"s.{number % 3}" for number in range(60)])
    log = new_log(bench)
    fields = {"filter_subject": "s.1", "max_ack_pending": 20, "ack_wait": 5 * SECOND}
    consumer = bench.consumer("c", log, **fields)
    found = (await bench.pull({"batch": 20})).take()
    assert [one.numbers[1] for one in found] == list(range(2, 61, 3))
    for number in (0, 1, 4, 3, 9, 8, 12):
        await bench.ack(found[number])
    await bench.ack(found[5], b"-NAK")
    await bench.pull({"batch": 1})
    before = positions(consumer), counts(consumer)
    assert before[0][1] == (2, 7)
    consumer.stop("")
    await log.commit()
    bench.stream.remove_consumer(consumer)
    recovered = StateLog.recover(bench.tick, Disk(), bench.group, log.path, STREAM_ID, [], None)
    consumer = bench.consumer("c", recovered, **fields)
    assert (positions(consumer), counts(consumer)) == before
    # acks of what was delivered before the kill count
    await bench.ack(found[2])
    assert positions(consumer)[1][1] == found[5].numbers[1] - 1
    await bench.advance(6)
    again = (await bench.pull({"batch": 30})).take()
    assert {one.numbers[1] for one in again} == {found[number].numbers[1] for number in range(20)} - {
        found[number].numbers[1] for number in (0, 1, 2, 3, 4, 8, 9, 12)
    }
    for one in again:
        await bench.ack(one)
    delivered, floor = positions(consumer)
    assert (floor, counts(consumer)[0]) == (delivered, 0)
    await bench.close()


async def test_a_consumer_ahead_of_a_stream_that_lost_its_end_gives_out_what_is_stored_next(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill(*["s.0"] * 8)
    log = new_log(bench)
    consumer = bench.consumer("c", log)
    found = (await bench.pull({"batch": 8})).take()
    await bench.ack(found[0])
    consumer.stop("")
    await log.commit()
    bench.open()
    await bench.fill(*["s.0"] * 3)
    recovered = StateLog.recover(bench.tick, Disk(), bench.group, log.path, STREAM_ID, [], None)
    consumer = bench.consumer("c", recovered)
    assert positions(consumer)[0][1] == 3
    assert counts(consumer)[0] == 2
    await bench.fill("s.0")
    (new,) = (await bench.pull({"batch": 5})).take()
    assert new.numbers[1] == 4
    await bench.close()


async def test_confirmed_acks_on_a_full_disk_are_told_so_and_hold_later(tmp_path: Path) -> None:
    full = False

    def rule(call: str, path: str, size: int) -> int | None:
        if full and call == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return None

    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0", "s.0", "s.0")
    path = str(tmp_path / "c.log")
    log: Any = StateLog.create(bench.tick, FaultyDisk(rule), bench.group, path, STREAM_ID, NEW, None)
    consumer = bench.consumer("c", log)
    await log.commit()
    found = (await bench.pull({"batch": 3})).take()
    await log.commit()
    full = True
    for message in found[:2]:
        (receipt,) = await bench.ack(message)
        assert receipt.status.startswith("503")
    full = False
    while log.failed is not None:  # until the next try
        await bench.turn()
    mailbox = bench.mailbox()
    bench.router.publish_bytes(found[2].reply.encode(), mailbox.subject.encode(), b"", b"+ACK")
    await bench.turn()
    await log.commit()
    await bench.turn()
    assert [one.status for one in mailbox.take()] == [""]
    assert counts(consumer)[0] == 0
    await bench.close()


async def test_a_new_consumer_starts_where_it_was_made_even_after_a_kill(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.publish("s", b"before")
        config = ConsumerConfig(durable_name="c", ack_policy=AckPolicy.EXPLICIT, deliver_policy=DeliverPolicy.NEW)
        await js.add_consumer("S", config)
        await client.close()
        server.kill()
        server.start()
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.publish("s", b"after")
        sub = await js.pull_subscribe_bind("c", "S")
        assert [message.data for message in await sub.fetch(1, timeout=30)] == [b"after"]
        assert (await js.consumer_info("S", "c")).num_pending == 0
        await client.close()


def sequences(found: list[Delivered]) -> list[int]:
    """Stream sequences of the messages among these."""
    return [one.numbers[1] for one in found if not one.status]


async def test_by_start_time_with_deletes(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    for _ in range(6):
        await bench.fill("s.0")
        await asyncio.sleep(0.002)
    when = {seq: bench.stream.log.time_of(seq) for seq in range(1, 7)}
    bench.stream.delete_message(3)
    bench.stream.delete_message(6)
    for name, start, expected in (
        ("at", when[2], [2, 4, 5]),
        ("gap", when[3], [4, 5]),
        ("last", when[6], []),
        ("late", when[6] + 3600 * SECOND, []),
    ):
        text = format_time(start)
        bench.consumer(name, deliver_policy="by_start_time", opt_start_time=text)
        mailbox = await bench.pull({"batch": 9, "no_wait": True}, name)
        assert sequences(mailbox.take()) == expected, name
    await bench.fill("s.0")
    for name in ("last", "late"):
        mailbox = await bench.pull({"batch": 9, "no_wait": True}, name)
        assert sequences(mailbox.take()) == [7], name
    await bench.close()


async def test_replay_original_keeps_the_distances(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    for _ in range(3):
        await bench.fill("s.0")
        await asyncio.sleep(0.05)
    times = [bench.stream.log.time_of(seq) for seq in (1, 2, 3)]
    mailbox = bench.mailbox("d")
    bench.consumer("p", deliver_subject="d", replay_policy="original", ack_policy="none")
    await bench.turn()
    assert sequences(mailbox.take()) == [1]
    await bench.advance((times[1] - times[0]) / SECOND - 0.005)
    assert sequences(mailbox.take()) == []
    await bench.advance(0.006)
    assert sequences(mailbox.take()) == [2]
    await bench.advance((times[2] - times[1]) / SECOND + 0.001)
    assert sequences(mailbox.take()) == [3]
    # what came after the consumer was made is not held back
    await bench.fill("s.0", "s.0")
    assert sequences(mailbox.take()) == [4, 5]
    await bench.close()
