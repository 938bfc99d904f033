"""Direct gets, one stream's: they wait in bounded numbers, and what one of them does costs no other."""

from __future__ import annotations

import json
from collections import Counter
from types import TracebackType
from typing import Any

import pytest

from jetbroker import limits
from jetbroker.jetstream.models.contracts import ServerReservations
from jetbroker.jetstream.streams.direct import DirectGet
from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.tick import Tick
from tests.support.inprocess import FakeLoop
from tests.support.memory import instances

SUBJECT = b"$JS.API.DIRECT.GET.S"


class Direct:
    """A stream's log and its direct gets; `heard` are the first lines of the answers, with the number of the asker."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.tick = Tick(self.loop)  # type: ignore[arg-type]
        self.router = Router("$G", self.tick)
        self.log: Any = MemoryLog(self.tick)
        self.heard: list[tuple[int, bytes]] = []
        self.server = ServerReservations()
        gets = DirectGet(self.router, self.tick, self.log, "S", self.server)
        self.router.subscribe(gets, SUBJECT)
        self.router.subscribe(gets, SUBJECT + b".>")
        self.router.subscribe(CallbackReceiver(self.tick, self._keep), b"inbox.*")

    def _keep(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: object) -> None:
        self.heard.append((int(subject.rpartition(b".")[2]), headers.partition(b"\r\n")[0] + payload))

    def ask(self, number: int, **fields: Any) -> None:
        self.router.publish_bytes(SUBJECT, b"inbox.%d" % number, b"", json.dumps(fields).encode())


def test_more_than_ten_thousand_that_wait_are_refused() -> None:
    direct = Direct()
    direct.log.append_message(b"s", b"x")
    for number in range(10_005):
        direct.ask(number, seq=1)
    direct.loop.run()
    refused = [number for number, line in direct.heard if line == b"NATS/1.0 429 Too Many Requests"]
    assert refused == list(range(10_000, 10_005))
    assert [number for number, line in direct.heard if line == b"NATS/1.0x"] == list(range(10_000))
    direct.ask(0, seq=1)
    direct.loop.run()
    assert direct.heard[-1] == (0, b"NATS/1.0x")


def test_refused_requests_leave_nothing_behind() -> None:
    """An error that is raised again and again would keep the frames of each time."""
    direct = Direct()
    before = len(instances(TracebackType))
    for number in range(300):
        for body in (b"", b"{}", b"[", b'{"seq":-1}', b'{"seq":1,"last_by_subj":"s"}', b'{"start_time":"then"}'):
            direct.router.publish_bytes(SUBJECT, b"inbox.%d" % number, b"", body)
    direct.loop.run()
    assert len(direct.heard) == 1800
    assert {line for _, line in direct.heard} == {
        b"NATS/1.0 408 %b Request" % what for what in (b"Empty", b"Malformed", b"Bad")
    }
    assert len(instances(TracebackType)) - before < 300


def test_a_subject_with_one_message_is_found_wherever_a_search_begins() -> None:
    direct = Direct()
    for number in range(1, 4):
        direct.log.append_message(b"s.%d" % number, b"%d" % number)
    direct.ask(1, seq=1, next_by_subj="s.2")
    direct.ask(2, seq=2, next_by_subj="s.2")
    direct.ask(3, seq=3, next_by_subj="s.2")
    direct.ask(4, seq=1, next_by_subj="s.4")
    direct.loop.run()
    direct.log.append_message(b"s.2", b"4")
    direct.ask(5, seq=3, next_by_subj="s.2")
    direct.loop.run()
    assert [line[8:] for _, line in direct.heard] == [b"2", b"2", *[b" 404 Message Not Found"] * 2, b"4"]


def test_a_small_request_is_answered_between_two_pieces_of_a_large_one() -> None:
    direct = Direct()
    for _ in range(1000):
        direct.log.append_message(b"s", b"x")
    direct.ask(1, seq=1, batch=1000)
    direct.ask(2, seq=1)
    direct.loop.run()
    assert [number for number, _ in direct.heard].index(2) < 100
    assert direct.heard[-1] == (1, b"NATS/1.0 204 EOB")
    assert len(direct.heard) == 1002


def test_an_answer_is_no_longer_than_what_a_client_may_have_pending() -> None:
    direct = Direct()
    direct.server.max_pending = 6
    for number in range(6):
        direct.log.append_message(b"s.%d" % number, b"x")
    direct.ask(1, seq=1, batch=10)
    direct.ask(2, multi_last=["s.*"])
    direct.ask(3, seq=1, batch=10, max_bytes=100)
    direct.ask(4, seq=1, batch=10, max_bytes=-1)
    direct.ask(5, multi_last=["s.*"], max_bytes=-1)
    direct.loop.run()
    answers = Counter(number for number, _ in direct.heard)
    assert answers == {1: 2 + 1, 2: 2 + 1, 3: 6 + 1, 4: 1 + 1, 5: 1 + 1}


def test_messages_far_apart_are_found_and_counted() -> None:
    """What lies between is passed over, however many sequences that are."""
    direct = Direct()
    places = [1, 70_000, 70_001, 2**40, 2**40 + 200_000]
    for place in places:
        if place > direct.log.last_seq + 1:
            direct.log.skip_to(place)
        direct.log.append_message(b"a" if place != 70_001 else b"b", b"%d" % place)
    direct.ask(1, seq=1, next_by_subj="a", batch=10)
    direct.ask(2, seq=70_001, next_by_subj="a")
    direct.ask(3, seq=2, next_by_subj="c")
    direct.ask(4, multi_last=["a", "*", "a"], up_to_seq=2**40)
    direct.ask(5, last_by_subj="*")
    direct.loop.run()
    of = {asker: [line[8:] for number, line in direct.heard if number == asker] for asker in range(1, 6)}
    assert of[1] == [b"1", b"70000", b"%d" % 2**40, b"%d" % (2**40 + 200_000), b" 204 EOB"]
    assert of[2] == [b"%d" % 2**40]
    assert of[3] == [b" 404 Message Not Found"]
    assert of[4] == [b"70001", b"%d" % 2**40, b" 204 EOB"]
    assert of[5] == [b"%d" % (2**40 + 200_000)]


def test_thousands_that_name_subjects_in_one_turn_get_each_its_own_answer() -> None:
    direct = Direct()
    for number in range(2000):
        direct.log.append_message(b"key.%d" % number, b"%d" % number)
    asked = [7919 * number % 2100 for number in range(3000)]
    for number, key in enumerate(asked):
        direct.router.publish_bytes(b"%b.key.%d" % (SUBJECT, key), b"inbox.%d" % number, b"", b"")
    direct.loop.run()
    missing = b"NATS/1.0 404 Message Not Found"
    expected = [b"NATS/1.0%d" % key if key < 2000 else missing for key in asked]
    assert direct.heard == list(enumerate(expected))


def test_the_last_message_is_found_although_all_are_replaced_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_NS", 0)
    direct = Direct()
    for number in range(20_000):
        direct.log.append_message(b"s.%d" % number, b"old")
    direct.ask(1, last_by_subj="s.*")
    direct.tick.run()
    assert direct.heard == []
    monkeypatch.undo()
    for number in range(20_000):
        direct.log.append_message(b"s.%d" % number, b"new")
        direct.log.remove(number + 1)
    direct.loop.run()
    assert direct.heard == [(1, b"NATS/1.0new")]
