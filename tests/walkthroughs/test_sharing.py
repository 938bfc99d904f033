"""What docs/walkthroughs/sharing.md does, by a client library: its tokens are made here, without nsc."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nats.errors import NoRespondersError

from tests.support.clients import settle
from tests.support.jwts import Account, Operator, account_limits, configuration, jetstream_limits
from tests.support.origins import WAIT_SECONDS, Streams, connected
from tests.support.process import ServerProcess
from tests.support.walkthroughs import Place

WITH_JETSTREAM = {**account_limits(), **jetstream_limits()}
LEAF_READY = '... JetStream using domains: local "leaf", remote "hub"'
MANY = 3000  # messages of 1 KB


def service(subject: str, **more: Any) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "type": "service", **more}


def stream(subject: str, **more: Any) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "type": "stream", **more}


@dataclass
class Accounts:
    """Those of the page, with what each one gives and takes at its end."""

    sys: Account = field(default_factory=lambda: Account("SYS"))
    a: Account = field(default_factory=lambda: Account("A", limits=WITH_JETSTREAM))
    b: Account = field(default_factory=lambda: Account("B"))
    c: Account = field(default_factory=lambda: Account("C", limits=WITH_JETSTREAM))

    def __post_init__(self) -> None:
        self.a.more["exports"] = [
            service("$JS.API.>", response_type="Stream"),
            service("$JS.ACK.>"),
            service("$JS.FC.>"),
            stream("toaccount.*.>", account_token_position=2),
        ]
        for one in (self.b, self.c):
            self.imports(one, one)
        self.b.more["imports"].append(service("$JS.ACK.>", account=self.a.public))

    def imports(self, one: Account, of: Account) -> None:
        """`one` imports what A delivers to the account `of`."""
        one.more["imports"] = [
            service("$JS.API.>", account=self.a.public, local_subject="$JS.A.API.>"),
            service("$JS.FC.>", account=self.a.public),
            stream(f"toaccount.{of.public}.>", account=self.a.public),
        ]

    def write(self, folder: Path) -> None:
        """accounts.conf and the creds files."""
        operator = Operator(more={"system_account": self.sys.public})
        everybody = [self.sys, self.a, self.b, self.c]
        (folder / "accounts.conf").write_text(configuration(operator, everybody))
        for one in everybody:
            (folder / f"{one.name.lower()}.creds").write_text(one.user().creds())


def connect(place: Place, server: ServerProcess, name: str) -> AbstractAsyncContextManager[Streams]:
    found: AbstractAsyncContextManager[Streams] = connected(
        server.url, user_credentials=str(place.folder / f"{name}.creds")
    )
    return found


async def create_s(a: Streams) -> None:
    await a.create("S", subjects=["S.>"])
    await a.publish("S.1", "hello")


async def test_a_pull_consumer_in_another_account(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "sharing", pair) as place:
        Accounts().write(tmp_path)
        hub = place.start("hub", "hub.conf")
        async with connect(place, hub, "a") as a, connect(place, hub, "b") as b:
            await create_s(a)
            await a.publish("S.2", *map(str, range(9)))
            shared = Streams(b.client, "$JS.A.API")
            made = {"stream_name": "S", "config": {"durable_name": "b", "ack_policy": "explicit"}}
            assert (await shared.api("CONSUMER.CREATE.S.b", made))["num_pending"] == 10
            context = b.client.jetstream(prefix="$JS.A.API")
            consumer = await context.pull_subscribe_bind(consumer="b", stream="S")
            messages = await consumer.fetch(10, timeout=WAIT_SECONDS)
            assert [message.subject for message in messages] == ["S.1"] + ["S.2"] * 9
            for message in messages:
                await message.ack_sync(timeout=WAIT_SECONDS)
            info = await a.api("CONSUMER.INFO.S.b")
            assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (0, 10)
            assert (await b.api("INFO"))["error"]["err_code"] == 10039


async def test_a_push_consumer_in_another_account(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "sharing", pair) as place:
        accounts = Accounts()
        accounts.imports(accounts.c, accounts.b)  # which the export's token forbids
        accounts.write(tmp_path)
        hub = place.start("hub", "hub.conf")
        async with (
            connect(place, hub, "a") as a,
            connect(place, hub, "b") as b,
            connect(place, hub, "c") as c,
        ):
            await create_s(a)
            for number in range(MANY):
                await a.client.publish("S.2", b"%4d" % number * 256)
            await a.until_last("S", MANY + 1)
            target = f"toaccount.{accounts.b.public}.bb"
            stranger = await c.client.subscribe(target)
            await settle(c.client)
            assert await delivered(a, b, target) == list(range(1, MANY + 2))
            await settle(c.client)
            assert stranger.pending_msgs == 0


async def delivered(a: Streams, b: Streams, target: str) -> list[int]:
    """Stream sequences that a push consumer brings to b, flow control answered, the last one acknowledged."""
    messages = await b.client.subscribe(target, pending_msgs_limit=2 * MANY)
    wanted = {
        "durable_name": "bb", "deliver_subject": target, "ack_policy": "all", "flow_control": True,
        "idle_heartbeat": 1_000_000_000, "max_ack_pending": -1,
    }  # fmt: skip
    shared = Streams(b.client, "$JS.A.API")
    assert "error" not in await shared.api("CONSUMER.CREATE.S.bb", {"stream_name": "S", "config": wanted})
    found: list[int] = []
    while len(found) <= MANY:
        message = await messages.next_msg(timeout=WAIT_SECONDS)
        if message.subject == target:
            if message.reply:
                await message.respond(b"")
            continue
        found.append(message.metadata.sequence.stream)
    assert (await shared.api("CONSUMER.INFO.S.bb"))["push_bound"] is True
    await message.ack_sync(timeout=WAIT_SECONDS)
    assert (await a.api("CONSUMER.INFO.S.bb"))["ack_floor"]["stream_seq"] == MANY + 1
    return found


def mirror_of_c(place: Place, accounts: Accounts) -> dict[str, Any]:
    text = (place.folder / "SS.json").read_text().replace("KEY_OF_C", accounts.c.public)
    found: dict[str, Any] = json.loads(text)
    return found


async def test_a_mirror_in_another_account(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "sharing", pair) as place:
        accounts = Accounts()
        accounts.write(tmp_path)
        hub = place.start("hub", "hub.conf")
        async with connect(place, hub, "a") as a, connect(place, hub, "c") as c:
            await create_s(a)
            await c.create(**mirror_of_c(place, accounts))
            await c.until_last("SS", 1)
            for number in range(MANY):
                await a.client.publish("S.2", b"%4d" % number * 256)
            info = await c.until_last("SS", MANY + 1)
            assert info["mirror"]["external"] == mirror_of_c(place, accounts)["mirror"]["external"]
            assert info["state"]["messages"] == MANY + 1 and "error" not in info["mirror"]
            for seq in (1, 2, MANY + 1):
                assert await c.message("SS", seq) == await a.message("S", seq)


async def test_a_leafnode_of_an_account(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "sharing", pair) as place:
        Accounts().write(tmp_path)
        hub = place.start("hub", "hub-with-leafs.conf")
        leaf = place.start("leaf", "leaf.conf", LEAF_READY)
        async with connect(place, hub, "a") as a, connected(leaf.url) as local:
            await create_s(a)
            far = Streams(local.client, "$JS.hub.API")
            async with asyncio.timeout(WAIT_SECONDS):
                while not await names(far):
                    await asyncio.sleep(0.02)
            assert (await names(far), await names(local)) == (["S"], [])
            await local.create(**json.loads((tmp_path / "MS.json").read_text()))
            info = await local.until_last("MS", 1)
            assert (info["domain"], info["cluster"]["leader"]) == ("leaf", "leaf-server")
            assert info["mirror"]["external"] == {"api": "$JS.hub.API", "deliver": "FromS"}
            stored = await local.client.request("S.3", b"from the leaf", timeout=WAIT_SECONDS)
            assert json.loads(stored.data) == {"stream": "S", "domain": "hub", "seq": 2}
            await local.until_last("MS", 2)
            assert await local.content("MS") == await a.content("S")


async def names(streams: Streams) -> list[str]:
    try:
        return list((await streams.api("STREAM.NAMES"))["streams"] or [])
    except NoRespondersError:
        return []


async def test_a_leaf_with_creds_of_another_operator_is_refused(tmp_path: Path, pair: tuple[str, str]) -> None:
    with Place(tmp_path, "sharing", pair) as place:
        Accounts().write(tmp_path)
        place.start("hub", "hub-with-leafs.conf")
        (tmp_path / "a.creds").write_text(Accounts().a.user().creds())
        leaf = place.start("leaf", "leaf.conf", "... Authorization Violation...")
        async with connected(leaf.url) as local:
            assert await names(local) == []
