"""Who gets in and as whom: passwords, tokens, accounts, with nats-py and by hand; INFO before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest

from tests.support.daemon import Daemon, Raw, run
from tests.support.logins import ACCOUNTS, HASHED, SERVERS, connect, server


async def refused(daemon: Daemon, **options: Any) -> None:
    with pytest.raises((nats.errors.Error, OSError)):
        client = await connect(daemon, **options)
        await client.close()


def say(daemon: Daemon, **fields: Any) -> tuple[Raw, bytes]:
    """CONNECT and PING by hand: the connection, and what came back without the second INFO."""
    raw = daemon.open()
    raw.send(b"CONNECT " + json.dumps({"verbose": False, **fields}).encode() + b"\r\nPING\r\n")
    return raw, raw.line()


def info_of(line: bytes) -> dict[str, Any]:
    assert line.startswith(b"INFO ")
    found: dict[str, Any] = json.loads(line[5:])
    return found


@pytest.mark.parametrize("kind", SERVERS)
async def test_user_and_password(kind: str, tmp_path: Path) -> None:
    with server(kind, tmp_path, "authorization { user: u, password: p }\n") as daemon:
        client = await connect(daemon, user="u", password="p")
        await client.close()
        await refused(daemon, user="u", password="x")
        await refused(daemon, user="x", password="p")
        await refused(daemon)
        await refused(daemon, token="p")
        assert say(daemon, user="u", password="p")[1] == b"-ERR 'Authorization Violation'"
        assert say(daemon, user="u", **{"pass": "p"}, auth_token="extra")[1] == b"PONG"


@pytest.mark.parametrize("kind", SERVERS)
async def test_token(kind: str, tmp_path: Path) -> None:
    with server(kind, tmp_path, "authorization { token: s3cret }\n") as daemon:
        client = await connect(daemon, token="s3cret")
        await client.close()
        await refused(daemon, token="other")
        await refused(daemon, user="s3cret", password="s3cret")
        assert say(daemon, user="s3cret")[1] == b"-ERR 'Authorization Violation'"
        assert say(daemon, **{"pass": "s3cret"})[1] == b"-ERR 'Authorization Violation'"


async def test_hashed_password(accounts: Daemon) -> None:
    client = await connect(accounts, user="hal", password="hashed-secret")
    subscription = await client.subscribe("x")
    await client.publish("x", b"1")
    assert (await subscription.next_msg(timeout=5)).data == b"1"
    await client.close()
    await refused(accounts, user="hal", password="hashed-secre")
    await refused(accounts, user="hal", password=HASHED)
    await refused(accounts, user="hal", password="")
    await refused(accounts, user="hal", password="x" * 1000)


async def test_wrong_logins_say_the_same(accounts: Daemon) -> None:
    for fields in ({"user": "ann", "pass": "b"}, {"user": "nobody", "pass": "a"}, {"user": "ann"}, {"pass": "a"}, {}):
        raw, answer = say(accounts, **fields)
        assert answer == b"-ERR 'Authorization Violation'"
        assert raw.to_end() == b""
        raw.close()


def test_a_second_connect_may_change_the_user(accounts: Daemon) -> None:
    raw, answer = say(accounts, user="ann", **{"pass": "a"}, protocol=0)
    assert answer == b"PONG"
    assert raw.exchange(b"SUB x 1\r\nPUB x 1\r\n1\r\n") == b"MSG x 1 1\r\n1\r\nPONG\r\n"
    second = b'CONNECT {"user":"bob","pass":"b","verbose":false}\r\n'
    assert raw.exchange(second + b"PUB x 1\r\n1\r\n") == b"PONG\r\n"  # its subscriptions are gone
    raw.send(b'CONNECT {"user":"bob","pass":"x","verbose":false}\r\n')
    assert raw.to_end() == b"-ERR 'Authorization Violation'\r\n"
    raw.close()


@pytest.mark.parametrize(
    ("user", "password", "account", "is_system"),
    [("ann", "a", "A", False), ("bob", "b", "B", False), ("sys", "s", "SYS", True)],
)
def test_info_before_and_after(accounts: Daemon, user: str, password: str, account: str, is_system: bool) -> None:
    raw = accounts.open()
    first = info_of(raw.info)
    assert first["auth_required"] is True
    raw.send(b'CONNECT {"user":"%b","pass":"%b","protocol":1}\r\nPING\r\n' % (user.encode(), password.encode()))
    assert (raw.line(), raw.line()) == (b"+OK", b"PONG")
    second = info_of(raw.line())
    assert second.pop("connect_info") is True
    assert second.pop("remote_account") == account
    assert second.pop("acc_is_sys", False) is is_system
    assert second == first
    assert raw.exchange(b"") == b"PONG\r\n"  # once only
    raw.close()


@pytest.mark.parametrize("kind", SERVERS)
def test_no_auth_user(kind: str, tmp_path: Path) -> None:
    with server(kind, tmp_path, ACCOUNTS + "no_auth_user: bob\n") as daemon:
        raw, answer = say(daemon, protocol=1)
        assert "auth_required" not in info_of(raw.info)
        assert answer == b"PONG"
        second = info_of(raw.line())
        assert (second["auth_required"], second["remote_account"]) == (True, "B")
        raw.close()
        for fields in ({"user": "bob"}, {"pass": "b"}, {"auth_token": "x"}, {"user": "nobody", "pass": "x"}):
            assert say(daemon, **fields)[1] == b"-ERR 'Authorization Violation'"
        raw, answer = say(daemon, user="ann", **{"pass": "a"}, protocol=1)
        assert answer == b"PONG"
        assert info_of(raw.line())["remote_account"] == "A"
        raw.close()
        with daemon.open() as early:  # a subscription before CONNECT is the user's too
            early.send(b"SUB x 1\r\nPING\r\n")
            assert early.until(b"PONG\r\n") == b"+OK\r\nPONG\r\n"
            other = say(daemon, user="bob", **{"pass": "b"})[0]
            assert other.exchange(b"PUB x 1\r\n1\r\n") == b"PONG\r\n"
            assert early.until(b"1\r\n") == b"MSG x 1 1\r\n1\r\n"[: len(b"MSG x 1 1\r\n")]
            other.close()


def test_the_log_tells_once_of_many_that_find_their_account_full(tmp_path: Path) -> None:
    full = "accounts { A { users: [ {user: u, password: p} ], limits { max_connections: 0 } } }\n"
    with server("jetbroker", tmp_path, full) as daemon:
        for _ in range(3):
            raw, answer = say(daemon, user="u", **{"pass": "p"})
            assert (answer, raw.to_end()) == (b"-ERR 'maximum account active connections exceeded'", b"")
            raw.close()
    assert sum("maximum account active connections exceeded" in line for line in daemon.log) == 1


def test_who_may_have_no_subscriptions_may_publish(tmp_path: Path) -> None:
    none = "accounts { A { users: [ {user: u, password: p} ], limits { max_subscriptions: 0 } } }\n"
    with server("jetbroker", tmp_path, none) as daemon:
        raw, answer = say(daemon, user="u", **{"pass": "p"})
        assert answer == b"PONG"
        assert raw.exchange(b"SUB a 1\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\nPONG\r\n"
        assert raw.exchange(b"PUB a 1\r\nx\r\n") == b"PONG\r\n"
        raw.close()


def test_info_without_any_login(tmp_path: Path) -> None:
    with Daemon("-n", "some-name") as daemon, daemon.open() as raw:
        first = info_of(raw.info)
        assert {"server_id", "server_name", "version", "proto", "go", "host", "port", "headers", "max_payload",
                "client_id", "client_ip", "api_lvl", "xkey"} == set(first)  # fmt: skip
        assert (first["server_name"], first["proto"], first["api_lvl"], first["headers"]) == ("some-name", 1, 4, True)
        assert (first["port"], first["client_ip"]) == (daemon.port, "127.0.0.1")
        raw.send(b'CONNECT {"verbose":false,"protocol":1,"user":"any","pass":"thing"}\r\nPING\r\n')
        assert raw.line() == b"PONG"
        assert info_of(raw.line()) == {**first, "connect_info": True, "remote_account": "$G"}


def test_no_auth_user_that_is_nobody(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(ACCOUNTS + "no_auth_user: zoe\n")
    result = run("-c", "conf", cwd=tmp_path)
    assert result.returncode == 1
    assert 'no_auth_user: "zoe" not present as user or nkey' in result.stderr


def test_a_default_sentinel_needs_an_operator(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text('default_sentinel: "eyJ"\n')
    assert run("-t", "-c", "conf", cwd=tmp_path).returncode == 0
    result = run("-c", "conf", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "jetbroker: default sentinel requires operators and accounts\n")
