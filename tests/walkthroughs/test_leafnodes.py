"""What docs/walkthroughs/leafnodes.md does, by a client library: with more messages, and looking closer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from tests.support.origins import SOURCE, WAIT_SECONDS, Streams, connected, flood
from tests.support.process import ServerProcess
from tests.support.walkthroughs import Place

ACC, ADMIN, MIRROR, CLIENT = (
    {"user": name, "password": name} for name in ("acc", "admin", "import_mirror", "import_client")
)
LEAF_READY = '... JetStream using domains: local "leaf", remote "hub"'
ORIGIN = "aggregate-test-leaf"
IMPORTED = "JS.acc@hub.API"
MANY = 4000  # messages of 1 KB: flow control has stopped a mirror that cannot answer long before
DELIVERED = "deliver.acc.hub.import_client.push"


def config(place: Place, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place.folder / f"{name}.json").read_text())
    return found


def start(place: Place) -> tuple[ServerProcess, ServerProcess]:
    return place.start("hub", "hub.conf"), place.start("leaf", "leaf.conf", LEAF_READY)


async def reached(streams: Streams) -> Streams:
    """Once the other domain answers."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                await streams.api("INFO")
            except (NoRespondersError, NatsTimeoutError):
                await asyncio.sleep(0.02)
            else:
                return streams


async def test_the_system_accounts_show_both_servers(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "leafnodes", pair) as place:
        for server in start(place):
            async with connected(server.url, **ADMIN) as admin:
                assert await answering(admin.client) == {"hub-server": "hub", "leaf-server": "leaf"}


async def answering(client: Client) -> dict[str, str]:
    """Servers that answer for their JetStream, and their domains."""
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    found: dict[str, str] = {}
    async with asyncio.timeout(WAIT_SECONDS):
        while len(found) < 2:
            await client.publish("$SYS.REQ.SERVER.PING.JSZ", b"{}", reply=inbox)
            try:
                while True:
                    answer = json.loads((await answers.next_msg(timeout=0.5)).data)
                    found[answer["server"]["name"]] = answer["data"]["config"]["domain"]
            except NatsTimeoutError:
                continue
    return found


async def test_two_domains_and_copies(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "leafnodes", pair) as place:
        hub_server, leaf_server = start(place)
        async with connected(hub_server.url, **ACC) as hub, connected(leaf_server.url, **ACC) as at_leaf:
            leaf = await reached(Streams(hub.client, "$JS.leaf.API"))
            back = await reached(Streams(at_leaf.client, "$JS.hub.API"))
            await hub.create("test", subjects=["test"])
            await leaf.create("test", subjects=["test"])
            await hub.publish("test", "hello world")
            for streams, domain in ((hub, "hub"), (back, "hub"), (leaf, "leaf"), (at_leaf, "leaf")):
                info = await streams.until_last("test", 1)
                assert (info["domain"], info["state"]["messages"], info["state"]["bytes"]) == (domain, 1, 45)
            await copies_are_equal(place, hub, leaf)


async def copies_are_equal(place: Place, hub: Streams, leaf: Streams) -> None:
    for name in ("backup-test-leaf", ORIGIN):
        await hub.create(**config(place, name))
    info = await hub.until_last("backup-test-leaf", 1)
    assert info["mirror"]["external"] == {"api": "$JS.leaf.API", "deliver": ""}
    assert info["mirror"]["lag"] == 0 and info["mirror"]["active"] >= 0 and "error" not in info["mirror"]
    assert (await hub.until_last(ORIGIN, 1))["state"]["bytes"] == 107
    assert await hub.content("backup-test-leaf") == await leaf.content("test")
    [copied] = await hub.content(ORIGIN)
    assert copied["headers"] == {SOURCE: "test:mSx7q4yJ 1 > > test"}
    assert (copied["subject"], copied["data"]) == ("test", b"hello world")


async def test_across_accounts_and_domains(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "leafnodes", pair) as place:
        (tmp_path / "accounts.conf").write_text((tmp_path / "shared-accounts.conf").read_text())
        hub_server, leaf_server = start(place)
        async with (
            connected(hub_server.url, **ACC) as hub,
            connected(hub_server.url, **MIRROR) as importer,
            connected(leaf_server.url, **CLIENT) as client,
        ):
            leaf = await reached(Streams(hub.client, "$JS.leaf.API"))
            await leaf.create("test", subjects=["test"])
            await hub.create(**config(place, ORIGIN))
            await importer.create(**config(place, f"{ORIGIN}-from-acc"))
            await hub.publish("test", "hello world")
            await hub.until_last(ORIGIN, 1)
            await flow_control_reaches_the_mirrors(hub_server.url, hub, importer)
            await a_pull_consumer_at_the_leaf(hub, client)
            await a_push_consumer_at_the_leaf(hub, client)


async def flow_control_reaches_the_mirrors(url: str, hub: Streams, importer: Streams) -> None:
    sender = await nats.connect(url, **ACC)
    for number in range(MANY):
        await sender.publish("test", b"%4d" % number * 256)
    await sender.close()
    await hub.until_last(ORIGIN, MANY + 1)
    info = await importer.until_last(f"{ORIGIN}-from-acc", MANY + 1)
    assert info["state"]["messages"] == MANY + 1 and "error" not in info["mirror"]
    for seq in (1, 2, MANY // 2, MANY + 1):
        assert await importer.message(f"{ORIGIN}-from-acc", seq) == await hub.message(ORIGIN, seq)


async def consumer_info(streams: Streams, name: str) -> dict[str, Any]:
    return await streams.api(f"CONSUMER.INFO.{ORIGIN}.{name}")


async def until_acked(streams: Streams, name: str, floor: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while (await consumer_info(streams, name))["ack_floor"]["stream_seq"] < floor:
            await asyncio.sleep(0.02)


async def a_pull_consumer_at_the_leaf(hub: Streams, client: Streams) -> None:
    made = {"stream_name": ORIGIN, "config": {"durable_name": "dur", "ack_policy": "explicit"}}
    assert "error" not in await hub.api(f"CONSUMER.CREATE.{ORIGIN}.dur", made)
    imported = Streams(client.client, IMPORTED)
    assert (await consumer_info(imported, "dur"))["name"] == "dur"
    with pytest.raises(NoRespondersError):
        await imported.api("STREAM.NAMES")
    context = client.client.jetstream(prefix=IMPORTED)
    consumer = await context.pull_subscribe_bind(consumer="dur", stream=ORIGIN)
    [first] = await consumer.fetch(1, timeout=WAIT_SECONDS)
    assert (first.subject, first.data) == ("test", b"hello world")
    assert first.headers == {SOURCE: "test:mSx7q4yJ 1 > > test"}
    assert first.metadata.sequence.stream == first.metadata.sequence.consumer == 1
    await first.ack()
    found: list[Msg] = []
    while len(found) < 20:
        found += await consumer.fetch(10, timeout=WAIT_SECONDS)
    assert [message.metadata.sequence.stream for message in found] == list(range(2, 22))
    for message in found:
        await message.ack()
    await until_acked(hub, "dur", 21)


async def a_push_consumer_at_the_leaf(hub: Streams, client: Streams) -> None:
    """It answers flow control, and acknowledges the last message for all."""
    wanted = {
        "durable_name": "push", "deliver_subject": DELIVERED, "ack_policy": "all", "flow_control": True,
        "idle_heartbeat": 1_000_000_000, "max_ack_pending": -1,
    }  # fmt: skip
    messages = await client.client.subscribe(DELIVERED, pending_msgs_limit=2 * MANY)
    created = await hub.api(f"CONSUMER.CREATE.{ORIGIN}.push", {"stream_name": ORIGIN, "config": wanted})
    assert "error" not in created
    sequences: list[int] = []
    beats = 0
    while len(sequences) <= MANY or not beats:
        message = await messages.next_msg(timeout=WAIT_SECONDS)
        if message.subject == DELIVERED:
            beats += not message.reply
            if message.reply:
                await message.respond(b"")
            continue
        assert message.subject == "test" and "@" not in message.reply
        assert message.reply.startswith(f"$JS.ACK.{ORIGIN}.push.1.")
        sequences.append(message.metadata.sequence.stream)
        if len(sequences) == MANY + 1:
            await message.ack()
    assert sequences == list(range(1, MANY + 2))
    await until_acked(hub, "push", MANY + 1)


async def test_a_leaf_works_while_its_hub_is_away(tmp_path: Path, pair: tuple[str, str]) -> None:
    if pair[0] == "nats-server":
        pytest.skip("a mirror of nats-server tries again after 40 seconds")
    with Place(tmp_path, "leafnodes", pair) as place:
        hub_server, leaf_server = start(place)
        async with connected(leaf_server.url, **ACC) as leaf, connected(hub_server.url, **ACC) as hub:
            await reached(Streams(leaf.client, "$JS.hub.API"))
            await leaf.create("test", subjects=["test"])
            await hub.create(**config(place, "backup-test-leaf"))
            await leaf.publish("test", "before")
            await hub.until_last("backup-test-leaf", 1)
        hub_server.kill()
        async with connected(leaf_server.url, **ACC) as leaf:
            with pytest.raises(NoRespondersError):
                await Streams(leaf.client, "$JS.hub.API").api("INFO")
        assert await flood_as_acc(leaf_server.url, 500) == 500
        hub_server.start()
        async with connected(leaf_server.url, **ACC) as leaf, connected(hub_server.url, **ACC) as hub:
            await hub.until_last("backup-test-leaf", 501)
            for seq in (1, 2, 501):
                assert await hub.message("backup-test-leaf", seq) == await leaf.message("test", seq)


async def flood_as_acc(url: str, count: int) -> int:
    return await flood(url.replace("//", "//acc:acc@"), "test", count)
