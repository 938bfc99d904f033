"""STATSZ that all servers hear: at a request that names no reply, and when a reload changes what it tells."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest

from jetbroker import limits
from jetbroker.testing import EmbeddedBroker, embedded
from tests.support.clients import settle

CONFIG = """
server_name: lone
accounts { $SYS { users: [{user: s, password: p}] } }
"""
TAGS, METADATA = "server_tags: [blue]\n", "server_metadata: {rack: seven}\n"
WAIT_S = 20.0


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told unasked."""
    for name in ("FIRST_STATSZ_SECONDS", "MOST_STATSZ_SECONDS"):
        monkeypatch.setattr(limits, name, 3600.0)


@asynccontextmanager
async def hearing(broker: EmbeddedBroker) -> AsyncIterator[tuple[Any, Any]]:
    """An operator who hears STATSZ, and what he hears."""
    client = await nats.connect(broker.url, user="s", password="p", allow_reconnect=False)
    heard = await client.subscribe("$SYS.SERVER.*.STATSZ")
    await settle(client)
    yield client, heard
    await client.close()


async def server_of(heard: Any) -> Any:
    return json.loads((await heard.next_msg(WAIT_S)).data)["server"]


async def test_a_request_without_a_reply_is_answered_to_all(quiet: None) -> None:
    async with embedded(config=CONFIG, jetstream=False) as broker, hearing(broker) as (client, heard):
        server = json.loads((await client.request("$SYS.REQ.SERVER.PING", timeout=WAIT_S)).data)["server"]
        subjects = ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.STATSZ", f"$SYS.REQ.SERVER.{server['id']}.STATSZ"]
        for subject in subjects * 2:  # however soon they come one after the other
            await client.publish(subject, b'{"server_name":"lon"}')
            assert (await server_of(heard))["id"] == server["id"]
        await client.publish(subjects[0], b'{"server_name":"other"}')
        await client.request("$SYS.REQ.SERVER.PING", timeout=WAIT_S)
        with pytest.raises(nats.errors.TimeoutError):
            await heard.next_msg(0.2)


async def test_a_reload_of_what_it_says_of_itself_is_told_at_once(quiet: None, tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(CONFIG)
    async with embedded(config=path, jetstream=False) as broker, hearing(broker) as (client, heard):
        found = json.loads((await client.request("$SYS.REQ.SERVER.PING.IDZ", timeout=WAIT_S)).data)
        for more, name, value in ((TAGS, "tags", ["blue"]), (METADATA, "metadata", {"rack": "seven"})):
            path.write_text(CONFIG + more)
            await client.request(f"$SYS.REQ.SERVER.{found['id']}.RELOAD", timeout=WAIT_S)
            assert (await server_of(heard))[name] == value


async def test_a_reload_of_something_else_is_not_told(quiet: None, tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(CONFIG)
    async with embedded(config=path, jetstream=False) as broker, hearing(broker) as (client, heard):
        found = json.loads((await client.request("$SYS.REQ.SERVER.PING.IDZ", timeout=WAIT_S)).data)
        path.write_text(CONFIG + "ping_max: 7\n")
        await client.request(f"$SYS.REQ.SERVER.{found['id']}.RELOAD", timeout=WAIT_S)
        with pytest.raises(nats.errors.TimeoutError):
            await heard.next_msg(limits.STATSZ_SECONDS + 0.2)
