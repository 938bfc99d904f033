"""Publish features that have their own headers: nats-server and jetbroker answer and store the same bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import nats
import pytest
import pytest_asyncio

from tests.differential.batch_rows import cases as batch_cases
from tests.differential.counter_rows import cases as counter_cases
from tests.differential.judgement_rows import cases as judgement_cases
from tests.differential.number_rows import cases as number_cases
from tests.differential.schedule_rows import cases as schedule_cases
from tests.support.process import ServerProcess
from tests.support.publishes import Case, Publisher

pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="module")]

BATCHES = batch_cases()
COUNTERS = counter_cases()
JUDGEMENTS = judgement_cases()
NUMBERS = number_cases()
SCHEDULES = schedule_cases()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(reference_server: ServerProcess, broker: ServerProcess) -> AsyncIterator[list[Publisher]]:
    clients = [await nats.connect(server.url, allow_reconnect=False) for server in (reference_server, broker)]
    publishers = [Publisher(client) for client in clients]
    for publisher in publishers:
        await publisher.start()
    yield publishers
    for client in clients:
        await client.close()


@pytest.mark.parametrize("case", BATCHES, ids=[case.name for case in BATCHES])
async def test_atomic_batches(both: list[Publisher], case: Case) -> None:
    expected, got = both
    assert await got.play(case) == await expected.play(case)


@pytest.mark.parametrize("case", COUNTERS, ids=[case.name for case in COUNTERS])
async def test_counters(both: list[Publisher], case: Case) -> None:
    expected, got = both
    assert await got.play(case) == await expected.play(case)


@pytest.mark.parametrize("case", SCHEDULES, ids=[case.name for case in SCHEDULES])
async def test_schedules(both: list[Publisher], case: Case) -> None:
    expected, got = both
    assert await got.play(case) == await expected.play(case)


@pytest.mark.parametrize("case", NUMBERS, ids=[case.name for case in NUMBERS])
async def test_numbers_in_headers(both: list[Publisher], case: Case) -> None:
    expected, got = both
    assert await got.play(case) == await expected.play(case)


@pytest.mark.parametrize("case", JUDGEMENTS, ids=[case.name for case in JUDGEMENTS])
async def test_what_comes_first_and_what_follows(both: list[Publisher], case: Case) -> None:
    expected, got = both
    assert await got.play(case) == await expected.play(case)
