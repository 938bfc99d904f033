"""The two tables of a connection's states: what becomes of its input, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar

from jetbroker.connections.client import STAGES, Stage, StageEvent
from jetbroker.connections.halves import FLOWS, Flow, FlowEvent
from jetbroker.connections.handshake import ConnectOptions
from tests.core.test_turns import COUNT, flood
from tests.support.inprocess import World

State = TypeVar("State", bound=IntEnum)
Event = TypeVar("Event", bound=IntEnum)


def reachable(table: Mapping[tuple[State, Event], State], start: State) -> set[State]:
    """Where a row of events can lead."""
    found = {start}
    while True:
        more = {after for (before, _), after in table.items() if before in found} - found
        if not more:
            return found
        found |= more


def test_every_state_of_the_input_can_come_and_ends() -> None:
    assert reachable(FLOWS, Flow.READING) == set(Flow)
    for flow in set(Flow) - {Flow.CLOSED}:
        assert reachable(FLOWS, flow) == set(Flow), "it goes on, or it is over"
        assert FLOWS[flow, FlowEvent.CLOSES] == Flow.CLOSED
    assert not [before for before, _ in FLOWS if before == Flow.CLOSED]
    assert {event for _, event in FLOWS} == set(FlowEvent)


def test_who_is_in_stays_in() -> None:
    assert reachable(STAGES, Stage.LOGIN_DUE) == set(Stage) - {Stage.SILENT}
    assert reachable(STAGES, Stage.SILENT) == set(Stage) - {Stage.LOGIN_DUE}
    for (before, event), after in STAGES.items():
        assert after >= Stage.LET_IN
        assert before < Stage.LET_IN or event != StageEvent.ADMITTED


def test_no_turn_comes_while_a_login_is_checked() -> None:
    world = World()
    busy = world.client()
    busy.feed(flood("SUB"))
    begun = busy.protocol.subscription_count
    assert 0 < begun < COUNT
    busy.protocol.park()
    world.loop.run()
    assert busy.protocol.subscription_count == begun
    busy.protocol.go_on()  # a receiver has caught up meanwhile
    world.loop.run()
    assert (busy.protocol.subscription_count, busy.transport.paused) == (begun, True)
    busy.protocol.unpark()
    world.loop.run()
    assert (busy.protocol.subscription_count, busy.transport.paused) == (COUNT, False)


def test_a_login_that_ends_behind_its_connection_changes_nothing() -> None:
    world = World()
    busy = world.client()
    busy.feed(flood("SUB"))
    begun = busy.protocol.subscription_count
    busy.protocol.park()
    busy.protocol.close("Client Closed")
    busy.protocol.unpark()
    world.loop.run()
    assert busy.protocol.closed
    assert busy.protocol.subscription_count == begun


def test_the_second_info_comes_once_whoever_asks() -> None:
    world = World()
    greeted: list[int] = []
    world.server.client_greet = lambda client: greeted.append(client.cid)  # type: ignore[attr-defined]
    client = world.client()
    options = ConnectOptions()
    options.verbose, options.protocol = False, 1
    client.say(b"PING\r\n")  # its CONNECT was of the older protocol: none for this one
    client.protocol.apply_connect(options, world.router, world.account)
    client.say(b"PING\r\n")
    assert greeted == []
    other = world.client()
    other.protocol.apply_connect(options, world.router, world.account)
    other.say(b"PING\r\nPING\r\n")
    assert greeted == [other.protocol.cid]
