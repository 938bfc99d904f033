"""Where consumers stand after purges and odd acks, where nats-server would lose messages or miscount."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.process import ServerProcess
from tests.support.sequence_play import Player
from tests.support.sequence_steps import Sequence
from tests.support.sequence_wire import Wire

EXPLICIT = {"ack_policy": "explicit"}


class Played(Player):
    """Plays by itself; its stream's retention is chosen when it begins."""

    async def begin(self, retention: str = "limits", **config: Any) -> None:
        self.stream.update(retention=retention, **config)
        await self.open()

    async def info(self, name: str = "A") -> dict[str, Any]:
        found: dict[str, Any] = await self.api(f"CONSUMER.INFO.S.{name}")
        return found

    async def bodies(self, batch: int, name: str = "A") -> list[str]:
        """The payloads of a fetch."""
        return [message[3] for message in await self.on_fetch(name, batch) if message[3]]


@pytest.fixture
async def played(broker: ServerProcess, request: pytest.FixtureRequest) -> AsyncIterator[Played]:
    wire = await Wire().open(broker.port)
    name = f"P{abs(hash(request.node.name))}P"
    yield Played(wire, name, Sequence(0, {"storage": "memory", "allow_rollup_hdrs": True}, ()))
    await wire.close()


async def test_a_purge_of_one_filter_leaves_the_others_messages(played: Played) -> None:
    await played.begin()
    await played.on_create("A", {**EXPLICIT, "filter_subjects": ["S.a", "S.b"]})
    for token in "abab":
        await played.on_publish(token, {})
    assert (await played.on_purge({"filter": "S.a"}))["purged"] == 2
    assert (await played.info())["num_pending"] == 2
    assert await played.bodies(5) == ["m2", "m4"]


async def test_what_a_purge_has_removed_is_not_pending(played: Played) -> None:
    await played.begin()
    await played.on_create("A", EXPLICIT)
    for token in "aabbb":
        await played.on_publish(token, {})
    await played.bodies(5)
    await played.on_forged("A", (1, 1, 1), "+ACK")
    await played.on_purge({"filter": "S.b"})
    info = await played.info()
    assert info["num_ack_pending"] == 1
    assert info["ack_floor"]["consumer_seq"] == 1


async def test_the_only_message_that_a_purge_removes_is_not_ahead(played: Played) -> None:
    await played.begin()
    await played.on_create("A", {**EXPLICIT, "filter_subject": "S.a"})
    for token in "ab":
        await played.on_publish(token, {})
    assert (await played.on_purge({"keep": 1}))["purged"] == 1
    assert (await played.info())["num_pending"] == 0


async def test_a_work_queue_keeps_what_nobody_was_given_whatever_is_acked(played: Played) -> None:
    await played.begin("workqueue")
    await played.on_create("A", {**EXPLICIT, "filter_subject": "S.a"})
    for token in "ba":
        await played.on_publish(token, {})
    await played.bodies(2)
    assert (await played.on_forged("A", (1, 1, 1), "+ACK"))[0]
    assert (await played.api("STREAM.INFO.S"))["state"]["messages"] == 2


async def test_a_deleted_message_does_not_ack_those_before_it(played: Played) -> None:
    await played.begin()
    await played.on_create("A", {"ack_policy": "all"})
    for _ in range(3):
        await played.on_publish("a", {})
    await played.bodies(3)
    await played.on_delete(2, False)
    info = await played.info()
    assert info["num_ack_pending"] == 2
    assert info["ack_floor"]["consumer_seq"] == 0


async def test_a_consumer_sequence_that_was_not_delivered_acks_nothing(played: Played) -> None:
    await played.begin()
    await played.on_create("A", {"ack_policy": "all"})
    for _ in range(3):
        await played.on_publish("a", {})
    await played.bodies(3)
    await played.on_forged("A", (1, 2, 2**63), "+ACK")
    floor = (await played.info())["ack_floor"]
    assert (floor["consumer_seq"], floor["stream_seq"]) == (0, 0)


async def test_a_nak_before_a_purge_still_brings_the_message_at_once(played: Played) -> None:
    await played.begin()
    await played.on_create("A", {**EXPLICIT, "ack_wait": 60_000_000_000})
    for _ in range(4):
        await played.on_publish("a", {})
    assert await played.bodies(4) == ["m1", "m2", "m3", "m4"]
    await played.on_forged("A", (1, 4, 4), "-NAK")
    await played.on_purge({"seq": 3})
    assert await played.bodies(1) == ["m4"]


async def test_last_per_subject_takes_the_beginning_of_a_token(played: Played) -> None:
    await played.begin()
    for token in ("ab", "ac", "b", "a.x", "ab"):
        await played.on_publish(token, {})
    await played.on_create("A", {**EXPLICIT, "deliver_policy": "last_per_subject", "filter_subject": "S.a*"})
    assert (await played.info())["num_pending"] == 2
    assert await played.bodies(5) == ["m2", "m5"]


async def test_last_per_subject_goes_on_behind_one_that_is_gone(played: Played) -> None:
    await played.begin()
    for token in "abc":
        await played.on_publish(token, {})
    await played.on_create("A", {**EXPLICIT, "deliver_policy": "last_per_subject", "filter_subject": "S.>"})
    await played.on_delete(1, False)
    assert await played.bodies(3) == ["m2", "m3"]


async def test_after_a_reset_of_last_per_subject_as_many_are_pending_as_come(played: Played) -> None:
    await played.begin()
    await played.on_create("A", {**EXPLICIT, "deliver_policy": "last_per_subject", "filter_subject": "S.>"})
    for token in "aab":
        await played.on_publish(token, {})
    assert (await played.on_reset("A", 0))["num_pending"] == 3
    assert await played.bodies(4) == ["m1", "m2", "m3"]


async def test_a_purge_up_to_a_sequence_that_empties_a_stream_moves_its_first(played: Played) -> None:
    await played.begin("interest", storage="file")
    await played.on_create("A", {**EXPLICIT, "filter_subject": "S.a"})
    for token in "bab":
        await played.on_publish(token, {})
    assert (await played.on_purge({"seq": 3}))["purged"] == 1
    state = (await played.api("STREAM.INFO.S"))["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (0, 4, 3)
    assert (await played.info())["ack_floor"]["stream_seq"] == 3


async def test_a_deleted_consumer_that_waited_for_a_later_message_takes_only_its_own_along(played: Played) -> None:
    await played.begin("interest")
    later = {"deliver_policy": "by_start_sequence", "opt_start_seq": 9}
    await played.on_create("A", {**EXPLICIT, **later, "filter_subject": "S.b"})
    await played.on_create("B", {**EXPLICIT, **later, "filter_subject": "S.c"})
    await played.on_create("C", {**EXPLICIT, "filter_subject": "S.a"})
    for token in "abcb":
        await played.on_publish(token, {})
    await played.on_drop("A")
    assert (await played.api("STREAM.INFO.S"))["state"]["messages"] == 2
    assert await played.bodies(2, "C") == ["m1"]


async def test_a_reset_after_a_purge_begins_behind_the_floor_it_tells(played: Played) -> None:
    await played.begin()
    await played.on_create("A", {**EXPLICIT, "filter_subject": "S.a"})
    for token in "acba":
        await played.on_publish(token, {})
    await played.bodies(2)
    await played.on_purge({"seq": 2})
    assert (await played.info())["ack_floor"]["stream_seq"] == 3
    assert (await played.on_reset("A", 0))["reset_seq"] == 4
    assert await played.bodies(1) == ["m4"]


async def test_what_a_first_pass_leaves_out_goes_when_the_others_have_acked_it(played: Played) -> None:
    await played.begin("interest")
    await played.on_create("A", EXPLICIT)
    for token in "cbb":
        await played.on_publish(token, {})
    await played.on_create("B", {**EXPLICIT, "deliver_policy": "last_per_subject", "filter_subject": "S.>"})
    assert await played.bodies(2) == ["m1", "m2"]
    await played.on_ack("A", 0, "+ACK", True)
    state = (await played.api("STREAM.INFO.S", {"deleted_details": True}))["state"]
    assert state["deleted"] == [2]
    assert await played.bodies(2, "B") == ["m1", "m3"]


async def test_what_another_consumers_start_leaves_out_goes_with_a_deleted_consumer(played: Played) -> None:
    await played.begin("interest")
    later = {"deliver_policy": "by_start_sequence", "opt_start_seq": 4}
    await played.on_create("B", {**EXPLICIT, **later})
    await played.on_create("A", {**EXPLICIT, "filter_subject": "S.b.x"})
    for token in ("b.x", "b", "a"):
        await played.on_publish(token, {})
    await played.on_fetch("A", 2)  # finds one, and looks to the end
    await played.on_ack("A", 0, "+ACK", True)
    assert (await played.api("STREAM.INFO.S"))["state"]["messages"] == 2
    await played.on_drop("A")
    assert (await played.api("STREAM.INFO.S"))["state"]["messages"] == 0


async def test_an_ack_of_what_was_given_up_changes_nothing(played: Played) -> None:
    """As in nats-server."""
    await played.begin("interest")
    await played.on_create("A", {"ack_policy": "all", "max_deliver": 1, "ack_wait": 1_000_000})
    await played.on_publish("a", {})
    assert await played.bodies(1) == ["m1"]
    while not any("max_deliver" in advisory for advisory in played.advisories):
        await played.info()
    await played.on_ack("A", 0, "+ACK", True)
    assert (await played.info())["ack_floor"]["stream_seq"] == 0
    assert (await played.api("STREAM.INFO.S"))["state"]["messages"] == 1
