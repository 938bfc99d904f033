"""What waits for the JetStream API: in whose turn, and how much of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from jetbroker import limits
from jetbroker.jetstream.timing.lanes import Lane
from jetbroker.jetstream.timing.requests import RequestQueue, RequestQueues
from jetbroker.turns import Turn, next_turn


def noted(done: list[str], name: str) -> Callable[[], Awaitable[None]]:
    async def job() -> None:
        done.append(name)

    return job


async def run(job: Callable[[], Awaitable[None]]) -> None:
    await job()


async def emptied(lane: Lane) -> None:
    worker = asyncio.create_task(lane.work())
    while lane.jobs:
        await asyncio.sleep(0)
    lane.stop()
    await worker


async def test_clients_take_turns_and_keep_their_own_order() -> None:
    done: list[str] = []
    lane = Lane(run)
    for name in ("a1", "a2", "a3"):
        lane.add(noted(done, name), 1)
    lane.add(noted(done, "b1"), 2)
    lane.add(noted(done, "broker"))
    lane.add(noted(done, "b2"), 2)
    await emptied(lane)
    assert done == ["a1", "b1", "broker", "a2", "b2", "a3"]


async def test_the_client_with_most_loses_its_requests() -> None:
    done: list[str] = []
    lane = Lane(run)
    for number in range(5):
        lane.add(noted(done, f"many{number}"), 1, 10)
    lane.add(noted(done, "large"), 2, 1000)
    lane.add(noted(done, "small"), 3, 1)
    for number in range(9):
        lane.add(noted(done, f"broker{number}"), None, 5000)
    assert (lane.jobs, lane.bytes, lane.bytes_of(1)) == (16, 46_051, 50)
    assert lane.drop_largest(by_bytes=True) == 1
    assert lane.drop_largest(by_bytes=False) == 5
    assert (lane.jobs, lane.bytes, lane.bytes_of(1)) == (10, 45_001, 0)
    await emptied(lane)
    assert done == ["small", *(f"broker{number}" for number in range(9))]
    assert lane.drop_largest(by_bytes=True) == 0


async def test_the_account_with_most_loses_requests_when_the_server_keeps_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "JS_API_SERVER_BYTES", 1000)
    done: list[str] = []
    told: dict[str, list[int]] = {"quiet": [], "loud": []}
    queues = RequestQueues()
    quiet, loud = (RequestQueue(pytest.fail, queues) for _ in range(2))
    quiet.tell_dropped, loud.tell_dropped = told["quiet"].append, told["loud"].append
    quiet.start()
    loud.start()
    quiet.add(noted(done, "q1"), 1, 100, is_info=False)
    for number in range(8):
        loud.add(noted(done, f"l{number}"), 2, 100, is_info=True)
    loud.add(noted(done, "other"), 3, 50, is_info=False)
    assert (queues.kept.bytes, told) == (950, {"quiet": [], "loud": []})
    quiet.add(noted(done, "q2"), 1, 100, is_info=True)
    assert (queues.kept.bytes, told) == (250, {"quiet": [], "loud": [8]})
    while queues.kept.bytes:
        await asyncio.sleep(0)
    await quiet.stop()
    await loud.stop()
    assert sorted(done) == ["other", "q1", "q2"]


async def test_each_lane_takes_as_many_requests_as_are_configured() -> None:
    told: list[int] = []
    queue = RequestQueue(pytest.fail, RequestQueues(changes=3, infos=2))
    queue.tell_dropped = told.append
    for client in range(3):
        queue.add(noted([], "change"), client, 1, is_info=False)
    queue.add(noted([], "info"), 7, 1, is_info=True)
    queue.add(noted([], "info"), 7, 1, is_info=True)
    assert (told, queue.inflight) == ([], 5)
    queue.add(noted([], "info"), 8, 1, is_info=True)
    assert (told, queue.inflight) == ([2], 4)
    queue.add(noted([], "change"), 9, 1, is_info=False)
    assert (told, queue.inflight) == ([2, 1], 4)


async def test_what_is_dropped_at_the_end_is_not_kept() -> None:
    queues = RequestQueues()
    queue = RequestQueue(pytest.fail, queues)
    queue.start()
    queue.add(noted([], "x"), 1, 100, is_info=False)
    await queue.stop()
    assert (queues.kept.bytes, queues.open) == (0, set())


async def test_long_jobs_go_on_one_per_iteration_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_NS", 0)  # each turn is over at once
    steps: list[tuple[int, int]] = []
    iteration = 0

    async def work(number: int) -> None:
        turn = Turn()
        for _ in range(5):
            await turn.rest()
            steps.append((iteration, number))

    async def count() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    await asyncio.gather(*(work(number) for number in range(3)))
    counter.cancel()
    assert [number for _, number in steps] == [0, 1, 2] * 5
    assert len({at for at, _ in steps}) == len(steps)


async def test_who_gives_up_waiting_holds_nobody_up() -> None:
    gone, stays = (asyncio.create_task(next_turn()) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert isinstance(await asyncio.wait_for(stays, 5), Turn)
