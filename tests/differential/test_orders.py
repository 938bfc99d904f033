"""What users of the system account have the server do (KICK, LDM, RELOAD), against nats-server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.differential.test_system_options import shown
from tests.differential.test_system_services import answer_to
from tests.support.compare import assert_same
from tests.support.daemon import Daemon, Raw
from tests.support.logins import server
from tests.support.process import find_nats_server
from tests.support.sharing import Client

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

CONFIG = """
server_name: same
accounts {
  A { users: [{user: a, password: p}] }
  $SYS { users: [{user: s, password: p}] }
}
leafnodes { listen: "127.0.0.1:-1" }
"""
BODIES = [
    *("", "{}", "null", "[]", "1", "x", "{} {}", '{"cid":0}', '{"cid":99999}', '{"CID":99999}', '{"cid":"1"}'),
    *('{"cid":-1}', '{"cid":1.5}', '{"cid":null}', '{"cid":18446744073709551615}', '{"cid":18446744073709551616}'),
    *('{"cid":99999,"server_name":"nobody"}', '{"cid":99999,"server_name":"same"}', '{"cid":99999,"server_name":1}'),
    *('{"cid":99999,"tags":"x"}', '{"nope":1}', '{"cid":99999,"host":"127","exact_match":true}'),
]
SAID = {"user": "a", "pass": "p", "verbose": False, "name": "victim", "lang": "l", "version": "1"}


class Operator:
    """One of the two servers, and somebody of its system account."""

    def __init__(self, daemon: Daemon, config: Path) -> None:
        self.daemon = daemon
        self.config = config
        self._client = Client(daemon.port, "s")
        self._client.send("SUB in.> 1\r\n")
        self._id = json.loads(answer_to(self._client, "$SYS.REQ.SERVER.PING.IDZ", "", wait=True) or b"")["id"]

    def asks(self, service: str, body: str = "", *, wait: bool = True) -> Any:
        """The answer; None: none, 503: nobody answers."""
        found = answer_to(self._client, f"$SYS.REQ.SERVER.{service.replace('<id>', self._id)}", body, wait=wait)
        if found is None or found.startswith(b"NATS/1.0 503"):
            return None if found is None else 503
        return json.loads(found)

    def victim(self, **said: Any) -> tuple[Raw, int]:
        """A client that may be cut off, and its id."""
        raw = self.daemon.open()
        raw.send(b"CONNECT " + json.dumps({**SAID, **said}).encode() + b"\r\nPING\r\n")
        raw.until(b"PONG\r\n")
        return raw, json.loads(raw.info[5:])["client_id"]

    def link(self) -> tuple[Raw, int]:
        """A link that may be cut off, and its id."""
        raw = Raw(int(self.daemon.wait_for("Listening for leafnode connections").rpartition(":")[2]))
        raw.send(b'CONNECT {"user":"a","pass":"p","name":"leaf","cluster":"c","version":"2.14.5"}\r\nPING\r\n')
        raw.until(b"PONG\r\n")
        return raw, self.asks("PING.LEAFZ")["data"]["leafs"][0]["id"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Operator]]:
    with ExitStack() as stack:
        found = []
        for kind in ("nats-server", "jetbroker"):
            folder = tmp_path_factory.mktemp(kind)
            found.append(Operator(stack.enter_context(server(kind, folder, CONFIG)), folder / "conf"))
        yield found


def compare(servers: list[Operator], played: Callable[[Operator], list[Any]]) -> list[Any]:
    """Both alike; ours."""
    theirs, ours = (played(operator) for operator in servers)
    assert_same([(index, *told) for index, told in enumerate(zip(theirs, ours, strict=True))])
    return ours


RELOADS = ["", "{}", "null", "[]", "x", '{"server_name":"nobody"}', '{"server_name":"same"}', '{"server_name":1}']


@pytest.mark.parametrize(("order", "bodies"), [("<id>.KICK", BODIES), ("<id>.LDM", BODIES), ("<id>.RELOAD", RELOADS)])
def test_bodies(servers: list[Operator], order: str, bodies: list[str]) -> None:
    rows = []
    for body in bodies:
        takes_time = order == "<id>.RELOAD" and "nobody" not in body
        ours = shown(servers[1].asks(order, body, wait=takes_time))
        rows.append((body, shown(servers[0].asks(order, body, wait=ours is not None)), ours))
    assert_same(rows)


@pytest.mark.parametrize("order", ["PING.KICK", "PING.LDM", "PING.RELOAD", "nobody.KICK"])
def test_they_are_for_one_server(servers: list[Operator], order: str) -> None:
    def played(operator: Operator) -> list[Any]:
        return [operator.asks(order, '{"cid":1}')]

    assert compare(servers, played) == [503]


def closed(operator: Operator, cid: int) -> list[Any]:
    """Why a connection has ended, once that is told."""
    rows: list[dict[str, Any]] = []
    while not rows:
        rows = operator.asks("PING.CONNZ", json.dumps({"state": 1, "cid": cid}))["data"]["connections"]
    return [row["reason"] for row in rows]


def until_listed(operator: Operator, cid: int) -> None:
    """nats-server greets a client before it can be found."""
    while not operator.asks("PING.CONNZ", json.dumps({"cid": cid}))["data"]["connections"]:
        pass


def test_a_client_is_kicked(servers: list[Operator]) -> None:
    def played(operator: Operator) -> list[Any]:
        raw, cid = operator.victim()
        told = [shown(operator.asks("<id>.KICK", json.dumps({"cid": cid}))), raw.to_end(), closed(operator, cid)]
        return [*told, shown(operator.asks("<id>.KICK", json.dumps({"cid": cid})))]

    assert compare(servers, played)[1:3] == [b"", ["Kicked"]]


def test_a_client_that_is_about_to_log_in_is_kicked(servers: list[Operator]) -> None:
    def played(operator: Operator) -> list[Any]:
        with operator.daemon.open() as raw:
            cid = json.loads(raw.info[5:])["client_id"]
            until_listed(operator, cid)
            return [shown(operator.asks("<id>.KICK", json.dumps({"cid": cid}))), raw.to_end(), closed(operator, cid)]

    assert compare(servers, played)[1:] == [b"", ["Kicked"]]


def test_a_link_is_kicked(servers: list[Operator]) -> None:
    def played(operator: Operator) -> list[Any]:
        seen = len(operator.daemon.log)
        raw, cid = operator.link()
        told = [shown(operator.asks("<id>.LDM", json.dumps({"cid": cid})))]
        told.append(shown(operator.asks("<id>.KICK", json.dumps({"cid": cid}))))
        told.append(b"-ERR" in raw.to_end())
        line = operator.daemon.wait_for("Leafnode connection closed", seen)
        return [*told, re.sub(r".*lid:\d+", "", line), closed(operator, cid)]

    assert compare(servers, played)[-1] == ["Kicked"]


def info(line: bytes) -> dict[str, Any]:
    assert line.startswith(b"INFO "), line
    found: dict[str, Any] = json.loads(line[5:])
    return {key: "given" if key in ("server_id", "client_id", "port", "go", "xkey") else found[key] for key in found}


def test_a_client_is_sent_elsewhere(servers: list[Operator]) -> None:
    def played(operator: Operator) -> list[Any]:
        raw, cid = operator.victim(protocol=1)
        raw.line()  # the second INFO
        with raw:
            answer = operator.asks("<id>.LDM", json.dumps({"cid": cid}))
            return [shown(answer), info(raw.line()), raw.exchange(b"")]

    assert compare(servers, played)[1]["ldm"] is True


@pytest.mark.parametrize("said", [{"protocol": 0}, {}])
def test_a_client_that_knows_no_lame_ducks(servers: list[Operator], said: dict[str, Any]) -> None:
    def played(operator: Operator) -> list[Any]:
        raw, cid = operator.victim(**said)
        with raw:
            return [shown(operator.asks("<id>.LDM", json.dumps({"cid": cid}))), raw.exchange(b"")]

    assert "does not support Lame Duck Mode" in str(compare(servers, played)[0])


def test_a_client_that_was_not_greeted_yet(servers: list[Operator]) -> None:
    def played(operator: Operator) -> list[Any]:
        with operator.daemon.open() as raw:
            cid = json.loads(raw.info[5:])["client_id"]
            until_listed(operator, cid)
            return [shown(operator.asks("<id>.LDM", json.dumps({"cid": cid})))]

    assert "is not ready" in str(compare(servers, played)[0])


def test_a_reload(servers: list[Operator]) -> None:
    def played(operator: Operator) -> list[Any]:
        told = []
        for text in (
            CONFIG.replace("user: a,", "user: a, password: p}, {user: new,"),
            CONFIG + "foo: ]",
            CONFIG.replace("same", "other"),
            CONFIG + "nonsense: 1",
        ):
            operator.config.write_text(text)
            seen = len(operator.daemon.log)
            answer = shown(operator.asks("<id>.RELOAD"))
            failed = [line for line in operator.daemon.log[seen:] if "Failed to reload" in line]
            told.append((json.dumps(answer).replace(str(operator.config), "<file>"), failed))
        operator.config.write_text(CONFIG)
        return told

    ours = compare(servers, played)
    assert "error" not in ours[0][0]
    assert "error" in ours[1][0]
    Client(servers[1].daemon.port, "new").close()
