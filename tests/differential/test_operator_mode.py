"""Operator mode: the same tokens to nats-server and to jetbroker, the same answers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.jwts import account_limits, configuration, jetstream_limits
from tests.support.logins import server
from tests.support.process import find_nats_server
from tests.support.token_clients import Member
from tests.support.token_rows import ROWS, Row, world
from tests.support.token_scenarios import LEAFNODES, LINK_SCENARIOS, MORE, SCENARIOS, Told, World, fresh

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

KINDS = ("nats-server", "jetbroker")
SHOWN = ("auth_required", "max_payload", "connect_info", "remote_account", "acc_is_sys")
STREAM = '{"name":"S","subjects":["s"],"storage":"file"}'
# The one about subscriptions is told once in some seconds for an account; the client gets -ERR each time.
_NOT_COMPARED = "Client connection|Ping Timer|is not valid:|JetStream denied|- maximum subscriptions exceeded"
COMMANDS = (
    b"SUB foo 1\r\nSUB bar 2\r\nSUB bar q 3\r\nSUB baz 4\r\nPUB foo 1\r\n1\r\nPUB foo.foo 1\r\n2\r\n"
    b"PUB foo.secret 1\r\n3\r\nPUB t.a 1\r\n4\r\nPUB y.z 1\r\n5\r\nPUB foo rep 7\r\n1234567\r\n"
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Daemon]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(server(kind, tmp_path_factory.mktemp(kind), f"{world()}\ndebug: true\n"))
            for kind in KINDS
        ]


def play(daemon: Daemon, row: Row) -> tuple[list[object], list[str]]:
    """What the client gets, and what the log tells of it."""
    seen = len(daemon.log)
    with daemon.open() as raw:
        first = json.loads(raw.info[5:])
        raw.send(b"CONNECT " + json.dumps(row.connect(first.get("nonce", ""))).encode() + b"\r\nPING\r\n")
        lines = _lines(raw, 1)
        if lines[-1] != "closed":
            raw.send(COMMANDS + b"PING\r\n")
            lines += _lines(raw, 1)
    daemon.wait_for(f"cid:{first['client_id']} - ", seen)
    daemon.wait_for("Client connection closed", seen)
    told = [found for line in daemon.log[seen:] if (found := _told(line))]
    return lines, list(dict.fromkeys(told))  # nats-server tells twice that an account is full


def _lines(raw: Any, pongs: int) -> list[object]:
    lines: list[object] = []
    while pongs:
        line = raw.line()
        if not line:
            return [*lines, "closed"]
        pongs -= line == b"PONG"
        info = json.loads(line[5:]) if line.startswith(b"INFO ") else None
        lines.append(line if info is None else {key: info[key] for key in SHOWN if key in info})
    return lines


def _told(line: str) -> str:
    """Refusals, but for Go's words about JSON, and what only one of the two tells."""
    found = re.search(r"(\[(?:DBG|ERR|WRN)\]) [\d.]+:\d+ - cid:\d+ - (.*)", line)
    if found is None:
        return ""
    text = found[2]
    if re.search(_NOT_COMPARED, text):
        return ""
    return f"{found[1]} {re.sub('accused 0x[0-9a-f]+', 'accused', text)}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_same_clients_are_let_in(pair: list[Daemon], row: Row) -> None:
    theirs, ours = (play(daemon, row) for daemon in pair)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_tokens_that_change(scenario: Callable[[World], Told], tmp_path: Path) -> None:
    theirs, ours = _played(scenario, MORE, tmp_path)
    assert ours == theirs


@pytest.mark.parametrize("scenario", LINK_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_links_by_tokens_that_end(scenario: Callable[[World], Told], tmp_path: Path) -> None:
    theirs, ours = _played(scenario, MORE + LEAFNODES, tmp_path)
    assert ours == theirs


def _played(scenario: Callable[[World], Told], more: str, tmp_path: Path) -> list[Told]:
    found = []
    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        names = fresh()
        text = configuration(names[0], list(names[1:]), more=more)
        with server(kind, folder, text) as daemon:
            found.append(scenario(World(daemon, folder / "conf", *names, more=more)))
    return found


def test_health_of_an_expired_account(tmp_path: Path) -> None:
    """The server is well; of the account it is told that it has expired."""
    found = []
    for kind in KINDS:
        operator, system, ends, stays = fresh()
        ends.limits = stays.limits = account_limits(**jetstream_limits())
        token = ends.token(operator.key, exp=int(time.time()) + 4)
        text = configuration(operator, [system, stays])
        text = text.replace("resolver_preload: {\n", f"resolver_preload: {{\n  {ends.public}: {token}\n")
        (tmp_path / kind).mkdir()
        with server(kind, tmp_path / kind, text) as daemon:
            members = [Member(daemon, account.user()) for account in (stays, ends)]
            for member in members:
                assert "error" not in json.loads(member.asks("$JS.API.STREAM.CREATE.S", STREAM)[0])
            assert members[1].waits_for_end()
            told = health(Member(daemon, system.user()), {"account": stays.public, "stream": "S"}, {}, *(
                {"account": ends.public, **more}
                for more in ({}, {"details": True}, {"stream": "S"}, {"stream": "none", "consumer": "none"},
                             {"stream": "none", "details": True}, {"js-enabled-only": True})
            ))  # fmt: skip
            found.append([str(entry).replace(ends.public, "ENDS") for entry in told])
    assert found[0] == found[1]
    assert "JetStream account 'ENDS' is expired" in found[0][2]


def health(system: Member, *asked: dict[str, object]) -> list[object]:
    answers = [json.loads(system.asks("$SYS.REQ.SERVER.PING.HEALTHZ", json.dumps(body))[0]) for body in asked]
    return [sorted(answer["data"].items()) for answer in answers]


def test_names_of_rows_are_different() -> None:
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)
