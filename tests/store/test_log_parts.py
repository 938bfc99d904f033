"""The parts of a log in files, each alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from jetbroker.errors import StorageError
from jetbroker.store.faults import Fault, Faults, Retry
from jetbroker.store.log.health import TRANSITIONS, Health, WriteEvent, Writing
from jetbroker.store.log.removals import PendingRemovals
from tests.store.support import ACCOUNT, Told, run

FAULT = Fault(ACCOUNT, "S", "", "1.seg", "No space left on device")
ERROR = StorageError("1.seg: No space left on device")


class Sick:
    """A health with a store's faults and a retry whose tries are counted."""

    def __init__(self, reserve: Any = None) -> None:
        loop = asyncio.get_running_loop()
        self.told = Told()
        self.faults = Faults(loop, self.told)
        self.tries = 0
        self.health = Health(Retry(loop, self.tried), self.faults, reserve)

    def tried(self) -> None:
        self.tries += 1

    def after(self, events: Iterable[WriteEvent]) -> Writing:
        for event in events:
            if event == WriteEvent.REFUSED:
                self.health.refuse(FAULT, ERROR)
            elif event == WriteEvent.NOT_SYNCED:
                self.health.doubt(FAULT)
            else:
                self.health.take(event)
        return self.health.state


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("REFUSED", "REFUSING"),
        ("REFUSED COMMITTED", "REFUSING"),  # of what was written before
        ("REFUSED TRIED", "TRYING"),
        ("REFUSED TRIED REFUSED", "REFUSING"),
        ("REFUSED TRIED COMMITTED", "WORKS"),
        ("REFUSED MOVED", "MOVING"),
        ("REFUSED MOVED COMMITTED", "WORKS"),
        ("REFUSED MOVED REFUSED GIVEN_UP", "PAUSED"),
        ("REFUSED GIVEN_UP REFUSED MOVED COMMITTED", "WORKS"),
        ("REFUSED GIVEN_UP TRIED COMMITTED", "WORKS"),
        ("NOT_SYNCED", "UNSYNCED"),
        ("NOT_SYNCED COMMITTED", "UNSYNCED"),  # written, and no more than that
        ("NOT_SYNCED SYNCED", "WORKS"),
        ("NOT_SYNCED REFUSED SYNCED", "REFUSING"),
        ("REFUSED TRIED NOT_SYNCED", "REFUSING"),
    ],
)
def test_health_follows_what_the_disk_does(events: str, state: str) -> None:
    async def scenario() -> None:
        sick = Sick()
        assert sick.after(WriteEvent[name] for name in events.split()) is Writing[state]
        works = state == "WORKS"
        assert (list(sick.faults) == []) is works
        assert len(sick.told.errors) == 1
        assert len(sick.told.infos) == (1 if works else 0)
        assert sick.health.waits is not works
        assert (sick.health.failed is None) is (works or state == "UNSYNCED")
        sick.health.close()
        assert list(sick.faults) == []

    run(scenario())


def test_every_event_leads_somewhere_from_every_state() -> None:
    assert set(TRANSITIONS) == set(WriteEvent)
    assert {len(row) for row in TRANSITIONS.values()} == {len(Writing)}


def test_appends_fail_in_exactly_the_states_that_say_so() -> None:
    async def scenario() -> None:
        for events in product(WriteEvent, repeat=4):
            sick = Sick()
            reachable = True
            for event in events:
                # what no log does: a file is moved or given up only after its failure
                failed = sick.health.failed is not None
                reachable = reachable and (failed or event not in (WriteEvent.MOVED, WriteEvent.GIVEN_UP))
                if not reachable:
                    break
                state = sick.after([event])
                may_append = state in (Writing.WORKS, Writing.UNSYNCED)
                assert (sick.health.failed is None) is may_append, events
                assert (list(sick.faults) == []) is (state is Writing.WORKS), events
            sick.health.close()

    run(scenario())


def test_the_next_try_comes_by_itself() -> None:
    async def scenario() -> None:
        sick = Sick()
        sick.after([WriteEvent.REFUSED])
        async with asyncio.timeout(5):
            while not sick.tries:
                await asyncio.sleep(0.01)
        assert not sick.health.waits
        sick.health.try_later()
        assert sick.health.waits
        sick.health.close()
        assert not sick.health.waits

    run(scenario())


def test_appends_wait_for_the_reserve() -> None:
    class Reserve:
        held = True

        def restore(self) -> bool:
            return self.held

        def free(self) -> None:
            self.held = False

    async def scenario() -> None:
        reserve = Reserve()
        health = Sick(reserve).health
        assert health.has_reserve()
        health.use_reserve()
        assert not reserve.held
        assert not health.has_reserve()
        bare = Sick().health
        bare.use_reserve()
        assert bare.has_reserve()

    run(scenario())


# --- removals ---


def batch(removals: PendingRemovals) -> list[tuple[int, int]]:
    found = removals.next_batch()
    return [] if found is None else found.pairs()


def test_each_batch_of_removals_is_written_twice() -> None:
    removals = PendingRemovals()
    assert batch(removals) == []
    removals.add(1, 2)
    removals.add(3, 4)
    removals.add(9, 9)
    assert batch(removals) == [(1, 4), (9, 9)]
    removals.written()
    assert batch(removals) == []
    removals.add(6, 6)
    assert batch(removals) == [(1, 4), (6, 6), (9, 9)]
    removals.written()
    removals.new_file()
    removals.add(20, 20)
    assert batch(removals) == [(20, 20)]


def test_removals_that_did_not_get_into_the_file_wait_again() -> None:
    removals = PendingRemovals()
    removals.add(1, 1)
    batch(removals)
    removals.written()
    removals.add(3, 5)
    batch(removals)
    removals.add(8, 20)
    removals.add(30, 30)
    removals.take_back(10)  # appends from 11 on were taken back, too
    assert batch(removals) == [(3, 5), (8, 10)]
    removals.take_back(10)
    assert batch(removals) == [(3, 5), (8, 10)]


def test_a_removal_that_is_not_written_can_be_undone() -> None:
    removals = PendingRemovals()
    removals.add(1, 5)
    removals.add(8, 8)
    removals.undo([0, 1, 3, 8, 99])
    assert batch(removals) == [(2, 2), (4, 5)]
