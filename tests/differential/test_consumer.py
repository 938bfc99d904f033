"""The same conversations about streams and consumers with nats-server and jetbroker: the answers are equal."""

from __future__ import annotations

import nats
import pytest

from tests.differential.consumer_life_scenarios import LIFE_SCENARIOS
from tests.differential.consumer_scenarios import SCENARIOS, Scenario
from tests.differential.priority_scenarios import PRIORITY_SCENARIOS
from tests.differential.stream_subject_scenarios import SUBJECT_SCENARIOS
from tests.support.jetstream_probe import Probe
from tests.support.process import ServerProcess

pytestmark = pytest.mark.differential


async def _play(server: ServerProcess, scenario: Scenario) -> object:
    client = await nats.connect(server.url, allow_reconnect=False, connect_timeout=5)
    probe = Probe(client)
    try:
        await probe.clear()
        return await scenario(probe, scenario.__name__)
    finally:
        await client.close()


ALL = SCENARIOS + LIFE_SCENARIOS + PRIORITY_SCENARIOS + SUBJECT_SCENARIOS


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.__name__)
async def test_answers_are_equal(scenario: Scenario, reference_server: ServerProcess, broker: ServerProcess) -> None:
    expected = await _play(reference_server, scenario)
    assert await _play(broker, scenario) == expected
