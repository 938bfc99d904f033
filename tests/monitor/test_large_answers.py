"""Answers of the monitoring port are bounded in bytes, and made in turns."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jetbroker import limits
from jetbroker.monitor.connz import connz
from jetbroker.monitor.options import ConnzOptions, SubszOptions
from jetbroker.monitor.query import BadRequest
from jetbroker.monitor.sources import Room
from jetbroker.monitor.subsz import subsz
from tests.support.daemon import CONNECT, Daemon
from tests.support.http import get_json, monitor_port
from tests.support.inprocess import World
from tests.support.turns import turns_of

COUNT = 1000
SUBJECT = b"x." * 1990  # nearly a control line


def test_parts_of_an_answer_are_taken_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MONITOR_ANSWER_BYTES", 20)
    room = Room()
    assert room.take({"a": "0123456789"}) == {"a": "0123456789"}
    with pytest.raises(BadRequest, match="more than 20 bytes"):
        room.take("xx")


@pytest.mark.parametrize("path", ["/subsz?subs=1&limit=65536", "/connz?subs=detail"])
def test_an_answer_that_would_be_very_large_is_refused(tmp_path: Path, path: str) -> None:
    with Daemon("-m", "-1", "-sd", str(tmp_path)) as daemon, daemon.open() as client:
        client.exchange(CONNECT)
        for number in range(limits.MONITOR_ANSWER_BYTES // len(SUBJECT) + 1):
            client.send(b"SUB %b%d %d\r\n" % (SUBJECT, number, number))
        client.exchange(b"")
        port = monitor_port(daemon)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30)
        assert refused.value.code == 400
        assert b"ask for less of it" in refused.value.read()
        rows = get_json(port, "/subsz?subs=1&limit=20")["subscriptions_list"]  # some are of the broker itself
        assert len(rows) == 20
        assert len(json.dumps(rows)) > 10 * len(SUBJECT)


def subscribed() -> Any:
    """What monitoring sees of a client with many subscriptions, and of a link."""
    world = World()
    world.account.tag = "$G"
    client = world.client()
    client.say(b"".join(b"SUB s.%d %d\r\n" % (at, at) for at in range(COUNT)))
    return SimpleNamespace(
        server_id="N",
        accounts={"$G": world.account},
        connected=[client.protocol],
        clients=SimpleNamespace(closed_traffic={}),
        leafnodes=None,
        links=[None],
    )


LISTED = ConnzOptions(subscriptions=True)
DETAILS = ConnzOptions(subscriptions_detail=True)


@pytest.mark.parametrize(
    "work",
    [
        lambda sources: connz(sources, LISTED),
        lambda sources: connz(sources, DETAILS),
        lambda sources: connz(sources, ConnzOptions(account="$G", filter_subject="nobody")),
        lambda sources: subsz(sources, SubszOptions(limit=10, subscriptions=True)),
    ],
    ids=["subjects", "details", "by subject", "beside a link"],
)
async def test_many_subscriptions_are_gone_through_in_turns(
    work: Callable[[Any], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TURN_NS", 0)  # each step is a turn
    sources = subscribed()
    _, others = await turns_of(work(sources))
    assert others > COUNT


@pytest.mark.parametrize("options", [LISTED, DETAILS])
async def test_no_more_subscriptions_are_looked_at_than_are_shown(
    options: ConnzOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TURN_NS", 0)
    monkeypatch.setattr(limits, "MONITOR_SUBSCRIPTIONS", 10)
    sources = subscribed()
    sources.connected *= 2
    found, others = await turns_of(connz(sources, options))
    rows = [row.get("subscriptions_list", row.get("subscriptions_list_detail")) for row in found["connections"]]
    assert (len(rows[0]), rows[1]) == (10, None)
    assert others < COUNT
