"""Accounts that a reload of the configuration removes leave the memory, with all that they had and asked for."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from jetbroker.routing.router import Router
from jetbroker.testing import embedded
from tests.support.jwts import Account, Operator, account_limits, configuration, jetstream_limits
from tests.support.memory import instances

SECONDS = 30.0
STAYS = """
system_account: SYS
accounts {
  SYS { users: [{user: sys, password: p}] }
  A { users: [{user: a, password: p}], jetstream: enabled, exports: [{stream: given.>}, {service: asked}] %s }
  %s
}
"""
COMES = """
  B {
    users: [{user: b, password: p}], jetstream: enabled
    exports: [{stream: theirs}], mappings: {from: to}
    imports: [{stream: {account: A, subject: given.>}}, {service: {account: A, subject: asked}}]
  }
"""
WITH_B, WITHOUT_B = STAYS % (", imports: [{stream: {account: B, subject: theirs}}]", COMES), STAYS % ("", "")
SYSTEM, KEPT, LATER = Account("SYS"), Account("A"), Account("B", limits=account_limits(**jetstream_limits()))
OPERATOR = Operator("O", more={"system_account": SYSTEM.public})


def routers() -> set[int]:
    gc.collect()
    return set(map(id, instances(Router)))


async def reload(system: Client, path: Path, text: str) -> None:
    path.write_text(text)
    answer = json.loads((await system.request("$SYS.REQ.SERVER.PING.IDZ", b"", SECONDS)).data)
    done = json.loads((await system.request(f"$SYS.REQ.SERVER.{answer['id']}.RELOAD", b"", SECONDS)).data)
    assert "error" not in done, done


async def freed(known: set[int]) -> None:
    """Until there are only those from before: connections end a few turns behind the reload."""
    async with asyncio.timeout(SECONDS):
        while routers() - known:
            await asyncio.sleep(0.01)


async def use(client: Client) -> None:
    """A stream with a consumer, a subscription of its own and one to what another account gives, requests."""
    context = client.jetstream()
    await context.add_stream(name="S", subjects=["s"])
    await context.publish("s", b"x")
    consumer = await context.pull_subscribe("s", durable="d")
    await (await consumer.fetch(1, timeout=SECONDS))[0].ack_sync(timeout=SECONDS)
    for subject in ("to", "given.x", "any.>"):
        await client.subscribe(subject)
    await client.publish("from", b"x")
    await client.request("$SYS.REQ.USER.INFO", b"", SECONDS)


async def test_accounts_of_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text(WITHOUT_B)
    with embedded(config=path) as broker:
        system = await nats.connect(broker.url, user="sys", password="p")
        other = await nats.connect(broker.url, user="a", password="p")
        await other.subscribe("theirs")
        known = routers()
        for _ in range(3):
            await reload(system, path, WITH_B)
            client = await nats.connect(broker.url, user="b", password="p", allow_reconnect=False)
            await use(client)
            assert routers() - known
            await reload(system, path, WITHOUT_B)
            await freed(known)
            await client.close()
        await other.close()
        await system.close()


async def test_accounts_of_operator_mode(tmp_path: Path) -> None:
    pytest.importorskip("nkeys")
    path = tmp_path / "conf"
    path.write_text(configuration(OPERATOR, [SYSTEM, KEPT]))
    operator, user = creds(tmp_path, SYSTEM), creds(tmp_path, LATER)
    with embedded(config=path) as broker:
        system = await nats.connect(broker.url, user_credentials=operator)
        known = routers()
        for _ in range(3):
            await reload(system, path, configuration(OPERATOR, [SYSTEM, KEPT, LATER]))
            client = await nats.connect(broker.url, user_credentials=user, allow_reconnect=False)
            await use(client)
            assert routers() - known
            await reload(system, path, configuration(OPERATOR, [SYSTEM, KEPT]))
            await freed(known)
            await client.close()
        await system.close()


def creds(folder: Path, account: Account) -> str:
    path = folder / f"{account.name}.creds"
    path.write_text(account.user().creds())
    return str(path)
