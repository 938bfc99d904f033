"""What an account gives, takes and maps, as the server tells it: against nats-server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.differential.test_system_options import shown
from tests.differential.test_system_services import answer_to
from tests.support import process
from tests.support.compare import assert_same
from tests.support.http import get, monitor_port
from tests.support.logins import server
from tests.support.sharing import Client
from tests.support.token_clients import Member
from tests.support.token_rows import SYSTEM, A, world

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(process.find_nats_server() is None, reason="no nats-server on this machine"),
]

CONFIG = """
http: "127.0.0.1:-1"
mappings { "old.*": "new.$1" }
accounts {
  A {
    users: [{user: a, password: p}]
    exports: [
      {service: "svc.>", accounts: [B, C]}, {service: "svc.>", accounts: [C]}, {service: "q.*", response_type: stream}
      {service: "chunks", response_type: chunked, threshold: "2s"}, {service: "own.*", account_token_position: 2}
      {stream: "st.>"}, {stream: "closed.*", accounts: [B]}, {service: both}, {stream: both}
    ]
    mappings {
      m.a: [{destination: m.b, weight: 30%}, {destination: m.c, weight: 20%}]
      "f.*": "g.$1"
      "half.*.*": [{destination: "h.$2.$1", weight: 50%}]
      lossy: [{destination: lossy, weight: 40%}]
      whole: [{destination: whole2, weight: 100%}]
      far: [{destination: near, weight: 60%}, {destination: far.east, cluster: east, weight: 70%}]
    }
  }
  B {
    users: [{user: b, password: p}]
    imports: [
      {service: {account: A, subject: svc.x}, to: local.x, share: true}, {service: {account: A, subject: svc.y}}
      {service: {account: A, subject: "q.*"}, to: "my.$1.q"}, {service: {account: A, subject: "own.B"}}
      {service: {account: A, subject: "svc.in.*"}}
      {stream: {account: A, subject: st.a}, prefix: pre}, {stream: {account: A, subject: st.b}, to: other.b}
      {stream: {account: A, subject: "st.in.*"}, to: "in.$1"}, {stream: {account: A, subject: "st.in.*.*"}, prefix: p.}
      {stream: {account: A, subject: "closed.*"}}
    ]
  }
  C { exports: [{service: nothing}], limits: {max_conn: 1} }
  $SYS {
    users: [{user: s, password: p}]
    exports: [{service: "$SYS.REQ.ACCOUNT.*.CONNZ", accounts: [A]}, {stream: "$SYS.SERVER.>"}]
  }
}
"""
ACCOUNTS = ("A", "B", "C", "$G", "$SYS")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[process.ServerProcess]]:
    """nats-server first."""
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    config: Path = tmp_path_factory.mktemp("details") / "server.conf"
    config.write_text(CONFIG, encoding="utf-8")
    with process.nats_server("-c", str(config)) as theirs, process.jetbroker("-c", str(config)) as ours:
        yield [theirs, ours]


@contextmanager
def operator(server: process.ServerProcess) -> Iterator[Callable[..., Any]]:
    """Somebody of the system account: from subject and body to what the answer holds."""
    client = Client(server.port, "s")

    def asked(subject: str, body: str = "") -> Any:
        found = answer_to(client, subject, body, wait=True)
        assert found is not None
        return json.loads(found)["data"]

    try:
        client.send("SUB in.> 1\r\n")
        yield asked
    finally:
        client.close()


def detail(server: process.ServerProcess, account: str) -> list[Any]:
    """Without what varies; answers that are under way come and go."""
    with operator(server) as asked:
        found = asked("$SYS.REQ.SERVER.PING.ACCOUNTZ", json.dumps({"account": account}))["account_detail"]
    found.pop("responses", None)
    told: list[Any] = shown(found)
    return told


@pytest.mark.parametrize("account", ACCOUNTS)
def test_an_account_in_detail(servers: list[process.ServerProcess], account: str) -> None:
    theirs, ours = (detail(server, account) for server in servers)
    assert_same([(names[0], *names) for names in zip_longest((n for n, _ in theirs), (n for n, _ in ours))])
    assert_same([(name, value, dict(ours)[name]) for name, value in theirs])


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_other_ways_to_ask_tell_the_same(servers: list[process.ServerProcess], account: str) -> None:
    with operator(servers[1]) as asked:
        found = get(monitor_port(servers[1]), f"/accountz?acc={account}").json()["account_detail"]
        assert shown(found) == shown(asked(f"$SYS.REQ.ACCOUNT.{account}.INFO"))


def test_counts_follow_who_is_there(servers: list[process.ServerProcess]) -> None:
    counts = []
    for each in servers:
        client = Client(each.port, "b")
        try:
            with operator(each) as asked:
                found = asked("$SYS.REQ.ACCOUNT.B.INFO")
            counts.append((found["client_connections"], found["leafnode_connections"]))
        finally:
            client.close()
    assert counts == [(1, 0), (1, 0)]


def test_an_account_of_operator_mode(tmp_path: Path) -> None:
    """The claims of its token stand there as they were signed; nats-server writes them anew."""
    told, config = [], world()
    for kind in ("nats-server", "jetbroker"):
        (tmp_path / kind).mkdir()
        with server(kind, tmp_path / kind, config) as daemon:
            member = Member(daemon, A.user("x"))
            (answer,) = Member(daemon, SYSTEM.user("sys")).asks(f"$SYS.REQ.ACCOUNT.{A.public}.INFO")
            found = json.loads(answer)["data"]
            claims = found.pop("decoded_jwt")
            told.append([*shown(found), *((name, claims[name]) for name in ("name", "sub", "iss", "iat", "jti"))])
            assert member.hears() == []
    assert_same((row[0][0], *row) for row in zip_longest(*told))
