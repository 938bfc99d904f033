"""The same traffic on nats-server and on jetbroker: all that monitoring counts of it is equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.compare import assert_same
from tests.support.daemon import Daemon, Raw
from tests.support.http import get_json, monitor_port
from tests.support.process import find_nats_server, jetbroker, nats_server

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

CONFIG = """
server_name: S
max_subscriptions: 9
write_timeout: close
http: "127.0.0.1:-1"
accounts {
  A { users [ {user: a, password: p} ], limits { max_subscriptions: 8 }, mappings { old: new }
      exports [ {stream: "foo.>"} ] }
  B { users [ {user: b, password: p} ]
      imports [ {stream: {account: A, subject: "foo.>"}, prefix: of} ] }
}
"""
TARGETS = (
    "/varz",
    *(f"/connz?state={state}&subs=detail&auth=1&sort=cid" for state in ("open", "closed", "any")),
    *(f"/connz?sort={key}" for key in ("subs", "msgs_to", "msgs_from", "bytes_to", "bytes_from")),
    "/connz?acc=A&subs=1&auth=1",
    "/connz?user=b&auth=1",
    "/connz?cid=0",
    "/subsz?acc=A&subs=1",
    "/subsz?acc=B&subs=1&test=foo.a",
)
# of this process, machine or moment; nats-server's own subscriptions
OTHER = set(
    "server_id go port http_port start now mem cpu cores gomaxprocs gomemlimit uptime config_load_time cid "
    "last_activity rtt idle stop pending_bytes http_req_stats config_digest num_cache num_inserts num_removes "
    "feature_flags num_matches cache_hit_rate max_fanout avg_fanout disk_io_wait_stats".split()
)
OWN_SUBSCRIPTIONS = {"subscriptions": "/varz", "num_subscriptions": "/subsz", "total": "/subsz"}


def talk(server: Daemon) -> list[Raw]:
    """Four clients: two stay, one leaves, one is refused."""
    a, b, gone, stranger = (server.open() for _ in range(4))
    for client, user in ((a, b"a"), (b, b"b"), (gone, b"a")):
        fields = b'"user":"%b","pass":"p","name":"n%b","lang":"l","version":"1"' % (user, user)
        client.exchange(b'CONNECT {%b,"verbose":false,"protocol":1,"headers":true}\r\n' % fields)
        client.line()
    a.exchange(b"SUB foo.* 1\r\nSUB bar q 2\r\nSUB x 3\r\nUNSUB 3\r\nSUB z q 5\r\nUNSUB 5 3\r\nSUB new 6\r\n")
    b.exchange(b"SUB foo.> 1\r\nSUB foo.> 2\r\nSUB of.> 3\r\nSUB re 4\r\nSUB more 5\r\n")
    gone.exchange(b"SUB bar q 1\r\n")
    publishes = (
        b"PUB foo.a 5\r\nhello\r\nPUB foo.b re 0\r\n\r\nPUB z 2\r\nxx\r\nPUB none 3\r\nabc\r\nPUB old 1\r\nx\r\n"
    )
    gone.exchange(publishes + b"HPUB foo.h 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPUB foo.a.b 1\r\nx\r\n")
    b.exchange(b"PUB foo.q 3\r\nabc\r\n")
    b.exchange(b"")
    gone.close()
    until_closed(server, 1)
    stranger.send(b'CONNECT {"user":"x","pass":"p"}\r\n')
    stranger.to_end()
    until_closed(server, 2)
    return [a, b, stranger]


def until_closed(server: Daemon, count: int) -> None:
    while get_json(monitor_port(server), "/connz?state=closed")["total"] < count:
        pass


def shown(answer: Any, target: str) -> Any:
    """Without what cannot be equal; lists without an order of their own are sorted."""
    if isinstance(answer, dict):
        if answer.get("subject", "").startswith("$SYS."):
            return None
        return {
            key: shown(value, target)
            for key, value in answer.items()
            if key not in OTHER and not target.startswith(OWN_SUBSCRIPTIONS.get(key, "none"))
        }
    if isinstance(answer, list):
        found = [item for item in (shown(item, target) for item in answer) if item is not None]
        return found if any("name" in item for item in found if isinstance(item, dict)) else sorted(found, key=repr)
    return answer


def test_counts(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(CONFIG)
    found = []
    for make in (nats_server, jetbroker):
        command = make()._command
        with Daemon("-c", str(tmp_path / "conf"), command=command[: command.index("-a")]) as server:
            clients = talk(server)
            found.append({target: shown(get_json(monitor_port(server), target), target) for target in TARGETS})
            for client in clients:
                client.close()
    theirs, ours = found
    assert theirs["/connz?sort=msgs_to"]["connections"]
    assert_same((key, theirs[key], ours[key]) for key in theirs)
