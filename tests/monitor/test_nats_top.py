"""nats-top, which reads the monitoring port as nats-server's: the tool itself, and what it reads."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import nats
import pytest

from jetbroker.testing import embedded
from tests.support.http import get_json

SECONDS = 60.0
NATS_TOP = shutil.which("nats-top")
# what it shows; it decodes into nats-server's structures, where a number with a point is no integer
OF_SERVER = {
    "server_id": str,
    "version": str,
    "uptime": str,
    "cpu": (int, float),
    **dict.fromkeys(("mem", "slow_consumers", "in_msgs", "out_msgs", "in_bytes", "out_bytes"), int),
}
OF_CONNECTION = {
    **dict.fromkeys(("ip", "name", "lang", "version", "uptime"), str),
    **dict.fromkeys(("cid", "port", "subscriptions", "pending_bytes"), int),
    **dict.fromkeys(("in_msgs", "out_msgs", "in_bytes", "out_bytes"), int),
    "subscriptions_list": list,
}


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The monitoring port of a broker with one client, which has sent itself three bytes."""
    async with embedded(config="http: 127.0.0.1:-1") as broker:
        client = await nats.connect(broker.url, name="watched")
        heard = await client.subscribe("orders")
        await client.publish("orders", b"new")
        await heard.next_msg(SECONDS)
        yield int(broker.urls["monitoring"].rpartition(":")[2])
        await client.close()


@pytest.mark.skipif(NATS_TOP is None, reason="nats-top is not on the PATH")
async def test_nats_top_shows_server_and_connections(port: int) -> None:
    def shown(*arguments: str) -> str:
        words = [str(NATS_TOP), "-m", str(port), "-o", "-", *arguments]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    server, _, connections = (await asyncio.to_thread(shown, "-l", ",", "-u")).partition("Connections Polled:")
    assert re.search(r"^NATS server version,2\.14\.5,\(uptime: \d+s\),$", server, re.MULTILINE)
    assert "In:,Msgs:,1,Bytes:,3," in server and "Out:,Msgs:,1,Bytes:,3," in server
    count, names, row = connections.split("\n")[:3]
    assert count == ",1" and names.startswith("HOST,CID,NAME,SUBS,")
    assert re.match(r"127\.0\.0\.1:\d+,\d+,watched,1,0,1,1,3,3,python3,", row)
    assert row.endswith(",orders")
    for order in ("msgs_to", "bytes_from", "idle", "uptime"):
        assert "watched" in await asyncio.to_thread(shown, "-sort", order)


def of_types(given: dict[str, Any], types: dict[str, Any]) -> bool:
    return all(isinstance(given[name], kind) and not isinstance(given[name], bool) for name, kind in types.items())


async def test_what_nats_top_reads_is_there(port: int) -> None:
    varz = await asyncio.to_thread(get_json, port, "/varz")
    assert of_types(varz, OF_SERVER) and datetime.fromisoformat(varz["now"])
    for order in ("cid", "msgs_to", "bytes_from", "idle", "uptime"):
        connz = await asyncio.to_thread(get_json, port, f"/connz?limit=1024&sort={order}&subs=1")
        (connection,) = connz["connections"]
        assert of_types(connection, OF_CONNECTION) and datetime.fromisoformat(connection["last_activity"])
        assert (connz["num_connections"], connection["subscriptions_list"]) == (1, ["orders"])
    assert not of_types({**connection, "cid": 1.5}, OF_CONNECTION)
