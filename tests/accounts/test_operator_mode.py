"""Operator mode with real clients: creds files, cookies, sentinels, streams that outlive the process, monitoring."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import nats.errors
import nats.js.errors
import pytest

from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.http import get_json, monitor_port
from tests.support.jwts import (
    Account,
    Operator,
    User,
    account_key,
    account_limits,
    configuration,
    jetstream_limits,
    operator_key,
    user_key,
)
from tests.support.leaf_peer import CLOSED
from tests.support.process import ROOT
from tests.support.token_clients import Member, update
from tests.support.token_scenarios import LEAFNODES, World

REFUSED = ["-ERR 'Authorization Violation'", "(closed)"]
UNBOUND = {"subs": -1, "data": -1, "payload": -1}
BEARING = account_key()  # all its users are let in by their tokens alone
SCOPE = {"kind": "user_scope", "key": BEARING.public, "role": "", "template": {"bearer_token": True, **UNBOUND}}
SYSTEM, A, B, LATE = Account("SYS"), Account("A", more={"signing_keys": [SCOPE]}), Account("B"), Account("late")
STORING = Account("S", limits=account_limits(**jetstream_limits()))
OPERATOR = Operator("O", more={"system_account": SYSTEM.public})
BEARER = A.user("sentinel", nats={"bearer_token": True, "pub": {"allow": ["only"]}})


def daemon_of(folder: Path, accounts: list[Account], more: str = "", operator: Operator = OPERATOR) -> Daemon:
    path = folder / "conf"
    path.write_text(configuration(operator, accounts, more=f"debug: true\n{more}"))
    return Daemon("-c", str(path), "-js", "-sd", str(folder / "store"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_of(tmp_path_factory.mktemp("operator"), [SYSTEM, A, B, STORING], "http: 127.0.0.1:-1\n") as running:
        yield running


def creds(folder: Path, user: User) -> str:
    path = folder / f"{user.name}.creds"
    path.write_text(user.creds())
    return str(path)


async def opened(daemon: Daemon, path: str, **options: Any) -> Any:
    return await nats.connect(
        daemon.url, user_credentials=path, **{"allow_reconnect": False, "connect_timeout": 5, **options}
    )


async def test_creds_file(daemon: Daemon, tmp_path: Path) -> None:
    pytest.importorskip("nkeys")
    client, other = (
        await opened(daemon, creds(tmp_path, A.user("a"))),
        await opened(daemon, creds(tmp_path, B.user("b"))),
    )
    mine, theirs = await client.subscribe("x"), await other.subscribe("x")
    await settle(client)
    await settle(other)
    await client.publish("x", b"1")
    assert (await mine.next_msg(5)).data == b"1"
    await other.publish("x", b"2")
    assert (await theirs.next_msg(5)).data == b"2"
    with pytest.raises(nats.errors.Error):
        await opened(daemon, creds(tmp_path, Account("C").user("c")))
    await client.close()
    await other.close()


async def test_the_example(tmp_path: Path) -> None:
    """configs/operator.conf and its creds files."""
    pytest.importorskip("nkeys")
    folder = ROOT / "configs"
    with Daemon("-c", str(folder / "operator.conf"), "-sd", str(tmp_path)) as running:
        shop, partner, system = [
            await opened(running, str(folder / "operator" / f"{name}.creds")) for name in ("shop", "partner", "sys")
        ]
        news = await partner.subscribe("news.>")
        await settle(partner)

        async def price(message: Any) -> None:
            await message.respond(b"5")

        await shop.subscribe("prices.*", cb=price)
        await shop.publish("news.today", b"1")
        await settle(shop)
        assert (await news.next_msg(5)).data == b"1"
        assert (await partner.request("shop.prices.x", timeout=5)).data == b"5"
        await shop.jetstream().add_stream(name="NEWS", subjects=["news.*"])
        with pytest.raises(nats.js.errors.APIError):
            await partner.jetstream().add_stream(name="NEWS", subjects=["news.*"])
        for client in (shop, partner, system):
            await client.close()


async def test_streams_of_an_account_outlive_the_process(tmp_path: Path) -> None:
    """Its token is read with the store, before anybody logs in."""
    pytest.importorskip("nkeys")
    path = creds(tmp_path, STORING.user("s"))
    with daemon_of(tmp_path, [SYSTEM, STORING]) as running:
        client = await opened(running, path)
        await client.jetstream().add_stream(name="S", subjects=["s.*"])
        for number in range(5):
            await client.jetstream().publish("s.x", b"%d" % number)
        running.send(signal.SIGKILL)
        running.wait_end()
        await client.close()
    with daemon_of(tmp_path, [SYSTEM, STORING]) as running:
        client = await opened(running, path)
        assert (await client.jetstream().stream_info("S")).state.messages == 5
        assert (await client.jetstream().publish("s.x", b"5")).seq == 6
        await client.close()
    with daemon_of(tmp_path, [SYSTEM, A]) as running:
        running.wait_for("has streams, but there is no token for it")
        assert Member(running, A.user()).greeting == []
    with daemon_of(tmp_path, [SYSTEM, STORING]) as running:
        client = await opened(running, path)
        assert (await client.jetstream().stream_info("S")).state.messages == 6
        await client.close()


async def test_requests_wait_for_the_jetstream_of_a_new_account(daemon: Daemon, tmp_path: Path) -> None:
    """An account that is used for the first time: its first request is answered by its JetStream."""
    pytest.importorskip("nkeys")
    clients = await asyncio.gather(*(opened(daemon, creds(tmp_path, STORING.user(f"s{at}"))) for at in range(4)))
    names = await asyncio.gather(
        *(client.jetstream().add_stream(name=f"S{at}", subjects=[f"t{at}"]) for at, client in enumerate(clients))
    )
    assert [info.config.name for info in names] == ["S0", "S1", "S2", "S3"]
    for client in clients:
        await client.close()


async def test_streams_are_there_again_when_a_reload_gives_jetstream_back(tmp_path: Path) -> None:
    """The reload itself and the account's other token both have JetStream follow: one after the other."""
    pytest.importorskip("nkeys")
    without = Account("S", key=STORING.key)
    path = tmp_path / "conf"
    with daemon_of(tmp_path, [SYSTEM, STORING]) as running:
        client = await opened(running, creds(tmp_path, STORING.user("s")))
        await client.jetstream().add_stream(name="S", subjects=["s"])
        for number, account in enumerate((without, STORING) * 2, start=1):
            seen = len(running.log)
            path.write_text(configuration(OPERATOR, [SYSTEM, account], more="debug: true\n"))
            running.send(signal.SIGHUP)
            running.wait_for("Reloaded server configuration", seen)
            if account is STORING:
                assert (await client.jetstream().publish("s", b"x", timeout=10)).seq == number // 2
        await client.close()
        assert "Traceback" not in "\n".join(running.log)


def test_an_account_without_jetstream(daemon: Daemon) -> None:
    answer = json.loads(Member(daemon, A.user()).asks("$JS.API.INFO")[0])
    assert answer["error"]["err_code"] == 10039


def test_default_sentinel(tmp_path: Path) -> None:
    """Who has no token that can be read comes in with the sentinel's."""
    with daemon_of(tmp_path, [SYSTEM, A], f"default_sentinel: {BEARER.token()}\n") as running:
        for fields in (
            b'{"verbose":false}',
            b'{"verbose":false,"user":"u","pass":"p"}',
            b'{"verbose":false,"jwt":"xx"}',
        ):
            with running.open() as raw:
                assert raw.exchange(b"CONNECT " + fields + b"\r\nPUB only 0\r\n\r\nPUB other 0\r\n\r\n") == (
                    b"-ERR 'Permissions Violation for Publish to \"other\"'\r\nPONG\r\n"
                )
        assert Member(running, B.user()).greeting == REFUSED
        assert Member(running, A.user()).says("PUB other 0\r\n\r\n") == []


def test_pinned_accounts(tmp_path: Path) -> None:
    more = f"http: 127.0.0.1:-1\nresolver_pinned_accounts: [{A.public}]\n"
    with daemon_of(tmp_path, [SYSTEM, A, B], more) as running:
        port = monitor_port(running)
        assert "pinned_account_fails" not in get_json(port, "/varz")
        assert [Member(running, account.user()).greeting for account in (A, B, SYSTEM)] == [[], REFUSED, []]
        running.wait_for(f"Account {B.public} not listed as operator pinned account")
        assert get_json(port, "/varz")["pinned_account_fails"] == 1
        running.send(signal.SIGHUP)
        running.wait_for("Reloaded server configuration")
        assert Member(running, B.user()).greeting == REFUSED
        assert get_json(port, "/varz")["pinned_account_fails"] == 2


def test_strict_signing_keys(tmp_path: Path) -> None:
    """An account signed by such an operator's key lets in nobody whom its own key has signed."""
    signer, key = operator_key(), account_key()
    operator = Operator("S", more={"signing_keys": [signer.public], "strict_signing_key_usage": True})
    account = Account("X", more={"signing_keys": [key.public]})
    path = tmp_path / "conf"
    path.write_text(configuration(operator, [account, A], signer=signer, more="debug: true"))
    with Daemon("-c", str(path)) as running:
        assert Member(running, account.user()).greeting == REFUSED
        assert Member(running, account.user(signer=key)).greeting == []
        assert Member(running, A.user()).greeting == REFUSED


def test_users_of_an_authorization_service(tmp_path: Path) -> None:
    """Without the service nobody comes in but those who are its own."""
    key = user_key()
    account = Account("X", more={"authorization": {"auth_users": [key.public]}})
    with daemon_of(tmp_path, [SYSTEM, account]) as running:
        assert Member(running, account.user(key=key)).greeting == []
        assert Member(running, account.user()).greeting == REFUSED


def test_without_a_system_account_there_are_no_services(tmp_path: Path) -> None:
    with daemon_of(tmp_path, [A], operator=Operator("alone")) as running:
        assert Member(running, A.user()).asks("$SYS.REQ.USER.INFO")[0] == "NATS/1.0 503"


def test_token_in_a_cookie(tmp_path: Path) -> None:
    websockets = pytest.importorskip("websockets.sync.client")
    more = "websocket { listen: '127.0.0.1:-1', no_tls: true, jwt_cookie: token }\n"
    user = A.user("c", nats={"bearer_token": True, "allowed_connection_types": ["WEBSOCKET"]})
    with daemon_of(tmp_path, [SYSTEM, A], more) as running:
        url = running.wait_for("Listening for websocket clients on").split()[-1]
        for cookie, answer in ((user.token(), b"PONG\r\n"), ("xx", b"-ERR 'Authorization Violation'\r\n")):
            with websockets.connect(url, additional_headers={"Cookie": f"token={cookie}"}) as socket:
                socket.recv()
                socket.send(b'CONNECT {"verbose":false}\r\nPING\r\n')
                assert socket.recv() == answer


def test_limit_of_connections(tmp_path: Path) -> None:
    account = Account("X", limits=account_limits(conn=2))
    with daemon_of(tmp_path, [SYSTEM, account]) as running:
        members = [Member(running, account.user()) for _ in range(3)]
        assert [member.greeting for member in members] == [
            [],
            [],
            ["-ERR 'maximum account active connections exceeded'", "(closed)"],
        ]
        members[0].raw.close()
        running.wait_for("Client connection closed: Client Closed")
        assert Member(running, account.user()).greeting == []


def test_second_connect_is_judged_again(daemon: Daemon) -> None:
    first, second = A.user("first"), B.user("second")
    member = Member(daemon, first)
    nonce = json.loads(member.raw.info[5:])["nonce"]
    fields = json.dumps({"jwt": second.token(), "sig": second.key.signature(nonce), "verbose": False})
    assert member.says(f"CONNECT {fields}\r\n") == []
    answer = json.loads(member.asks("$SYS.REQ.USER.INFO")[0])["data"]
    assert (answer["user"], answer["account"], answer["user_name"]) == (second.key.public, B.public, "second")
    forged = json.dumps({"jwt": second.token(), "sig": first.key.signature(nonce), "verbose": False})
    assert member.says(f"CONNECT {forged}\r\n") == REFUSED


def test_signature_of_another_connection(daemon: Daemon) -> None:
    user = A.user("u")
    with daemon.open() as other:
        nonce = json.loads(other.info[5:])["nonce"]
        assert Member(daemon, user, sig=user.key.signature(nonce)).greeting == REFUSED


def test_who_am_i(daemon: Daemon) -> None:
    user = A.user("ann", outer={"exp": int(time.time()) + 1000}, nats={"pub": {"allow": ["x", "$SYS.>"]}})
    answer = json.loads(Member(daemon, user).asks("$SYS.REQ.USER.INFO")[0])["data"]
    assert 900 * 10**9 < answer.pop("expires") <= 1000 * 10**9
    assert answer == {
        "user": user.key.public,
        "account": A.public,
        "account_name": "A",
        "user_name": "ann",
        "permissions": {"publish": {"allow": ["x", "$SYS.>"]}, "subscribe": {}},
    }


def test_monitoring(daemon: Daemon) -> None:
    url = daemon.wait_for("Starting http monitor on").split()[-1]

    def asked(what: str) -> Any:
        with urllib.request.urlopen(f"http://{url}/{what}", timeout=10) as answer:
            return json.load(answer)

    varz = asked("varz")
    assert varz["auth_required"]
    assert varz["system_account"] == SYSTEM.public
    assert varz["trusted_operators_jwt"] == [OPERATOR.token()]
    assert varz["trusted_operators_claim"][0]["nats"]["system_account"] == SYSTEM.public
    signed, bearer = B.user("k", nats={"tags": ["t:1"]}), A.user("b", nats={"bearer_token": True})
    scoped = A.user("s", signer=BEARING, scoped=True)
    token = signed.token()
    members = [Member(daemon, signed, token), Member(daemon, bearer), Member(daemon, scoped)]
    rows = {row["authorized_user"]: row for row in asked("connz?auth=1")["connections"] if "authorized_user" in row}
    row = rows[signed.key.public]
    assert (row["account"], row["name_tag"], row["issuer_key"], row["tags"]) == (B.public, "B", B.public, ["t:1"])
    assert row["jwt"] == token
    assert "jwt" not in rows[bearer.key.public]  # having it is all it takes
    assert "jwt" not in rows[scoped.key.public]
    names = {row["id"]: row["name"] for row in asked("jsz?accounts=1")["account_details"]}
    assert names[STORING.public] == "S"
    for member in members:
        member.raw.close()


def test_update_is_for_the_system_account_only(daemon: Daemon) -> None:
    member, system = Member(daemon, A.user()), Member(daemon, SYSTEM.user())
    subject = f"$SYS.REQ.ACCOUNT.{A.public}.CLAIMS.UPDATE"
    assert member.asks(subject, A.token(OPERATOR.key))[0] == "NATS/1.0 503"
    assert update(system, A, OPERATOR.key) == "jwt updated"
    assert update(system, LATE, OPERATOR.key) == "jwt update skipped"


def test_update_without_a_reply(daemon: Daemon) -> None:
    system, member = Member(daemon, SYSTEM.user()), Member(daemon, B.user())
    token = Account("B", key=B.key, limits=account_limits(payload=1)).token(OPERATOR.key)
    seen = len(daemon.log)
    system.says(f"PUB $SYS.ACCOUNT.{B.public}.CLAIMS.UPDATE {len(token)}\r\n{token}\r\n")
    daemon.wait_for("jwt updated", seen)
    assert member.says("PUB x 2\r\n12\r\n") == ["-ERR 'Maximum Payload Violation'", "(closed)"]
    assert update(system, B, OPERATOR.key) == "jwt updated"


async def test_a_new_token_moves_the_limits_of_streams_that_are_there(tmp_path: Path) -> None:
    def storing(size: int) -> Account:
        return Account("W", key=writing.key, limits=account_limits(**jetstream_limits(disk_storage=size)))

    writing = Account("W")
    with daemon_of(tmp_path, [SYSTEM, storing(100)]) as daemon:
        system = Member(daemon, SYSTEM.user())
        client = await opened(daemon, creds(tmp_path, writing.user()))
        await client.jetstream().add_stream(name="S", subjects=["s"])
        with pytest.raises(nats.js.errors.APIError, match="resource limits exceeded for account"):
            await client.jetstream().publish("s", bytes(1000))
        assert update(system, storing(10_000), OPERATOR.key) == "jwt updated"
        async with asyncio.timeout(20):  # it is followed behind the answer
            while "error" in json.loads((await client.request("s", bytes(1000), timeout=10)).data):
                await asyncio.sleep(0.01)
        await client.close()


def test_imports_wait_for_their_exporter(tmp_path: Path) -> None:
    """An account that nobody has used is read when somebody imports from it, also in a circle."""
    giver, taker = Account("giver"), Account("taker")
    giver.more = {
        "exports": [{"name": "x", "subject": "x", "type": "stream"}],
        "imports": [{"name": "y", "subject": "y", "account": taker.public, "type": "stream"}],
    }
    taker.more = {
        "exports": [{"name": "y", "subject": "y", "type": "stream"}],
        "imports": [
            {"name": "x", "subject": "x", "account": giver.public, "type": "stream"},
            {"name": "z", "subject": "z", "account": LATE.public, "type": "stream"},
        ],
    }
    LATE.more = {"exports": [{"name": "z", "subject": "z", "type": "stream"}]}
    path = tmp_path / "conf"
    with daemon_of(tmp_path, [SYSTEM, giver, taker]) as running:
        member = Member(running, taker.user())
        running.wait_for(f"Can't locate account [{LATE.public}] for import of [z] stream (err=account missing)")
        member.says("SUB > 1\r\n")
        other = Member(running, giver.user())
        other.says("SUB > 1\r\nPUB x 1\r\n1\r\n")
        assert member.says("PUB y 1\r\n2\r\n") == ["MSG x", "1", "MSG y", "2"]
        assert other.hears() == ["MSG y", "2"]
        path.write_text(configuration(OPERATOR, [SYSTEM, giver, taker, LATE], more="debug: true\n"))
        seen = len(running.log)
        running.send(signal.SIGHUP)
        running.wait_for("Reloaded server configuration", seen)
        late = Member(running, LATE.user())
        late.says("PUB z 1\r\n3\r\n")
        assert member.hears() == ["MSG z", "3"]


def test_what_the_system_account_exports_goes_before_what_it_gives_unasked(tmp_path: Path) -> None:
    everything = {"name": "all", "subject": "$SYS.REQ.ACCOUNT.*.>", "type": "service"}
    other = {"name": "other", "subject": f"$SYS.REQ.ACCOUNT.{B.public}.CONNZ", "local_subject": "other"}
    system = Account("SYS", key=SYSTEM.key, more={"exports": [everything]})
    taker = Account("taker", more={"imports": [{**other, "account": SYSTEM.public, "type": "service"}]})
    with daemon_of(tmp_path, [system, taker, B]) as running:
        watching = Member(running, B.user(), name="watched")
        (answer,) = Member(running, taker.user()).asks("other")
        assert [row["name"] for row in json.loads(answer)["data"]["connections"]] == ["watched"]
        (answer,) = Member(running, system.user()).asks(f"$SYS.REQ.ACCOUNT.{SYSTEM.public}.INFO")
        assert {row["subject"] for row in json.loads(answer)["data"]["exports"]} == {
            "$JS.API.>", "$SYS.DEBUG.SUBSCRIBERS", "$SYS.REQ.ACCOUNT.*.>", "$SYS.REQ.USER.*.INFO",
        }  # fmt: skip
        watching.raw.close()


def test_activation_that_ends(tmp_path: Path) -> None:
    giver, taker = Account("giver"), Account("taker")
    giver.more = {"exports": [{"name": "x", "subject": "x", "type": "stream", "token_req": True}]}
    with daemon_of(tmp_path, [SYSTEM, giver, taker]) as running:
        system, member, other = (Member(running, account.user()) for account in (SYSTEM, taker, giver))
        member.says("SUB x 1\r\n")
        token = giver.activation(taker.public, "x", "stream", exp=int(time.time()) + 3)
        entry = {"name": "x", "subject": "x", "account": giver.public, "type": "stream", "token": token}
        taker.more = {"imports": [entry]}
        assert update(system, taker, OPERATOR.key) == "jwt updated"
        other.says("PUB x 1\r\n1\r\n")
        assert member.hears() == ["MSG x", "1"]
        running.wait_for("Error adding stream import to account")
        other.says("PUB x 1\r\n2\r\n")
        assert member.hears() == []


def test_links_follow_other_default_permissions(tmp_path: Path) -> None:
    """Only the spoke knows what it denies by itself, without JetStream: it has to come anew."""
    account = Account("X")
    with daemon_of(tmp_path, [SYSTEM, account], LEAFNODES) as running:
        world = World(running, tmp_path / "conf", OPERATOR, SYSTEM, account, B)
        link, own, system = world.link(account), world.link(account, nats={"pub": {"allow": [">"]}}), world.sys()
        account.more = {"default_permissions": {"pub": {"deny": ["up"]}}}
        assert world.update(system, account) == "jwt updated"
        assert link.to_end()[-1] == CLOSED
        again = world.link(account)
        for peer in (own, again):
            peer.say(b"LMSG up 1\r\n1\r\n")
        assert "-ERR 'Permissions Violation for Publish to \"up\"'" in again.to_end()
        assert CLOSED not in own.until_pong()
