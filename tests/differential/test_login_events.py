"""Events of logins that are no good (AUTH.ERR): who hears of them, and what they tell. Against nats-server."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.compare import assert_same
from tests.support.daemon import Daemon, Raw
from tests.support.jwts import user_key
from tests.support.logins import server
from tests.support.process import find_nats_server
from tests.support.sharing import Client
from tests.support.token_clients import Member
from tests.support.token_rows import SYSTEM, A, world

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

KINDS = ("nats-server", "jetbroker")
TIMEOUT_S = 20.0
_VARYING = re.compile(r'"(id|timestamp|time|start|stop|seq|rtt|name|jwt)":("[^"]*"|\d+)')
_SUBSCRIBED = "SUB $SYS.SERVER.*.CLIENT.AUTH.ERR 1\r\nSUB $SYS.ACCOUNT.*.DISCONNECT 2\r\n"
_OWN = "SUB $SYS.ACCOUNT.CLIENT.AUTH.ERR 3\r\n"

ACCOUNTS = """
server_name: same
accounts {
  A { users: [{user: a, password: p}, {user: b, password: p}] }
  $SYS { users: [{user: s, password: p}] }
}
leafnodes { listen: "127.0.0.1:-1" }
"""
ONE_ACCOUNT = """
server_name: same
authorization { users: [{user: a, password: p}] }
accounts { $SYS { users: [{user: s, password: p}] } }
"""
SAID = {
    "a wrong password": {"user": "a", "pass": "wrong", "name": "n", "lang": "l", "version": "v"},
    "an unknown user": {"user": "nobody"},
    "a token": {"auth_token": "wrong"},
    "an nkey": {"nkey": "UAXX", "sig": "abc"},
    "nothing": {},
    "a password of another account": {"user": "s", "pass": "wrong"},
    "a user that is no user's name": {"user": '"<>', "pass": "p"},
}


class Observer(Protocol):
    """Somebody who is connected and listens."""

    def hears(self) -> list[str]:
        """Everything that was sent to this client by now."""
        ...


class Plain:
    """A user with a password."""

    def __init__(self, daemon: Daemon, name: str, subscribed: str) -> None:
        self._client = Client(daemon.port, name)
        self._client.send(subscribed)
        self._client.frames()

    def hears(self) -> list[str]:
        return [frame.decode() for frame in self._client.frames()]


class Whole:
    """A member of operator mode, whose messages come with their contents."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def hears(self) -> list[str]:
        lines = self._member.hears()
        return [f"{head} {body}" for head, body in zip(lines[::2], lines[1::2], strict=False)]


def events(frames: list[str]) -> list[tuple[str, Any]]:
    """Subjects and contents, without what varies; `acc` of what has no account."""
    told = []
    for frame in frames:
        subject = re.sub(r"SERVER\.N[A-Z2-7]{55}", "SERVER.<id>", frame.split()[1])
        content = json.loads(_VARYING.sub(r'"\1":0', frame[frame.index("{") :]))
        told.append((subject, content))
    return told


def heard(system: Observer, owner: Observer, *, ends: bool = True) -> tuple[list[Any], list[Any]]:
    """What the two hear of one refused login. It ends with AUTH.ERR and (`ends`) DISCONNECT, in no order."""
    found: list[tuple[str, Any]] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < 1 + ends:
        assert time.monotonic() < deadline, found
        found += events([frame for frame in system.hears() if "{" in frame])
    found.sort(key=lambda event: event[0])
    return found, events([frame for frame in owner.hears() if "{" in frame])


@contextmanager
def pair(folder: Path, config: str) -> Iterator[list[Daemon]]:
    with ExitStack() as stack:
        daemons = []
        for kind in KINDS:
            (folder / kind).mkdir()
            daemons.append(stack.enter_context(server(kind, folder / kind, config)))
        yield daemons


@pytest.fixture(scope="module", params=[ACCOUNTS, ONE_ACCOUNT], ids=["accounts", "one account"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Daemon]]:
    with pair(tmp_path_factory.mktemp("servers"), request.param) as daemons:
        yield daemons


@pytest.fixture(scope="module")
def observers(servers: list[Daemon]) -> list[tuple[Observer, Observer]]:
    return [(Plain(daemon, "s", _SUBSCRIBED), Plain(daemon, "a", _OWN)) for daemon in servers]


def refused(daemon: Daemon, said: bytes) -> None:
    with daemon.open() as raw:
        raw.send(said)
        assert b"Authorization Violation" in raw.to_end()


@pytest.mark.parametrize("said", SAID)
def test_a_login_that_is_no_good(servers: list[Daemon], observers: list[tuple[Observer, Observer]], said: str) -> None:
    told = []
    for daemon, pair_of_them in zip(servers, observers, strict=True):
        connect = json.dumps({"verbose": False, **SAID[said]})
        refused(daemon, f"CONNECT {connect}\r\nPING\r\n".encode())
        told.append(heard(*pair_of_them))
    assert_same(zip(("operators", "owners"), *told, strict=True))


def test_who_says_nothing_of_a_login(servers: list[Daemon], observers: list[tuple[Observer, Observer]]) -> None:
    told = []
    for daemon, pair_of_them in zip(servers, observers, strict=True):
        refused(daemon, b"PING\r\n")
        told.append(heard(*pair_of_them))
    assert_same(zip(("operators", "owners"), *told, strict=True))
    assert not told[1][1]


def leaf_port(daemon: Daemon) -> int:
    return int(daemon.wait_for("Listening for leafnode connections").rpartition(":")[2])


def test_a_link_that_may_not_come(tmp_path: Path) -> None:
    told = []
    with pair(tmp_path, ACCOUNTS) as daemons:
        for daemon in daemons:
            system, owner = Plain(daemon, "s", _SUBSCRIBED), Plain(daemon, "a", _OWN)
            with Raw(leaf_port(daemon)) as raw:
                raw.send(b'CONNECT {"user":"b","pass":"wrong","name":"leaf","cluster":"c","version":"2.14.5"}\r\n')
                assert b"Authorization Violation" in raw.to_end()
            told.append(heard(system, owner, ends=False))
    assert_same(zip(("operators", "owners"), *told, strict=True))


def test_a_link_that_a_reload_ends(tmp_path: Path) -> None:
    """nats-server keeps it."""
    with server("jetbroker", tmp_path, ACCOUNTS) as daemon:
        system, owner = Plain(daemon, "s", _SUBSCRIBED), Plain(daemon, "a", _OWN)
        with Raw(leaf_port(daemon)) as raw:
            raw.send(b'CONNECT {"user":"b","pass":"p","name":"leaf","cluster":"c","version":"2.14.5"}\r\nPING\r\n')
            raw.until(b"PONG\r\n")
            (tmp_path / "conf").write_text(ACCOUNTS.replace("b, password: p", "b, password: q"))
            daemon.send(signal.SIGHUP)
            assert b"Authorization Violation" in raw.to_end()
        operators, owners = heard(system, owner)
    assert [subject for subject, _ in operators] == ["$SYS.ACCOUNT.A.DISCONNECT", "$SYS.SERVER.<id>.CLIENT.AUTH.ERR"]
    assert [event["client"]["acc"] for _, event in owners] == ["A"]


def test_a_login_that_a_reload_ends(tmp_path: Path) -> None:
    told = []
    with pair(tmp_path, ACCOUNTS) as daemons:
        for daemon, kind in zip(daemons, KINDS, strict=True):
            system, owner, b = (
                Plain(daemon, name, text) for name, text in zip("sab", (_SUBSCRIBED, _OWN, ""), strict=True)
            )
            (tmp_path / kind / "conf").write_text(ACCOUNTS.replace("b, password: p", "b, password: q"))
            daemon.send(signal.SIGHUP)
            told.append(heard(system, owner))
            assert b.hears()[-1] == "(closed)"
    assert_same(zip(("operators", "owners"), *told, strict=True))


def test_a_token_that_is_no_good(tmp_path: Path) -> None:
    told = []
    with pair(tmp_path, world()) as daemons:
        for daemon in daemons:
            system, owner = Member(daemon, SYSTEM.user("sys")), Member(daemon, A.user("x"))
            system.says(_SUBSCRIBED)
            owner.says(_OWN)
            stranger = Member(daemon, A.user("y", key=user_key()), sig=user_key().signature("other"))
            assert "(closed)" in stranger.greeting
            told.append(heard(Whole(system), Whole(owner)))
    assert_same(zip(("operators", "owners"), *told, strict=True))
