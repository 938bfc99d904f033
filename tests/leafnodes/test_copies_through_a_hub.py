"""A stream of one leaf is copied at another one: the way leads through the hub, and only half of it is a link here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.origins import Streams, connected
from tests.support.process import find_nats_server, free_port, jetbroker
from tests.support.walkthroughs import Place
from tests.walkthroughs.test_leafnodes import ACC, reached, start

FAR = {"server_name: leaf-server": "server_name: far-server", "domain: leaf": "domain: far", "store_leaf": "store_far"}


@pytest.mark.parametrize("hub", ["jetbroker", "nats-server"])
async def test_a_copy_goes_on_when_its_far_origin_is_back(tmp_path: Path, hub: str) -> None:
    if hub == "nats-server" and find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    with Place(tmp_path, "leafnodes", (hub, "jetbroker")) as place:
        _, near_server = start(place)
        config = (tmp_path / "leaf.conf").read_text()
        for before, after in FAR.items():
            config = config.replace(before, after)
        (tmp_path / "far.conf").write_text(config.replace(place.ports["4111"], str(free_port())))
        with jetbroker("-c", str(tmp_path / "far.conf"), "-sd", str(tmp_path / "store_far")) as far_server:
            async with connected(near_server.url, **ACC) as near:
                await reached(Streams(near.client, "$JS.far.API"))
                async with connected(far_server.url, **ACC) as far:
                    await far.create("S", subjects=["s"])
                    origin = {"name": "S", "external": {"api": "$JS.far.API", "deliver": ""}}
                    await near.create("M", mirror=origin)
                    await far.publish("s", "1", "2")
                    await near.until_last("M", 2)
                far_server.kill()
                await near.until("M", lambda info: info["mirror"].get("error") is not None)
                far_server.start()
                async with connected(far_server.url, **ACC) as far:
                    await far.publish("s", "3")
                    info = await near.until_last("M", 3)
                    assert "error" not in info["mirror"]
                    assert await near.content("M") == await far.content("S")
