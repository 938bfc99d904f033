"""Consumer state: what is recorded, and what comes back after a restart."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from jetbroker.jetstream.consumers.state import replay
from jetbroker.store.disk import Disk
from jetbroker.store.log.statelog import StateLog
from tests.store.support import FaultyDisk
from tests.support.consumers import SECOND, ConsumerBench, Mailbox, counts, positions

_numbers = itertools.count(1)
SUBJECTS = tuple(f"s.{number % 3}" for number in range(9))
STREAM_ID = 7


def new_log(bench: ConsumerBench, disk: Disk | None = None, config: dict[str, Any] | None = None) -> Any:
    path = str(bench.directory / f"consumer-{next(_numbers)}.log")
    head = {"name": "c", "config": config or {}}
    return StateLog.create(bench.tick, disk or Disk(), bench.group, path, STREAM_ID, head, None)


async def restart(bench: ConsumerBench, consumer: Any, **fields: Any) -> Any:
    """Stop the consumer and bring it back from what its log has on disk."""
    log = consumer.state_log
    consumer.stop("")
    await log.commit()
    await log.close()
    bench.stream.remove_consumer(consumer)
    damage: list[str] = []
    recovered = StateLog.recover(bench.tick, Disk(), bench.group, log.path, STREAM_ID, damage, None)
    assert damage == []
    again = bench.consumer("c", recovered, **fields)
    await bench.turn()
    return again


async def pull(bench: ConsumerBench, count: int) -> tuple[Mailbox, list[Any]]:
    mailbox = await bench.pull({"batch": count})
    return mailbox, mailbox.take()


async def test_positions_and_pending_survive(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill(*SUBJECTS)
    consumer = bench.consumer("c", new_log(bench))
    _, found = await pull(bench, 6)
    for number in (0, 1, 3):
        await bench.ack(found[number])
    await bench.ack(found[4], b"-NAK")
    _, again = await pull(bench, 1)
    assert again[0].numbers[:2] == (2, 5)
    before = positions(consumer), counts(consumer)
    consumer = await restart(bench, consumer)
    assert (positions(consumer), counts(consumer)) == (before[0], (3, 1, 0, 3))
    _, new = await pull(bench, 1)
    assert new[0].numbers[1:3] == (7, 8)
    await bench.close()


async def test_unacked_messages_wait_out_what_was_left(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0", "s.1")
    consumer = bench.consumer("c", new_log(bench), ack_wait=5 * SECOND)
    _, found = await pull(bench, 2)
    await bench.ack(found[0])
    consumer = await restart(bench, consumer, ack_wait=5 * SECOND)
    mailbox, none = await pull(bench, 5)
    assert none == []
    await bench.advance(5.1)
    assert [one.numbers[:2] for one in mailbox.take()] == [(2, 2)]
    await bench.close()


async def test_a_confirmed_ack_is_answered_only_when_it_is_on_disk(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0")
    log = new_log(bench)
    bench.consumer("c", log)
    await log.commit()
    _, (first,) = await pull(bench, 1)
    seen: list[int] = []
    mailbox = bench.mailbox()
    bench.router.publish_bytes(first.reply.encode(), mailbox.subject.encode(), b"", b"+ACK")
    while not mailbox.found:
        seen.append(log.committed)
        await asyncio.sleep(0)
    assert log.committed == log.position
    assert len(set(seen)) == 1  # nothing was committed while the answer was out
    await bench.close()


async def test_a_new_consumer_remembers_where_it_began(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill(*SUBJECTS)
    consumer = bench.consumer("c", new_log(bench), deliver_policy="last")
    await bench.turn()
    await bench.fill("s.0")
    consumer = await restart(bench, consumer, deliver_policy="last")
    assert counts(consumer)[3] == 2
    await bench.close()


async def test_the_first_pass_of_last_per_subject_goes_on(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.a", "s.b", "s.a", "s.c", "s.b")
    fields = {"deliver_policy": "last_per_subject", "filter_subject": "s.>"}
    consumer = bench.consumer("c", new_log(bench), **fields)
    _, found = await pull(bench, 1)
    assert found[0].numbers[1] == 3
    await bench.fill("s.d")
    consumer = await restart(bench, consumer, **fields)
    assert counts(consumer)[3] == 3
    _, found = await pull(bench, 9)
    assert [one.numbers[1] for one in found] == [4, 5, 6]
    await bench.close()


async def test_an_ack_of_all_never_moves_the_floor_beyond_what_was_delivered(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.a", "s.b", "s.b")
    fields = {"ack_policy": "all", "filter_subject": "s.a"}
    consumer = bench.consumer("c", new_log(bench), **fields)
    _, (first,) = await pull(bench, 2)  # the search for a second one has passed over the rest
    await bench.ack(first._replace(reply=first.reply.replace(".1.1.1.", ".1.3.1.")))
    assert (positions(consumer), counts(consumer)[0]) == (((1, 1), (1, 1)), 0)
    consumer = await restart(bench, consumer, **fields)
    assert (positions(consumer), counts(consumer)[0]) == (((1, 1), (1, 1)), 0)
    await bench.fill("s.a")
    _, (second,) = await pull(bench, 1)
    assert second.numbers[1:3] == (4, 2)
    await bench.close()


async def test_exhausted_messages_stay_exhausted(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0", "s.1")
    fields = {"max_deliver": 1, "ack_wait": SECOND}
    consumer = bench.consumer("c", new_log(bench), **fields)
    _, found = await pull(bench, 3)
    await bench.ack(found[1])
    await bench.advance(1.1)
    consumer = await restart(bench, consumer, **fields)
    await bench.advance(5)
    _, found = await pull(bench, 1)
    assert (found, counts(consumer)[0]) == ([], 0)
    await bench.close()


async def test_a_log_that_has_grown_is_replaced_by_a_snapshot(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    for _ in range(1500):
        bench.publish("s.0", b"x")
        bench.publish("s.1", b"x")
    await bench.turn()
    log = new_log(bench)
    fields = {"filter_subject": "s.1", "max_ack_pending": -1}
    consumer = bench.consumer("c", log, **fields)
    largest = 0
    while log.size >= largest:
        largest = log.size
        _, found = await pull(bench, 1500)
        await bench.turn()
        assert largest < 8 * 1024 * 1024
        for one in found:
            bench.publish(one.reply, b"-NAK")
        await bench.turn()
    before = positions(consumer), counts(consumer)
    consumer = await restart(bench, consumer, **fields)
    assert (positions(consumer), counts(consumer)) == before
    await bench.close()


@pytest.mark.parametrize(("given_up", "config"), [(44_000, {}), (0, {"filters": "f" * 600_000})])
async def test_a_large_state_is_not_written_again_each_turn(tmp_path: Path, given_up: int, config: Any) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    for _ in range(given_up + 20):
        bench.publish("s.0")
    await bench.turn()
    disk = FaultyDisk()
    consumer = bench.consumer("c", new_log(bench, disk, config), max_ack_pending=-1, max_deliver=1, ack_wait=SECOND)
    mailbox = bench.mailbox()
    if given_up:
        await bench.pull({"batch": given_up}, mailbox=mailbox)
        while len(mailbox.found) < given_up:
            await bench.turn()
        while counts(consumer)[0]:
            await bench.advance(2)
    for _ in range(20):
        mailbox.take()
        await bench.pull({"batch": 1}, mailbox=mailbox)
        await bench.ack(mailbox.found[0])
    rewrites = [path for call, path in disk.calls if call == "open" and ".log.new" in path]
    assert len(rewrites) <= 3  # the first one makes the file
    await bench.close()


def test_nothing_recorded_means_not_started() -> None:
    assert not replay([]).started


@pytest.mark.parametrize("compacted", [False, True])
async def test_waits_that_were_asked_for_survive(tmp_path: Path, compacted: bool) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0", "s.1", "s.2", "s.0")
    consumer = bench.consumer("c", new_log(bench), ack_wait=5 * SECOND)
    _, found = await pull(bench, 4)
    await bench.ack(found[0], b"-NAK 100s")
    await bench.ack(found[1], b"-NAK")
    await bench.ack(found[2], b"+WPI")
    if compacted:
        consumer._replace_records()
    consumer = await restart(bench, consumer, ack_wait=5 * SECOND)
    mailbox, again = await pull(bench, 9)
    assert [one.numbers[:2] for one in again] == [(2, 2)]
    await bench.ack(again[0])
    await bench.advance(5.1)
    assert sorted(one.numbers[1] for one in mailbox.take()) == [3, 4]
    consumer = await restart(bench, consumer, ack_wait=500 * SECOND)
    mailbox, none = await pull(bench, 9)
    assert none == []
    await bench.advance(90)
    assert mailbox.take() == []
    await bench.advance(11)
    assert [one.numbers[:2] for one in mailbox.take()] == [(2, 1)]
    await bench.close()


async def test_progress_is_recorded_with_its_wait(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0", "s.1")
    log = new_log(bench)
    consumer = bench.consumer("c", log, ack_wait=5 * SECOND, backoff=[5 * SECOND, 50 * SECOND])
    _, found = await pull(bench, 2)
    await bench.ack(found[1], b"+WPI")
    consumer.stop("")
    await log.commit()
    await log.close()
    recovered: Any = StateLog.recover(bench.tick, Disk(), bench.group, log.path, STREAM_ID, [], None)
    waits = {seq: entry.wait_ns for seq, entry in replay(recovered.recovered).pending.items()}
    assert waits == {1: -1, 2: 5 * SECOND}
    recovered.abandon()
    await bench.close()
