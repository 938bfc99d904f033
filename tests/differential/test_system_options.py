"""The options of the server's services, by messages and by HTTP, against nats-server: the same answers and refusals."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.differential.test_system_services import KINDS, VARYING, answer_to
from tests.support import process
from tests.support.compare import assert_same
from tests.support.http import get, monitor_port
from tests.support.sharing import Client

pytestmark = pytest.mark.differential

CONFIG = """
server_name: lone
http: "127.0.0.1:-1"
server_tags: ["Zone:1"]
jetstream { store_dir: "STORE", max_mem: 1M, max_file: 2M, sync_interval: "2m", domain: d }
accounts {
  A { users: [{user: a, password: p}], jetstream: enabled }
  B { users: [{user: b, password: p}] }
  $SYS { users: [{user: s, password: p}] }
}
"""
USERS = ("a", "b", "s")
STREAM = '{"name":"S","subjects":["s.>"],"storage":"file"}'
CONSUMER = '{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}'
# what differs from server to server and from moment to moment, beside what differs for all services
MORE_VARYING = frozenset(
    "ts created store_dir num_inserts num_removes num_matches num_cache cache_hit_rate max_fanout avg_fanout "
    "timestamp num_subs total_conns active_accounts total storage memory update_time".split()
)

FLAG = ("true", "false", "null", "1", '"true"', "[]")
NUMBER = ("0", "1", "-1", "5", "null", '"1"', "1.5", "1e2", "true", "9223372036854775807", "9223372036854775808")
TEXT = ('"A"', '"nope"', '""', "null", "1", "true", '["A"]', "{}")
FILTERS = {
    **dict.fromkeys(("server_name", "host", "cluster", "domain"), (*TEXT, '"lone"', '"lon"', '"d"')),
    "exact_match": FLAG,
    "tags": ('["zone:1"]', '["ZONE:1"]', '[" zone:1"]', '["zone:1","x"]', "[]", "null", '"zone:1"', "[1]", '[""]'),
}
CONNZ = {
    **dict.fromkeys(("auth", "subscriptions", "subscriptions_detail"), FLAG),
    **dict.fromkeys(("offset", "limit"), (*NUMBER, "-9223372036854775809")),
    "cid": (*NUMBER[4:], "0", "-1", "99999"),
    "state": ("0", "1", "2", "3", "-1", '"open"', '"closed"', "1.0", "null", "true"),
    "sort": ('"cid"', '"subs"', '"stop"', '"reason"', '"CID"', '"nope"', '"<"', '""', "1", "null", "[]"),
    **dict.fromkeys(("acc", "user", "mqtt_client"), TEXT),
    "filter_subject": (*TEXT, '"in.>"', '">"', '"a..b"'),
}
SUBSZ = {
    **dict.fromkeys(("offset", "limit"), NUMBER),
    "subscriptions": FLAG[1:],
    **dict.fromkeys(("account", "acc"), TEXT),
    "test": ('"in.x"', '"in.*"', '"a..b"', '""', '">"', '"<>"', "1", "null"),
}
JSZ = {
    **dict.fromkeys(("account", "acc"), TEXT),
    **dict.fromkeys(("accounts", "streams", "consumer", "consumers", "config", "raft", "leader_only"), FLAG),
    **dict.fromkeys(("direct_consumer", "stream_leader_only"), FLAG),
    **dict.fromkeys(("offset", "limit"), NUMBER),
}
HEALTHZ = {
    **dict.fromkeys(("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only", "details"), FLAG),
    **dict.fromkeys(("account", "stream", "consumer"), TEXT),
}
LEAFZ: dict[str, tuple[str, ...]] = {"subscriptions": FLAG, "account": TEXT}
STATZ: dict[str, tuple[str, ...]] = {
    "accounts": ('["A"]', '["nope"]', "[]", "null", '"A"', "[1]"),
    "include_unused": FLAG,
}
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "SERVER.PING.CONNZ": CONNZ | FILTERS,
    "SERVER.<id>.CONNZ": {"state": CONNZ["state"]},
    "ACCOUNT.A.CONNZ": CONNZ,
    "ACCOUNT.nope.CONNZ": {"state": ("0", "2", "x")},
    "SERVER.PING.SUBSZ": SUBSZ | {"domain": FILTERS["domain"]},
    "SERVER.PING.JSZ": JSZ | {"tags": FILTERS["tags"]},
    "ACCOUNT.A.JSZ": JSZ,
    "ACCOUNT.B.JSZ": {"streams": FLAG[:1]},
    "ACCOUNT.nope.JSZ": {"streams": FLAG[:1]},
    "SERVER.PING.HEALTHZ": HEALTHZ,
    "SERVER.PING.LEAFZ": LEAFZ,
    "ACCOUNT.A.LEAFZ": LEAFZ,
    "SERVER.PING.STATSZ": FILTERS,
    "SERVER.PING": FILTERS,
    "SERVER.PING.VARZ": {"server_name": ("1", '"x"')},
    "SERVER.PING.IDZ": {"server_name": ("1", '"x"')},
    "SERVER.PING.ROUTEZ": {"subscriptions": FLAG, "subscriptions_detail": FLAG},
    "SERVER.PING.GATEWAYZ": {"name": TEXT, "accounts": FLAG, "account_name": TEXT, "subscriptions": FLAG},
    "SERVER.PING.RAFTZ": {"account": TEXT, "group": TEXT},
    "ACCOUNT.A.STATZ": STATZ,
    "SERVER.PING.ACCOUNTZ": {"account": TEXT, "server_name": ("1", '"x"', '"lone"')},
    "ACCOUNT.A.INFO": {"server_name": ("1", '"x"')},
    "ACCOUNT.nope.INFO": {"server_name": ('"lone"',)},
    "SERVER.PING.PROFILEZ": {
        "name": ('"nope"', '"<>"', '""', '"cpu"', "1", "null"),
        "debug": ("1", "1.5", '"1"'),
        "duration": NUMBER,
        'name":"cpu","duration': ("0", "-1", "-60000000000", "15000000001", "9223372036854775807", '"1s"'),
    },
    "SERVER.PING.IPQUEUESZ": {"all": FLAG[3:], "filter": TEXT[1:2] + TEXT[4:6], 'all":true,"filter': ('"nope"',)},
    "SERVER.PING.EXPVARZ": {"server_name": ("1", '"x"')},
    # an error comes twice there
    "ACCOUNT.PING.STATZ": {"accounts": STATZ["accounts"][:4], "include_unused": FLAG[:3]},
    "ACCOUNT.A.CONNS": {"acc": TEXT},
}
UNLIKE = ("SERVER.PING.VARZ", "ACCOUNT.PING.STATZ", "SERVER.PING.EXPVARZ", "SERVER.PING.IPQUEUESZ")
BODIES = [
    *("", "{}", "null", "[]", "1", "x", "{", "{} {}", "{}x", " ", '{"nope":1}', '{"a":}', '"x"', "{}\x00"),
    *('{"SERVER_NAME":1}', '{"Server_Name":"lone"}', '{"server_name":"lon","EXACT_MATCH":true}'),
]
TOGETHER = [
    ("SERVER.PING.CONNZ", '{"acc":"A","filter_subject":"in.>"}'),
    ("SERVER.PING.CONNZ", '{"acc":"A","filter_subject":"out"}'),
    ("SERVER.PING.CONNZ", '{"STATE":2,"Limit":1,"SORT":"subs","AUTH":true,"ACC":"A"}'),
    ("SERVER.PING.CONNZ", '{"subscriptions":true,"subscriptions_detail":true,"acc":"A"}'),
    ("SERVER.PING.CONNZ", '{"sort":"stop","state":1,"acc":"nope"}'),
    ("SERVER.PING.CONNZ", '{"sort":"reason","state":2}'),
    ("SERVER.PING.SUBSZ", '{"subscriptions":true,"account":"A","test":"in.x"}'),
    ("SERVER.PING.SUBSZ", '{"subscriptions":true,"account":"nope"}'),
    ("SERVER.PING.SUBSZ", '{"subscriptions":true,"account":"A","test":"in.x","offset":1,"limit":1}'),
    ("SERVER.PING.JSZ", '{"account":"nope","accounts":true}'),
    ("SERVER.PING.JSZ", '{"account":"nope","consumer":true}'),
    ("SERVER.PING.JSZ", '{"account":"A","consumer":true,"config":true,"raft":true,"direct_consumer":true}'),
    ("SERVER.PING.JSZ", '{"accounts":true,"limit":-1}'),
    ("SERVER.PING.JSZ", '{"accounts":true,"offset":9}'),
    ("ACCOUNT.A.JSZ", '{"streams":true,"consumer":true,"config":true}'),
    ("SERVER.PING.HEALTHZ", '{"account":"A","stream":"S"}'),
    ("SERVER.PING.HEALTHZ", '{"account":"A","stream":"S","consumer":"C"}'),
    ("SERVER.PING.HEALTHZ", '{"account":"A","stream":"S","consumer":"D"}'),
    ("SERVER.PING.HEALTHZ", '{"account":"A","stream":"S","consumer":"D","details":true}'),
    ("SERVER.PING.HEALTHZ", '{"account":"A","stream":"T","details":true}'),
    ("SERVER.PING.HEALTHZ", '{"stream":"T","details":true}'),
    ("SERVER.PING.HEALTHZ", '{"consumer":"T"}'),
    ("SERVER.PING.STATSZ", '{"domain":"d","server_name":"lone","exact_match":true}'),
    ("ACCOUNT.A.CONNS", '{"acc":"A","server":{"name":"x"}}'),
]
# name in a query string: its values
QUERY_FLAG = ("1", "true", "0", "x", "TRUE", "yes", "")
QUERY_NUMBER = ("1", "0", "-1", "x", "1.0", "99999999999999999999")
QUERY_TEXT = ("A", "nope", "")
PATHS: dict[str, dict[str, tuple[str, ...]]] = {
    "/connz": {
        **dict.fromkeys(("auth", "subscriptions"), QUERY_FLAG),
        "subs": (*QUERY_FLAG, "detail", "DETAIL"),
        **dict.fromkeys(("offset", "limit"), QUERY_NUMBER),
        "cid": QUERY_NUMBER[1:],
        "state": ("open", "CLOSED", "any", "all", "0", "1", "2", "x"),
        "sort": ("cid", "subs", "stop", "CID", "x"),
        **dict.fromkeys(("acc", "account", "user", "mqtt_client"), QUERY_TEXT),
    },
    "/subsz": {
        **dict.fromkeys(("offset", "limit"), QUERY_NUMBER),
        "subscriptions": QUERY_FLAG,
        **dict.fromkeys(("acc", "account"), QUERY_TEXT),
        "test": ("in.x", "in.*", "a..b"),
    },
    "/jsz": {
        **dict.fromkeys(("accounts", "streams", "consumers", "consumer", "config", "raft", "leader-only"), QUERY_FLAG),
        **dict.fromkeys(("direct-consumers", "stream-leader-only"), QUERY_FLAG),
        **dict.fromkeys(("offset", "limit"), QUERY_NUMBER),
        **dict.fromkeys(("acc", "account"), QUERY_TEXT),
        "accounts=1&acc": QUERY_TEXT,
        "accounts=1&limit": QUERY_NUMBER,
    },
    "/leafz": {"subs": (*QUERY_FLAG, "detail"), "acc": QUERY_TEXT},
    "/routez": {"subs": (*QUERY_FLAG, "detail")},
    "/gatewayz": {"subs": (*QUERY_FLAG, "detail"), "accs": QUERY_FLAG, "acc_name": QUERY_TEXT},
    "/raftz": {"acc": QUERY_TEXT},
    "/accountz": {"acc": (*QUERY_TEXT, "B", "<>")},
    "/accstatz": {"unused": QUERY_FLAG, "acc": QUERY_TEXT},
    "/ipqueuesz": {"all": ("0", "x", ""), "queues": QUERY_TEXT, "all=1&queues": ("nope",)},
    "/healthz": {
        **dict.fromkeys(("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only", "details"), QUERY_FLAG),
        **dict.fromkeys(("account", "acc"), QUERY_TEXT),
        "account=A&stream": ("S", "T", ""),
        "stream": ("S",),
    },
}


@dataclass(frozen=True)
class Server:
    """One of the two, with clients that stay, since the answers tell of them."""

    clients: dict[str, Client]
    server_id: str
    http_port: int


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """nats-server's first."""
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    folder: Path = tmp_path_factory.mktemp("options")
    found: list[Server] = []
    for name in ("theirs", "ours"):
        (folder / name).write_text(CONFIG.replace("STORE", str(folder / f"{name}-store")), encoding="utf-8")
    with (
        process.nats_server("-c", str(folder / "theirs")) as theirs,
        process.jetbroker("-c", str(folder / "ours")) as ours,
    ):
        for server in (theirs, ours):
            clients = {user: Client(server.port, user) for user in USERS}
            for client in clients.values():
                client.send("SUB in.> 1\r\n")
            for subject, body in (("STREAM.CREATE.S", STREAM), ("CONSUMER.DURABLE.CREATE.S.C", CONSUMER)):
                made = answer_to(clients["a"], f"$JS.API.{subject}", body, wait=True)
                assert made is not None
                assert b'"error"' not in made
            known = json.loads(answer_to(clients["s"], "$SYS.REQ.SERVER.PING.IDZ", "", wait=True) or b"")
            found.append(Server(clients, known["id"], monitor_port(server)))
        yield found
        for each in found:
            for client in each.clients.values():
                client.close()


def shown(value: Any) -> Any:
    """Without what varies: the kinds of values stay."""
    if isinstance(value, dict):
        return [
            (key, KINDS.get(type(item), "other") if key in VARYING | MORE_VARYING else shown(item))
            for key, item in value.items()
        ]
    if isinstance(value, list):
        return sorted((shown(item) for item in value), key=repr)
    return value


def told(server: Server, user: str, service: str, body: str, *, wait: bool) -> Any:
    found = answer_to(server.clients[user], f"$SYS.REQ.{service.replace('<id>', server.server_id)}", body, wait=wait)
    if found is None or found.startswith(b"NATS/1.0 503"):
        return None if found is None else 503
    return shown(json.loads(found))


def assert_alike(servers: list[Server], user: str, service: str, bodies: list[str]) -> None:
    """All of them at once: one test per service would say less than one per option, and one per value take longer."""
    rows = []
    for body in bodies:
        ours = told(servers[1], user, service, body, wait=False)  # it answers at once
        rows.append((body, told(servers[0], user, service, body, wait=ours is not None), ours))
    assert_same(rows)


@pytest.mark.parametrize(
    ("service", "option"), [(service, option) for service, options in OPTIONS.items() for option in options]
)
def test_an_option(servers: list[Server], service: str, option: str) -> None:
    values = OPTIONS[service][option]
    bodies = [f'{{"{name}":{value}}}' for value in values for name in (option, option.upper())]
    assert_alike(servers, "s", service, bodies)


@pytest.mark.parametrize("service", [service for service in OPTIONS if service not in UNLIKE])
def test_bodies(servers: list[Server], service: str) -> None:
    assert_alike(servers, "s", service, BODIES)


@pytest.mark.parametrize(("service", "body"), TOGETHER)
def test_options_together(servers: list[Server], service: str, body: str) -> None:
    assert_alike(servers, "s", service, [body])


@pytest.mark.parametrize("service", ["SERVER.PING.CONNZ", "ACCOUNT.PING.CONNZ", "ACCOUNT.PING.STATZ"])
def test_services_of_an_account(servers: list[Server], service: str) -> None:
    options = STATZ if service.endswith("STATZ") else {name: CONNZ[name] for name in ("state", "sort", "acc")}
    bodies = [f'{{"{name}":{value}}}' for name, values in options.items() for value in values]
    assert_alike(servers, "a", service, bodies + BODIES)


@pytest.mark.parametrize(("path", "option"), [(path, option) for path, options in PATHS.items() for option in options])
def test_an_option_of_http(servers: list[Server], path: str, option: str) -> None:
    rows = []
    for value, name in itertools.product(PATHS[path][option], (option, option.capitalize())):
        theirs, ours = (get(server.http_port, f"{path}?{name}={value}") for server in servers)
        answers = [
            (reply.status, shown(json.loads(reply.body)) if reply.body[:1] == b"{" else reply.body)
            for reply in (theirs, ours)
        ]
        rows.append((f"{name}={value}", *answers))
    assert_same(rows)


def test_varz_by_messages_is_that_of_the_monitoring_port(servers: list[Server]) -> None:
    for server in servers:
        before, after = (requests_after(server, paths) for paths in ([], ["varz"]))
        assert after["/varz"] == before.get("/varz", 0) + 1


def test_requests_are_counted_alike(servers: list[Server]) -> None:
    names = "varz connz subsz routez gatewayz leafz accountz accstatz jsz healthz ipqueuesz raftz nothing".split()
    asked = ["", *names, "subscriptionsz", "connz?cid=x", "connz?sort=nope", "leafz?subs=x", "jsz?acc=nope"]
    counts = []
    for server in servers:
        before, after = (requests_after(server, paths) for paths in ([], asked))
        counts.append({path: count - before.get(path, 0) for path, count in after.items()})
    assert counts[1] == counts[0]


def requests_after(server: Server, asked: list[str]) -> dict[str, int]:
    for path in asked:
        get(server.http_port, f"/{path}")
    found = json.loads(answer_to(server.clients["s"], "$SYS.REQ.SERVER.PING.VARZ", "", wait=True) or b"")
    counts: dict[str, int] = found["data"]["http_req_stats"]
    return counts


def test_statsz_tells_of_jetstream(servers: list[Server]) -> None:
    blocks = []
    for server in servers:
        found = json.loads(answer_to(server.clients["s"], "$SYS.REQ.SERVER.PING.STATSZ", "", wait=True) or b"")
        blocks.append(shown(found["statsz"]["jetstream"]))
    assert blocks[0] == blocks[1]
