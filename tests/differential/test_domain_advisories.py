"""What a consumer tells by advisories names the domain of its JetStream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import nats
import pytest

from tests.differential.conftest import Pair
from tests.differential.priority_scenarios import Groups, numbered
from tests.support.clients import settle
from tests.support.jetstream_probe import Probe
from tests.support.process import ServerProcess

pytestmark = pytest.mark.differential

CONFIG = "jetstream { store_dir: STORE, domain: edge }"


async def told(server: ServerProcess) -> Any:
    """Who is pinned, a nak, a term, a used-up message, an ack sample, a pause."""
    client = await nats.connect(server.url, allow_reconnect=False, connect_timeout=5)
    probe = Probe(client)
    await probe.clear()
    groups = await Groups(probe, "S").make("pinned_client", 3, max_deliver=1, sample_freq="100")
    box = await probe.inbox("$JS.EVENT.*.CONSUMER.>")
    inbox = await groups.pull(batch=3)
    replies = [(await inbox.raw()).reply for _ in range(3)]
    for reply, body in zip(replies, (b"-NAK", b"+TERM", b"+ACK"), strict=True):
        await client.publish(reply, body)
        await settle(client)
    await groups.unpin()
    await probe.api("CONSUMER.PAUSE.S.c", {"pause_until": "2098-01-01T00:00:00Z"})
    # nats-server tells of the creation a moment after its answer: before or behind the subscription
    found = {subject: json.loads(data) for subject, _, _, data in await box.rest() if ".CREATED." not in subject}
    await client.close()
    return {subject: (fields["type"], fields.get("domain")) for subject, fields in numbered(found).items()}


async def test_advisories_of_a_consumer_name_the_domain(pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of(CONFIG)
    expected = await told(pair.reference)
    assert await told(pair.broker) == expected
    assert {domain for _, domain in expected.values()} == {"edge"}
    assert len(expected) >= 5
