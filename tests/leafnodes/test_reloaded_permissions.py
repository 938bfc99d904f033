"""The user of a link may do something else after a reload at the hub: the link stays, and follows."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.origins import Streams, connected, flood
from tests.support.pairs import JETBROKER, NATS_SERVER, Pair, told

PONG = b"PONG\r\n"
LOGIN = b'CONNECT {"user":"leaf","pass":"secret","name":"l","version":"2.14.5"%b}\r\n'
OPEN, CLOSED = "permissions: {}", "{subscribe: {deny: down.a}, publish: {deny: up.a}}"
HUB = """
jetstream { store_dir: "STORE/hub", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
    A: { jetstream: enabled, users: [ {user: a, password: a}, {user: leaf, password: secret, permissions: {}} ] }
}
no_auth_user: a
"""
SPOKE = """
jetstream { store_dir: "STORE/spoke", domain: spoke }
leafnodes { remotes: [ {url: "nats-leaf://leaf:secret@127.0.0.1:{leaf_port}"} ] }
"""


def reload(hub: Daemon, config: Path, permissions: str) -> None:
    """Give the link's user other permissions than none."""
    text = config.with_suffix(".open")
    if not text.exists():
        text.write_text(config.read_text())
    config.write_text(text.read_text().replace(OPEN, f"permissions: {permissions}"))
    seen = len(hub.log)
    hub.send(signal.SIGHUP)
    hub.wait_for("Reloaded server configuration", seen)


def next_info(leaf: Raw) -> dict[str, Any]:
    line = b"nothing yet"
    while line and not line.startswith(b"INFO "):
        line = leaf.line()
    found: dict[str, Any] = json.loads(line[5:])
    return found


def test_a_link_is_told_and_held_to_it(tmp_path: Path) -> None:
    config = tmp_path / "conf"
    config.write_text(HUB.replace("STORE", str(tmp_path)).replace("{leaf_port}", "-1"))
    with Daemon("-c", str(config)) as hub, hub.open() as client:
        client.exchange(CONNECT + b"SUB up.> 1\r\n")
        client.exchange(b"")  # INFO comes behind the first PONG
        port = int(hub.wait_for("Listening for leafnode connections").rpartition(":")[2])
        with Raw(port) as leaf:
            leaf.send(LOGIN % b',"jetstream":true,"domain":"l"')
            leaf.exchange(b"LS+ down.a\r\nLS+ down.b\r\n")
            heard = []
            for permissions, said in ((CLOSED, b""), ("{}", b"LMSG up.a 1\r\n3\r\n")):
                reload(hub, config, permissions)
                info = next_info(leaf)
                client.exchange(b"PUB down.a 1\r\n1\r\nPUB down.b 1\r\n2\r\n")
                heard.append((info["import"], info["export"], leaf.exchange(said), client.exchange(b"")))
            reload(hub, config, CLOSED)
            leaf.send(b"LMSG up.a 1\r\n4\r\n")
            assert b'Permissions Violation for Publish to "up.a"' in leaf.to_end()
            assert client.exchange(b"") == PONG
    down = b"LMSG down.a 1\r\n1\r\n", b"LMSG down.b 1\r\n2\r\n"
    apart = ["$JS.API.>", "$KV.>", "$OBJ.>"]  # a spoke may forget what it denied by itself
    assert heard == [
        ({"deny": ["down.a", *apart]}, {"deny": ["up.a", *apart, "$JS.l.API.>"]}, down[1] + PONG, PONG),
        ({"deny": apart}, {"deny": [*apart, "$JS.l.API.>"]}, b"".join(down) + PONG, b"MSG up.a 1 1\r\n3\r\n" + PONG),
    ]


def test_a_link_that_denies_we_know_not_what_comes_anew(tmp_path: Path) -> None:
    """Its account has no JetStream: what keeps both ends apart depends on its configuration."""
    config = tmp_path / "conf"
    config.write_text(HUB.replace("STORE", str(tmp_path)).replace("{leaf_port}", "-1"))
    with Daemon("-c", str(config)) as hub:
        port = int(hub.wait_for("Listening for leafnode connections").rpartition(":")[2])
        with Raw(port) as leaf:
            leaf.send(LOGIN % b"")
            leaf.exchange(b"LS+ down.a\r\n")
            reload(hub, config, CLOSED)
            assert b"INFO {" not in leaf.to_end()
            hub.wait_for("Leafnode connection closed: Kicked")
        with Raw(port) as leaf:
            leaf.send(LOGIN % b"")
            assert next_info(leaf)["import"] == {"deny": ["down.a"]}


async def answer(message: Msg) -> None:
    await message.respond(b"")


@pytest.mark.parametrize("spoke", [JETBROKER, NATS_SERVER])
async def test_subscribers_at_the_spoke(spoke: str, tmp_path: Path) -> None:
    hub_text, spoke_text = (text.replace("STORE", str(tmp_path)) for text in (HUB, SPOKE))
    with Pair((JETBROKER, spoke), tmp_path, hub_text, spoke_text) as pair:
        near, far = await nats.connect(pair.spoke.url), await nats.connect(pair.hub.url)
        try:
            subscription = await near.subscribe(">")
            responder = await near.subscribe("asked", cb=answer)
            await told(far, "asked")
            reload(pair.hub, tmp_path / "hub.conf", "{subscribe: {deny: secret}}")
            for subject in ("secret", "barrier"):
                await far.publish(subject, b"1")
            await responder.unsubscribe()
            heard = []
            while "barrier" not in heard:
                heard.append((await subscription.next_msg(timeout=20)).subject)
            assert "secret" not in heard
            reload(pair.hub, tmp_path / "hub.conf", "{}")
            while "secret" not in heard:  # the spoke follows in its own time
                await far.publish("secret", b"2")
                with suppress(TimeoutError):
                    heard.append((await subscription.next_msg(timeout=0.1)).subject)
        finally:
            await near.close()
            await far.close()


COUNT = 500
NOTHING = "{publish: barrier, subscribe: barrier}"


async def copy(here: Streams, there: Streams, domain: str) -> None:
    """A mirror and a stream with a source, of the stream at the other end."""
    await there.create("S", subjects=["s"])
    origin = {"name": "S", "external": {"api": f"$JS.{domain}.API"}}
    await here.create("M", mirror=origin)
    await here.create("Q", sources=[origin])


async def until_crossed(there: Streams, barrier: Subscription) -> None:
    """Something gets over the link. A spoke that sends what it may no more is cut off first, and comes back."""
    heard: Msg | None = None
    while heard is None:
        await there.client.publish("barrier")
        with suppress(TimeoutError):
            heard = await barrier.next_msg(timeout=0.1)


@pytest.mark.parametrize(("end", "spoke"), [("spoke", JETBROKER), ("hub", JETBROKER), ("hub", NATS_SERVER)])
async def test_copies_that_are_denied_their_messages_go_on_when_they_may(end: str, spoke: str, tmp_path: Path) -> None:
    hub_text, spoke_text = (text.replace("STORE", str(tmp_path)) for text in (HUB, SPOKE))
    with Pair((JETBROKER, spoke), tmp_path, hub_text, spoke_text) as pair:
        async with connected(pair.hub.url) as hub, connected(pair.spoke.url) as far:
            here, there, domain, url = (
                (far, hub, "hub", pair.hub.url) if end == "spoke" else (hub, far, "spoke", pair.spoke.url)
            )
            await copy(here, there, domain)
            publisher = asyncio.create_task(flood(url, "s", COUNT))
            for name in "MQ":
                await here.until_last(name, 1)
            await asyncio.to_thread(reload, pair.hub, tmp_path / "hub.conf", NOTHING)
            barrier = await here.client.subscribe("barrier")
            assert await publisher == COUNT
            assert await flood(url, "s", COUNT, COUNT) == COUNT
            await until_crossed(there, barrier)
            for name in "MQ":
                assert (await here.api(f"STREAM.INFO.{name}"))["state"]["last_seq"] <= COUNT
            await asyncio.to_thread(reload, pair.hub, tmp_path / "hub.conf", "{}")
            for name in "MQ":
                await here.until_last(name, 2 * COUNT)
            for streams, name in ((there, "S"), (here, "M"), (here, "Q")):
                assert await streams.payloads(name) == [*map(str, range(2 * COUNT))]
