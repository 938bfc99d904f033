"""Each part of a consumer does its work alone: over a log in memory, with neither a stream nor a consumer."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jetbroker import limits
from jetbroker.forms.gotext import Timestamp
from jetbroker.jetstream.consumers import placement
from jetbroker.jetstream.consumers.consumer import AckReceiver, Acks
from jetbroker.jetstream.consumers.core import (
    ConsumerAdvisories,
    ConsumerCore,
    ConsumerTurn,
    Delivery,
    Inactivity,
    ReplayPace,
)
from jetbroker.jetstream.consumers.pull import PullDelivery
from jetbroker.jetstream.consumers.push import FlowControl, PushDelivery, RateLimit
from jetbroker.jetstream.consumers.state import ConsumerState, replay
from jetbroker.jetstream.consumers.tracker import AckPolicy, AckTracker
from jetbroker.jetstream.host.advisories import Advisories
from jetbroker.jetstream.models.config import ConsumerConfig
from jetbroker.jetstream.timing.work_turns import WorkTurns
from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.stream_log import SubjectFilter
from jetbroker.tick import Tick
from jetbroker.turns import at_once

SECOND = 1_000_000_000


class Parts:
    """A core, what takes its acks, and a router with listeners; what would be called in turns is called by hand."""

    def __init__(self, messages: int = 0, *patterns: bytes) -> None:
        self.now = 1_000 * SECOND
        self.tick = Tick(asyncio.get_running_loop())
        self.router = Router("$G", self.tick)
        self.log = MemoryLog(self.tick)
        for number in range(1, messages + 1):
            self.log.append_message(b"s.%d" % (number % 2), b"%d" % number, time_ns=number * SECOND)
        self.published: list[tuple[str, dict[str, Any]]] = []
        told = SimpleNamespace(publish=lambda *advisory: self.published.append(advisory))
        self.advisories = ConsumerAdvisories(cast(Advisories, told), "S", "c")
        self.turn = ConsumerTurn(self.tick, CallbackReceiver(self.tick, print), lambda: self.now)
        self.tracker = AckTracker(AckPolicy.POLICY_EXPLICIT)
        self.core = ConsumerCore(
            self.log,
            SubjectFilter(*patterns),
            self.tracker,
            self.turn,
            WorkTurns(self.tick),
            self.router,
            self.advisories,
        )
        self.acks = Acks(self.tracker, self.core.cursor, self.turn, self.advisories)
        self.idle = Inactivity()
        self.config = ConsumerConfig(ack_policy="explicit", ack_wait=30 * SECOND, max_ack_pending=100, max_waiting=10)
        self.core.configure(self.config)
        self.core.move_to(1)
        self.tick.run()

    def listen(self, subject: str) -> list[tuple[str, bytes, bytes]]:
        """What comes to this subject: (ack subject, headers, payload)."""
        found: list[tuple[str, bytes, bytes]] = []
        receiver = CallbackReceiver(
            self.tick, lambda _, reply, headers, payload, __: found.append(((reply or b"").decode(), headers, payload))
        )
        self.router.subscribe(receiver, subject.encode())
        return found

    def attach(self, delivery: Delivery, **fields: Any) -> Delivery:
        """Let this delivery hear of clients."""
        delivery.configure(ConsumerConfig(**(vars(self.config) | fields)))
        delivery.begin()
        for receiver, subject in delivery.receivers():
            self.router.subscribe(receiver, subject)
        if self.config.ack_policy == "explicit":
            prefix = b"$JS.ACK.S.c."
            self.router.subscribe(AckReceiver(self.acks, delivery, len(prefix)), prefix + b">")
        return delivery

    def pull(self, **fields: Any) -> Delivery:
        return self.attach(PullDelivery(self.core, self.idle), **fields)

    def push(self, replay_until: int = 0, **fields: Any) -> Delivery:
        return self.attach(PushDelivery(self.core, self.idle, replay_until), deliver_subject="d", **fields)

    def ask(self, reply: str, **request: Any) -> None:
        self.router.publish_bytes(
            b"$JS.API.CONSUMER.MSG.NEXT.S.c", reply.encode(), b"", json.dumps(request).encode() if request else b""
        )

    def ack(self, subject: str, body: bytes = b"", reply: bytes | None = None) -> None:
        self.router.publish_bytes(subject.encode(), reply, b"", body)

    def serve(self, delivery: Delivery) -> None:
        """A turn of the delivery."""
        self.turn.begin()
        delivery.take_requests()
        delivery.deliver()
        self.tick.run()


def payloads(found: list[tuple[str, bytes, bytes]]) -> list[bytes]:
    return [payload for _, _, payload in found]


async def test_a_pull_serves_its_requests_in_turn() -> None:
    parts = Parts(4)
    delivery = parts.pull()
    one, two = parts.listen("one"), parts.listen("two")
    parts.ask("one", batch=2)
    parts.ask("two", batch=2)
    assert not one and not two
    parts.serve(delivery)
    assert (payloads(one), payloads(two)) == ([b"1", b"3"], [b"2", b"4"])
    assert parts.tracker.counts()[0] == 4


async def test_a_pull_that_does_not_wait_hears_that_there_is_nothing() -> None:
    parts = Parts()
    delivery = parts.pull()
    found = parts.listen("one")
    parts.ask("one", no_wait=True)
    parts.serve(delivery)
    assert [headers for _, headers, _ in found] == [b"NATS/1.0 404 No Messages\r\n\r\n"]
    assert not delivery.in_use()


async def test_a_pull_says_when_its_oldest_request_ends() -> None:
    parts = Parts()
    delivery = parts.pull()
    parts.listen("one")
    parts.ask("one", expires=5 * SECOND)
    parts.serve(delivery)
    assert delivery.earliest() == parts.now + 5 * SECOND
    delivery.end("Consumer Deleted")
    assert delivery.earliest() == 0


async def test_an_ack_finishes_its_message() -> None:
    parts = Parts(2)
    delivery = parts.pull()
    found = parts.listen("one")
    parts.ask("one", batch=2)
    parts.serve(delivery)
    parts.ack(found[0][0], reply=b"done")
    assert parts.tracker.counts()[0] == 1
    assert (parts.tracker.floor_cseq, parts.tracker.floor_seq) == (1, 1)
    assert parts.acks.replies == [b"done"]


@pytest.mark.parametrize("numbers", ["1.3.3.0.0", "1.x.1.0.0", "1"])
async def test_an_ack_of_what_was_not_delivered_changes_nothing(numbers: str) -> None:
    parts = Parts(3)
    delivery = parts.pull()
    parts.listen("one")
    parts.ask("one", batch=2)
    parts.serve(delivery)
    parts.ack(f"$JS.ACK.S.c.{numbers}", reply=b"done")
    assert parts.tracker.counts()[0] == 2
    assert parts.acks.replies == []


async def test_an_ack_may_ask_for_the_next_message() -> None:
    parts = Parts(2)
    delivery = parts.pull()
    found = parts.listen("one")
    parts.ask("one")
    parts.serve(delivery)
    parts.ack(found[0][0], b"+NXT", b"one")
    parts.serve(delivery)
    assert payloads(found) == [b"1", b"2"]
    assert parts.acks.replies == []


async def test_what_is_refused_comes_again_and_is_told() -> None:
    parts = Parts(1)
    delivery = parts.pull()
    found = parts.listen("one")
    parts.ask("one", batch=2)
    parts.serve(delivery)
    parts.ack(found[0][0], b"-NAK")
    parts.serve(delivery)
    assert payloads(found) == [b"1", b"1"]
    parts.ack(found[1][0], b"+TERM no use")
    assert parts.tracker.counts()[0] == 0
    parts.advisories.publish()
    assert [(subject, fields["type"].rpartition(".")[2]) for subject, fields in parts.published] == [
        ("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.S.c", "nak"),
        ("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.c", "terminated"),
    ]
    assert parts.published[1][1]["reason"] == "no use"
    assert parts.advisories.waiting == []


async def test_a_push_waits_for_a_listener_on_its_subject() -> None:
    parts = Parts(2)
    delivery = parts.push()
    others = parts.listen(">")
    parts.serve(delivery)
    assert others == []
    found = parts.listen("d")
    parts.serve(delivery)
    assert payloads(found) == [b"1", b"2"]


async def test_a_push_refuses_requests() -> None:
    parts = Parts(1)
    delivery = parts.push()
    found = parts.listen("one")
    parts.ask("one")
    parts.serve(delivery)
    assert [headers for _, headers, _ in found] == [b"NATS/1.0 409 Consumer is push based\r\n\r\n"]


async def test_a_push_replays_at_the_original_pace() -> None:
    parts = Parts(3)
    delivery = parts.push(replay_until=3)
    found = parts.listen("d")
    parts.serve(delivery)
    assert payloads(found) == [b"1"]
    assert delivery.earliest() == parts.now + SECOND
    parts.now += SECOND
    parts.serve(delivery)
    assert payloads(found) == [b"1", b"2"]


async def test_a_push_that_has_ended_delivers_no_more() -> None:
    parts = Parts(1)
    delivery = parts.push()
    delivery.end("")
    parts.router.subscribe(CallbackReceiver(parts.tick, print), b"d")
    parts.tick.run()
    assert not delivery.open
    assert parts.tracker.delivered_seq == 0


def test_the_window_of_flow_control_opens_with_each_answer() -> None:
    flow = FlowControl(b"$JS.FC.S.c.")
    window = flow.window
    flow.sent(window // 2)
    assert not flow.wants_request()
    flow.sent(window)
    assert flow.wants_request()
    assert flow.stalled()
    asked = flow.open_request()
    assert not flow.wants_request()
    flow.sent(10)
    assert not flow.answered(asked + b"x")
    assert flow.answered(asked)
    assert (flow.window, flow.outstanding, flow.open_subject) == (2 * window, 10, None)
    assert not flow.answered(asked)


def test_a_rate_limit_lets_no_more_than_its_burst_go_at_once() -> None:
    rate = RateLimit(8 * 1_000_000, 500_000, 0)
    assert rate.take(500_000, 0) == 0
    wait = rate.take(250_000, 0)
    assert wait == pytest.approx(SECOND // 4, abs=2)
    assert rate.take(250_000, wait) == 0
    assert rate.take(900_000, wait) == pytest.approx(SECOND // 2, abs=2)  # larger than all that may go at once


def test_replay_keeps_the_distance_of_stored_messages() -> None:
    pace = ReplayPace(2)
    assert pace.due_ns(1, 5 * SECOND, 100 * SECOND) == 0
    pace.sent(1, 5 * SECOND, 100 * SECOND)
    assert pace.due_ns(2, 8 * SECOND, 100 * SECOND) == 103 * SECOND
    pace.sent(2, 8 * SECOND, 103 * SECOND)
    assert pace.due_ns(3, 20 * SECOND, 103 * SECOND) == 0


def test_inactivity_counts_only_where_there_is_a_threshold() -> None:
    idle = Inactivity()
    idle.touch(7)
    assert idle.at_ns == 0
    idle.threshold_ns = 10
    idle.touch(7)
    assert idle.at_ns == 17
    idle.threshold_ns = 0
    idle.restart(20)
    assert idle.at_ns == 0


@pytest.mark.parametrize(
    ("policy", "first"),
    [
        ({"deliver_policy": "all"}, 1),
        ({"deliver_policy": "last"}, 4),
        ({"deliver_policy": "new"}, 6),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, 4),
        ({"deliver_policy": "last_per_subject"}, 4),
    ],
)
async def test_a_new_consumer_begins_where_its_policy_says(policy: dict[str, Any], first: int) -> None:
    parts = Parts(5, b"s.0")
    if policy["deliver_policy"] == "all":
        parts = Parts(5)
    steps = placement.begin(parts.core, ConsumerConfig(**policy), 0, kept=False, one_each=False)
    if steps is not None:
        at_once(steps)
    delivery = parts.pull()
    found = parts.listen("one")
    parts.ask("one")
    parts.log.append_message(b"s.0", b"6")
    parts.tick.run()
    parts.serve(delivery)
    assert payloads(found) == [b"%d" % first]


@pytest.mark.parametrize(
    ("patterns", "first"),
    [
        ((b"s.0",), 3),
        ((b"late",), 7),
        ((b"s.0", b"late"), 3),
        ((b"none",), 3),
        ((), 3),
        ((b"late", *(b"n.%d" % number for number in range(limits.JS_START_SUBJECTS))), 3),
    ],
)
async def test_a_start_in_time_moves_to_the_first_wanted_message_if_none_is_in_front(
    patterns: tuple[bytes, ...], first: int
) -> None:
    parts = Parts(6, *patterns)
    for subject in (b"late", b"last"):
        parts.log.append_message(subject, b"x", time_ns=9 * SECOND)
    config = ConsumerConfig(deliver_policy="by_start_time", opt_start_time=Timestamp(3 * SECOND))
    assert placement.begin(parts.core, config, 0, kept=False, one_each=False) is None
    assert parts.tracker.delivered_seq + 1 == first


async def test_a_core_goes_on_from_its_snapshot() -> None:
    before = Parts(3)
    delivery = before.pull()
    found = before.listen("one")
    before.ask("one", batch=2)
    before.serve(delivery)
    before.ack(found[0][0])
    state = replay([before.core.snapshot()], 1, 3, 3)
    assert isinstance(state, ConsumerState)

    after = Parts(3)
    placement.restore(after.core, after.config, state)
    assert after.tracker.counts() == (1, 0, 0)
    assert (after.tracker.delivered_seq, after.tracker.floor_seq) == (2, 1)
    found = after.listen("one")
    delivery = after.pull()
    after.ask("one")
    after.serve(delivery)
    assert payloads(found) == [b"3"]
