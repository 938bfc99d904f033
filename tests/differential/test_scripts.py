"""Scripts of one to four clients, made by hypothesis, with each configuration: both servers say the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.differential.conftest import Pair
from tests.differential.strategies import scripts
from tests.differential.variants import VARIANTS, Variant
from tests.support.depth import IS_DEEP
from tests.support.scripts import Script, Seen, new_name, play

pytestmark = pytest.mark.differential

SECONDS_EACH = 3.0  # for one configuration; the profile `nightly` has no such bound
EXAMPLES = settings.get_profile("nightly").max_examples if IS_DEEP else 20


def _report(script: Script, expected: Seen, got: Seen) -> str:
    lines = ["the servers differ on this script:"]
    lines += [f"  {step.client}: {step.data!r} cut at {step.cuts} {step.login or ''}" for step in script.steps]
    for number, (theirs, ours) in enumerate(zip(expected.clients, got.clients, strict=True)):
        if (theirs, expected.ends[number]) != (ours, got.ends[number]):
            lines.append(f"client {number}, nats-server ({expected.ends[number]}):")
            lines += [f"    {item}" for item in theirs]
            lines.append(f"client {number}, jetbroker ({got.ends[number]}):")
            lines += [f"    {item}" for item in ours]
    if expected.queued != got.queued:
        lines += [f"queues, nats-server: {expected.queued}", f"queues, jetbroker:   {got.queued}"]
    return "\n".join(lines)


async def _play_both(pair: Pair, script: Script) -> tuple[Seen, Seen]:
    name = new_name()
    expected, got = await asyncio.gather(*(play(server.port, script, name) for server in (pair.reference, pair.broker)))
    return expected, got


@pytest.mark.timeout(0 if IS_DEEP else 120)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_both_servers_say_the_same(
    variant: Variant, pair_of: Callable[[str], Pair], record_property: Callable[[str, object], None]
) -> None:
    pair = pair_of(variant.config)
    until = time.monotonic() + (float("inf") if IS_DEEP else SECONDS_EACH)
    failed = False  # then it is made smaller, however long that takes
    played = 0

    @settings(
        max_examples=EXAMPLES,
        derandomize=not IS_DEEP,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        nonlocal failed, played
        script = data.draw(scripts(variant))
        if not failed and time.monotonic() > until:
            return
        expected, got = runner.run(_play_both(pair, script))
        played += 1
        if (expected.clients, expected.ends, expected.queued) != (got.clients, got.ends, got.queued):
            failed = True
            pytest.fail(_report(script, expected, got), pytrace=False)

    with asyncio.Runner() as runner:
        compare()
    record_property("scripts played", played)  # for `-o junit_family=xunit1 --junit-xml=FILE`
    assert played >= EXAMPLES or not IS_DEEP
