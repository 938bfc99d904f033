"""SIGHUP with other logins: who stays, who is told to go, who is closed without a word. The same as nats-server,
but for the rows that name a better answer of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import pytest

from tests.support.daemon import Raw
from tests.support.login_rows import ANN, BOB, Say
from tests.support.process import JETBROKER_COMMAND, find_nats_server
from tests.support.reloads import Edited

STAYS, REFUSED, CLOSED = b"PONG\r\n", b"-ERR 'Authorization Violation'\r\n", b""
FULL = b"-ERR 'maximum account active connections exceeded'\r\n"
HASH_P, HASH_P2, HASH_Q = (bcrypt.hashpw(text, bcrypt.gensalt(4)).decode() for text in (b"p", b"p", b"q"))


def one(user: str, password: str) -> str:
    return f'authorization {{ user: {user}, password: "{password}" }}\n'


def users(*logins: tuple[str, str], more: str = "") -> str:
    found = ", ".join(f'{{user: {user}, password: "{password}"{more}}}' for user, password in logins)
    return f"authorization {{ users: [ {found} ] }}\n"


def nkeys(*keys: str) -> str:
    return f"authorization {{ users: [ {', '.join(f'{{nkey: {key}}}' for key in keys)} ] }}\n"


def accounts(of_a: str, of_b: str, limits: str = "") -> str:
    return f"accounts {{ A {{ users: [ {of_a} ]{limits} }}, B {{ users: [ {of_b} ] }} }}\n"


def user(name: str, password: str) -> dict[str, object]:
    return {"user": name, "pass": password}


def nkey(of: object) -> dict[str, object]:
    return {"nkey": of.public, "sig": of.signature}  # type: ignore[attr-defined]


U, V = user("u", "p"), user("v", "p")
NONE = "max_payload: 1000\n"
TOKEN, OTHER_TOKEN = "authorization { token: t }\n", "authorization { token: s }\n"
A_U, B_B = "{user: u, password: p}", "{user: b, password: b}"


@dataclass(frozen=True)
class Row:
    """`says`: each client's CONNECT (None: it says nothing, bytes: just these); `expect`: what becomes of each.

    `theirs`: what nats-server does, where that is another thing (docs/AUTHENTICATION.md says why).
    """

    name: str
    before: str
    after: str
    says: Sequence[Say | None]
    expect: Sequence[bytes]
    theirs: Sequence[bytes] = ()


ROWS = [
    Row("one user, nothing changed", one("u", "p"), one("u", "p"), [U], [STAYS], [CLOSED]),
    Row("one user, something else changed", one("u", "p"), one("u", "p") + NONE, [U], [STAYS], [CLOSED]),
    Row("one user's password", one("u", "p"), one("u", "q"), [U, None], [CLOSED, REFUSED]),
    Row("one user's name", one("u", "p"), one("v", "p"), [U], [CLOSED]),
    Row("a token", TOKEN, OTHER_TOKEN, [{"auth_token": "t"}], [REFUSED]),
    Row("a token that stays", TOKEN, TOKEN + NONE, [{"auth_token": "t"}], [STAYS]),
    Row("a token goes", TOKEN, NONE, [{"auth_token": "t"}], [STAYS]),
    Row("a token instead of a user", one("u", "p"), TOKEN, [U], [CLOSED]),
    Row(
        "a login comes",
        NONE,
        one("u", "p"),
        [{}, U, user("x", "y"), None, b"PING\r\n"],
        [REFUSED, STAYS, CLOSED, REFUSED, REFUSED],
        [REFUSED, CLOSED, CLOSED, REFUSED, REFUSED],
    ),
    Row(
        "users come",
        NONE,
        users(("u", "p")),
        [{}, U, user("u", "x"), user("x", "y"), None],
        [REFUSED, STAYS, REFUSED, CLOSED, REFUSED],
    ),
    Row("hashed users come", NONE, users(("u", HASH_P)), [U, user("u", "x")], [STAYS, REFUSED]),
    Row("no login before and after", NONE, "max_payload: 2000\n", [{}, U], [STAYS, STAYS], [STAYS, CLOSED]),
    Row("a login goes", one("u", "p"), NONE, [U], [CLOSED]),
    Row("users go", users(("u", "p")), NONE, [U], [CLOSED]),
    Row("users stay", users(("u", "p")), users(("u", "p")), [U, None], [STAYS, REFUSED]),
    Row("a password", users(("u", "p"), ("v", "p")), users(("u", "q"), ("v", "p")), [U, V], [REFUSED, STAYS]),
    Row("a user goes", users(("u", "p"), ("v", "p")), users(("v", "p")), [U, V], [CLOSED, STAYS]),
    Row(
        "one user instead of many",
        users(("u", "p"), ("v", "p")),
        one("v", "p"),
        [U, V],
        [CLOSED, STAYS],
        [STAYS, STAYS],
    ),
    Row("a token instead of users", users(("u", "p")), TOKEN, [U], [CLOSED], [STAYS]),
    Row("many users instead of one", one("u", "p"), users(("u", "p"), ("v", "p")), [U], [STAYS]),
    Row("a password is hashed", users(("u", "p")), users(("u", HASH_P)), [U], [STAYS]),
    Row("another password, hashed", users(("u", "p")), users(("u", HASH_Q)), [U], [REFUSED]),
    Row("a hash stays", users(("u", HASH_P)), users(("u", HASH_P), ("v", "p")), [U], [STAYS]),
    Row("a hash becomes plain", users(("u", HASH_P)), users(("u", "p")), [U], [STAYS]),
    Row("a hash becomes another password", users(("u", HASH_P)), users(("u", "q")), [U], [REFUSED]),
    Row("a hash of the same password", users(("u", HASH_P)), users(("u", HASH_P2)), [U], [REFUSED], [STAYS]),
    Row("a hash of another password", users(("u", HASH_P)), users(("u", HASH_Q)), [U], [REFUSED]),
    Row(
        "the password of no_auth_user",
        users(("u", "p")) + "no_auth_user: u\n",
        users(("u", "q")) + "no_auth_user: u\n",
        [{}, b"PING\r\n", U],
        [REFUSED, REFUSED, REFUSED],
    ),
    Row(
        "no_auth_user stays",
        users(("u", "p")) + "no_auth_user: u\n",
        users(("u", "p"), ("v", "p")) + "no_auth_user: u\n",
        [{}, b"PING\r\n", U, None],
        [STAYS, STAYS, STAYS, b"-ERR 'Authentication Timeout'\r\n"],
    ),
    Row("an nkey stays", nkeys(ANN.public), nkeys(ANN.public, BOB.public), [nkey(ANN)], [STAYS]),
    Row("an nkey goes", nkeys(ANN.public, BOB.public), nkeys(BOB.public), [nkey(ANN), nkey(BOB)], [CLOSED, STAYS]),
    Row(
        "another account",
        accounts(A_U, B_B),
        accounts("{user: x, password: x}", f"{B_B}, {A_U}"),
        [U, user("b", "b")],
        [CLOSED, STAYS],
    ),
    Row(
        "an account goes",
        accounts(A_U, B_B),
        f"accounts {{ B {{ users: [ {B_B} ] }} }}\n",
        [U, user("b", "b")],
        [CLOSED, STAYS],
    ),
    Row(
        "strangers beside the users of the system account",
        "accounts { $SYS { users: [ {user: s, password: s} ] } }\n",
        "accounts { $SYS { users: [ {user: s, password: t} ] } }\nmax_payload: 1000\n",
        [{}, b"PING\r\n", user("s", "s")],
        [STAYS, STAYS, REFUSED],
    ),
    Row(
        "connection types",
        users(("u", "p")),
        users(("u", "p"), more=", allowed_connection_types: [WEBSOCKET]"),
        [U],
        [REFUSED],
    ),
    Row("a proxy", users(("u", "p")), users(("u", "p"), more=", proxy_required: true"), [U], [REFUSED]),
]


def _connected(server: Edited, say: Say | None) -> Raw:
    raw = server.open()
    if say is None:
        return raw
    if isinstance(say, bytes):
        raw.send(say)
    elif not callable(say):
        nonce = json.loads(raw.info[5:]).get("nonce", "")
        fields = {name: value(nonce) if callable(value) else value for name, value in say.items()}
        raw.send(b"CONNECT " + json.dumps({"verbose": False, **fields}).encode() + b"\r\nPING\r\n")
    assert raw.line() == b"PONG"
    return raw


def _became(raw: Raw, say: Say | None) -> bytes:
    """What the client hears, up to the answer to a PING or the end. One that said nothing goes on so."""
    return raw.until(b"\r\n") if say is None else raw.exchange(b"")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edited]:
    """A jetbroker that goes from row to row by reloads."""
    with Edited(tmp_path_factory.mktemp("shared") / "server.conf", NONE, JETBROKER_COMMAND) as server:
        yield server


def _play(server: Edited, row: Row) -> list[bytes]:
    """What becomes of each client."""
    clients = [_connected(server, say) for say in row.says]
    lines = server.reload(row.after)
    assert [line for line in lines if "Reloaded server configuration" in line]
    heard = [_became(client, say) for client, say in zip(clients, row.says, strict=True)]
    for client in clients:
        client.close()
    return heard


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_reload_judges_everybody_again(row: Row, shared: Edited, tmp_path: Path) -> None:
    if "no_auth_user" in row.before:  # no reload changes that one
        with Edited(tmp_path / "server.conf", row.before, JETBROKER_COMMAND) as server:
            assert _play(server, row) == list(row.expect)
    else:
        shared.reload(row.before)
        assert _play(shared, row) == list(row.expect)


@pytest.mark.differential
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_nats_server_makes_of_it(row: Row, tmp_path: Path) -> None:
    reference = find_nats_server()
    if reference is None:
        pytest.skip("no nats-server on this machine")
    with Edited(tmp_path / "server.conf", row.before, (reference,)) as server:
        assert _play(server, row) == list(row.theirs or row.expect)


def test_a_lower_limit_of_connections_closes_the_newest(tmp_path: Path) -> None:
    with Edited(tmp_path / "server.conf", accounts(A_U, B_B), JETBROKER_COMMAND) as server:
        clients = [_connected(server, U) for _ in range(3)]
        server.reload(accounts(A_U, B_B, ", limits { max_connections: 2 }"))
        assert [_became(client, U) for client in clients] == [STAYS, STAYS, FULL]
        for client in clients:
            client.close()


def test_lower_limits_hold_at_once(tmp_path: Path) -> None:
    with (
        Edited(tmp_path / "server.conf", accounts(A_U, B_B), JETBROKER_COMMAND) as server,
        _connected(server, U) as client,
    ):
        client.exchange(b"SUB a 1\r\n")
        server.reload(accounts(A_U, B_B, ", limits { max_subscriptions: 1, max_payload: 3 }"))
        assert client.exchange(b"SUB b 2\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\nPONG\r\n"
        client.send(b"PUB a 4\r\n1234\r\n")
        assert client.to_end() == b"-ERR 'Maximum Payload Violation'\r\n"


def test_more_subscriptions_than_may_be(tmp_path: Path) -> None:
    with (
        Edited(tmp_path / "server.conf", accounts(A_U, B_B), JETBROKER_COMMAND) as server,
        _connected(server, U) as client,
    ):
        client.exchange(b"SUB a 1\r\nSUB b 2\r\n")
        server.reload(accounts(A_U, B_B, ", limits { max_subscriptions: 1 }"))
        assert client.to_end() == b"-ERR 'maximum subscriptions exceeded'\r\n"
