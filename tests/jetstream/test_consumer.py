"""The consumer engine in this process: deliveries, acks, pull requests, push."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.consumers import SECOND, ConsumerBench, counts, positions

SUBJECTS = tuple(f"s.{number % 3}" for number in range(9))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ConsumerBench]:
    """A memory stream `S` on `s.>`."""
    made = ConsumerBench(tmp_path)
    made.open()
    yield made
    for consumer in list(made.stream.consumers.values()):
        consumer.stop("")
    await made.close()


async def test_pull_delivers_in_order_and_counts_down(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS)
    consumer = bench.consumer()
    found = (await bench.pull({"batch": 4})).take()
    assert [one.numbers for one in found] == [(1, 1, 1, 8), (1, 2, 2, 7), (1, 3, 3, 6), (1, 4, 4, 5)]
    assert [one.subject for one in found] == ["s.0", "s.1", "s.2", "s.0"]
    assert positions(consumer) == ((4, 4), (0, 0))
    assert counts(consumer) == (4, 0, 0, 5)


async def test_a_large_batch_is_delivered_over_several_ticks(bench: ConsumerBench) -> None:
    for _ in range(2000):
        bench.publish("s.1", b"x")
    await bench.turn()
    consumer = bench.consumer(max_ack_pending=-1)
    mailbox = await bench.pull(b"2000")
    await bench.turn()
    found = mailbox.take()
    assert [one.numbers[1] for one in found] == list(range(1, 2001))
    assert counts(consumer) == (2000, 0, 0, 0)


async def test_filters_count_and_deliver_only_what_matches(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS)
    consumer = bench.consumer(filter_subjects=["s.0", "s.2"])
    found = (await bench.pull({"batch": 10, "no_wait": True})).take()
    assert [one.numbers for one in found[:-1]] == [
        (1, 1, 1, 5), (1, 3, 2, 4), (1, 4, 3, 3), (1, 6, 4, 2), (1, 7, 5, 1), (1, 9, 6, 0),
    ]  # fmt: skip
    assert found[-1].status == "404 No Messages"
    await bench.fill("s.1", "s.2")
    assert counts(consumer)[3] == 1


async def test_pending_stays_exact_when_messages_go_away(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS)
    everything = bench.consumer("everything")
    one_subject = bench.consumer("one", filter_subject="s.1")
    bench.stream.delete_message(5)
    assert (counts(everything)[3], counts(one_subject)[3]) == (8, 2)
    await bench.fill("s.1", "s.0")
    assert (counts(everything)[3], counts(one_subject)[3]) == (10, 3)
    bench.stream.purge("s.1")
    assert (counts(everything)[3], counts(one_subject)[3]) == (7, 0)
    bench.stream.purge()
    await bench.turn()
    assert (counts(everything)[3], counts(one_subject)[3]) == (0, 0)
    await bench.fill("s.1")
    assert (counts(everything)[3], counts(one_subject)[3]) == (1, 1)


async def test_messages_evicted_before_delivery_are_not_pending(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open(max_msgs=4)
    await bench.fill(*SUBJECTS[:4])
    consumer = bench.consumer()
    first = (await bench.pull({"batch": 2})).take()
    await bench.fill(*SUBJECTS[:5])
    assert counts(consumer) == (0, 0, 0, 4)
    assert positions(consumer) == ((2, 2), (2, 2))
    reasons = [fields["reason"] for subject, fields in bench.advisories if "TERMINATED" in subject]
    assert reasons == ["Unacknowledged message was deleted"] * 2
    assert len(await bench.ack(first[0])) == 1
    assert (await bench.pull()).take()[0].numbers == (1, 6, 3, 3)
    await bench.close()


async def test_a_roll_up_behind_what_a_limit_evicted_leaves_the_count_exact(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open(max_msgs=3, allow_rollup_hdrs=True)
    await bench.fill("s.b.x", "s.b.x", "s.c")
    consumer = bench.consumer(filter_subject="s.b.>")
    assert counts(consumer)[3] == 2
    bench.publish("s.b.x", b"x", b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n")
    await bench.turn()
    assert counts(consumer)[3] == 1
    await bench.close()


@pytest.mark.parametrize("wanted", ["s.>", ">"])
async def test_last_per_subject_gives_the_last_of_each_and_then_what_follows(bench: ConsumerBench, wanted: str) -> None:
    await bench.fill("s.a", "s.b", "s.a", "s.c", "s.b")
    consumer = bench.consumer(deliver_policy="last_per_subject", filter_subject=wanted)
    assert counts(consumer)[3] == 3
    await bench.fill("s.a")
    found = (await bench.pull({"batch": 10, "no_wait": True})).take()[:-1]
    assert [(one.numbers[1], one.numbers[3]) for one in found] == [(3, 3), (4, 2), (5, 1), (6, 0)]


async def test_floor_moves_over_acks_in_a_row(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS)
    consumer = bench.consumer()
    found = (await bench.pull({"batch": 5})).take()
    await bench.ack(found[1])
    assert positions(consumer)[1] == (0, 0)
    await bench.ack(found[0])
    assert positions(consumer)[1] == (2, 2)
    for one in found[2:]:
        await bench.ack(one)
    assert positions(consumer) == ((5, 5), (5, 5))


async def test_unacked_messages_come_back_in_order_after_the_wait(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS[:4])
    consumer = bench.consumer(ack_wait=10 * 10**9)
    mailbox = await bench.pull({"batch": 8, "expires": 100 * 10**9})
    found = mailbox.take()
    await bench.ack(found[2])
    await bench.advance(9.9)
    assert mailbox.take() == []
    await bench.advance(0.2)
    assert [one.numbers[:3] for one in mailbox.take()] == [(2, 1, 5), (2, 2, 6), (2, 4, 7)]
    assert counts(consumer) == (3, 3, 1, 0)


async def test_naks_redeliver_in_their_order_before_new_messages(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS[:6])
    bench.consumer(max_ack_pending=4)
    found = (await bench.pull({"batch": 4})).take()
    await bench.ack(found[3], b"-NAK")
    await bench.ack(found[0], b"-NAK 5s")
    await bench.ack(found[1], b'-NAK {"delay": "x"}')
    mailbox = await bench.pull({"batch": 4})
    assert [one.numbers[:2] for one in mailbox.take()] == [(2, 4), (2, 2)]
    await bench.advance(5.1)
    assert [one.numbers[:2] for one in mailbox.take()] == [(2, 1)]


async def test_an_acked_message_in_the_redelivery_queue_is_nothing_at_hand(bench: ConsumerBench) -> None:
    await bench.fill("s.1")
    bench.consumer()
    (first,) = (await bench.pull()).take()
    await bench.ack(first, b"-NAK")
    await bench.ack(first)
    assert [one.status for one in (await bench.pull({"no_wait": True})).take()] == ["404 No Messages"]


async def test_a_request_that_does_not_wait_ends_with_the_next_heartbeat_while_acks_are_awaited(
    bench: ConsumerBench,
) -> None:
    await bench.fill("s.1", "s.2", "s.3")
    bench.consumer(max_ack_pending=2)
    times = {"expires": 5 * 10**9, "idle_heartbeat": 10**9}
    mailbox = await bench.pull({"batch": 3, "no_wait": True, **times})
    waiting = await bench.pull({"batch": 1, **times})
    first, _second = mailbox.take()
    await bench.advance(1.1)
    assert [one.status for one in mailbox.take()] == ["404 No Messages"]
    assert [one.status for one in waiting.take()] == ["100 Idle Heartbeat"]
    await bench.ack(first)
    assert [one.numbers[1] for one in waiting.take()] == [3]
    assert mailbox.take() == []


async def test_a_request_that_does_not_wait_goes_on_when_the_ack_comes_before_the_heartbeat(
    bench: ConsumerBench,
) -> None:
    await bench.fill("s.1", "s.2", "s.3")
    bench.consumer(max_ack_pending=2)
    mailbox = await bench.pull({"batch": 4, "no_wait": True, "expires": 5 * 10**9, "idle_heartbeat": 10**9})
    first, second = mailbox.take()
    await bench.advance(0.5)
    assert mailbox.take() == []
    await bench.ack(first)
    await bench.ack(second)
    found = mailbox.take()
    assert [one.numbers[1] for one in found[:-1]] == [3]
    assert found[-1].status == "404 No Messages"


async def test_two_that_do_not_wait_and_one_message(bench: ConsumerBench) -> None:
    """The second was not answered at once, since there was a message; it is answered when the first has taken it."""
    await bench.fill("s.1")
    bench.consumer()
    mailboxes = [bench.mailbox(), bench.mailbox()]
    for mailbox in mailboxes:
        bench.router.publish_bytes(
            b"$JS.API.CONSUMER.MSG.NEXT.S.c", mailbox.subject.encode(), b"", b'{"batch":1,"no_wait":true}'
        )
    await bench.turn()
    assert [one.numbers[1] for one in mailboxes[0].take()] == [1]
    assert [one.status for one in mailboxes[1].take()] == ["404 No Messages"]


async def test_progress_restarts_the_wait(bench: ConsumerBench) -> None:
    await bench.fill("s.1")
    bench.consumer(ack_wait=10 * 10**9)
    mailbox = await bench.pull({"batch": 2})
    (first,) = mailbox.take()
    await bench.advance(8)
    await bench.ack(first, b"+WPI")
    await bench.advance(8)
    assert mailbox.take() == []
    await bench.advance(2.5)
    assert len(mailbox.take()) == 1


async def test_backoff_gives_each_delivery_its_own_wait(bench: ConsumerBench) -> None:
    await bench.fill("s.1")
    bench.consumer(backoff=[10**9, 5 * 10**9], ack_wait=10**9, max_deliver=4)
    mailbox = await bench.pull({"batch": 9})
    seen = []
    for _ in range(12):
        await bench.advance(1.01)
        seen.append(len(mailbox.take()))
    assert seen == [2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]


async def test_max_deliver_ends_redelivery_and_tells_once(bench: ConsumerBench) -> None:
    await bench.fill("s.1", "s.2")
    consumer = bench.consumer(max_deliver=2, ack_wait=10**9)
    mailbox = await bench.pull({"batch": 20})
    await bench.advance(1.1)
    await bench.advance(1.1)
    await bench.advance(1.1)
    found = mailbox.take()
    assert [one.numbers[:2] for one in found] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    told = [fields for subject, fields in bench.advisories if "MAX_DELIVERIES" in subject]
    assert [(one["stream_seq"], one["deliveries"]) for one in told] == [(1, 2), (2, 2)]
    assert counts(consumer) == (0, 2, 1, 0)
    await bench.ack(found[0])
    assert counts(consumer)[:2] == (0, 1)


async def test_what_was_given_up_after_one_delivery_counts_once_more_are_allowed(bench: ConsumerBench) -> None:
    await bench.fill("s.1")
    consumer = bench.consumer(max_deliver=1, ack_wait=SECOND)
    await bench.pull()
    await bench.advance(1.1)
    assert counts(consumer)[:2] == (0, 0)
    for most in (2, -1):
        consumer.update(replace(consumer.config, max_deliver=most))
        assert counts(consumer)[:2] == (0, 1)
        assert consumer.standing()[2] == 1


async def test_a_lowered_limit_tells_of_what_has_just_reached_it(bench: ConsumerBench) -> None:
    await bench.fill("s.1", "s.2", "s.3", "s.4", "s.5")
    consumer = bench.consumer(max_deliver=5, ack_wait=SECOND)
    mailbox = await bench.pull({"batch": 9})
    found = {one.numbers[1]: one for one in mailbox.take()}
    for seq in (1, 3, 3, 4, 4, 5):
        await bench.ack(found[seq], b"-NAK")
    assert [one.numbers[:2] for one in mailbox.take()] == [(2, 1), (2, 3), (3, 3), (2, 4)]
    consumer.update(replace(consumer.config, max_deliver=1))
    await bench.advance(1.1)
    await bench.pull()
    told = [fields for subject, fields in bench.advisories if "MAX_DELIVERIES" in subject]
    assert sorted((one["stream_seq"], one["deliveries"]) for one in told) == [(1, 1), (2, 1), (5, 1)]
    assert counts(consumer)[0] == 0


async def test_term_ends_redelivery_and_gives_the_reason(bench: ConsumerBench) -> None:
    await bench.fill("s.1")
    consumer = bench.consumer()
    (first,) = (await bench.pull()).take()
    assert len(await bench.ack(first, b"+TERM not for us")) == 1
    assert counts(consumer)[0] == 0
    (advisory,) = bench.advisories
    assert advisory[0] == "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.c"
    assert advisory[1]["reason"] == "not for us"


async def test_next_acks_and_pulls_to_the_reply(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS[:5])
    consumer = bench.consumer()
    (first,) = (await bench.pull()).take()
    found = await bench.ack(first, b"+NXT 2")
    assert [one.numbers[1] for one in found] == [2, 3]
    assert positions(consumer)[1] == (1, 1)


async def test_ack_all_finishes_everything_before(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS)
    consumer = bench.consumer(ack_policy="all")
    found = (await bench.pull({"batch": 6})).take()
    await bench.ack(found[3])
    assert positions(consumer)[1] == (4, 4)
    assert counts(consumer)[0] == 2
    await bench.ack(found[1])
    assert positions(consumer)[1] == (4, 4)


async def test_ack_all_of_very_many_leaves_the_rest_as_it_was(bench: ConsumerBench) -> None:
    for _ in range(3000):
        bench.publish("s.1", b"x")
    await bench.turn()
    consumer = bench.consumer(ack_policy="all", max_ack_pending=-1, ack_wait=10 * 10**9, max_deliver=2)
    found = (await bench.pull({"batch": 3000})).take()
    for at in (2998, 2600, 5):
        await bench.ack(found[at], b"-NAK")
    again = (await bench.pull({"batch": 3})).take()
    assert [one.numbers[:2] for one in again] == [(2, 2999), (2, 2601), (2, 6)]
    assert counts(consumer)[:2] == (3000, 3)
    await bench.advance(6)
    await bench.ack(found[2700], b"+WPI")
    await bench.ack(found[2499])
    assert positions(consumer)[1] == (2500, 2500)
    assert counts(consumer)[:2] == (500, 2)
    mailbox = await bench.pull({"batch": 3000})
    await bench.advance(4.1)
    back = [one.numbers[:2] for one in mailbox.take()]
    assert back == [(2, seq) for seq in range(2501, 3001) if seq not in {2601, 2701, 2999}]
    await bench.advance(6)
    assert [one.numbers[:2] for one in mailbox.take()] == [(2, 2701)]
    await bench.ack(found[2998])
    assert positions(consumer)[1] == (2999, 2999)


async def test_max_ack_pending_holds_new_messages_back(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS)
    bench.consumer(max_ack_pending=2)
    mailbox = await bench.pull({"batch": 5})
    found = mailbox.take()
    assert len(found) == 2
    await bench.ack(found[1])
    assert [one.numbers[1] for one in mailbox.take()] == [3]


async def test_requests_are_served_in_turn_and_forgotten_when_nobody_listens(bench: ConsumerBench) -> None:
    consumer = bench.consumer()
    first = await bench.pull({"batch": 3})
    second = await bench.pull({"batch": 3})
    third = await bench.pull({"batch": 3})
    await bench.fill(*SUBJECTS[:3])
    third.close()
    await bench.fill(*SUBJECTS[:2])
    assert [one.numbers[1] for one in first.take()] == [1, 4]
    assert [one.numbers[1] for one in second.take()] == [2, 5]
    assert [one.numbers[1] for one in third.take()] == [3]
    assert positions(consumer)[0] == (5, 5)
    await bench.fill("s.1")
    assert counts(consumer)[2] == 1


async def test_request_times_out_after_heartbeats(bench: ConsumerBench) -> None:
    bench.consumer()
    mailbox = await bench.pull({"batch": 2, "expires": 4 * 10**9, "idle_heartbeat": 10**9})
    for _ in range(4):
        await bench.advance(1.001)
    found = mailbox.take()
    assert [one.status for one in found] == ["100 Idle Heartbeat"] * 3 + ["408 Request Timeout"]
    assert found[-1].headers.endswith(b"Nats-Pending-Messages: 2\r\nNats-Pending-Bytes: 0\r\n\r\n")


async def test_a_request_with_another_streams_subject_as_inbox_reads_its_own_bytes(bench: ConsumerBench) -> None:
    await bench.fill("s.1", payload=b"payload")
    bench.consumer()
    mailbox = bench.mailbox("s.inbox")
    await bench.pull({"batch": 1}, mailbox=mailbox)
    (found,) = mailbox.take()
    assert (found.subject, found.payload) == ("s.1", b"payload")


async def test_an_inbox_that_acks_what_it_gets_does_no_harm(bench: ConsumerBench) -> None:
    await bench.fill("s.1", "s.2", "s.3")
    consumer = bench.consumer()
    subject = b"$JS.API.CONSUMER.MSG.NEXT.S.c"
    bench.router.publish_bytes(subject, b"$JS.ACK.S.c.1.1.1.1.1", b"", b'{"batch":3}')
    await bench.turn()
    assert positions(consumer)[0] == (3, 3)


async def test_headers_only_tells_the_size(bench: ConsumerBench) -> None:
    bench.publish("s.1", b"payload", b"NATS/1.0\r\nA: b\r\n\r\n")
    await bench.fill("s.2")
    bench.consumer(headers_only=True)
    first, second = (await bench.pull({"batch": 2})).take()
    assert (first.headers, first.payload) == (b"NATS/1.0\r\nA: b\r\nNats-Msg-Size: 7\r\n\r\n", b"")
    assert second.headers == b"NATS/1.0\r\nNats-Msg-Size: 4\r\n\r\n"


async def test_push_waits_for_interest(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS[:3])
    consumer = bench.consumer(deliver_subject="to.me", idle_heartbeat=10**9, max_waiting=0)
    assert counts(consumer)[3] == 3
    assert "push_bound" not in consumer.info()
    mailbox = bench.mailbox("to.me")
    await bench.advance(0.2)
    assert [one.numbers[1] for one in mailbox.take()] == [1, 2, 3]
    await bench.advance(1.1)
    (beat,) = mailbox.take()
    assert beat.headers.endswith(b"Nats-Last-Consumer: 3\r\nNats-Last-Stream: 3\r\n\r\n")
    mailbox.close()
    await bench.fill("s.1")
    assert counts(consumer)[3] == 1
    assert (await bench.pull()).take()[0].status == "409 Consumer is push based"


async def test_flow_control_stops_at_the_window_and_goes_on_when_answered(bench: ConsumerBench) -> None:
    mailbox = bench.mailbox("to.me")
    for _ in range(60):
        bench.publish("s.1", b"x" * 50_000)
    await bench.turn()
    bench.consumer(
        deliver_subject="to.me", idle_heartbeat=10**9, flow_control=True, ack_policy="none", max_ack_pending=0
    )
    await bench.turn()
    found = mailbox.take()
    requests = [one for one in found if one.status]
    assert [one.status for one in requests] == ["100 FlowControl Request"]
    assert len(found) == 43
    await bench.advance(1.1)
    (beat,) = mailbox.take()
    assert b"Nats-Consumer-Stalled: " + requests[0].reply.encode() in beat.headers
    bench.publish(requests[0].reply)
    await bench.turn()
    assert len([one for one in mailbox.take() if not one.status]) == 18


async def test_heartbeats_repeat_what_flow_control_waits_for(bench: ConsumerBench) -> None:
    """Also before the window is full: who missed the request would keep its consumer waiting for ever."""
    mailbox = bench.mailbox("to.me")
    bench.consumer(
        deliver_subject="to.me", idle_heartbeat=SECOND, flow_control=True, ack_policy="flow_control",
        max_ack_pending=2, max_waiting=0,
    )  # fmt: skip
    await bench.fill("s.1", "s.2", "s.3")
    (asked,) = (one for one in mailbox.take() if one.status == "100 FlowControl Request")
    await bench.advance(1.1)
    (beat,) = mailbox.take()
    assert beat.headers.endswith(b"Nats-Consumer-Stalled: " + asked.reply.encode() + b"\r\n\r\n")


async def test_a_request_that_does_not_wait_needs_no_room_among_those_that_do(bench: ConsumerBench) -> None:
    bench.consumer(max_waiting=1)
    waiting = await bench.pull({"batch": 2, "expires": 60 * SECOND})
    assert (await bench.pull({"batch": 1, "no_wait": True})).take()[0].status == "404 No Messages"
    assert (await bench.pull({"batch": 1, "expires": SECOND})).take()[0].status == "409 Exceeded MaxWaiting"
    await bench.fill("s.1")
    assert len(waiting.take()) == 1


async def test_rate_limit_spreads_deliveries_from_the_first_one_on(bench: ConsumerBench) -> None:
    """As much as the largest message goes at once, and an update that leaves the rate as it is fills no bucket."""
    bench.open(max_msg_size=60_000)
    mailbox = bench.mailbox("to.me")
    for _ in range(10):
        bench.publish("s.1", b"x" * 50_000)
    await bench.turn()
    consumer = bench.consumer(deliver_subject="to.me", rate_limit_bps=800_000, max_waiting=0)
    await bench.turn()
    assert len(mailbox.take()) == 1
    consumer.update(replace(consumer.config, description="the same rate"))
    await bench.turn()
    assert mailbox.take() == []
    for _ in range(4):
        await bench.advance(0.51)
    assert 3 <= len(mailbox.take()) <= 5


async def test_idle_ephemerals_are_reported_once(bench: ConsumerBench) -> None:
    consumer = bench.consumer(inactive_threshold=5 * 10**9)
    mailbox = await bench.pull({"expires": 3 * 10**9})
    await bench.advance(4)
    assert (bench.inactive, mailbox.take()[0].status) == ([], "408 Request Timeout")
    await bench.advance(1.1)
    await bench.advance(10)
    assert bench.inactive == ["c"]
    consumer.stop("Consumer Deleted")


async def test_waiting_requests_hear_of_the_end(bench: ConsumerBench) -> None:
    consumer = bench.consumer()
    mailbox = await bench.pull({"batch": 2})
    consumer.stop("Consumer Deleted")
    await bench.turn()
    assert [one.status for one in mailbox.take()] == ["409 Consumer Deleted"]
    assert (await bench.pull()).take() == []


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
async def test_acks_remove_messages_where_retention_says_so(tmp_path: Path, retention: str) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open(retention=retention)
    consumer = bench.consumer()
    await bench.fill(*SUBJECTS[:4])
    found = (await bench.pull({"batch": 4})).take()
    await bench.ack(found[1])
    await bench.ack(found[3], b"+TERM")
    assert bench.stream.log.messages == 2
    for one in (found[0], found[2]):
        await bench.ack(one)
    assert bench.stream.log.messages == 0
    assert positions(consumer) == ((4, 4), (4, 4))
    await bench.close()


async def test_interest_waits_for_every_consumer(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open(retention="interest")
    bench.consumer("a")
    bench.consumer("b", filter_subject="s.1")
    await bench.fill("s.0", "s.1")
    for one in (await bench.pull({"batch": 2}, name="a")).take():
        await bench.ack(one)
    assert bench.stream.log.messages == 1
    (last,) = (await bench.pull({"batch": 1}, name="b")).take()
    await bench.ack(last)
    assert bench.stream.log.messages == 0
    await bench.close()


@pytest.mark.parametrize("percent", ["100%", "+100", "500"])
async def test_sampled_acks_are_measured_from_the_last_sign_of_progress_on(bench: ConsumerBench, percent: str) -> None:
    await bench.fill("s.1")
    bench.consumer(sample_freq=percent)
    (first,) = (await bench.pull()).take()
    bench.clock.now += 3_000_000
    await bench.ack(first, b"+WPI")
    bench.clock.now += 5_000_000
    await bench.ack(first)
    ((subject, fields),) = bench.advisories
    assert subject == "$JS.EVENT.METRIC.CONSUMER.ACK.S.c"
    assert (fields["ack_time"], fields["deliveries"]) == (5_000_000, 1)


async def test_changed_filters_count_from_the_present_position(bench: ConsumerBench) -> None:
    await bench.fill(*SUBJECTS)
    consumer = bench.consumer(filter_subject="s.1")
    (await bench.pull({"batch": 2})).take()
    config = type(consumer.config).from_json({**consumer.config.to_json(), "filter_subject": "s.2"})
    consumer.update(config)
    assert counts(consumer)[3] == 2
    assert [one.numbers[1] for one in (await bench.pull({"batch": 5})).take()] == [6, 9]


async def test_one_that_is_made_to_stay_while_its_deletion_waits_is_not_inactive(bench: ConsumerBench) -> None:
    consumer = bench.consumer("C", inactive_threshold=1)
    await bench.advance(1)
    assert bench.inactive == ["C"]
    assert consumer.still_inactive()
    consumer.update(replace(consumer.config, inactive_threshold=0))
    assert not consumer.still_inactive()
    await bench.advance(1)
    assert bench.inactive == ["C"]


async def test_messages_and_acks_count_as_activity(bench: ConsumerBench) -> None:
    consumer = bench.consumer(inactive_threshold=5 * SECOND)
    await bench.pull({"batch": 1, "expires": 30 * SECOND})
    await bench.advance(4.9)
    mailbox = await bench.pull({"batch": 1, "expires": 30 * SECOND})
    await bench.advance(4.9)
    await bench.fill("s.1", "s.2")
    await bench.advance(4.9)
    (found,) = mailbox.take()
    await bench.ack(found)
    await bench.advance(4.9)
    assert bench.inactive == []
    consumer.stop()


async def test_a_message_that_nobody_fetches_again_keeps_no_consumer_for_ever(bench: ConsumerBench) -> None:
    await bench.fill("s.1")
    bench.consumer(inactive_threshold=5 * SECOND, ack_wait=20 * SECOND)
    assert len((await bench.pull()).take()) == 1
    for _ in range(4):
        await bench.advance(5)
    assert bench.inactive == []
    await bench.advance(5)
    await bench.advance(5)
    assert bench.inactive == ["c"]


async def test_a_message_that_is_to_wait_longer_leaves_the_redeliveries(bench: ConsumerBench) -> None:
    await bench.fill("s.1")
    consumer = bench.consumer(ack_wait=SECOND)
    (first,) = (await bench.pull()).take()
    await bench.advance(1.1)
    await bench.ack(first, b'-NAK {"delay":60000000000}')
    assert (await bench.pull({"batch": 1, "no_wait": True})).take()[0].status == "404 No Messages"
    for _ in range(200):
        await bench.ack(first, b"-NAK")
        await bench.ack(first, b'-NAK {"delay":60000000000}')
    assert consumer.standing()[1] == 1
    assert consumer.describe()["redeliveries"] <= 64
    await bench.advance(59)
    mailbox = await bench.pull({"batch": 1, "expires": 30 * SECOND})
    assert mailbox.take() == []
    await bench.advance(1.1)
    assert [one.numbers[0] for one in mailbox.take()] == [2]


async def test_a_message_that_was_told_to_wait_comes_behind_those_that_wait_already(bench: ConsumerBench) -> None:
    await bench.fill("s.1", "s.2", "s.3")
    bench.consumer(ack_wait=SECOND)
    found = (await bench.pull({"batch": 3})).take()
    await bench.advance(1.1)
    await bench.ack(found[0], b"-NAK 2s")
    await bench.ack(found[1], b"-NAK 1s")
    await bench.advance(2.1)
    assert [one.numbers[1] for one in (await bench.pull({"batch": 3})).take()] == [3, 2, 1]


@pytest.mark.parametrize("waits", [{"ack_wait": 5 * SECOND}, {"backoff": [5 * SECOND, 60 * SECOND], "max_deliver": 3}])
async def test_other_waits_hold_for_what_is_pending(bench: ConsumerBench, waits: dict[str, Any]) -> None:
    await bench.fill("s.1", "s.2", "s.3")
    consumer = bench.consumer(ack_wait=3600 * SECOND)
    found = (await bench.pull({"batch": 3})).take()
    await bench.ack(found[1], b'-NAK {"delay":20000000000}')
    consumer.update(type(consumer.config).from_json({**consumer.config.to_json(), **waits}))
    mailbox = await bench.pull({"batch": 5, "expires": 60 * SECOND})
    await bench.advance(4)
    assert mailbox.take() == []
    await bench.advance(1.1)
    assert [one.numbers[1] for one in mailbox.take()] == [1, 3]
    await bench.advance(15)
    assert 2 in [one.numbers[1] for one in mailbox.take()]


async def test_another_deliver_subject_gets_what_is_pending(bench: ConsumerBench) -> None:
    await bench.fill("s.1", "s.2", "s.3")
    before = bench.mailbox("to.one")
    consumer = bench.consumer(deliver_subject="to.one", max_waiting=0, max_ack_pending=2, ack_wait=3600 * SECOND)
    await bench.turn()
    first = before.take()
    await bench.ack(first[0])
    after = bench.mailbox("to.two")
    consumer.update(replace(consumer.config, deliver_subject="to.two"))
    await bench.turn()
    assert [one.numbers[:2] for one in after.take()] == [(2, 2), (2, 3)]


async def test_a_work_queue_keeps_a_message_for_mirrors_and_for_workers(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open(retention="workqueue")
    bench.consumer("worker")
    copied = bench.mailbox("to.mirror")
    bench.consumer("mirror", deliver_subject="to.mirror", ack_policy="none", direct=True, max_waiting=0)
    await bench.fill("s.1")
    assert len(copied.take()) == 1
    assert bench.stream.log.messages == 1
    (found,) = (await bench.pull(name="worker")).take()
    await bench.ack(found)
    assert bench.stream.log.messages == 0
    copied.close()
    await bench.fill("s.1", "s.2")
    (found,) = (await bench.pull(name="worker")).take()
    await bench.ack(found)
    assert bench.stream.log.messages == 2
    bench.stream.remove_consumer(bench.stream.consumers["mirror"])
    await bench.turn()
    assert bench.stream.log.messages == 1
    await bench.close()


async def test_a_pull_keeps_the_pace_at_which_messages_were_stored(bench: ConsumerBench) -> None:
    for number in range(3):
        bench.stream.log.append_message(b"s.1", b"", b"", 10**18 + number * 20 * SECOND)
    await bench.turn()
    consumer = bench.consumer(replay_policy="original", ack_wait=3600 * SECOND)
    mailbox = await bench.pull({"batch": 4, "expires": 100 * SECOND})
    assert [one.numbers[1] for one in mailbox.take()] == [1]
    assert counts(consumer)[3] == 1
    await bench.advance(19)
    assert mailbox.take() == []
    assert not consumer.is_stalled() and not consumer.is_stalled()
    await bench.advance(1)
    assert [one.numbers[1] for one in mailbox.take()] == [2]
    await bench.advance(20)
    await bench.fill("s.1")
    assert [one.numbers[1] for one in mailbox.take()] == [3, 4]
