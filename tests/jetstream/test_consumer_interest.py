"""Consumers notice at once who comes and who leaves; nothing here waits for a clock."""

from __future__ import annotations

from pathlib import Path

from tests.support.consumers import SECOND, ConsumerBench, counts
from tests.support.streams import stream_config


async def test_push_begins_and_ends_with_its_subscriber(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0")
    consumer = bench.consumer("p", deliver_subject="d.x", ack_policy="none")
    await bench.turn()
    assert "push_bound" not in consumer.info()
    wild = [bench.mailbox(subject) for subject in ("d.*", ">")]
    await bench.turn()
    assert "push_bound" not in consumer.info()
    for number in (1, 2):
        first = bench.mailbox("d.x")
        await bench.turn()
        assert [one.numbers[1] for one in first.take()] == [number]
        assert [[one.numbers[1] for one in mailbox.take() if one.reply] for mailbox in wild] == [[number], [number]]
        first.close()
        await bench.turn()
        assert "push_bound" not in consumer.info()
        before = consumer.info()["delivered"]
        await bench.fill("s.1")
        assert consumer.info()["delivered"] == before
    await bench.close()


async def test_a_deliver_group_waits_for_its_own_members(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    await bench.fill("s.0")
    consumer = bench.consumer("p", deliver_subject="d", deliver_group="g", ack_policy="none")
    mailbox = bench.mailbox("d")
    await bench.turn()
    assert mailbox.take() == []
    bench.router.subscribe(mailbox.receiver, b"d", b"g")
    await bench.turn()
    assert consumer.info()["delivered"]["stream_seq"] == 1
    await bench.close()


async def test_pull_requests_leave_with_their_requester(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    consumer = bench.consumer("c", inactive_threshold=5 * SECOND)
    wild = bench.mailbox("_INBOX.w.*")
    stays = await bench.pull({"batch": 2})
    leaves = await bench.pull({"batch": 2})
    wild.subject = "_INBOX.w.1"
    await bench.pull({"batch": 2}, mailbox=wild)
    assert counts(consumer)[2] == 3
    leaves.close()
    await bench.turn()
    assert counts(consumer)[2] == 2
    wild.close()
    await bench.turn()
    assert counts(consumer)[2] == 1
    await bench.fill("s.0")
    assert len(stays.take()) == 1
    stays.close()
    await bench.turn()
    assert counts(consumer)[2] == 0
    await bench.close()


async def test_a_pull_request_outlives_a_reconnect_of_its_requester(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    consumer = bench.consumer("c")
    before = await bench.pull({"batch": 2})
    before.close()
    await bench.turn()
    after = bench.mailbox(before.subject)
    await bench.turn()
    await bench.fill("s.0", "s.1")
    assert [one.subject for one in after.take()] == ["s.0", "s.1"]
    assert counts(consumer)[2] == 0
    await bench.close()


async def test_a_crowd_of_waiting_requests_does_not_stop_the_route_cache(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    consumer = bench.consumer("c", max_waiting=20_000)
    mailbox = bench.mailbox("_INBOX.many.*")
    for number in range(12_000):
        bench.router.publish_bytes(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"_INBOX.many.%d" % number, b"", b"1")
    await bench.turn()
    assert counts(consumer)[2] == 12_000
    for number in range(20_000):
        bench.router.publish_bytes(b"other.%d" % number, None, b"", b"")
    mailbox.close()
    await bench.turn()
    # those beyond half of the cache are found when their turn comes
    assert counts(consumer)[2] < 12_000
    await bench.fill("s.0")
    assert counts(consumer)[2] == 0
    await bench.close()


async def test_acks_remove_as_long_as_the_streams_retention_is_interest(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    stream = bench.open()
    await bench.fill("s.a", "s.a", "s.b", "s.a", "s.a")
    for name in ("c", "other"):
        bench.consumer(name, filter_subject="s.a")
        found = (await bench.pull({"batch": 3}, name)).take()
        await bench.ack(found[0])
    mine = (await bench.pull({"batch": 1})).take()
    await bench.ack(found[1])
    stream.apply_config(stream_config(retention="interest"))
    await bench.turn()
    kept = [2, 3, 4, 5]  # the first one was acked by both before; nobody has waited for the third one
    assert [seq for seq in range(1, 6) if stream.log.time_of(seq)] == kept
    await bench.ack(mine[0]._replace(reply=mine[0].reply.replace("c.1.5.4.", "c.1.2.2.")))
    assert [seq for seq in range(1, 6) if stream.log.time_of(seq)] == kept[1:]
    stream.apply_config(stream_config(retention="limits"))
    for name in ("c", "other"):
        await bench.ack(mine[0]._replace(reply=mine[0].reply.replace("c.1.5.4.", f"{name}.1.4.3.")))
    assert [seq for seq in range(1, 6) if stream.log.time_of(seq)] == kept[1:]
    await bench.close()
