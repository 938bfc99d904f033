"""The steps of a trace are bounded, however many subscriptions get the message."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from jetbroker import limits
from jetbroker.tracing.trace import MessageTrace


def test_a_trace_tells_of_so_many_deliveries() -> None:
    account = SimpleNamespace(name="A", router=None)
    client = cast(Any, SimpleNamespace(account=account, cid=1, name="n", server=""))
    trace = MessageTrace(client, b"s", b"d", {}, 1)
    for _ in range(limits.TRACE_STEPS + 10):
        trace.delivered(client, cast(Any, SimpleNamespace(subject=b"s", queue=None)), "")
    assert len(trace.event({}, "S")["events"]) == limits.TRACE_STEPS


def test_services_of_the_system_account_are_named_in_the_end() -> None:
    client = cast(Any, SimpleNamespace(account=SimpleNamespace(name="A", router=None), cid=1, name="", server=""))
    trace = MessageTrace(client, b"s", b"d", {}, 1)
    trace.asked(None, b"a", b"b")
    assert trace.event({}, "SYS")["events"][1]["acc"] == "SYS"
