"""Clients with nkeys, real ones and hostile ones; logins that a reload overtakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import nats
import nats.errors
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.aio.client import Client

from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.login_rows import signed
from tests.support.logins import SERVERS, server
from tests.support.nkeys import UserKey
from tests.support.process import JETBROKER_COMMAND
from tests.support.reloads import Edited

ANN, BOB, EVE = UserKey(), UserKey(), UserKey()
CONFIG = f"""
accounts {{
  A {{ users: [ {{ nkey: {ANN.public}, permissions: {{ publish: "a.>" }} }}, {{ user: al, password: p }} ] }}
  B {{ users: [ {{ nkey: {BOB.public} }} ] }}
}}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with server("jetbroker", tmp_path_factory.mktemp("nkeys"), CONFIG) as running:
        yield running
        assert not [line for line in running.log if "Traceback" in line]


async def open_client(daemon: Daemon, **options: object) -> Client:
    return await nats.connect(daemon.url, allow_reconnect=False, connect_timeout=5, **options)


@pytest.mark.parametrize("kind", SERVERS)
async def test_nats_py_with_nkeys(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("nkeys")
    with server(kind, tmp_path, CONFIG) as daemon:
        ann, al = await open_client(daemon, nkeys_seed_str=ANN.seed), await open_client(daemon, user="al", password="p")
        bob = await open_client(daemon, nkeys_seed_str=BOB.seed)
        mine, his = await al.subscribe(">"), await bob.subscribe(">")
        await settle(al)
        await settle(bob)
        await ann.publish("b.1", b"denied")
        await ann.publish("a.1", b"allowed")
        await settle(ann)
        assert (await mine.next_msg(timeout=5)).subject == "a.1"
        await settle(bob)
        assert his.pending_msgs == 0
        for client in (ann, al, bob):
            await client.close()
        with pytest.raises((nats.errors.Error, OSError)):
            await open_client(daemon, nkeys_seed_str=EVE.seed)


def say(daemon: Daemon, **fields: object) -> bytes:
    with daemon.open() as raw:
        nonce = json.loads(raw.info[5:])["nonce"]
        found = {name: value(nonce) if callable(value) else value for name, value in fields.items()}
        raw.send(b"CONNECT " + json.dumps({"verbose": False, **found}).encode() + b"\r\nPING\r\n")
        return raw.line()


def test_a_nonce_is_good_once(daemon: Daemon) -> None:
    seen = set()
    for _ in range(20):
        with daemon.open() as raw:
            seen.add(json.loads(raw.info[5:])["nonce"])
    assert len(seen) == 20
    used = ANN.signature(seen.pop())
    assert say(daemon, nkey=ANN.public, sig=used) == b"-ERR 'Authorization Violation'"
    assert say(daemon, **signed(ANN)) == b"PONG"


pieces = st.one_of(
    st.text(max_size=120),
    st.sampled_from(
        [ANN.public, BOB.public, ANN.seed, ANN.public[:40], ANN.public + "A", "U" * 56, "A" * 86, "=" * 88]
    ),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=54, max_size=58),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=", min_size=84, max_size=90),
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nkey=pieces, sig=pieces, jwt=pieces)
def test_truncated_and_garbled_keys_are_plain_failures(daemon: Daemon, nkey: str, sig: str, jwt: str) -> None:
    assert say(daemon, nkey=nkey, sig=sig, jwt=jwt) == b"-ERR 'Authorization Violation'"


def test_a_check_that_a_reload_overtakes(tmp_path: Path) -> None:
    """Whichever comes first: who is no user any more does not stay."""
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(11)).decode()

    def config(name: str) -> str:
        return f'authorization {{ timeout: 10, users: [ {{user: {name}, password: "{hashed}"}} ] }}\n'

    with Edited(tmp_path / "server.conf", config("u"), JETBROKER_COMMAND) as running:
        clients = [running.open() for _ in range(4)]
        for client in clients:
            client.send(b'CONNECT {"user":"u","pass":"secret","verbose":false}\r\nPING\r\n')
        running.reload(config("v"))
        for client in clients:
            assert client.to_end() in (b"-ERR 'Authorization Violation'\r\n", b"PONG\r\n", b"")
            client.close()
        stays = running.open()
        stays.send(b'CONNECT {"user":"v","pass":"secret","verbose":false}\r\nPING\r\n')
        running.reload(config("v") + "max_payload: 1000\n")
        assert stays.line() == b"PONG"
        stays.close()
