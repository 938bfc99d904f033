"""An account without JetStream that imports another one's API, or parts of it: who answers, against nats-server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.differential.conftest import Pair
from tests.differential.test_system_services import answer_to
from tests.support import process
from tests.support.clients import settle
from tests.support.jetstream_probe import Probe
from tests.support.jwts import Account, Operator, account_key, account_limits, configuration, jetstream_limits
from tests.support.nkeys import UserKey
from tests.support.process import free_port
from tests.support.sharing import Client

pytestmark = pytest.mark.differential

IMPORTS = {
    "NONE": "",
    "INFO": '{service: {account: J, subject: "$JS.API.INFO"}}',
    "ALL": '{service: {account: J, subject: "$JS.API.>"}}',
    "BOTH": ", ".join(f'{{service: {{account: J, subject: "$JS.API.{name}"}}}}' for name in ("INFO", "STREAM.NAMES")),
    "RENAMED": '{service: {account: J, subject: "$JS.API.INFO"}, to: "x.info"}',
    "PREFIXED": '{service: {account: J, subject: "$JS.API.>"}, to: "J.API.>"}',
}
SUBJECTS = "$JS.API.INFO $JS.API.STREAM.NAMES $JS.API.CONSUMER.NAMES.S $JS.API.STREAM.INFO.S x.info J.API.INFO".split()
EXPORTS = ", ".join(f'{{service: "$JS.API.{name}"}}' for name in (">", "INFO", "STREAM.NAMES"))

AUDITED = """
server_name: same
jetstream { store_dir: "STORE" }
websocket { listen: "127.0.0.1:WEBSOCKET", no_tls: true }
accounts {
  J { jetstream: enabled, exports: [{service: "$JS.API.>"}], users: [{user: j, password: p}, {nkey: NKEY}] }
  X { imports: [{service: {account: J, subject: "$JS.API.>"}}], exports: [{service: "$JS.API.>"}],
      users: [{user: x, password: p}] }
  SHARED { imports: [{service: {account: J, subject: "$JS.API.>"}, share: true}], exports: [{service: "$JS.API.>"}],
      users: [{user: s, password: p}, {nkey: SHAREDKEY}] }
  FAR { imports: [{service: {account: X, subject: "$JS.API.>"}}], users: [{user: f, password: p}] }
  FARSHARED { imports: [{service: {account: SHARED, subject: "$JS.API.>"}, share: true}],
      users: [{user: g, password: p}] }
}
"""
VARYING = ("start", "id", "rtt")


def config(folder: Path) -> Path:
    """One importing account for each way to import; its user has the same name."""
    users = {name: f"users: [{{user: {name}, password: p}}], imports: [{rows}]" for name, rows in IMPORTS.items()}
    accounts = "\n".join(f"  {name} {{ {rows} }}" for name, rows in users.items())
    path = folder / "server.conf"
    path.write_text(
        f"jetstream {{ store_dir: '{folder}' }}\n"
        f"accounts {{\n  J {{ jetstream: enabled, exports: [{EXPORTS}] }}\n{accounts}\n}}\n",
        encoding="utf-8",
    )
    return path


def told(client: Client, subject: str) -> str:
    found = answer_to(client, subject, "", wait=True)
    assert found is not None
    if found.startswith(b"NATS/1.0"):
        return found[:12].decode()
    return str(json.loads(found).get("error", "an answer"))


PULLS = """
jetstream { store_dir: STORE }
accounts {
  J { jetstream: enabled, users: [{user: J, password: p}]
      exports: [{service: "$JS.API.CONSUMER.MSG.NEXT.>", response: stream}] }
  A { users: [{user: A, password: p}], imports: [{service: {account: J, subject: "$JS.API.CONSUMER.MSG.NEXT.*.*"}}]
      exports: [{service: "$JS.API.CONSUMER.MSG.NEXT.>", response: stream}] }
  B { users: [{user: B, password: p}], imports: [{service: {account: A, subject: "$JS.API.CONSUMER.MSG.NEXT.*.*"}}] }
}
"""


async def pulls_of_others(server: process.ServerProcess) -> list[Any]:
    """What waits at a consumer while clients of two other accounts, one behind the other, come and go."""
    options = {"password": "p", "allow_reconnect": False}
    owner = await nats.connect(server.url, user="J", **options)
    probe = Probe(owner)
    await probe.clear()
    await probe.stream("S")
    await probe.consumer("S", "c")
    seen: list[Any] = []
    for user in ("A", "B"):
        client = await nats.connect(server.url, user=user, **options)
        inbox = await Probe(client).inbox("in.x")
        for _ in range(3):
            await Probe(client).pull("S", "c", b"2", inbox)
        seen.append((await probe.settled("S", "c"))["num_waiting"])
        await probe.fill("S", 1)
        seen.append((await inbox.raw()).data)
        await inbox.close()
        seen.append((await probe.settled("S", "c"))["num_waiting"])
        await client.close()
    await owner.close()
    return seen


async def test_pulls_of_other_accounts_leave_with_who_asks(pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of(PULLS)
    expected = [3, b"m0", 0, 3, b"m0", 0]
    assert [await pulls_of_others(server) for server in (pair.reference, pair.broker)] == [expected, expected]


def test_one_answer_comes_from_where_nats_server_takes_it(tmp_path: Path) -> None:
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    found = []
    for make, name in ((process.nats_server, "theirs"), (process.jetbroker, "ours")):
        folder = tmp_path / name
        folder.mkdir()
        rows = {}
        with make("-c", str(config(folder))) as server:
            for user in IMPORTS:
                client = Client(server.port, user)
                client.send("SUB in.> 1\r\n")
                rows[user] = {subject: told(client, subject) for subject in SUBJECTS}
                client.close()
        found.append(rows)
    assert found[1] == found[0]


async def audited(websocket: int, port: int, keys: list[UserKey]) -> list[Any]:
    """How audits describe each of these, who say of themselves that they are somebody else."""
    logins: list[dict[str, Any]] = [{"user": name, "password": "p"} for name in "jxsfg"]
    logins += [{"nkeys_seed_str": key.seed} for key in keys]
    urls = [f"nats://127.0.0.1:{port}"] * len(logins) + [f"ws://127.0.0.1:{websocket}"]
    listener = await nats.connect(urls[0], user="j", password="p")
    audits = await listener.subscribe("$JS.EVENT.ADVISORY.API")
    await settle(listener)
    found = []
    for url, login in zip(urls, [*logins, logins[0]], strict=True):
        client = await nats.connect(url, name="n", **login)
        forged = {"Nats-Request-Info": json.dumps({"acc": "SHARED", "user": "another", "name": "another"})}
        await client.request("$JS.API.STREAM.DELETE.NONE", b"", timeout=20, headers=forged)
        told = json.loads((await audits.next_msg(timeout=20)).data)["client"]
        found.append({name: value for name, value in told.items() if name not in VARYING})
        await client.close()
    await listener.close()
    return found


def test_audits_tell_of_a_requestor_what_his_import_shares(tmp_path: Path) -> None:
    pytest.importorskip("nkeys")
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    keys, found = [UserKey(), UserKey()], []
    for make, name in ((process.nats_server, "theirs"), (process.jetbroker, "ours")):
        folder, websocket = tmp_path / name, free_port()
        folder.mkdir()
        text = AUDITED.replace("STORE", str(folder)).replace("WEBSOCKET", str(websocket))
        (folder / "conf").write_text(text.replace("SHAREDKEY", keys[1].public).replace("NKEY", keys[0].public))
        with make("-c", str(folder / "conf")) as server:
            found.append(asyncio.run(audited(websocket, server.port, keys)))
    assert found[1] == found[0]
    assert found[0][1] == {"acc": "X", "svc": "J", "server": "same"}


async def audited_tokens(port: int, creds: list[Path]) -> list[Any]:
    found = []
    for path in creds:
        client = await nats.connect(f"nats://127.0.0.1:{port}", name="n", user_credentials=str(path))
        audits = await client.subscribe("$JS.EVENT.ADVISORY.API")
        await client.request("$JS.API.STREAM.DELETE.NONE", b"", timeout=20)
        told = json.loads((await audits.next_msg(timeout=20)).data)["client"]
        found.append({name: value for name, value in told.items() if name not in VARYING})
        await client.close()
    return found


def test_audits_tell_of_users_of_operator_mode(tmp_path: Path) -> None:
    pytest.importorskip("nkeys")
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    signing, system = account_key(), Account("SYS")
    account = Account("S", limits=account_limits(**jetstream_limits()), more={"signing_keys": [signing.public]})
    users = [account.user("plain", nats={"tags": ["a:b", "c"]}), account.user("signed", signer=signing)]
    creds = [tmp_path / user.name for user in users]
    for path, user in zip(creds, users, strict=True):
        path.write_text(user.creds())
    operator, found = Operator("O", more={"system_account": system.public}), []
    for make, name in ((process.nats_server, "theirs"), (process.jetbroker, "ours")):
        folder = tmp_path / name
        folder.mkdir()
        more = f'server_name: same\njetstream {{ store_dir: "{folder}" }}'
        (folder / "conf").write_text(configuration(operator, [system, account], more=more))
        with make("-c", str(folder / "conf")) as server:
            found.append(asyncio.run(audited_tokens(server.port, creds)))
    assert found[1] == found[0]
    assert [told["issuer_key"] for told in found[0]] == [account.public, signing.public]
