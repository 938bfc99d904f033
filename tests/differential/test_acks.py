"""Each kind of ack for messages in each state: both servers answer, count and tell the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.differential.conftest import Pair
from tests.support.sequence_runs import play_all
from tests.support.sequence_steps import Sequence, Step

pytestmark = pytest.mark.differential

RETENTION = ("limits", "interest", "workqueue")
POLICIES = ("explicit", "all")
BODIES = ("", "+ACK", "+OK", "+ACKs", "-NAK", "-NAKs", "+TERM", "+TERM why", "+TERMs", "+WPI", "+WPIs", "what", " ")
NUMBERS = {
    "pending": (1, 2, 2),
    "acked": (1, 1, 1),
    "terminated": (1, 3, 3),
    "deleted": (1, 4, 4),
    "told wrong": (7, 2, 1),
    "of a later delivery": (9, 2, 9),
    "not delivered": (1, 6, 6),
    "not stored": (1, 60, 60),
    "no message": (1, 0, 0),
    "no number": (1, "x", 2),
    "no consumer sequence": (1, 2, "x"),
    "no deliveries": ("x", 2, 2),
    "too large": (1, 2**64 - 1, 2),
}
# nats-server takes such a number as the ack floor, though it has not delivered so much
FORGED = {("all", "of a later delivery"), ("all", "no consumer sequence")}
AT_ONCE = 40
SETTINGS = {"sample_freq": "100", "ack_wait": 60_000_000_000}


def case(retention: str, policy: str, body: str, state: str) -> Sequence:
    """Five of six messages are delivered; then come the acks."""
    steps: list[Step] = [("create", "A", {"ack_policy": policy, **SETTINGS})]
    steps += [("publish", "a", {})] * 6
    steps += [("fetch", "A", 5), ("forged", "A", (1, 1, 1), "+ACK")]
    if policy == "explicit":
        steps += [("forged", "A", (1, 3, 3), "+TERM"), ("delete", 4, False)]
    steps.append(("forged", "A", NUMBERS[state], body))
    return Sequence(0, {"retention": retention, "storage": "memory"}, tuple(steps), len(steps) - 1)


@pytest.mark.parametrize("retention", RETENTION)
async def test_acks_in_every_state(retention: str, pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of("jetstream { store_dir: STORE }")
    asked = itertools.product(POLICIES, BODIES, NUMBERS)
    cases = [case(retention, *each) for each in asked if (each[0], each[2]) not in FORGED]
    different = []
    for start in range(0, len(cases), AT_ONCE):
        different += await play_all((pair.reference, pair.broker), cases[start : start + AT_ONCE])
    assert not different, "\n\n".join(map(str, different))
