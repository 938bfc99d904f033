"""Who asks, when a request comes over a link: in Nats-Request-Info, against two nats-servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from tests.support.clients import settle
from tests.support.pairs import NATS_SERVER, PAIRS, Pair, told

pytestmark = pytest.mark.differential

HUB = """
leafnodes { listen: "127.0.0.1:{leaf_port}", authorization { user: leaf, password: secret, account: A } }
jetstream { domain: hub, store_dir: "{folder}/hub" }
accounts {
    A: { jetstream: enabled, users: [ {user: a, password: a} ]
         imports: [ {service: {account: B, subject: "shared.hub"}, share: true}, {service: {account: B, subject: "hub"}}
                    {service: {account: B, subject: "chain"}, share: true} ] }
    B: { users: [ {user: b, password: b} ], exports: [ {service: "shared.hub"}, {service: "hub"}, {service: "chain"} ]
         imports: [ {service: {account: D, subject: "chain"}, share: true} ] }
    D: { users: [ {user: d, password: d} ], exports: [ {service: "chain"} ] }
}
"""
SPOKE = """
leafnodes { remotes: [ {url: "nats-leaf://leaf:secret@127.0.0.1:{leaf_port}", account: C} ] }
jetstream { domain: leaf, store_dir: "{folder}/spoke" }
accounts {
    C: { jetstream: enabled, users: [ {user: c, password: c} ]
         imports: [ {service: {account: E, subject: "shared.spoke"}, share: true}
                    {service: {account: E, subject: "spoke"}} ] }
    E: { users: [ {user: e, password: e} ], exports: [ {service: "shared.spoke"}, {service: "spoke"} ] }
}
"""
SERVED = {"b": ("shared.hub", "hub"), "d": ("chain",), "e": ("shared.spoke", "spoke")}
FORGED = {"Nats-Request-Info": '{"acc":"forged","rtt":1}', "Other": "stays"}
VARYING = ("start", "id", "rtt")  # the round trip may not be known yet


def look(kinds: tuple[str, str], folder: Path) -> list[tuple[str, Any]]:
    hub, spoke = (text.replace("{folder}", str(folder)) for text in (HUB, SPOKE))
    with Pair(kinds, folder, hub, spoke) as running:
        return asyncio.run(_look(running))


async def _look(pair: Pair) -> list[tuple[str, Any]]:
    url: dict[str, str] = dict.fromkeys("abd", pair.hub.url) | dict.fromkeys("ce", pair.spoke.url)
    users = {name: await nats.connect(at, user=name, password=name, name=f"of {name}") for name, at in url.items()}
    asked: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()

    async def answer(msg: Msg) -> None:
        await asked.put(msg.headers)
        await msg.respond(b"")

    for name, subjects in SERVED.items():
        for subject in subjects:
            await users[name].subscribe(subject, cb=answer)
        await settle(users[name])
    for client in (users["a"], users["c"]):
        for subject in ("shared.hub", "shared.spoke", "hub", "spoke", "chain"):
            await told(client, subject)
    while not asked.empty():
        asked.get_nowait()
    found: list[tuple[str, Any]] = []
    for name in "ac":
        for subject in ("shared.hub", "hub", "chain", "shared.spoke", "spoke"):
            for headers in (None, FORGED):
                await users[name].request(subject, b"", timeout=10, headers=headers)
                found.append((f"{name} asks {subject} with {headers}", _shown(await asked.get())))
    for user in users.values():
        await user.close()
    return found


def _shown(headers: dict[str, str] | None) -> dict[str, Any]:
    shown: dict[str, Any] = dict(headers or {})
    info = json.loads(shown.pop("Nats-Request-Info"))
    return shown | {key: value for key, value in info.items() if key not in VARYING}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    return look((NATS_SERVER, NATS_SERVER), tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda pair: f"hub {pair[0]}, spoke {pair[1]}")
def test_a_request_over_a_link_comes_from_that_link(
    kinds: tuple[str, str], reference: list[tuple[str, Any]], tmp_path: Path
) -> None:
    assert look(kinds, tmp_path) == reference
