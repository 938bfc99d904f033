"""The ids of removed messages behind a restart, within the duplicate window: both servers know and forget the same.

A running server knows the id of a message that is gone. A start reads the ids of the messages that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.differential.conftest import Pair
from tests.support.process import ServerProcess
from tests.support.sequence_runs import play_all, restarted
from tests.support.sequence_steps import Sequence, Step

pytestmark = pytest.mark.differential

LIMITS = {"retention": "limits", "storage": "file"}
READER = ("create", "A", {"ack_policy": "explicit", "ack_wait": 600_000_000_000})


def publish(subjects: str) -> tuple[Step, ...]:
    """Each with an id of its own, the same ones each time."""
    return tuple(("publish", token, {"Nats-Msg-Id": f"id{number}"}) for number, token in enumerate(subjects))


def killed(server: ServerProcess) -> None:
    server.kill()
    server.start()


BY_REQUESTS: dict[str, tuple[dict[str, Any], tuple[Step, ...]]] = {
    "nothing is removed": (LIMITS, publish("aaaaa")),
    "a delete": (LIMITS, (*publish("aaaaa"), ("delete", 3, False))),
    "a delete of the first": (LIMITS, (*publish("aaaaa"), ("delete", 1, False))),
    "a delete of the last": (LIMITS, (*publish("aaaaa"), ("delete", 5, False))),
    "an erasure": (LIMITS, (*publish("aaaaa"), ("delete", 3, True))),
    "a purge": (LIMITS, (*publish("aaaaa"), ("purge", {}))),
    "a purge up to a sequence": (LIMITS, (*publish("aaaaa"), ("purge", {"seq": 3}))),
    "a purge that keeps some": (LIMITS, (*publish("aaaaa"), ("purge", {"keep": 2}))),
    "a purge of a subject": (LIMITS, (*publish("abaca"), ("purge", {"filter": "S.a"}))),
    "a limit of messages": ({**LIMITS, "max_msgs": 2}, publish("aaaaa")),
    "a limit of bytes": ({**LIMITS, "max_bytes": 200}, publish("aaaaa")),
    "a limit of each subject": ({**LIMITS, "max_msgs_per_subject": 1}, publish("ababa")),
    "a stricter limit later": (LIMITS, (*publish("aaaaa"), ("update", {"max_msgs": 2}))),
    "a roll-up": (
        {**LIMITS, "allow_rollup_hdrs": True},
        (*publish("abaa"), ("publish", "a", {"Nats-Rollup": "sub", "Nats-Msg-Id": "id4"})),
    ),
    "no interest": ({**LIMITS, "retention": "interest"}, publish("aaaaa")),
}
BY_ACKS: dict[str, tuple[dict[str, Any], tuple[Step, ...]]] = {
    retention: (
        {**LIMITS, "retention": retention},
        (READER, *publish("aaaaa"), ("fetch", "A", 4), *(("ack", "A", at, "+ACK", True) for at in range(4))),
    )
    for retention in ("workqueue", "interest")
}


async def compare(
    pair: Pair, cases: dict[str, tuple[dict[str, Any], tuple[Step, ...]]], restart: Callable[[ServerProcess], None]
) -> None:
    """Publish the ids once more, before and behind the restart."""
    subjects = "cccca"
    sequences = [
        Sequence(number, stream, (*steps, *again, ("restart",), *publish(subjects)))
        for number, (stream, steps) in enumerate(cases.values())
        for again in ((), publish(subjects))
    ]
    different = await play_all((pair.reference, pair.broker), sequences, restart)
    names = list(cases)
    assert not different, "\n\n".join(f"{names[each.seed]}: {each}" for each in different)


async def test_both_servers_forget_the_ids_of_removed_messages(pair_of: Callable[[str], Pair]) -> None:
    await compare(pair_of("jetstream { store_dir: STORE }"), {**BY_REQUESTS, **BY_ACKS}, restarted)


async def test_both_servers_forget_them_when_they_are_killed(pair_of: Callable[[str], Pair]) -> None:
    """nats-server may lose acks then: it is asked about the other removals."""
    await compare(pair_of("jetstream { store_dir: STORE }  # killed"), BY_REQUESTS, killed)
