"""The user of a link may do something else after a reload at the hub: the link stays, and follows."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.origins import connected
from tests.support.pairs import JETBROKER, NATS_SERVER, Pair, told

PONG = b"PONG\r\n"
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
            leaf.send(b'CONNECT {"user":"leaf","pass":"secret","name":"l","version":"2.14.5"}\r\n')
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
    everything = {"allow": [">"]}
    assert heard == [
        ({"deny": ["down.a"]}, {"deny": ["up.a"]}, down[1] + PONG, PONG),
        (everything, everything, b"".join(down) + PONG, b"MSG up.a 1 1\r\n3\r\n" + PONG),
    ]


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


async def test_a_mirror_that_is_denied_its_messages_goes_on_when_it_may(tmp_path: Path) -> None:
    hub_text, spoke_text = (text.replace("STORE", str(tmp_path)) for text in (HUB, SPOKE))
    with Pair((JETBROKER, JETBROKER), tmp_path, hub_text, spoke_text) as pair:
        async with connected(pair.hub.url) as hub, connected(pair.spoke.url) as spoke:
            await hub.create("S", subjects=["s"])
            await spoke.create("M", mirror={"name": "S", "external": {"api": "$JS.hub.API"}})
            await hub.publish("s", *map(str, range(5)))
            await spoke.until_last("M", 5)
            barrier = await spoke.client.subscribe("barrier")
            await spoke.client.flush()
            reload(pair.hub, tmp_path / "hub.conf", "{subscribe: barrier}")
            await hub.publish("s", *map(str, range(5, 10)))
            await hub.client.publish("barrier")
            await barrier.next_msg(timeout=20)
            assert await spoke.payloads("M") == [str(number) for number in range(5)]
            reload(pair.hub, tmp_path / "hub.conf", "{}")
            await hub.publish("s", "10")
            await spoke.until_last("M", 11)
            assert await spoke.content("M") == await hub.content("S")
