"""Where consumers and streams stand behind resets, deletes, purges, odd acks and restarts: as in nats-server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.differential.conftest import Pair
from tests.support.sequence_runs import play_all
from tests.support.sequence_steps import Sequence, Step

pytestmark = pytest.mark.differential

EXPLICIT = {"ack_policy": "explicit", "ack_wait": 600_000_000_000}
ALL = {"ack_policy": "all", "ack_wait": 600_000_000_000}
LATER = {"deliver_policy": "by_start_sequence", "opt_start_seq": 9}
LIMITS = {"retention": "limits", "storage": "memory"}
INTEREST = {"retention": "interest", "storage": "memory"}
FILE = {"storage": "file"}
RESTART: tuple[Step, ...] = (("restart",),)


def create(name: str, config: dict[str, Any], *filters: str, **more: Any) -> Step:
    return ("create", name, {**config, "filter_subjects": [f"S.{each}" for each in filters], **more})


def publish(tokens: str) -> tuple[Step, ...]:
    return tuple(("publish", token, {}) for token in tokens)


CASES: dict[str, tuple[dict[str, Any], tuple[Step, ...]]] = {
    "a reset of a consumer that waits for a later message removes nothing": (
        INTEREST,
        (create("A", EXPLICIT, "a", **LATER), *publish("aa"), ("reset", "A", 0)),
    ),
    "a deleted consumer takes along what the others do not wait for": (
        INTEREST,
        (create("A", EXPLICIT, "c"), create("B", EXPLICIT, **LATER), *publish("cb"), ("drop", "A")),
    ),
    "a deleted consumer leaves what is in front of its ack floor": (
        INTEREST,
        (
            create("B", EXPLICIT, "a"),
            create("A", {"ack_policy": "none"}, "b", "a", deliver_policy="by_start_sequence", opt_start_seq=3),
            *publish("bbbb"),
            ("fetch", "A", 1),
            ("drop", "A"),
        ),
    ),
    "behind a purge the ack floor stands in front of what is pending": (
        LIMITS,
        (*publish("acbcab"), create("A", EXPLICIT, "a", "b"), ("fetch", "A", 4), ("purge", {"seq": 2})),
    ),
    "behind a purge of nothing that is pending it stands in front of what is left": (
        LIMITS,
        (*publish("ccbcab"), create("A", EXPLICIT, "a", "b"), ("fetch", "A", 3), ("purge", {"seq": 2})),
    ),
    "behind a purge of what is pending first, what was delivered stands": (
        LIMITS,
        (
            *publish("acab"),
            create("A", EXPLICIT, "a", "b.>"),
            ("fetch", "A", 20),
            *publish("b"),
            ("fetch", "A", 3),
            ("purge", {"seq": 2}),
        ),
    ),
    "an ack of what another consumer of this name was given is activity": (
        LIMITS,
        (*publish("cab"), create("A", ALL, "b.x"), ("fetch", "A", 1), ("forged", "A", (1, 3, 2), "+ACK")),
    ),
    "ack policy all: what was given up is not acked, and stays": (
        INTEREST,
        (
            create("A", ALL, max_deliver=1),
            create("B", EXPLICIT, "a"),
            *publish("ca"),
            ("fetch", "A", 1),
            ("delayed", "A", 0, "-NAK 1ms"),
            *publish("a"),
            ("ack", "A", 1, "+ACK", True),
            ("ack", "A", 0, "+ACK", True),
        ),
    ),
    "a reset begins behind what was given up": (
        LIMITS,
        (
            *publish("aaa"),
            create("A", EXPLICIT, max_deliver=1),
            ("fetch", "A", 2),
            ("delayed", "A", 1, "-NAK 1ms"),
            ("reset", "A", 0),
            ("fetch", "A", 3),
        ),
    ),
    "what was delivered as often as it may be is given up when its time is up, though nobody pulls": (
        LIMITS,
        (*publish("aa"), create("A", EXPLICIT, max_deliver=1), ("fetch", "A", 2), ("ack", "A", 1, "-NAK 1ms", True)),
    ),
    "what was sent back at once is given up when somebody pulls": (
        LIMITS,
        (*publish("aa"), create("A", EXPLICIT, max_deliver=1), ("fetch", "A", 2), ("ack", "A", 1, "-NAK", True)),
    ),
    "a lower limit per subject removes messages of a stream with discard new, too": (
        {**LIMITS, **FILE, "discard": "new", "max_msgs": 6},
        (*publish("abaaba"), create("A", EXPLICIT), ("update", {"max_msgs_per_subject": 2})),
    ),
    "with discard new a lower limit of all messages removes nothing": (
        {**LIMITS, "discard": "new", "max_msgs": 6, "max_msgs_per_subject": 3},
        (*publish("abaaba"), ("update", {"max_msgs": 2, "max_msgs_per_subject": 1}), *publish("abc")),
    ),
}
RESTARTED: dict[str, tuple[dict[str, Any], tuple[Step, ...]]] = {
    "a sign of progress is activity": (
        {**LIMITS, **FILE},
        (*publish("a"), create("A", EXPLICIT), ("fetch", "A", 1), *RESTART, ("forged", "A", (1, 1, 1), "+WPI")),
    ),
    "a stream that nobody wants anything of keeps its last time": (
        {**INTEREST, **FILE},
        (create("A", EXPLICIT, "a"), *publish("bb"), *RESTART, *publish("b")),
    ),
    "an emptied stream that nobody wants more of keeps its last time": (
        {**INTEREST, **FILE},
        (create("A", EXPLICIT, "a"), *publish("aa"), ("drop", "A"), *publish("b"), *RESTART),
    ),
}


async def same(pair: Pair, cases: dict[str, tuple[dict[str, Any], tuple[Step, ...]]]) -> None:
    """No case leads to a difference; one that does is told of by its name."""
    sequences = [Sequence(number, stream, steps) for number, (stream, steps) in enumerate(cases.values())]
    different = await play_all((pair.reference, pair.broker), sequences)
    names = list(cases)
    assert not different, "\n\n".join(f"{names[each.seed]}\n{each}" for each in different)


async def test_both_servers_stand_where_the_other_does(pair_of: Callable[[str], Pair]) -> None:
    await same(pair_of("jetstream { store_dir: STORE }"), CASES)


async def test_both_servers_stand_there_behind_a_restart(pair_of: Callable[[str], Pair]) -> None:
    await same(pair_of("jetstream { store_dir: STORE }\nmax_payload: 1000000"), RESTARTED)
