"""A hub in lame duck mode: its links stay until its end, messages cross them, and a lost link can be made again."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.clients import settle
from tests.support.pairs import JETBROKER, NATS_SERVER, Pair, told

HUB = """
lame_duck_duration: "60s"
lame_duck_grace_period: "50s"
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
SPOKE = 'leafnodes { remotes: [ {url: "nats-leaf://127.0.0.1:{leaf_port}"} ] }\n'


async def serve(client: Client, subject: str) -> None:
    async def respond(message: Msg) -> None:
        await message.respond(b"answer")

    await client.subscribe(subject, cb=respond)
    await settle(client)


@pytest.mark.parametrize("hub", [JETBROKER, NATS_SERVER])
async def test_links_of_a_lame_duck_stay_until_its_end(hub: str, tmp_path: Path) -> None:
    with Pair((hub, JETBROKER), tmp_path, HUB, SPOKE) as pair:
        at_hub, at_spoke = [await nats.connect(server.url, allow_reconnect=False) for server in pair.servers]
        await serve(at_hub, "before")
        await told(at_spoke, "before")
        pair.hub.send(signal.SIGUSR2)
        pair.hub.wait_for("Entering lame duck mode")
        await serve(at_spoke, "after")  # interest goes over the link, too
        await told(at_hub, "after")
        await told(at_spoke, "before")
        assert not any("Leafnode connection closed" in line for line in pair.hub.log + pair.spoke.log)
        with socket.create_connection(("127.0.0.1", pair.leaf_port), timeout=30) as link:
            assert link.recv(5) == b"INFO "
        pair.hub.send(signal.SIGINT)
        pair.spoke.wait_for("Leafnode connection closed")
        await at_spoke.close()
