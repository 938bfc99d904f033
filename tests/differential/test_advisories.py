"""What listeners hear of requests to the JetStream API, and which requests of operators are answered at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.differential.conftest import Pair
from tests.support.api_rows import API, LAST, Ask, Listener, answer, at_once, clients_of
from tests.support.compare import assert_same

pytestmark = pytest.mark.differential

DOMAIN = "domain: D, "
CONFIG = """
jetstream { store_dir: STORE, max_mem: 100M, max_file: 1G, DOMAIN sync_interval: "1m"
  limits { batch { max_msgs: 3 } } }
accounts {
  A { users: [{user: a, password: p}], jetstream: enabled }
  B { users: [{user: b, password: p}], jetstream: enabled }
  N { users: [{user: n, password: p}] }
  $SYS { users: [{user: s, password: p}] }
}
"""
LISTENERS = "abns"
S: dict[str, Any] = {"name": "S", "subjects": ["s", "s.*"], "allow_direct": True}
C = {"durable_name": "C", "ack_policy": "explicit"}


def ask(subject: str, body: Any = b"", user: str = "a") -> Ask:
    return Ask(user, API + subject, body)


def create(stream: str, config: dict[str, Any]) -> Ask:
    name = config.get("durable_name") or config["name"]
    return ask(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})


ACTIONS = [
    ask("INFO"),
    ask("STREAM.CREATE.S", S),
    ask("STREAM.CREATE.S", S),
    ask("STREAM.CREATE.S", {"name": "S"}),
    ask("STREAM.CREATE.S", b"{"),
    ask("STREAM.UPDATE.S", {**S, "max_msgs": 50}),
    ask("STREAM.UPDATE.S", {**S, "max_msgs": 50}),
    ask("STREAM.UPDATE.S", {"name": "S", "storage": "memory"}),
    ask("STREAM.UPDATE.NO", {"name": "NO"}),
    *(Ask("a", "s", body) for body in (b"one", b"two", b"three")),
    ask("STREAM.NAMES"),
    ask("STREAM.LIST"),
    ask("STREAM.INFO.S"),
    ask("STREAM.INFO.NO"),
    ask("STREAM.MSG.GET.S", {"seq": 1}),
    ask("STREAM.MSG.GET.S", {"seq": 9}),
    ask("STREAM.MSG.GET.S", b"x"),
    ask("STREAM.MSG.DELETE.S", {"seq": 2}),
    ask("STREAM.MSG.DELETE.S", {"seq": 2}),
    ask("DIRECT.GET.S", {"seq": 1}),
    create("S", C),
    create("S", C),
    create("S", {**C, "max_ack_pending": 5}),
    create("S", {**C, "ack_policy": "none"}),
    ask(
        "CONSUMER.DURABLE.CREATE.S.D",
        {"stream_name": "S", "config": {"durable_name": "D", "pause_until": "2099-01-01T00:00:00Z"}},
    ),
    create("S", {"name": "E", "inactive_threshold": 3600 * 10**9}),
    *(ask("CONSUMER.PAUSE.S.C", {"pause_until": f"{year}-01-01T00:00:00Z"}) for year in (2099, 2099, 2098)),
    ask("CONSUMER.PAUSE.S.C"),
    ask("CONSUMER.PAUSE.S.C"),
    ask("CONSUMER.PAUSE.S.C", {"pause_until": "2000-01-01T00:00:00Z"}),
    ask("CONSUMER.PAUSE.S.X"),
    ask("CONSUMER.INFO.S.C"),
    ask("CONSUMER.INFO.S.X"),
    ask("CONSUMER.NAMES.S"),
    ask("CONSUMER.LIST.S"),
    ask("CONSUMER.RESET.S.C"),
    ask("CONSUMER.LEADER.STEPDOWN.S.C"),
    ask("STREAM.LEADER.STEPDOWN.S"),
    ask("STREAM.PEER.REMOVE.S", {"peer": "a"}),
    ask("CONSUMER.DELETE.S.C"),
    ask("CONSUMER.DELETE.S.C"),
    ask("CONSUMER.DELETE.S.C", b"x"),
    ask("STREAM.PURGE.S", {"filter": "s", "keep": 1}),
    ask("STREAM.PURGE.S"),
    ask("STREAM.PURGE.NO"),
    ask("STREAM.PURGE.S", {"seq": 1, "keep": 2}),
    ask("STREAM.DELETE.S"),
    ask("STREAM.DELETE.S"),
    ask("STREAM.CREATE.P", {"name": "P"}, "b"),
    ask("STREAM.CREATE.P2", {"name": "P2", "storage": "memory"}, "b"),
    ask("CONSUMER.DURABLE.CREATE.P.C", {"stream_name": "P", "config": {"durable_name": "C", "ack_policy": "all"}}, "b"),
    ask("ACCOUNT.PURGE.B", b"x", "s"),
    ask("STREAM.NAMES", user="b"),
    ask("INFO", user="b"),
    ask("ACCOUNT.PURGE.B", user="s"),
    ask("ACCOUNT.PURGE.NOBODY", user="s"),
    ask("ACCOUNT.PURGE.a/b", user="s"),
    ask("ACCOUNT.PURGE.a\\b", user="s"),
    ask("ACCOUNT.PURGE.$SYS", user="s"),
    ask("ACCOUNT.PURGE.N", user="s"),
    ask("STREAM.CREATE.P", {"name": "P"}, "b"),
    ask("STREAM.NAMES", user="n"),
    ask("STREAM.CREATE.S", {"name": "S"}, "n"),
    ask("INFO", user="s"),
    ask("STREAM.NAMES", b"x", "s"),
]
OPERATORS = """
META.LEADER.STEPDOWN META.X META.RESCUE SERVER.REMOVE SERVER.X SERVER.EVACUATE
ACCOUNT.PURGE ACCOUNT.PURGE.A.B ACCOUNT.STREAM.MOVE.A.S ACCOUNT.STREAM.CANCEL_MOVE.A.S ACCOUNT.X ACCOUNT
STREAM.LEADER.STEPDOWN.S STREAM.LEADER.STEPDOWN STREAM.LEADER.X.S STREAM.PEER.REMOVE.S STREAM.PEER.EVACUATE.S
STREAM.CANCEL_MOVE.S CONSUMER.LEADER.STEPDOWN.S.C CONSUMER.LEADER.STEPDOWN.S CONSUMER.LEADER.X.S.C
STREAM.TEMPLATE.CREATE.T STREAM.TEMPLATE.NAMES STREAM.TEMPLATE.INFO.T STREAM.TEMPLATE.DELETE.T STREAM.TEMPLATES
X X.Y STREAM.X STREAM.NAMES STREAM.LIST STREAM.INFO.S STREAM.DELETE.Q CONSUMER.NAMES.S CONSUMER.INFO.S.C
CONSUMER.RESET.S.C CONSUMER.MSG.NEXT.S.C DIRECT.GET.S CONSUMER.X CONSUMER.X.Y INFO INFO.X
""".split()


def told_of(event: tuple[str, str, Any]) -> tuple[str, str, Any]:
    """Ours names the client in audits of the system account, too; nats-server's is empty."""
    user, subject, fields = event
    if user == "s" and "client" in fields:
        fields = {**fields, "client": None}
    fields.pop("pause_until", None)
    return user, subject, fields


async def played(port: int, rows: Sequence[Ask]) -> tuple[list[Any], list[Any]]:
    """The answers, and what listeners have heard, sorted: events have no order among each other."""
    async with clients_of(port, LISTENERS) as clients:
        listeners = [Listener(user) for user in LISTENERS]
        for listener in listeners:
            await listener.listen(clients[listener.user], "$JS.EVENT.>")
        answers = [await answer(clients[row.user], row) for row in rows]
        events = []
        for listener in listeners:
            await answer(clients[listener.user], Ask(listener.user, f"{API}INFO", LAST.encode()))
            await listener.wait()
            events += [told_of(event) for event in listener.events()]
    return answers, sorted(events, key=repr)


def left(value: Any) -> Any:
    """Without the time that is left of a pause."""
    if isinstance(value, dict):
        return {key: left(entry) for key, entry in value.items() if key != "pause_remaining"}
    return [left(entry) for entry in value] if isinstance(value, list | tuple) else value


def told_while_closing(event: list[str]) -> bool:
    """nats-server hands this to the loop of the stream that it ends at the same moment, and now and then loses it."""
    return event[1].startswith("$JS.EVENT.ADVISORY.STREAM.DELETED.")


@pytest.mark.parametrize("domain", ["", DOMAIN])
def test_answers_and_advisories_of_every_action(pair_of: Callable[[str], Pair], domain: str) -> None:
    pair = pair_of(CONFIG.replace("DOMAIN", domain))
    answers, events = asyncio.run(played(pair.reference.port, ACTIONS))
    our_answers, our_events = asyncio.run(played(pair.broker.port, ACTIONS))
    assert_same(zip(ACTIONS, left(answers), left(our_answers), strict=True))
    heard, ours = left(events), left(our_events)
    assert [event for event in ours if event in heard or not told_while_closing(event)] == heard
    assert len(events) > len(ACTIONS)


def test_who_answers_operators(pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of(CONFIG.replace("DOMAIN", ""))
    rows = [Ask(user, API + subject) for user in "ans" for subject in OPERATORS]
    theirs, ours = (asyncio.run(at_once(server.port, rows)) for server in (pair.reference, pair.broker))
    assert_same(zip(rows, theirs, ours, strict=True))
    assert {"503", "silence"} == {found for found in theirs if isinstance(found, str)}
