"""Fast batches: nats-server and jetbroker tell their publishers the same lines and store the same messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import nats
import pytest
import pytest_asyncio

from tests.differential.fast_rows import cases
from tests.support.fast import FastCase, FastPublisher
from tests.support.process import ServerProcess

pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="module")]

CASES = cases()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(reference_server: ServerProcess, broker: ServerProcess) -> AsyncIterator[list[FastPublisher]]:
    clients = [await nats.connect(server.url, allow_reconnect=False) for server in (reference_server, broker)]
    publishers = [FastPublisher(client) for client in clients]
    for publisher in publishers:
        await publisher.listen()
    yield publishers
    for client in clients:
        await client.close()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_the_same_lines(both: list[FastPublisher], case: FastCase) -> None:
    reference, ours = both
    expected = await reference.play(case)
    assert await ours.play(case, reference.count()) == expected
