"""What operators see of links: a hub and a spoke of jetbroker, alone and beside nats-server, against two nats-servers.

Both links, one of an account and one of the system accounts, stand in every answer; what differs from server to server
and from moment to moment is reduced to its kind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from tests.support.clients import settle
from tests.support.http import get
from tests.support.pairs import JETBROKER, NATS_SERVER, PAIRS, PROBES, Pair, told
from tests.support.process import free_port

pytestmark = pytest.mark.differential

HUB = """
http: "127.0.0.1:{hub_http}"
leafnodes { listen: "127.0.0.1:{leaf_port}", compression: off, authorization { users: [
    {user: leaf, password: secret, account: A}, {user: sys, password: secret, account: SYS} ] } }
system_account: SYS
jetstream { domain: hub, store_dir: "{folder}/hub" }
accounts {
    A: { jetstream: enabled, users: [ {user: a, password: a} ] }
    SYS: { users: [ {user: s, password: s} ] }
}
"""
SPOKE = """
http: "127.0.0.1:{spoke_http}"
leafnodes { remotes: [
    {url: "nats-leaf://leaf:secret@127.0.0.1:{leaf_port}", account: C, compression: off}
    {url: "nats-leaf://sys:secret@127.0.0.1:{leaf_port}", account: SYS, compression: off} ] }
system_account: SYS
jetstream { domain: leaf, store_dir: "{folder}/spoke" }
accounts {
    C: { jetstream: enabled, users: [ {user: c, password: c} ] }
    SYS: { users: [ {user: s, password: s} ] }
}
"""
USER_INFO = "$SYS.REQ.USER.INFO"
REFERENCE = (NATS_SERVER, NATS_SERVER)
PATHS = [
    *(f"/leafz{query}" for query in ("", "?subs=0", "?subs=x", "?acc=A", "?acc=C", "?acc=nope")),
    *(f"/connz{query}" for query in ("", "?auth=1", "?acc=A&auth=1", "?acc=C", "?user=leaf", "?state=closed")),
    "/varz",
    "/subsz?subs=1&test=wanted.x",
    "/subsz?subs=1&test=up",
    "/jsz?streams=1",
]
ASKED = [  # by the system's user; and how many servers answer
    ("$SYS.REQ.SERVER.PING", "", 2),
    ("$SYS.REQ.SERVER.PING.STATSZ", "", 2),
    ("$SYS.REQ.SERVER.PING.IDZ", "", 2),
    ("$SYS.REQ.SERVER.PING.LEAFZ", "", 2),
    ("$SYS.REQ.SERVER.PING.CONNZ", "", 2),
    ("$SYS.REQ.SERVER.PING.JSZ", "", 2),
    ("$SYS.REQ.SERVER.PING.VARZ", "", 2),
    ("$SYS.REQ.SERVER.PING.HEALTHZ", "", 2),
    *(("$SYS.REQ.SERVER.PING.HEALTHZ", body, count) for body, count in (
        ('{"cluster":"spoke"}', 1),
        ('{"cluster":"spo"}', 1),
        ('{"cluster":"spo","exact_match":true}', 0),
        ('{"cluster":"hub"}', 0),
        ('{"domain":"leaf"}', 1),
        ('{"domain":"le"}', 0),
        ('{"server_name":"hu"}', 1),
        ('{"server_name":"hu","exact_match":true}', 0),
        ('{"server_name":"hub","exact_match":true}', 1),
        ('{"exact_match":true}', 2),
        ('{"host":"127.0.0.1"}', 2),
        ('{"tags":["x"]}', 0),
    )),
    ("$SYS.REQ.ACCOUNT.A.LEAFZ", "", 2),
    ("$SYS.REQ.ACCOUNT.A.CONNZ", "", 2),
    ("$SYS.REQ.ACCOUNT.A.STATZ", "", 1),
    ("$SYS.REQ.ACCOUNT.C.STATZ", "", 1),
    ("$SYS.REQ.ACCOUNT.nobody.STATZ", "", 0),
    ("$SYS.REQ.ACCOUNT.PING.STATZ", "", 2),
    ("$SYS.REQ.ACCOUNT.A.CONNS", "", 1),
    ("$SYS.REQ.ACCOUNT.C.CONNS", '{"acc":"C"}', 1),
    ("$SYS.REQ.ACCOUNT.C.CONNS", '{"acc":"A"}', 0),
    ("$SYS.REQ.ACCOUNT.SYS.CONNS", "", 2),
    (USER_INFO, "", 2),
]  # fmt: skip
OF_ACCOUNTS = [USER_INFO, "$SYS.REQ.ACCOUNT.PING.STATZ"]
OF_CLIENTS = frozenset(
    f"$SYS.ACCOUNT.{event}"
    for event in ("A.CONNECT Client", "A.DISCONNECT Client", "C.CONNECT Client", "C.DISCONNECT Client")
)
OF_LINKS = frozenset(
    {"$SYS.ACCOUNT.A.DISCONNECT Leafnode", "$SYS.ACCOUNT.SYS.DISCONNECT Leafnode", "$SYS.SERVER.SHUTDOWN"}
    | {"$SYS.ACCOUNT.A.SERVER.CONNS 2", "$SYS.ACCOUNT.A.SERVER.CONNS 0"}
)
VARYING = frozenset(
    "id time now start stop last_activity rtt uptime idle server_id seq cid port mem cpu bytes msgs in_msgs "
    "out_msgs in_bytes out_bytes num_subscriptions subscriptions total_connections sid pending_bytes timestamp go "
    "in_client_msgs in_client_bytes out_client_msgs out_client_bytes http_port config_load_time config_digest cores "
    "gomaxprocs max_memory max_storage store_dir num_cache num_inserts num_removes num_matches cache_hit_rate "
    "max_fanout avg_fanout api created http_req_stats lang version urls".split()
)
OURS_ALONE = frozenset(("feature_flags", "sync_always"))
KINDS = {int: "number", float: "number", str: "text"}


def reduced(value: Any, *, key: str = "") -> Any:
    """Without what varies, rows in an order of their own."""
    if key in VARYING:
        return KINDS.get(type(value), "something")
    if isinstance(value, dict):
        return {name: reduced(item, key=name) for name, item in value.items() if name not in OURS_ALONE}
    if isinstance(value, list):
        return sorted((reduced(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def in_order(value: Any) -> Any:
    """So that the order of fields counts in a comparison, too."""
    if isinstance(value, dict):
        return [(name, in_order(item)) for name, item in value.items()]
    return [in_order(item) for item in value] if isinstance(value, list) else value


@dataclass
class Seen:
    """What two linked servers told. Events are those at the hub, by subject."""

    by_path: dict[tuple[str, str], Any] = field(default_factory=dict)
    by_request: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict)
    active: dict[str, list[int]] = field(default_factory=dict)
    events: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return look(REFERENCE, tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"hub {pair[0]}, spoke {pair[1]}")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Seen]]:
    hub, spoke = request.param
    kinds = "both" if hub == spoke else "hub" if hub == JETBROKER else "spoke"
    yield kinds, look(request.param, tmp_path_factory.mktemp("pair"))


def look(kinds: tuple[str, str], folder: Path) -> Seen:
    ports = {"hub": free_port(), "spoke": free_port()}

    def filled(text: str) -> str:
        text = text.replace("{folder}", str(folder))
        return text.replace("{hub_http}", str(ports["hub"])).replace("{spoke_http}", str(ports["spoke"]))

    with Pair(kinds, folder, filled(HUB), filled(SPOKE)) as running:
        return asyncio.run(_look(running, ports))


async def _look(pair: Pair, ports: dict[str, int]) -> Seen:
    seen = Seen()
    operators = [await nats.connect(server.url, user="s", password="s", name="op") for server in (pair.hub, pair.spoke)]
    await _until_both_are_counted(operators)
    waiting: asyncio.Queue[Msg] = asyncio.Queue()
    await operators[0].subscribe("$SYS.ACCOUNT.>", cb=waiting.put)
    await operators[0].subscribe("$SYS.SERVER.*.SHUTDOWN", cb=waiting.put)
    await settle(operators[0])
    hub = await nats.connect(pair.hub.url, user="a", password="a", name="at the hub")
    spoke = await nats.connect(pair.spoke.url, user="c", password="c", name="at the spoke")
    await _use(hub, spoke)
    clients = {"hub": hub, "spoke": spoke}
    for side, port in ports.items():
        for path in PATHS:
            reply = await asyncio.to_thread(get, port, path)
            seen.by_path[side, path] = reduced(reply.json()) if reply.status == 200 else (reply.status, reply.body)
    for side, operator in zip(("hub", "spoke"), operators, strict=True):
        for subject, body, count in ASKED:
            answers = await _ask(operator, subject, body, count)
            seen.by_request[side, subject, body] = answers
            if subject == "$SYS.REQ.SERVER.PING":
                seen.active[side] = sorted(answer["statsz"]["active_servers"] for answer in answers)
        for subject in OF_ACCOUNTS:
            seen.by_request[side, subject, "of an account"] = await _ask(clients[side], subject, "", 2)
    await hub.close()
    await spoke.close()
    await _collect(waiting, seen, OF_CLIENTS)  # a server that stops tells nothing of them any more
    await operators[1].close()
    await asyncio.to_thread(pair.spoke.stop)
    await _collect(waiting, seen, OF_LINKS)
    await operators[0].close()
    return seen


async def _until_both_are_counted(operators: list[NatsClient]) -> None:
    for _ in range(PROBES):
        answers = [answer for operator in operators for answer in await _ask(operator, "$SYS.REQ.SERVER.PING", "", 0)]
        if [answer["statsz"]["active_servers"] for answer in answers] == [2] * 4:
            return
    raise AssertionError(f"the servers do not know of each other: {answers}")


async def _use(hub: NatsClient, spoke: NatsClient) -> None:
    """A stream at each end, messages both ways."""

    async def respond(msg: Msg) -> None:
        if msg.reply:
            await msg.respond(b"")

    for client, name in ((hub, "hub"), (spoke, "spoke")):
        await client.jetstream().add_stream(name=f"S-{name}", subjects=[f"stored.{name}.>"])
    await spoke.subscribe("wanted.*", cb=respond)
    await hub.subscribe("up", cb=respond)
    await settle(spoke)
    await settle(hub)
    await told(hub, "wanted.x")
    await told(spoke, "up")


async def _ask(client: NatsClient, subject: str, body: str, count: int) -> list[Any]:
    """The answers, one of each server: of two linked nats-servers one may tell of a user twice, the other never."""
    patience = 1 if subject == USER_INFO else 10
    for _ in range(PROBES):
        with suppress(TimeoutError):
            found = await _answers(client, subject, body, count, patience)
            if len({_server(answer) for answer in found}) == len(found):
                return found
    raise AssertionError(f"{subject} is not answered by {count} servers")


async def _answers(client: NatsClient, subject: str, body: str, count: int, patience: float) -> list[Any]:
    """So many answers, and those that came until two servers had answered a request behind it.

    A nats-server at the other end of a system account's link may refuse a request that was none of its business: such
    refusals do not count.
    """
    answers: asyncio.Queue[Msg] = asyncio.Queue()
    later: asyncio.Queue[Msg] = asyncio.Queue()
    subscriptions = []
    for queue, asked, content in ((answers, subject, body), (later, USER_INFO, "")):
        inbox = client.new_inbox()
        subscriptions.append(await client.subscribe(inbox, cb=queue.put))
        await client.publish(asked, content.encode(), reply=inbox)
    found: list[Any] = []
    while len(found) < count:
        found += _told(await asyncio.wait_for(answers.get(), patience))
    for _ in range(2):
        await asyncio.wait_for(later.get(), patience)
    while not answers.empty():
        found += _told(answers.get_nowait())
    for subscription in subscriptions:
        await subscription.unsubscribe()
    return [reduced(answer) for answer in sorted(found, key=_server)]


def _told(msg: Msg) -> list[Any]:
    answer = json.loads(msg.data)
    return [] if "error" in answer else [answer]


def _server(answer: dict[str, Any]) -> str:
    return str(answer.get("server", answer)["name"])


async def _collect(waiting: asyncio.Queue[Msg], seen: Seen, due: frozenset[str]) -> None:
    """What comes until all that is due is there."""
    while due - seen.events.keys():
        try:
            msg = await asyncio.wait_for(waiting.get(), 10)
        except TimeoutError:
            raise AssertionError(f"no event: {due - seen.events.keys()}") from None
        event = json.loads(msg.data)
        subject = "$SYS.SERVER.SHUTDOWN" if msg.subject.endswith("SHUTDOWN") else msg.subject
        kind = event["client"]["kind"] if "client" in event else event.get("total_conns", "")
        if subject.startswith("$SYS.ACCOUNT.SYS.") and _server(event) == "spoke":
            continue  # both have this account
        if kind == "Leafnode":  # a matter of moments: whether it was measured, and what the last read finds
            event["client"].pop("rtt", "")
            event["reason"] = ""
        seen.events.setdefault(f"{subject} {kind}".strip(), reduced(event))


def sides_of(kinds: str) -> list[str]:
    return ["hub", "spoke"] if kinds == "both" else [kinds]


@pytest.mark.parametrize("path", PATHS)
def test_the_monitoring_port_shows_links_alike(pair: tuple[str, Seen], reference: Seen, path: str) -> None:
    kinds, seen = pair
    for side in sides_of(kinds):
        ours, theirs = seen.by_path[side, path], reference.by_path[side, path]
        if isinstance(theirs, dict):
            assert in_order(ours) == in_order(theirs)
        else:
            assert ours == theirs


@pytest.mark.parametrize(("subject", "body"), [(subject, body) for subject, body, _ in ASKED])
def test_requests_of_operators_are_answered_by_both_servers_alike(
    pair: tuple[str, Seen], reference: Seen, subject: str, body: str
) -> None:
    _, seen = pair
    for side in ("hub", "spoke"):
        assert seen.by_request[side, subject, body] == reference.by_request[side, subject, body]


@pytest.mark.parametrize("subject", OF_ACCOUNTS)
def test_requests_of_clients_are_answered_by_both_servers_alike(
    pair: tuple[str, Seen], reference: Seen, subject: str
) -> None:
    _, seen = pair
    for side in ("hub", "spoke"):
        key = (side, subject, "of an account")
        assert seen.by_request[key] == reference.by_request[key]


def test_each_server_counts_the_other_one(pair: tuple[str, Seen]) -> None:
    assert pair[1].active == {"hub": [2, 2], "spoke": [2, 2]}


def test_events_of_links_and_clients_reach_the_other_end_alike(pair: tuple[str, Seen], reference: Seen) -> None:
    _, seen = pair
    both = seen.events.keys() & reference.events.keys()
    assert {name: in_order(seen.events[name]) for name in both} == {
        name: in_order(reference.events[name]) for name in both
    }
