"""Short sequences that random ones have led to: each shows a rule of nats-server that both servers follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.differential.conftest import Pair
from tests.support.sequence_runs import play_all
from tests.support.sequence_steps import Sequence, Step

pytestmark = pytest.mark.differential

LIMITS = {"retention": "limits", "storage": "file", "allow_direct": True}
WITH_ID = {"Nats-Msg-Id": "id1"}
AFTER_ID = {"Nats-Expected-Last-Msg-Id": "id1"}
AFTER_OTHER = {"Nats-Expected-Last-Msg-Id": "id0"}
FAR = 600_000_000_000
FOUND: list[tuple[str, dict[str, Any], tuple[Step, ...]]] = [
    (
        "a purge beyond the end: the id of the last message is known on",
        LIMITS,
        (
            ("publish", "a", WITH_ID),
            ("purge", {"seq": 9}),
            ("publish", "a", AFTER_OTHER),
            ("publish", "a", AFTER_ID),
            ("publish", "a", AFTER_ID),
        ),
    ),
    (
        "a purge beyond the end: the last message had no id",
        LIMITS,
        (
            ("publish", "a", WITH_ID),
            ("publish", "a", {}),
            ("purge", {"seq": 9}),
            ("publish", "a", AFTER_OTHER),
            ("publish", "a", AFTER_ID),
        ),
    ),
    (
        "a restart, a purge beyond the end: the id of the last message is known on",
        LIMITS,
        (("publish", "a", WITH_ID), ("restart",), ("purge", {"seq": 9}), ("publish", "a", AFTER_OTHER)),
    ),
    (
        "a restart, then the last message goes: its id is known on",
        {**LIMITS, "retention": "workqueue"},
        (
            ("create", "A", {"ack_policy": "explicit", "ack_wait": FAR}),
            ("publish", "a", WITH_ID),
            ("fetch", "A", 1),
            ("restart",),
            ("ack", "A", 0, "+ACK", True),
            ("publish", "a", AFTER_OTHER),
            ("publish", "a", AFTER_ID),
        ),
    ),
    (
        "a message is given up, another one was looked at: a reset begins behind both",
        LIMITS,
        (
            ("create", "A", {"ack_policy": "explicit", "ack_wait": FAR, "filter_subject": "S.a", "max_deliver": 1}),
            ("publish", "a", {}),
            ("publish", "b", {}),
            ("fetch", "A", 20),
            ("delayed", "A", 0, "-NAK 20ms"),
            ("reset", "A", 0),
        ),
    ),
    (
        "a message is given up, the next one is acked: a reset begins behind both",
        LIMITS,
        (
            ("create", "A", {"ack_policy": "explicit", "ack_wait": FAR, "max_deliver": 1}),
            *(("publish", "a", {}) for _ in range(3)),
            ("fetch", "A", 3),
            ("delayed", "A", 2, "-NAK 20ms"),
            ("ack", "A", 1, "+ACK", True),
            ("reset", "A", 0),
            ("fetch", "A", 5),
        ),
    ),
    (
        "the last message goes, then a restart: no id is known",
        LIMITS,
        (
            ("publish", "a", {"Nats-Msg-Id": "id0"}),
            ("publish", "a", WITH_ID),
            ("delete", 2, False),
            ("restart",),
            ("publish", "a", AFTER_ID),
        ),
    ),
]


@pytest.mark.parametrize(("stream", "steps"), [each[1:] for each in FOUND], ids=[each[0] for each in FOUND])
async def test_both_servers_do_the_same(
    pair_of: Callable[[str], Pair], stream: dict[str, Any], steps: tuple[Step, ...]
) -> None:
    pair = pair_of("jetstream { store_dir: STORE }")
    different = await play_all((pair.reference, pair.broker), [Sequence(0, stream, steps)])
    assert not different, "\n\n".join(map(str, different))
