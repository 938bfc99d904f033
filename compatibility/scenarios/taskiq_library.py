"""taskiq-nats: its three brokers, its results and its schedules."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from taskiq import AsyncBroker, ScheduledTask
from taskiq.api import run_receiver_task
from taskiq_nats import (
    NatsBroker,
    NATSKeyValueScheduleSource,
    NATSObjectStoreResultBackend,
    PullBasedJetStreamBroker,
    PushBasedJetStreamBroker,
)

from compatibility.scenarios.checks import Wrong, expect, play


def _name() -> str:
    return f"tasks{uuid.uuid4().hex}"


@asynccontextmanager
async def _working(broker: AsyncBroker) -> AsyncIterator[None]:
    """The broker as its clients and its workers see it."""
    broker.is_worker_process = True
    await broker.startup()
    worker = asyncio.create_task(run_receiver_task(broker))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await broker.shutdown()


async def _add_numbers(broker: AsyncBroker) -> None:
    @broker.task(task_name="add")
    async def add(one: int, two: int) -> int:
        return one + two

    async with _working(broker):
        # a worker of core NATS hears only what is sent after it has subscribed
        for _ in range(20):
            task = await add.kiq(20, 22)
            try:
                result = await task.wait_result(check_interval=0.05, timeout=1)
            except Exception as error:
                if type(error).__name__ != "TaskiqResultTimeoutError":
                    raise
            else:
                expect((result.is_err, result.return_value), (False, 42))
                return
        raise Wrong("no result")


async def tasks_over_core_nats(url: str) -> None:
    await _add_numbers(
        NatsBroker(url, subject=_name()).with_result_backend(NATSObjectStoreResultBackend(url, bucket_name=_name()))
    )


async def tasks_over_a_queue_group(url: str) -> None:
    await _add_numbers(
        NatsBroker(url, subject=_name(), queue="group").with_result_backend(
            NATSObjectStoreResultBackend(url, bucket_name=_name())
        )
    )


async def tasks_over_a_push_consumer(url: str) -> None:
    broker = PushBasedJetStreamBroker(url, subject=_name(), stream_name=_name(), queue=_name(), durable=_name())
    await _add_numbers(broker.with_result_backend(NATSObjectStoreResultBackend(url, bucket_name=_name())))


async def tasks_over_a_pull_consumer(url: str) -> None:
    broker = PullBasedJetStreamBroker(
        url, subject=_name(), stream_name=_name(), durable=_name(), pull_consume_timeout=1
    )
    await _add_numbers(broker.with_result_backend(NATSObjectStoreResultBackend(url, bucket_name=_name())))


async def many_tasks_are_done_once(url: str) -> None:
    done: list[int] = []
    full = asyncio.Event()
    broker = PullBasedJetStreamBroker(url, subject=_name(), stream_name=_name(), durable=_name())

    @broker.task(task_name="note")
    async def note(number: int) -> None:
        done.append(number)
        if len(done) == 100:
            full.set()

    async with _working(broker):
        for number in range(100):
            await note.kiq(number)
        await full.wait()
    expect(sorted(done), list(range(100)))


async def a_failure_is_a_result(url: str) -> None:
    broker = PullBasedJetStreamBroker(
        url, subject=_name(), stream_name=_name(), durable=_name(), pull_consume_timeout=1
    )
    broker.with_result_backend(NATSObjectStoreResultBackend(url, bucket_name=_name()))

    @broker.task(task_name="fail")
    async def fail() -> None:
        raise ValueError("no")

    async with _working(broker):
        result = await (await fail.kiq()).wait_result(check_interval=0.05, timeout=20)
        expect((result.is_err, type(result.error).__name__), (True, "ValueError"))


async def schedules_are_kept_and_removed(url: str) -> None:
    source = NATSKeyValueScheduleSource(url, bucket_name=_name())
    await source.startup()
    at = datetime(2030, 1, 1, tzinfo=UTC)
    for name in ("one", "two"):
        await source.add_schedule(
            ScheduledTask(task_name=name, labels={}, args=[1], kwargs={}, schedule_id=name, time=at)
        )
    expect(sorted(task.task_name for task in await source.get_schedules()), ["one", "two"])
    await source.delete_schedule("one")
    expect([(task.schedule_id, task.time) for task in await source.get_schedules()], [("two", at)])
    await source.shutdown()


if __name__ == "__main__":
    play(
        [
            tasks_over_core_nats,
            tasks_over_a_queue_group,
            tasks_over_a_push_consumer,
            tasks_over_a_pull_consumer,
            many_tasks_are_done_once,
            a_failure_is_a_result,
            schedules_are_kept_and_removed,
        ]
    )
