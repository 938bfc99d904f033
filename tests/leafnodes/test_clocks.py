"""The clock of one end is hours ahead, or behind: what goes over the link, and what is copied over it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.clocks import at_another_time, shifting_library
from tests.support.http import get_json, monitor_port
from tests.support.origins import WAIT_SECONDS, Streams
from tests.support.pairs import JETBROKER, NATS_SERVER, Pair, told

HOURS = 7
AHEAD, BEHIND = HOURS * 3600, -HOURS * 3600
ENDS = ("hub", "spoke")
CASES = {  # hub and spoke, whose clock is wrong, and by how many seconds; streams are copied both ways in each
    "hub_ahead_of_jetbroker": ((JETBROKER, JETBROKER), "hub", AHEAD),
    "hub_ahead_of_nats_server": ((JETBROKER, NATS_SERVER), "hub", AHEAD),
    "spoke_behind_nats_server": ((NATS_SERVER, JETBROKER), "spoke", BEHIND),
}
HUB = """
http: "127.0.0.1:-1"
leafnodes { listen: "127.0.0.1:{leaf_port}", compression: off }
jetstream { domain: hub, store_dir: "{folder}/hub" }
"""
SPOKE = """
http: "127.0.0.1:-1"
leafnodes { remotes: [ {url: "nats-leaf://127.0.0.1:{leaf_port}", compression: off} ] }
jetstream { domain: spoke, store_dir: "{folder}/spoke" }
"""
SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
BULK = 500


@asynccontextmanager
async def linked(pair: Pair) -> AsyncIterator[dict[str, Streams]]:
    """Both ends, each of which reaches the JetStream of the other one."""
    found = {}
    for end, server in zip(ENDS, pair.servers, strict=True):
        found[end] = Streams(await nats.connect(server.url, allow_reconnect=False))
    try:
        for end in ENDS:
            await told(found[end].client, f"$JS.{other(end)}.API.INFO")
        yield found
    finally:
        for streams in found.values():
            await streams.client.close()


def other(end: str) -> str:
    return "spoke" if end == "hub" else "hub"


def origin(end: str, name: str) -> dict[str, Any]:
    return {"name": name, "external": {"api": f"$JS.{end}.API", "deliver": ""}}


async def requests_and_pulls(ends: dict[str, Streams], end: str) -> None:
    """What clients of one end ask of the other one: a service, a stream with its duplicates, a pull consumer."""
    here, there = ends[end], ends[other(end)]

    async def respond(message: Any) -> None:
        await message.respond(b"answer to " + message.data)

    service = await there.client.subscribe(f"ask.{other(end)}", cb=respond)
    await told(here.client, f"ask.{other(end)}")
    reply = await here.client.request(f"ask.{other(end)}", b"it", timeout=WAIT_SECONDS)
    assert reply.data == b"answer to it"
    await service.unsubscribe()

    await there.create("FAR", subjects=["far"], duplicate_window=HOUR_NS)
    await told(here.client, "far")
    js = here.client.jetstream(domain=other(end), timeout=WAIT_SECONDS)
    first = await js.publish("far", b"it", headers={"Nats-Msg-Id": "one"})
    again = await js.publish("far", b"it", headers={"Nats-Msg-Id": "one"})
    assert (first.seq, bool(first.duplicate), again.seq, again.duplicate) == (2, False, 2, True)
    pulled = await js.pull_subscribe("far", durable="D", stream="FAR")
    for expected in (b"probe", b"it"):
        (message,) = await pulled.fetch(1, timeout=WAIT_SECONDS)
        await message.ack_sync(timeout=WAIT_SECONDS)
        assert message.data == expected
    assert (await js.consumer_info("FAR", "D")).num_ack_pending == 0
    await there.api("STREAM.DELETE.FAR")


async def copied(ends: dict[str, Streams], end: str, clock: float) -> None:
    """The other end's streams, copied at this one: whole, and with sane figures. `clock`: of the other end."""
    here, there = ends[end], ends[other(end)]
    await there.create("O", subjects=["o.>"], max_age=HOUR_NS, allow_msg_ttl=True, duplicate_window=60 * SECOND_NS)
    await here.create("M", mirror=origin(other(end), "O"), max_age=2 * HOURS * HOUR_NS, allow_msg_ttl=True)
    await here.create("S", sources=[origin(other(end), "O")], max_age=HOUR_NS, allow_msg_ttl=True)
    js = there.client.jetstream(timeout=WAIT_SECONDS)
    await asyncio.gather(*[js.publish("o.n", b"%d" % n, headers={"Nats-Msg-Id": f"{n}"}) for n in range(BULK)])
    assert (await js.publish("o.n", b"0", headers={"Nats-Msg-Id": "0"})).duplicate
    await there.publish("o.ttl", "stays", Nats_TTL=f"{2 * HOURS}h")
    for name in ("M", "S"):
        info = await here.until_last(name, BULK + 1)
        assert info["state"]["messages"] == BULK + 1
        await here.until(name, lambda info: sane(info["mirror"] if "mirror" in info else info["sources"][0]))
        last = await here.message(name, BULK + 1)
        assert last is not None and last["data"] == b"stays"
    stored, mirrored = await there.message("O", BULK), await here.message("M", BULK)
    assert stored is not None and mirrored is not None
    assert (mirrored["time"], mirrored["data"]) == (stored["time"], stored["data"])
    assert abs(datetime.fromisoformat(stored["time"]).timestamp() - clock) < HOURS * 1800
    await copied_from_a_time(ends, end)
    for server, name in ((there, "O"), (here, "M"), (here, "S")):
        await server.api(f"STREAM.DELETE.{name}")


async def copied_from_a_time(ends: dict[str, Streams], end: str) -> None:
    """The time is one of the origin's clock: of its last message, which is all that comes."""
    here, there = ends[end], ends[other(end)]
    last = await there.message("O", BULK + 1)
    assert last is not None
    since = {**origin(other(end), "O"), "opt_start_time": last["time"]}
    await here.create("TM", mirror=since, allow_msg_ttl=True)
    await here.create("TS", sources=[since], allow_msg_ttl=True)
    for name in ("TM", "TS"):
        await here.until(name, lambda info: info["state"]["messages"] > 0)
        assert [message["data"] for message in await here.content(name)] == [b"stays"]
        await here.api(f"STREAM.DELETE.{name}")


def sane(about: dict[str, Any]) -> bool:
    """Nothing is missing, and it was heard of between now and a minute ago."""
    return "error" not in about and about["lag"] == 0 and 0 <= about["active"] < 60 * SECOND_NS


async def expires(ends: dict[str, Streams], end: str) -> None:
    """What has a second to live goes, and what has an hour stays, by the server's own clock."""
    here = ends[end]
    await here.create("TTL", subjects=[f"ttl.{end}"], allow_msg_ttl=True)
    await here.publish(f"ttl.{end}", "short", Nats_TTL="1s")
    await here.publish(f"ttl.{end}", "long", Nats_TTL="1h")
    info = await here.until("TTL", lambda info: info["state"]["messages"] < 2)
    assert (info["state"]["first_seq"], info["state"]["last_seq"]) == (2, 2)


def seconds(duration: str) -> float:
    """Of a round trip as Go writes it, below a minute."""
    for unit, factor in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if duration.endswith(unit):
            return float(duration.removesuffix(unit)) * factor
    raise ValueError(duration)


@pytest.mark.parametrize(("kinds", "wrong", "shift"), CASES.values(), ids=CASES)
async def test_the_clock_of_one_end_is_wrong(kinds: tuple[str, str], wrong: str, shift: int, tmp_path: Path) -> None:
    texts = [text.replace("{folder}", str(tmp_path)) for text in (HUB, SPOKE)]
    words = at_another_time(shifting_library(tmp_path), shift)
    before = (words if wrong == "hub" else (), words if wrong == "spoke" else ())
    with Pair(kinds, tmp_path, texts[0], texts[1], before) as pair:
        async with linked(pair) as ends:
            for end in ENDS:
                await requests_and_pulls(ends, end)
                clock = time.time() + (shift if other(end) == wrong else 0)
                await copied(ends, end, clock)
            await asyncio.gather(*[expires(ends, end) for end in ENDS])
        for server in pair.servers:
            (leaf,) = get_json(monitor_port(server), "/leafz")["leafs"]
            assert 0 <= seconds(leaf["rtt"]) < 60, leaf
